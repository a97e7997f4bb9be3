"""One step of the paper's filter with scikit-learn: exact Gaussian processes, asked for all sigma points at once.

Section IV of the paper in NumPy, with our compiled chain: state of pose, joint angles and gyro biases, 2 n + 1 = 17
sigma points for three links; means and standard deviations of the five rates' and the three gyros' residuals from one
batch an output, as one writes it with scikit-learn. A peer for timing only: its pose is a vector, and covariances of
the residuals are those at the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from onboard_estimation.learning.sparse import SparseGaussianProcesses
from salp_estimation import chain_kernels as kernels

Array = NDArray[np.float64]

GYRO_BIAS_WALK = 5e-5


class ScikitLearnFilter:
    """Unscented filter with additive noise.

    Parameters
    ----------
    links
        (N, .) of the chain.
    processes
        Whose hyper-parameters are taken over.
    inputs, targets
        (n, 2 N - 1) and (n, 2 N + 2), the training data.
    """

    def __init__(self, links: Array, processes: SparseGaussianProcesses, inputs: Array, targets: Array) -> None:
        self._links = kernels.completed(links)
        self._regressors = [_regressor(processes, output, inputs, targets) for output in range(targets.shape[1])]
        self._n = len(links)
        self.mean = np.zeros(2 * self._n + 2)
        self.covariance = np.diag([1e-4] * 2 + [4e-3] * self._n + [1e-4] * self._n)

    def residuals(self, inputs: Array, outputs: range) -> tuple[Array, Array]:
        """Means (k, len(outputs)) and standard deviations of the same size at inputs (k, 2 N - 1)."""
        found = [self._regressors[output].predict(inputs, return_std=True) for output in outputs]
        return np.column_stack([mean for mean, _ in found]), np.column_stack([stddev for _, stddev in found])

    def step(self, mean: Array, covariance: Array, controls: Array, gyro: Array, duration_s: float) -> Array:
        """Predict over a time and correct by all gyros: the mean after it."""
        n, m = self._n, self._n + 2
        points = _sigma_points(mean, covariance)
        rates, noise = self._rates(points, controls, range(m))
        moved = points.copy()
        heading = points[:, 2] + 0.5 * duration_s * rates[:, 2]
        moved[:, 0] += duration_s * (np.cos(heading) * rates[:, 0] - np.sin(heading) * rates[:, 1])
        moved[:, 1] += duration_s * (np.sin(heading) * rates[:, 0] + np.cos(heading) * rates[:, 1])
        moved[:, 2:m] += duration_s * rates[:, 2:]
        mean = moved.mean(axis=0)
        apart = moved - mean
        covariance = apart.T @ apart / len(points)
        covariance[range(m), range(m)] += (duration_s * noise) ** 2
        covariance[range(m, m + n), range(m, m + n)] += duration_s * GYRO_BIAS_WALK**2
        points = _sigma_points(mean, covariance)
        inputs = self._inputs(points, controls)
        turning = _link_rates(kernels.velocities(self._links, points[:, 3:m].copy(), controls))
        residual, stddev = self.residuals(inputs, range(m, m + n))
        seen = turning + residual + points[:, m:]
        expected = seen.mean(axis=0)
        apart, off = points - points.mean(axis=0), seen - expected
        spread = off.T @ off / len(points) + np.diag(stddev[0] ** 2)
        gain = np.linalg.solve(spread, off.T @ apart / len(points)).T
        self.mean, self.covariance = mean + gain @ (gyro - expected), covariance - gain @ spread @ gain.T
        return self.mean

    def _inputs(self, points: Array, controls: Array) -> Array:
        return np.hstack([points[:, 3 : self._n + 2], np.tile(controls, (len(points), 1))])

    def _rates(self, points: Array, controls: Array, outputs: range) -> tuple[Array, Array]:
        """Rates at all points, and the residuals' standard deviations at the first, which is the mean."""
        velocities = kernels.velocities(self._links, points[:, 3 : self._n + 2].copy(), controls)
        residual, stddev = self.residuals(self._inputs(points, controls), outputs)
        return velocities + residual, stddev[0]


def _sigma_points(mean: Array, covariance: Array) -> Array:
    """(2 n + 1, n), the mean first, all of equal weight."""
    root = np.sqrt(len(mean) + 0.5) * np.linalg.cholesky(covariance).T
    return np.vstack([mean, mean + root, mean - root])


def _link_rates(velocities: Array) -> Array:
    """Turning rates (k, N) of the links from velocities (k, N + 2) of the base, which has the mean heading."""
    relative = np.hstack([np.zeros((len(velocities), 1)), np.cumsum(velocities[:, 3:], axis=1)])
    return np.asarray(velocities[:, 2:3] + relative - relative.mean(axis=1, keepdims=True))


def _regressor(
    processes: SparseGaussianProcesses, output: int, inputs: Array, targets: Array
) -> GaussianProcessRegressor:
    kernel = ConstantKernel(processes.signal_variances[output]) * RBF(processes.length_scales)
    regressor = GaussianProcessRegressor(kernel, alpha=processes.noise_variances[output], optimizer=None)
    return regressor.fit(inputs, targets[:, output])
