"""Sparse Gaussian processes against scikit-learn's exact ones, finite differences and dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from onboard_estimation.base.errors import UserError
from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse import (
    JITTER,
    Factors,
    SparseGaussianProcesses,
    collapsed_bound,
)

Array = NDArray[np.float64]

LENGTH_SCALES = np.array([1.2, 2.0, 0.8])


def samples(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Inputs (n, 3) and two targets of quite different sizes and shapes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    clean = np.column_stack([np.sin(1.5 * x[:, 0]) + 0.3 * x[:, 1], 20.0 * np.tanh(x[:, 2] - 0.5 * x[:, 1])])
    return x, clean + rng.normal(size=clean.shape) * [0.1, 1.0]


def covariance(left: Array, right: Array, length_scales: Array) -> Array:
    """The squared exponential, as plainly as can be."""
    return np.asarray(np.exp(-0.5 * np.sum(((left[:, None] - right[None]) / length_scales) ** 2, axis=2)))


def scikit_learn(x: Array, y: Array, length_scales: Array, signal: float, noise: float) -> GaussianProcessRegressor:
    """The exact process of these hyper-parameters."""
    kernel = ConstantKernel(signal) * RBF(length_scales) + WhiteKernel(noise)
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(x, y)


# Collapsed bound and sparse model, against dense algebra.

INDUCING = samples(15, seed=5)[0]
RATIOS = np.array([30.0, 80.0])


def normalised() -> tuple[Array, Array]:
    x, y = samples(80)
    return x, y / np.sqrt(np.mean(y * y, axis=0))


def dense_bound(x: Array, y: Array, inducing: Array, length_scales: Array, ratios: Array, noise: Array) -> float:
    """Titsias' eq. (9) with n x n matrices."""
    among = covariance(inducing, inducing, length_scales) + JITTER * np.eye(len(inducing))
    cross = covariance(inducing, x, length_scales)
    low_rank = cross.T @ np.linalg.solve(among, cross)
    total = 0.0
    for output in range(y.shape[1]):
        density = multivariate_normal(cov=noise[output] * (np.eye(len(x)) + ratios[output] * low_rank))
        total += density.logpdf(y[:, output]) - 0.5 * ratios[output] * (len(x) - np.trace(low_rank))
    return float(total)


def likelihood(x: Array, y: Array, noise: Array) -> float:
    """Of the exact processes, by scikit-learn."""
    exact = [scikit_learn(x, y[:, k], LENGTH_SCALES, RATIOS[k] * noise[k], noise[k]) for k in (0, 1)]
    return float(sum(one.log_marginal_likelihood_value_ for one in exact))


def test_collapsed_bound_is_that_of_dense_matrices_and_below_the_likelihood() -> None:
    x, y = normalised()
    noise = Factors.of(x, INDUCING, LENGTH_SCALES).noise_variances(y, RATIOS)[0]
    value = collapsed_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS)[0]
    assert value == pytest.approx(dense_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS, noise), rel=1e-9)
    assert value < likelihood(x, y, noise)
    everywhere = collapsed_bound(x, y, x, LENGTH_SCALES, RATIOS)[0]
    best = Factors.of(x, x, LENGTH_SCALES).noise_variances(y, RATIOS)[0]
    assert everywhere == pytest.approx(likelihood(x, y, best), abs=0.01)


def test_gradient_of_the_bound_is_that_of_central_differences() -> None:
    x, y = normalised()
    _, by_length, by_ratio = collapsed_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS)
    step = 1e-5

    def bound(logs: Array) -> float:
        return collapsed_bound(x, y, INDUCING, LENGTH_SCALES * np.exp(logs[:3]), RATIOS * np.exp(logs[3:]))[0]

    numeric = [(bound(step * one) - bound(-step * one)) / (2.0 * step) for one in np.eye(5)]
    np.testing.assert_allclose(np.concatenate([by_length, by_ratio]), numeric, rtol=1e-5, atol=1e-5)


def dense_sparse(model: SparseGaussianProcesses, output: int, x: Array, y: Array, points: Array) -> tuple[Array, Array]:
    """Titsias' predictive mean and variance, eq. (6) with the optimal q(u), as printed."""
    inducing, lengths = model.inducing, model.length_scales
    signal, noise = model.signal_variances[output], model.noise_variances[output]
    among = signal * (covariance(inducing, inducing, lengths) + JITTER * np.eye(len(inducing)))
    cross, new = signal * covariance(inducing, x, lengths), signal * covariance(inducing, points, lengths)
    both = among + cross @ cross.T / noise
    means = new.T @ np.linalg.solve(both, cross @ y[:, output]) / noise
    taken = np.sum(new * np.linalg.solve(among, new), axis=0) - np.sum(new * np.linalg.solve(both, new), axis=0)
    return means, signal - taken


def test_sparse_predictions_are_those_of_the_printed_formulas_also_without_a_group() -> None:
    (x, y), points = samples(90), samples(40, seed=2)[0]
    model = sparse.fit(x, y, inducing_points=20, iterations=20)
    means, variances = model.predict(points)
    groups = np.array(["first.mcap", "second.mcap", "third.mcap"])[np.arange(90) % 3]
    residuals = model.leave_out(groups)
    for output, size in enumerate(np.sqrt(model.signal_variances)):
        expected = dense_sparse(model, output, x, y, points)
        assert np.allclose(means[:, output], expected[0], rtol=1e-6, atol=1e-6 * size)
        assert np.allclose(variances[:, output], expected[1], rtol=1e-6, atol=1e-6 * size**2)
        for group in np.unique(groups):
            own = groups == group
            without, _ = dense_sparse(model, output, x[~own], y[~own], x[own])
            assert np.allclose(residuals[own, output], y[own, output] - without, rtol=1e-6, atol=1e-6 * size)


def test_sparse_model_with_every_point_as_inducing_point_is_the_exact_one() -> None:
    (x, y), points = samples(60), samples(30, seed=2)[0]
    model = sparse.fit(x, y, inducing_points=60, iterations=40)
    assert len(model.inducing) == 60
    means, variances = model.predict(points)
    for output, (signal, noise) in enumerate(zip(model.signal_variances, model.noise_variances, strict=True)):
        exact = scikit_learn(x, y[:, output], model.length_scales, signal, noise)
        expected, deviations = exact.predict(points, return_std=True)
        assert np.allclose(means[:, output], expected, atol=2e-3 * np.sqrt(signal), rtol=0.0)
        assert np.allclose(variances[:, output], deviations**2 - noise, atol=2e-3 * signal, rtol=0.0)


def test_bad_training_data_is_refused_with_numbers() -> None:
    x, y = samples(50)
    broken = y.copy()
    broken[[3, 7], [0, 1]] = np.nan
    for inputs, targets, said in (
        (x[:19], y[:19], "19 points, at least 20"),
        (x, broken, "2 of 50 points"),
        (x, y[:49], r"\(50, 3\) and \(49, 2\)"),
    ):
        with pytest.raises(UserError, match=said):
            sparse.fit(inputs, targets)


def test_inputs_and_targets_that_never_change_do_no_harm() -> None:
    x, y = samples(60)
    x[:, 1], y[:, 1] = 0.25, 0.0
    model = sparse.fit(x, y)
    means, variances = model.predict(x[:5])
    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()
    assert np.allclose(means[:, 1], 0.0)
    with pytest.raises(UserError, match=r"\(k, 3\)"):
        model.predict(x[:, :2])
