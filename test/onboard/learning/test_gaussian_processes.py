"""Exact and sparse Gaussian processes against scikit-learn, finite differences and dense formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from onboard_estimation.errors import UserError
from onboard_estimation.learning import exact, sparse
from onboard_estimation.learning.collapsed_bound import JITTER, CollapsedBound, Factors, noise_variances
from onboard_estimation.learning.exact import ExactGaussianProcesses, LogMarginalLikelihood
from onboard_estimation.learning.inducing_points import spread_points
from onboard_estimation.learning.kernels import cross_covariance, decaying_exponential
from onboard_estimation.learning.sparse import SparseGaussianProcesses
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.learning.training_data import LENGTH_SCALE_BOUNDS, NOISE_VARIANCE_BOUNDS

Array = NDArray[np.float64]

LENGTH_SCALES = np.array([1.2, 2.0, 0.8])
SIGNAL, NOISE = 0.8, 0.02
THETA = np.log([*LENGTH_SCALES, SIGNAL, NOISE])


def samples(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Inputs (n, 3) and two targets of quite different sizes and shapes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3))
    clean = np.column_stack([np.sin(1.5 * x[:, 0]) + 0.3 * x[:, 1], 20.0 * np.tanh(x[:, 2] - 0.5 * x[:, 1])])
    return x, clean + rng.normal(size=clean.shape) * [0.1, 1.0]


def covariance(left: Array, right: Array, length_scales: Array) -> Array:
    """The squared exponential, as plainly as can be."""
    return np.asarray(np.exp(-0.5 * np.sum(((left[:, None] - right[None]) / length_scales) ** 2, axis=2)))


def scikit_learn(x: Array, y: Array) -> GaussianProcessRegressor:
    kernel = ConstantKernel(SIGNAL) * RBF(LENGTH_SCALES) + WhiteKernel(NOISE)
    return GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(x, y)


def given(x: Array, y: Array) -> ExactGaussianProcesses:
    """Both outputs with the hyper-parameters above."""
    return ExactGaussianProcesses(
        x, y, np.tile(LENGTH_SCALES, (2, 1)), np.full(2, SIGNAL), np.full(2, NOISE)
    )  # fmt: skip


def test_exponential_is_that_of_the_library_and_passes_nan_on() -> None:
    x = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.0, 700.0, 10_001)])
    values = np.array([decaying_exponential(value) for value in x])
    assert np.allclose(values, np.exp(-x), rtol=1e-14, atol=0.0)
    assert decaying_exponential(1e9) < 1e-300
    assert decaying_exponential(np.inf) < 1e-300
    assert np.isnan(decaying_exponential(np.nan))


def test_covariance_is_the_plain_formula() -> None:
    x, z = samples(37)[0], samples(13, seed=1)[0]
    found = cross_covariance(np.ascontiguousarray(z.T), np.ascontiguousarray(x.T))
    assert np.allclose(found, covariance(z, x, np.ones(3)), rtol=1e-13, atol=0.0)


def test_likelihood_and_gradient_are_those_of_scikit_learn() -> None:
    x, y = samples(150)
    ours, theirs = LogMarginalLikelihood(x), scikit_learn(x, y[:, 0])
    value, gradient = ours(THETA, y[:, 0])
    expected, expected_gradient = theirs.log_marginal_likelihood(theirs.kernel_.theta, eval_gradient=True)
    assert value == pytest.approx(expected, rel=1e-10)
    assert np.allclose(gradient, expected_gradient[[1, 2, 3, 0, 4]], rtol=1e-8, atol=1e-8)


def test_likelihood_gradient_is_that_of_finite_differences() -> None:
    x, y = samples(60)
    ours = LogMarginalLikelihood(x)
    numeric = approx_fprime(THETA, lambda theta: ours(theta, y[:, 1])[0], 1e-6)
    assert np.allclose(ours(THETA, y[:, 1])[1], numeric, rtol=1e-4, atol=1e-3)


def test_likelihood_of_a_singular_covariance_is_minus_infinity() -> None:
    x, y = samples(30)
    value, gradient = LogMarginalLikelihood(np.repeat(x, 2, axis=0))(np.array([0, 0, 0, 0, -80.0]), np.tile(y[:, 0], 2))
    assert value == -np.inf
    assert not gradient.any()


def test_exact_predictions_are_those_of_scikit_learn() -> None:
    (x, y), points = samples(150), samples(700, seed=2)[0]  # more than one chunk
    means, variances = given(x, y).predict(points)
    for output in range(2):
        expected, deviations = scikit_learn(x, y[:, output]).predict(points, return_std=True)
        assert np.allclose(means[:, output], expected, rtol=1e-6, atol=1e-8)
        assert np.allclose(variances[:, output], deviations**2 - NOISE, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a length scale at its bound
def test_fit_finds_the_hyper_parameters_that_scikit_learn_finds() -> None:
    x, y = samples(120)
    found = exact.fit(x, y, iterations=100)
    for output in range(2):
        scale = np.sqrt(np.mean(y[:, output] ** 2))
        kernel = ConstantKernel(1.0, (1e-6, 1e4)) * RBF(
            1.5 * x.std(axis=0), [tuple(np.array(LENGTH_SCALE_BOUNDS) * width) for width in x.std(axis=0)]
        ) + WhiteKernel(0.05, NOISE_VARIANCE_BOUNDS)
        theirs = GaussianProcessRegressor(kernel, alpha=0.0).fit(x, y[:, output] / scale)
        theta = np.log([*found.length_scales[output], found.signal_variances[output], found.noise_variances[output]])
        theta[-2:] -= 2.0 * np.log(scale)
        ours = LogMarginalLikelihood(x)(theta, y[:, output] / scale)[0]
        assert ours == pytest.approx(theirs.log_marginal_likelihood_value_, abs=0.02)
        assert found.noise_variances[output] == pytest.approx(scale**2 * np.exp(theirs.kernel_.theta[-1]), rel=0.05)


def test_search_starts_on_a_subset_and_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = samples(200)
    whole = exact.fit(x, y, iterations=60)
    monkeypatch.setattr(exact, "SUBSET_POINTS", 60)
    shares: list[float] = []
    staged = exact.fit(x, y, iterations=60, progress=lambda share, text: shares.append(share))
    assert np.allclose(staged.noise_variances, whole.noise_variances, rtol=0.02)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def left_out_by_fitting(model: ExactGaussianProcesses, groups: Array) -> tuple[Array, Array]:
    """The same as `leave_out` by a new process for each group."""
    residuals, variances = np.empty_like(model.targets), np.empty_like(model.targets)
    for group in np.unique(groups):
        own = groups == group
        rest = ExactGaussianProcesses(
            model.inputs[~own],
            model.targets[~own],
            model.length_scales,
            model.signal_variances,
            model.noise_variances,
        )
        means, latent = rest.predict(model.inputs[own])
        residuals[own] = model.targets[own] - means
        variances[own] = latent + model.noise_variances
    return residuals, variances


def test_exact_leave_out_is_that_of_fitting_without_the_group() -> None:
    x, y = samples(120)
    groups = np.array([0] * 50 + [3] * 1 + [1] * 69)[np.random.default_rng(0).permutation(120)]
    residuals, variances = given(x, y).leave_out(groups)
    expected = left_out_by_fitting(given(x, y), groups)
    assert np.allclose(residuals, expected[0], rtol=1e-7, atol=1e-8)
    assert np.allclose(variances, expected[1], rtol=1e-7, atol=1e-9)


def test_leave_out_takes_labels_of_any_kind_and_needs_two_groups() -> None:
    x, y = samples(40)
    model = given(x, y)
    names = np.where(np.arange(40) < 15, "first.mcap", "second.mcap")
    assert np.array_equal(model.leave_out(names)[0], model.leave_out(np.arange(40) < 15)[0])
    with pytest.raises(UserError, match="two runs or more"):
        model.leave_out(np.zeros(40))
    with pytest.raises(UserError, match="each of the 40"):
        model.leave_out(np.arange(39))


# Collapsed bound and sparse model, against dense algebra.

INDUCING = samples(15, seed=5)[0]
RATIOS = np.array([30.0, 80.0])


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


def test_collapsed_bound_is_that_of_dense_matrices_and_below_the_likelihood() -> None:
    x, y = samples(80)
    y = y / np.sqrt(np.mean(y * y, axis=0))
    noise = noise_variances(Factors.of(x, INDUCING, LENGTH_SCALES), y, RATIOS)
    value = CollapsedBound(x, y)(INDUCING, LENGTH_SCALES, RATIOS)[0]
    assert value == pytest.approx(dense_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS, noise), rel=1e-9)
    exactly = sum(
        LogMarginalLikelihood(x)(np.log([*LENGTH_SCALES, RATIOS[k] * noise[k], noise[k]]), y[:, k])[0] for k in (0, 1)
    )
    assert value < exactly
    everywhere = CollapsedBound(x, y)(x, LENGTH_SCALES, RATIOS)[0]
    best = noise_variances(Factors.of(x, x, LENGTH_SCALES), y, RATIOS)
    exactly = sum(
        LogMarginalLikelihood(x)(np.log([*LENGTH_SCALES, RATIOS[k] * best[k], best[k]]), y[:, k])[0] for k in (0, 1)
    )
    assert everywhere == pytest.approx(exactly, abs=0.01)


def test_noise_variances_are_the_best() -> None:
    x, y = samples(80)
    y = y / np.sqrt(np.mean(y * y, axis=0))
    noise = noise_variances(Factors.of(x, INDUCING, LENGTH_SCALES), y, RATIOS)
    best = dense_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS, noise)
    for output in range(2):
        for factor in (0.9, 1.1):
            other = noise.copy()
            other[output] *= factor
            assert dense_bound(x, y, INDUCING, LENGTH_SCALES, RATIOS, other) < best


def test_gradient_of_the_bound_is_that_of_central_differences() -> None:
    x, y = samples(80)
    bound = CollapsedBound(x, y / np.sqrt(np.mean(y * y, axis=0)))
    _, by_inducing, by_length, by_ratio = bound(INDUCING, LENGTH_SCALES, RATIOS)
    step = 1e-5

    def slope(inducing: Array, lengths: Array, ratios: Array) -> float:
        ends = [
            bound(INDUCING + sign * inducing, LENGTH_SCALES * np.exp(sign * lengths), RATIOS * np.exp(sign * ratios))[0]
            for sign in (-step, step)
        ]
        return (ends[1] - ends[0]) / (2.0 * step)

    none, flat = np.zeros_like(INDUCING), np.zeros(3)
    numeric = [slope(none, direction, np.zeros(2)) for direction in np.eye(3)]
    assert np.allclose(by_length, numeric, rtol=1e-5, atol=1e-5)
    numeric = [slope(none, flat, direction) for direction in np.eye(2)]
    assert np.allclose(by_ratio, numeric, rtol=1e-5, atol=1e-5)
    for k in range(0, INDUCING.size, 4):
        direction = np.eye(INDUCING.size)[k].reshape(INDUCING.shape)
        numeric_slope = slope(direction, flat, np.zeros(2))
        assert np.sum(direction * by_inducing) == pytest.approx(numeric_slope, rel=1e-4, abs=1e-4)


def dense_sparse(model: SparseGaussianProcesses, output: int, x: Array, y: Array, points: Array) -> tuple[Array, Array]:
    """Titsias' predictive mean and variance, eq. (6) with the optimal q(u), as printed."""
    group = model.groups[output]
    inducing, lengths = model.inducing[group], model.length_scales[group]
    signal, noise = model.signal_variances[output], model.noise_variances[output]
    among = signal * (covariance(inducing, inducing, lengths) + JITTER * np.eye(len(inducing)))
    cross, new = signal * covariance(inducing, x, lengths), signal * covariance(inducing, points, lengths)
    both = among + cross @ cross.T / noise
    means = new.T @ np.linalg.solve(both, cross @ y[:, output]) / noise
    taken = np.sum(new * np.linalg.solve(among, new), axis=0) - np.sum(new * np.linalg.solve(both, new), axis=0)
    return means, signal - taken


@pytest.mark.parametrize("shared", [False, True])
def test_sparse_predictions_are_those_of_the_printed_formulas(shared: bool) -> None:
    (x, y), points = samples(150), samples(40, seed=2)[0]
    model = sparse.fit(x, y, inducing_points=20, shared_length_scales=shared)
    assert len(model.inducing) == (1 if shared else 2)
    means, variances = model.predict(points)
    for output in range(2):
        expected = dense_sparse(model, output, x, y, points)
        size = np.sqrt(model.signal_variances[output])
        assert np.allclose(means[:, output], expected[0], rtol=1e-6, atol=1e-6 * size)
        assert np.allclose(variances[:, output], expected[1], rtol=1e-6, atol=1e-6 * size**2)


@pytest.mark.parametrize("shared", [False, True])
def test_kernels_take_outputs_in_slices_and_inputs_one_by_one(shared: bool) -> None:
    (x, y), points = samples(100), samples(9, seed=2)[0]
    model = sparse.fit(x, y, inducing_points=17, shared_length_scales=shared, iterations=5)
    means, variances = model.predict(points)
    for k in range(len(points)):
        single = points[k : k + 1]
        for first, stop in ((0, 2), (0, 1), (1, 2), (1, 1)):
            expected = means[k : k + 1, first:stop], variances[k : k + 1, first:stop]
            assert np.array_equal(predict_means(*model.mean_arrays, single, first, stop), expected[0])
            assert np.array_equal(predict_variances(*model.variance_arrays, single, first, stop), expected[1])


@pytest.mark.parametrize("shared", [False, True])
def test_sparse_leave_out_is_that_of_the_printed_formulas_without_the_group(shared: bool) -> None:
    x, y = samples(90)
    groups = np.arange(90) % 3
    model = sparse.fit(x, y, inducing_points=20, shared_length_scales=shared, iterations=20)
    residuals, variances = model.leave_out(groups)
    for group in range(3):
        own = groups == group
        for output in range(2):
            means, latent = dense_sparse(model, output, x[~own], y[~own], x[own])
            size = np.sqrt(model.signal_variances[output])
            assert np.allclose(residuals[own, output], y[own, output] - means, rtol=1e-6, atol=1e-6 * size)
            expected = latent + model.noise_variances[output]
            assert np.allclose(variances[own, output], expected, rtol=1e-6, atol=1e-6 * size**2)


def test_sparse_model_with_every_point_as_inducing_point_is_the_exact_one() -> None:
    (x, y), points = samples(60), samples(30, seed=2)[0]
    model = sparse.fit(x, y, inducing_points=60, shared_length_scales=False, iterations=40)
    same = ExactGaussianProcesses(x, y, model.length_scales, model.signal_variances, model.noise_variances)
    assert model.inducing.shape[1] == 60
    for found, expected, power in zip(model.predict(points), same.predict(points), (1, 2), strict=True):
        assert np.allclose(found, expected, atol=2e-3 * np.sqrt(model.signal_variances) ** power, rtol=0.0)


def test_moved_inducing_points_raise_the_bound() -> None:
    x, y = samples(150)
    reached: list[list[str]] = [[], []]
    for moved in (False, True):
        sparse.fit(x, y, 8, True, 40, moved, progress=lambda _, text, to=reached[moved]: to.append(text))
    bounds = [float(texts[-2].rpartition(" ")[2]) for texts in reached]
    assert bounds[1] > bounds[0] + 1.0


def test_inducing_points_spread_over_thin_and_repeated_data() -> None:
    angle = np.concatenate([np.linspace(0.0, 0.1, 500), np.linspace(0.1, 2.0 * np.pi, 50)])
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    points = spread_points(ring, 24)
    assert points.shape == (24, 2)
    distance = np.min(np.linalg.norm(ring[:, None] - points[None], axis=2), axis=1)
    assert distance.max() < 2.0 * np.pi / 24
    assert len(spread_points(np.tile(ring[-5:], (20, 1)), 24)) == 5


@pytest.mark.parametrize("fit", [exact.fit, sparse.fit])
def test_bad_training_data_is_refused_with_numbers(fit: type) -> None:
    x, y = samples(50)
    with pytest.raises(UserError, match="19 points, at least 20"):
        fit(x[:19], y[:19])
    broken = y.copy()
    broken[[3, 7], [0, 1]] = np.nan
    with pytest.raises(UserError, match="2 of 50 points"):
        fit(x, broken)
    with pytest.raises(UserError, match=r"\(50, 3\) and \(49, 2\)"):
        fit(x, y[:49])


@pytest.mark.parametrize("fit", [exact.fit, sparse.fit])
def test_inputs_and_targets_that_never_change_do_no_harm(fit: type) -> None:
    x, y = samples(60)
    x[:, 1], y[:, 1] = 0.25, 0.0
    model = fit(x, y)
    means, variances = model.predict(x[:5])
    assert np.isfinite(means).all()
    assert np.isfinite(variances).all()
    assert np.allclose(means[:, 1], 0.0)
    with pytest.raises(UserError, match=r"\(k, 3\)"):
        model.predict(x[:, :2])
