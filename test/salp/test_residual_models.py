"""Residual models on data like that of gaits: thin curves in the space of joint angles and controls.

The simulated residuals are what friction and a spring leave: kinks where a wheel turns round, and a part linear in the
joint angles.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from onboard_estimation.learning import sparse
from onboard_estimation.learning.sparse import SparseGaussianProcesses

Array = NDArray[np.float64]

NOISE = np.array([0.004, 0.02])


def residual(inputs: Array) -> Array:
    """Two outputs (n, 2) of joint angles (rad) and rim speeds (m/s), (n, 5)."""
    r, u = inputs[:, :2], inputs[:, 2:]
    friction = np.tanh(u / 0.02)
    return np.column_stack(
        [
            -0.02 * friction[:, 0] + 0.01 * friction[:, 1] - 0.1 * u[:, 2],
            -0.4 * r[:, 0] + 0.1 * r[:, 1] - 0.05 * friction[:, 2] * np.cos(r[:, 1]),
        ]
    )


def run(gait: int, seed: int, count: int = 150) -> Array:
    """Inputs (n, 5) of 30 s: controls of one frequency, and joints that follow them, from a start of their own."""
    shape = np.random.default_rng(gait)
    rng = np.random.default_rng([gait, seed])
    phase = 2.0 * np.pi / 6.0 * (np.arange(count) / 5.0 + rng.uniform(0.0, 6.0))
    waves = np.column_stack([np.sin(phase), np.cos(phase), np.ones(count)])
    size = np.array([0.25, 0.15, 0.08, 0.06, 0.05])
    means = size * 0.2 * shape.normal(size=5)
    inputs = waves[:, :2] @ (shape.normal(size=(2, 5)) * size) + means
    inputs[:, :2] += 0.02 * rng.normal(size=2) * np.exp(-np.arange(count) / 50.0)[:, None]
    return np.asarray(inputs)


def recorded(gaits: tuple[int, ...], seed: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """Inputs, noisy targets and the number of the run of each point."""
    inputs = np.concatenate([run(gait, seed) for gait in gaits])
    noise = np.random.default_rng(seed).normal(size=(len(inputs), 2)) * NOISE
    return inputs, residual(inputs) + noise, np.repeat(np.arange(len(gaits)), 150)


@cache
def trained() -> SparseGaussianProcesses:
    """On five gaits."""
    x, y, _ = recorded((0, 1, 2, 3, 4), 0)
    return sparse.fit(x, y, 80)


def test_models_take_most_of_the_residual_away_and_know_their_noise() -> None:
    model = trained()
    x, y, _ = recorded((0, 1, 2, 3, 4), 1)
    means, variances = model.predict(x)
    size = residual(x).std(axis=0)
    errors = (means - residual(x)) / size
    assert np.all(np.sqrt(np.mean(errors**2, axis=0)) < 0.1)
    assert np.abs(errors).max() < 0.5
    assert np.allclose(np.sqrt(model.noise_variances), NOISE, rtol=0.15)
    normalised = (y - means) ** 2 / (variances + model.noise_variances)
    assert np.all(np.abs(normalised.mean(axis=0) - 1.0) < 0.25)


def test_sparse_predictions_are_near_the_exact_ones_in_the_worst_case_too() -> None:
    """Of the same hyper-parameters, by scikit-learn."""
    x, y, _ = recorded((0, 1, 2, 3, 4), 0)
    places, _, _ = recorded((0, 1, 2, 3, 4), 1)
    model, size = trained(), residual(places).std(axis=0)
    means, variances = model.predict(places)
    for output, (signal, noise) in enumerate(zip(model.signal_variances, model.noise_variances, strict=True)):
        kernel = ConstantKernel(signal) * RBF(model.length_scales) + WhiteKernel(noise)
        exact = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(x, y[:, output])
        expected, deviations = exact.predict(places, return_std=True)
        assert np.abs((means[:, output] - expected) / size[output]).max() < 0.3
        assert 0.7 < np.sqrt(variances[:, output].mean() / (deviations**2 - noise).mean()) < 1.5


def test_away_from_the_data_the_mean_fades_and_the_variance_is_that_of_the_prior() -> None:
    model = trained()
    x, _, _ = recorded((0, 1, 2, 3, 4), 0)
    scales = model.length_scales
    for output in range(2):
        for i in range(5):
            for side in (x.min(axis=0)[i] - 6.0 * scales[i], x.max(axis=0)[i] + 6.0 * scales[i]):
                far = x[::20].copy()
                far[:, i] = side
                means, variances = model.predict(far)
                assert np.all(np.abs(means[:, output]) < 0.02 * np.sqrt(model.signal_variances[output]))
                assert np.allclose(variances[:, output], model.signal_variances[output], rtol=1e-3)


def test_doubt_grows_steadily_on_the_way_out() -> None:
    model = trained()
    x, _, _ = recorded((0, 1, 2, 3, 4), 0)
    way = np.linspace(0.0, 40.0, 60)[:, None] * x.std(axis=0) + x.mean(axis=0)
    _, variances = model.predict(way)
    outside = variances[5:]
    assert np.all(np.diff(outside, axis=0) > -1e-3 * model.signal_variances)
    assert np.all(variances <= model.signal_variances * (1.0 + 1e-12))
    assert np.all(variances >= 0.0)


def test_leaving_a_gait_out_shows_what_the_others_do_not_know_of_it() -> None:
    model = trained()
    _, _, runs = recorded((0, 1, 2, 3, 4), 0)
    unseen = np.mean(model.leave_out(runs) ** 2, axis=0)
    assert np.all(unseen > model.noise_variances)
    assert np.all(unseen < np.mean(model.targets**2, axis=0))
