"""Constant-time models that were tried beside inducing points: random Fourier features, Laplace eigenfunctions.

Both are Bayesian linear regressions on fixed functions of the inputs, here with the exact process's hyper-parameters,
so that nothing but the approximation counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from onboard_estimation.learning.exact import ExactGaussianProcesses

Array = NDArray[np.float64]
Features = Callable[[Array], Array]


@dataclass(frozen=True)
class LinearModels:
    """One Bayesian linear regression for each output.

    Attributes
    ----------
    features
        (m) functions of inputs (k, d) that give (k, M), scaled so that the weights' prior is standard normal.
    means, precisions
        (m) of the weights, (M,) and the Cholesky factor of (M, M).
    """

    features: list[Features]
    means: list[Array]
    precisions: list[tuple[Array, bool]]
    noise_variances: Array

    @classmethod
    def fit(cls, features: list[Features], exact: ExactGaussianProcesses) -> LinearModels:
        """With the training data and the noise of the exact processes."""
        means, precisions = [], []
        for output, function in enumerate(features):
            values, noise = function(exact.inputs), exact.noise_variances[output]
            precisions.append(cho_factor(np.eye(values.shape[1]) + values.T @ values / noise))
            means.append(cho_solve(precisions[-1], values.T @ exact.targets[:, output] / noise))
        return cls(features, means, precisions, exact.noise_variances)

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Means and latent variances (k, m)."""
        means, variances = [], []
        for function, mean, precision in zip(self.features, self.means, self.precisions, strict=True):
            values = function(inputs)
            means.append(values @ mean)
            variances.append(np.sum(values * cho_solve(precision, values.T).T, axis=1))
        return np.column_stack(means), np.column_stack(variances)


def random_fourier(exact: ExactGaussianProcesses, count: int, seed: int = 0) -> LinearModels:
    """sqrt(2 s^2 / M) cos(w x + b), w drawn from the kernel's spectrum (Rahimi & Recht, NIPS 2007)."""
    rng = np.random.default_rng(seed)
    normal, phases = rng.normal(size=(count, exact.inputs.shape[1])), rng.uniform(0.0, 2.0 * np.pi, count)

    def features(output: int) -> Features:
        frequencies = normal / exact.length_scales[output]
        size = np.sqrt(2.0 * exact.signal_variances[output] / count)
        return lambda inputs: size * np.cos(inputs @ frequencies.T + phases)

    return LinearModels.fit([features(output) for output in range(len(exact.signal_variances))], exact)


def laplace(exact: ExactGaussianProcesses, count: int, margin: float = 0.25) -> LinearModels:
    """Sines in a box around the data, weighted by the spectral density (Solin & Sarkka, Stat. Comput. 2020, eq. 60).

    The functions are those with the largest spectral density among products of at most 12 in each dimension; the box
    reaches beyond the data by `margin` times their range.
    """
    lowest, highest = exact.inputs.min(axis=0), exact.inputs.max(axis=0)
    centre, half = 0.5 * (lowest + highest), (0.5 + margin) * (highest - lowest)
    d = len(centre)
    tuples = np.stack(np.meshgrid(*[np.arange(1, 13)] * d, indexing="ij"), axis=-1).reshape(-1, d)

    def features(output: int) -> Features:
        lengths = exact.length_scales[output]
        exponents = np.sum((0.5 * np.pi * tuples / half * lengths) ** 2, axis=1)
        chosen = np.argsort(exponents, kind="stable")[:count]
        density = exact.signal_variances[output] * np.prod(np.sqrt(2.0 * np.pi) * lengths)
        weights = np.sqrt(density * np.exp(-0.5 * exponents[chosen]) / np.prod(half))
        index = tuples[chosen]

        def evaluated(inputs: Array) -> Array:
            inside = np.clip((inputs - centre) / half, -1.0, 1.0)[:, None, :]
            return np.asarray(weights * np.prod(np.sin(0.5 * np.pi * index * (inside + 1.0)), axis=2))

        return evaluated

    return LinearModels.fit([features(output) for output in range(len(exact.signal_variances))], exact)
