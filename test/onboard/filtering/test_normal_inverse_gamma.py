"""What particles have learned against batch regression in closed form, through resampling, folding and forgetting."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.filtering.normal_inverse_gamma import LEAST_PRIOR_SHARE, FixedPrior
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior
from onboard_estimation.learning.reduced_rank import ReducedRankBasis

Array = NDArray[np.float64]

M, N = 7, 6
BASIS = ReducedRankBasis((0.0, 0.0), (2.0, 2.0), (0.8, 1.1), M)
FIXED = FixedPrior(BASIS, (2.0, 3.0), 5.0, 4.0)
STILL = WalkingPrior(BASIS, (2.0, 3.0), 5.0, 4.0, HyperParameterWalk(0.0, 0.0))


class History(NamedTuple):
    """What one particle and its ancestors saw: basis functions (K, M), without factors, and samples (K, 2)."""

    functions: Array
    samples: Array


def driven(prior: Any, kept: float, steps: int, normals: float = 0.0) -> tuple[Any, list[History]]:
    """Statistics after many steps with resampling, and every particle's own history."""
    rng = np.random.default_rng(5)
    statistics = prior.start(N)
    histories = [History(np.empty((0, M)), np.empty((0, 2))) for _ in range(N)]
    for _ in range(steps):
        ancestors = np.sort(np.where(rng.random(N) < 0.3, rng.integers(0, N, N), np.arange(N)))
        ancestors[0] = 0
        places, samples = rng.uniform(-1.5, 1.5, (N, 2)), rng.normal(size=(N, 2))
        functions, _ = BASIS.functions(places, prior.factors)
        walked = normals * rng.normal(size=(N, prior.walking))
        statistics = prior.observe(prior.predict(statistics, ancestors, functions, 0.01, kept, walked), samples)
        plain, _ = BASIS.functions(places)
        histories = [
            History(np.vstack([histories[a].functions, plain[i]]), np.vstack([histories[a].samples, samples[i]]))
            for i, a in enumerate(ancestors)
        ]
    return statistics, histories


def batch(
    history: History, kept: float, prior_variances: Array, weight: float = 1.0
) -> tuple[Array, Array, Array, float]:
    """C, m, psi and nu of all samples at once: weighted least squares with a prior."""
    weights = weight * kept ** np.arange(len(history.samples))[::-1]
    precision = np.diag(1.0 / prior_variances) + history.functions.T @ (weights[:, None] * history.functions)
    covariance = np.linalg.inv(precision)
    means = (covariance @ history.functions.T @ (weights[:, None] * history.samples)).T
    scatters = np.array(FIXED.scatters) + weights @ history.samples**2
    scatters -= np.einsum("pm,mn,pn->p", means, precision, means)
    return covariance, means, scatters, FIXED.degrees_of_freedom + weights.sum()


def check(prior: Any, statistics: Any, histories: list[History], kept: float, variances: Array, rtol: float) -> None:
    """The statistics are those of the batch, particle by particle."""
    factors = np.ones(M) if prior.factors is None else prior.factors
    covariances, scatters = prior.covariances(statistics), prior.scatters_of(statistics)
    for i, history in enumerate(histories):
        covariance, means, psi, nu = batch(
            history, kept, variances[i] if variances.ndim == 2 else variances, prior.sample_weight
        )
        scale = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose(
            factors[:, None] * covariances[i] * factors / np.outer(scale, scale),
            covariance / np.outer(scale, scale),
            atol=rtol,
        )
        np.testing.assert_allclose(factors * statistics.means[i] / scale, means / scale, atol=10.0 * rtol)
        np.testing.assert_allclose(scatters[i], psi, rtol=rtol)
        assert statistics.degrees_of_freedom == pytest.approx(nu, rel=1e-12)


@pytest.mark.parametrize(("kept", "steps"), [(1.0, 16), (1.0, 100), (0.97, 300), (0.8, 200)])
@pytest.mark.parametrize("weight", [1.0, 0.15])
def test_statistics_are_the_batch_posterior_of_what_is_not_forgotten(kept: float, steps: int, weight: float) -> None:
    """Samples are forgotten, the prior never; a sample of less weight counts less."""
    prior = replace(FIXED, sample_weight=weight)
    statistics, histories = driven(prior, kept, steps)
    shares = statistics.prior_shares if kept < 1.0 else np.ones(M)
    assert shares.max() <= 1.0
    assert shares.min() >= LEAST_PRIOR_SHARE * kept**M
    check(prior, statistics, histories, kept, FIXED.factors**2 / shares, 1e-9 if kept < 1.0 else 1e-10)
    if weight == 1.0:
        check(prior, statistics, histories, kept, FIXED.factors**2, 1.5 * (1.0 - LEAST_PRIOR_SHARE * kept**M) + 1e-9)


def test_what_is_forgotten_for_long_leaves_the_prior() -> None:
    """So many steps that what rounding leaves would have grown beyond all numbers, if forgetting let it."""
    before, _ = driven(FIXED, 1.0, 50)
    kept, statistics = (FIXED.covariances(before), before.means.copy(), before.scatters.copy()), before
    nowhere = np.zeros((N, M))  # where no function says anything
    for _ in range(2000):
        prediction = FIXED.predict(statistics, np.arange(N), nowhere, 0.01, 0.97, np.empty((N, 0)))
        statistics = FIXED.observe(prediction, np.zeros((N, 2)))
    np.testing.assert_allclose(FIXED.covariances(statistics), np.tile(np.eye(M), (N, 1, 1)), atol=0.3)
    assert np.diagonal(FIXED.covariances(statistics)[0]).max() < 1.0 / (LEAST_PRIOR_SHARE * 0.97**M) + 1e-9
    np.testing.assert_allclose(statistics.means, 0.0, atol=1e-3)
    assert statistics.degrees_of_freedom == pytest.approx(5.0 + 1.0 / 0.03, rel=1e-6)
    for found, expected in zip((FIXED.covariances(before), before.means, before.scatters), kept, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kept", [1.0, 0.97])
def test_sums_under_a_walking_prior_are_the_batch_posterior_and_forgetting_is_exact(kept: float) -> None:
    light = replace(STILL, sample_weight=0.15)
    statistics, histories = driven(light, kept, 120)
    check(light, statistics, histories, kept, FIXED.factors**2, 1e-9)
    prior = replace(STILL, walk=HyperParameterWalk(3.0, 2.0, 2.0, 1.5))
    statistics, histories = driven(prior, kept, 120, normals=1.0)
    logs = statistics.log_factors
    assert np.abs(logs).max(axis=0) == pytest.approx(np.log([2.0, 1.5]), rel=0.3)
    assert (np.abs(logs) <= np.log([2.0, 1.5]) + 1e-12).all()
    # Deviation and length scales say what the prior variances are: not by the function that is tested.
    lengths = np.exp(logs[:, 1:])
    variances = 2.0 * np.pi * lengths**2 * np.exp(2.0 * logs[:, :1] - 0.5 * lengths**2 * BASIS.eigenvalues)
    check(prior, statistics, histories, kept, 16.0 * variances, 1e-9)
