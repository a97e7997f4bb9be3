"""The LandSalp paper's filter step by FilterPy and its Gaussian processes by scikit-learn: an oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from filterpy.kalman import JulierSigmaPoints, unscented_transform
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from salp_estimation.model.chain import Chain

Array = NDArray[np.float64]


class PaperOracle:
    """A step of a chain's filter with the hyper-parameters of each process given."""

    def __init__(self, chain: Chain, inputs: Array, targets: Array, hyper_parameters: Array) -> None:
        self._chain, self._size = chain, chain.link_count + 2
        self._points = JulierSigmaPoints(self._size, kappa=0.5)
        self._centre, self._scale = inputs.mean(axis=0), inputs.std(axis=0)
        self.processes = [
            GaussianProcessRegressor(
                ConstantKernel(c) * RBF(length) + WhiteKernel(r), alpha=0.0, normalize_y=True, optimizer=None
            ).fit(self.standard(inputs), target)
            for (c, length, r), target in zip(hyper_parameters, targets.T, strict=True)
        ]

    def standard(self, inputs: Array) -> Array:
        return np.asarray((inputs - self._centre) / self._scale)

    def predicted(self, mean: Array, spread: Array, u: Array) -> tuple[Array, Array]:
        sigmas = self._points.sigma_points(mean, spread)
        means, _ = self.residuals(sigmas, u, range(self._size))
        _, stddevs = self.residuals(mean[None], u, range(self._size))
        step = self._chain.velocity(sigmas[:, 3:], u) / 5.0 + means
        middle = sigmas[:, 2] + 0.5 * step[:, 2]
        sigmas[:, 0] += np.cos(middle) * step[:, 0] - np.sin(middle) * step[:, 1]
        sigmas[:, 1] += np.sin(middle) * step[:, 0] + np.cos(middle) * step[:, 1]
        sigmas[:, 2:] += step[:, 2:]
        turn = np.eye(self._size)
        turn[:2, :2] = [[np.cos(mean[2]), -np.sin(mean[2])], [np.sin(mean[2]), np.cos(mean[2])]]
        noise = turn @ np.diag(stddevs[0] ** 2) @ turn.T
        found: tuple[Array, Array] = unscented_transform(sigmas, self._points.Wm, self._points.Wc, noise)
        return found

    def corrected(self, mean: Array, spread: Array, u: Array, gyros: Array, heard: list[int]) -> tuple[Array, Array]:
        outputs = [self._size + link for link in heard]
        weights, sigmas = self._points.Wc, self._points.sigma_points(mean, spread)
        means, _ = self.residuals(sigmas, u, outputs)
        _, stddevs = self.residuals(mean[None], u, outputs)
        seen = self._chain.gyro_rates(sigmas[:, 3:], u)[:, heard] + means
        expected, s = unscented_transform(seen, self._points.Wm, weights, np.diag(stddevs[0] ** 2))
        gain = (sigmas - mean).T @ (weights[:, None] * (seen - expected)) @ np.linalg.inv(s)
        return mean + gain @ (gyros[heard] - expected), spread - gain @ s @ gain.T

    def residuals(self, states: Array, u: Array, outputs: Any) -> tuple[Array, Array]:
        at = self.standard(np.hstack([states[:, 3:], np.tile(u, (len(states), 1))]))
        found = [self.processes[output].predict(at, return_std=True) for output in outputs]
        return np.column_stack([mean for mean, _ in found]), np.column_stack([stddev for _, stddev in found])
