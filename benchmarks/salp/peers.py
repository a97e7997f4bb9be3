"""Peers of the salp's kernels and filter: the recursion over links in NumPy, and the filter with scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from onboard_estimation.learning.sparse import SparseGaussianProcesses
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain

Array = NDArray[np.float64]


class LinkByLink:
    """The recursion of `chain_kernels`, O(N), with one 3 x 3 product a link for the whole batch."""

    def __init__(self, chain: Chain) -> None:
        links = chain.links
        n = len(links)
        lengths, angles = links[:, kernels.LENGTH], links[:, kernels.WHEEL_ANGLE]
        drag = links[:, kernels.DRAG : kernels.DRAG + 9].reshape(n, 3, 3)
        x, y = 0.5 * lengths + links[:, kernels.WHEEL_X], links[:, kernels.WHEEL_Y]
        cosine, sine = np.cos(angles), np.sin(angles)
        to_wheel = np.zeros((n, 3, 3))
        to_wheel[:, 0] = np.column_stack([cosine, sine, sine * x - cosine * y])
        to_wheel[:, 1] = np.column_stack([-sine, cosine, cosine * x + sine * y])
        to_wheel[:, 2, 2] = 1.0
        self._count, self._lengths, self._joint_drag = n, lengths, links[:, kernels.JOINT_DRAG]
        self._drag = to_wheel.swapaxes(1, 2) @ drag @ to_wheel
        self._thrust = to_wheel[:, 0] * drag[:, :1, 0]
        self._wheel = np.zeros((n, 2, 3))  # a link's twist at its rear end to its wheel's velocity
        self._wheel[:, 0, 0] = self._wheel[:, 1, 1] = 1.0
        self._wheel[:, 0, 2], self._wheel[:, 1, 2] = -y, x

    def __call__(self, joint_angles: Array, controls: Array) -> Array:
        """(..., N + 2) velocity of the base frame and joint rates from joint angles (..., N - 1), rim speeds (N,)."""
        n, leading = self._count, joint_angles.shape[:-1]
        cosine, sine = np.cos(joint_angles), np.sin(joint_angles)
        # Twist of a link's rear end to that of the next one's, whose joint stands, along its axes.
        onward = np.zeros((*leading, n - 1, 3, 3))
        onward[..., 0, 0] = onward[..., 1, 1] = cosine
        onward[..., 0, 1], onward[..., 1, 0] = sine, -sine
        onward[..., 0, 2], onward[..., 1, 2] = sine * self._lengths[:-1], cosine * self._lengths[:-1]
        onward[..., 2, 2] = 1.0
        thrust = self._thrust * controls[:, None]
        drag, push = self._drag[-1], thrust[-1]
        gains, moments = [], []
        for i in range(n - 1, 0, -1):
            column = drag[..., :, 2]
            gain = column / (drag[..., 2, 2] + self._joint_drag[i - 1])[..., None]
            moment = push[..., 2] / (drag[..., 2, 2] + self._joint_drag[i - 1])
            gains.append(gain)
            moments.append(moment)
            back = np.swapaxes(onward[..., i - 1, :, :], -1, -2)
            drag = (
                back @ (drag - gain[..., :, None] * column[..., None, :]) @ onward[..., i - 1, :, :] + self._drag[i - 1]
            )
            push = (back @ (push - column * moment[..., None])[..., None])[..., 0] + thrust[i - 1]
        twist = np.linalg.solve(drag, push[..., None])[..., 0]
        rates = np.empty((*leading, n + 2))
        headings = np.zeros((*leading, n))
        np.cumsum(joint_angles, axis=-1, out=headings[..., 1:])
        along = np.cos(headings), np.sin(headings)
        total_x = total_y = total_turn = 0.0
        for i in range(n):
            if i > 0:
                twist = (onward[..., i - 1, :, :] @ twist[..., None])[..., 0]
                rates[..., 2 + i] = moments[n - 1 - i] - np.sum(gains[n - 1 - i] * twist, axis=-1)
                twist[..., 2] += rates[..., 2 + i]
            wheel = twist @ self._wheel[i].T
            total_x = total_x + along[0][..., i] * wheel[..., 0] - along[1][..., i] * wheel[..., 1]
            total_y = total_y + along[1][..., i] * wheel[..., 0] + along[0][..., i] * wheel[..., 1]
            total_turn = total_turn + twist[..., 2]
        mean = headings.mean(axis=-1)
        rates[..., 0] = (np.cos(mean) * total_x + np.sin(mean) * total_y) / n
        rates[..., 1] = (np.cos(mean) * total_y - np.sin(mean) * total_x) / n
        rates[..., 2] = total_turn / n
        return rates


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
