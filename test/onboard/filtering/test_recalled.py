"""Particles that start from a function that was learned before, against the posterior of weighted samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.filtering.normal_inverse_gamma import FixedPrior
from onboard_estimation.filtering.walking_prior import HyperParameterWalk, WalkingPrior
from onboard_estimation.learning.reduced_rank import LearnedFunction, ReducedRankBasis

Array = NDArray[np.float64]

BASIS = ReducedRankBasis((0.0, 0.0), (2.0, 2.0), (0.8, 1.1), 9)
NOISE, DEVIATION, NU = 0.2, 0.8, 5.0
SCATTER = ((NU - 2.0) * NOISE**2,)
PRIORS: list[Any] = [
    FixedPrior(BASIS, SCATTER, NU, DEVIATION / NOISE),
    WalkingPrior(BASIS, SCATTER, NU, DEVIATION / NOISE, HyperParameterWalk(0.0, 0.0)),
]
PLACES = np.random.default_rng(2).uniform(-1.5, 1.5, (50, 2))


def regression(weight: float, count: int = 200) -> tuple[Array, Array]:
    """Mean (M,) and covariance (M, M) of the weights given samples on one side of the box, each of that weight."""
    rng = np.random.default_rng(1)
    phi, _ = BASIS.functions(rng.uniform([-1.5, -1.5], [0.0, 1.5], (count, 2)))
    samples = phi @ rng.normal(size=9) + NOISE * rng.normal(size=count)
    prior = DEVIATION**2 * np.exp(BASIS.log_spectral_densities())
    covariance = np.linalg.inv(np.diag(1.0 / prior) + weight * phi.T @ phi / NOISE**2)
    return covariance @ (weight * phi.T @ samples) / NOISE**2, covariance


def learned(mean: Array, covariance: Array) -> LearnedFunction:
    return LearnedFunction(BASIS, np.array([7.0]), mean[None], covariance[None], np.array([NOISE]))


@pytest.mark.parametrize("prior", PRIORS, ids=("fixed", "walking"))
@pytest.mark.parametrize("weight", [1.0, 0.25, 0.0])
def test_a_recalled_function_is_that_of_its_samples_with_a_lesser_weight(prior: Any, weight: float) -> None:
    """Mean and standard deviation of the next samples of particles that recall the regression of all samples."""
    mean, covariance = regression(weight)
    statistics, count = prior.recall(len(PLACES), learned(*regression(1.0)), weight), len(PLACES)
    functions, _ = BASIS.functions(PLACES, prior.factors)
    found = prior.predict(statistics, np.arange(count), functions, 0.01, 1.0, np.zeros((count, prior.walking)))
    phi, _ = BASIS.functions(PLACES)
    np.testing.assert_allclose(found.means[:, 0], phi @ mean, atol=1e-8)
    expected = np.einsum("km,ml,kl->k", phi, covariance, phi) + NOISE**2
    np.testing.assert_allclose(found.variances[:, 0] * NU / (NU - 2.0), expected, rtol=2e-7)


@pytest.mark.parametrize("prior", PRIORS, ids=("fixed", "walking"))
def test_what_was_recalled_fades_and_what_is_wider_than_the_prior_tells_nothing(prior: Any) -> None:
    mean, covariance = regression(1.0)
    statistics, nowhere, alone = prior.recall(1, learned(mean, covariance), 1.0), np.zeros((1, 9)), np.zeros(1, int)
    for _ in range(800):
        prediction = prior.predict(statistics, alone, nowhere, 0.01, 0.98, np.zeros((1, prior.walking)))
        statistics = prior.observe(prediction, np.zeros((1, 1)))
    assert np.abs(statistics.means).max() < 0.02 * np.abs(mean).max()
    wide = 9.0 * DEVIATION**2 * np.diag(np.exp(BASIS.log_spectral_densities()))
    after, start = prior.recall(1, learned(np.zeros(9), wide), 1.0), prior.start(1)
    np.testing.assert_allclose(prior.covariances(after), prior.covariances(start), rtol=1e-9, atol=1e-12)
