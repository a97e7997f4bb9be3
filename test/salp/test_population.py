"""Mixed-effects regression of the chain's rates: what was put in comes out, and what a fit hides is counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from salp_models import a_model
from scipy.signal import lfilter

from salp_estimation.estimators.residual_model import SLIP, Population
from salp_estimation.model import friction_kernels as kernels
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gaits import GAITS
from salp_estimation.training.population import creep, fit_population, kinds, left_over
from salp_estimation.training.residual_training import HeldOutErrors, inflation
from salp_estimation.training.runs import TRAINING_RATE_HZ, TrainingRun

Array = NDArray[np.float64]
LINKS = ChainConfiguration().build().links
COMMON = {
    "along": 0.5,
    "across": 0.6,
    "turning": 0.01,
    "drag": 1.0,
    "lag": 0.03,
    "stiffness": 0.2,
    "joint friction": 0.01,
}
SPREAD = {
    "along": 0.08,
    "across": 0.09,
    "turning": 0.0015,
    "drag": 0.02,
    "torque": 0.006,
    "stiffness": 0.02,
    "lag": 0.003,
}
STDDEVS, TIME_S = np.array([5e-4, 5e-4, 2e-3, 4e-3, 7e-3]), 0.6


def markov(rng: np.random.Generator, count: int, stddevs: Array, time_s: float) -> Array:
    keep = np.exp(-1.0 / TRAINING_RATE_HZ / time_s)
    drawn = rng.normal(size=(count + 100, len(stddevs))) * np.sqrt(1.0 - keep**2)
    out: Array = lfilter([1.0], [1.0, -keep], drawn, axis=0)[100:] * stddevs
    return out


def made(rng: np.random.Generator, gait: str) -> tuple[TrainingRun, Array]:
    """A run of a robot of its own, and its parameters."""
    kind = kinds(3)
    own = np.array([COMMON.get(one, 0.0) + SPREAD.get(one, 0.0) * rng.normal() for one in kind])
    time_s = np.arange(90) / TRAINING_RATE_HZ
    phase = 2.0 * np.pi / 6.0 * time_s[:, None] + rng.uniform(0.0, 2.0 * np.pi, 2)
    angles = 0.15 * np.sin(phase) + rng.normal(0.0, 0.05, 2)
    controls = GAITS[gait].controls(time_s)
    slopes = (GAITS[gait].controls(time_s + 1e-4) - GAITS[gait].controls(time_s - 1e-4)) / 2e-4
    headings = np.full(len(time_s), rng.uniform(-np.pi, np.pi)) + 0.3 * np.sin(0.1 * time_s)
    none = np.empty((5, 0))
    rates = np.array(
        [
            kernels.rates(kernels.Place(LINKS, *place, own, SLIP), np.zeros(5), none)
            for place in zip(angles, headings, controls, slopes, strict=True)
        ]
    )
    rates += markov(rng, len(time_s), STDDEVS, TIME_S)
    nothing = np.zeros((90, 3))
    return TrainingRun(
        gait, time_s, angles, rates, headings, controls, slopes, nothing, rates[:0], nothing[:3, :2], {}
    ), own


@pytest.fixture(scope="module")
def drawn() -> tuple[list[TrainingRun], Array, Population]:
    rng = np.random.default_rng(12)
    runs, own = zip(*(made(rng, gait) for gait in ("forward", "left", "turning") for _ in range(8)), strict=True)
    return list(runs), np.array(own), fit_population(LINKS, runs)


def test_common_parameters_lie_within_their_uncertainty(drawn: tuple[list[TrainingRun], Array, Population]) -> None:
    _, own, population = drawn
    missed = (population.parameters - own.mean(axis=0)) / np.sqrt(np.diag(population.uncertainty))
    assert np.abs(missed).max() < 3.5
    assert np.sqrt(np.mean(missed**2)) < 1.5
    friction = [kind == "along" for kind in kinds(3)]
    np.testing.assert_allclose(population.parameters[friction], 0.5, atol=0.1)


def test_spreads_are_those_between_the_robots(drawn: tuple[list[TrainingRun], Array, Population]) -> None:
    _, own, population = drawn
    for kind in ("along", "across", "torque"):
        columns = [one == kind for one in kinds(3)]
        wanted = np.sqrt(np.mean(own[:, columns].var(axis=0)))
        np.testing.assert_allclose(population.spreads[columns], wanted, rtol=0.35)


def test_markov_processes_are_recognised_under_noise() -> None:
    rng = np.random.default_rng(3)
    samples = [markov(rng, 400, STDDEVS, TIME_S) for _ in range(20)]
    noisy = [one + 0.3 * STDDEVS * rng.normal(size=one.shape) for one in samples]
    stddevs, times_s = left_over(noisy)
    np.testing.assert_allclose(stddevs, STDDEVS, rtol=0.08)
    np.testing.assert_allclose(times_s, TIME_S, rtol=0.1)


def test_creep_is_a_root_mean_square_over_runs_of_which_one_is_assumed() -> None:
    run, _ = made(np.random.default_rng(1), "forward")
    rates = np.array([[1e-3, 0.0, 0.0, 5e-3, -5e-3]] * 4)
    found = creep([replace(run, rest_rates=rates), run])  # the other run never rests
    assumed = np.array([2e-4, 2e-4, 2e-3, 2e-3, 2e-3])
    np.testing.assert_allclose(found, np.sqrt(0.5 * (rates[0] ** 2 + assumed**2)))


def test_where_the_rooms_axes_are_not_known_pulls_are_as_likely_in_any_direction() -> None:
    """The mean is that over all turns of the room, and so is the covariance of two pulls along one axis."""
    population = a_model().population
    x = 11 * np.arange(3) + 9
    pulls = np.array([0.1 + 0.02j, 0.05j, -0.03])
    parameters = population.parameters.copy()
    parameters[x], parameters[x + 1] = pulls.real, pulls.imag
    anyhow = replace(population, parameters=parameters).turned_anyhow()
    np.testing.assert_array_equal(np.delete(anyhow.parameters, [*x, *(x + 1)]), np.delete(parameters, [*x, *(x + 1)]))
    turned = np.exp(1j * np.linspace(0.0, 2.0 * np.pi, 400, endpoint=False))[:, None] * pulls
    more = anyhow.uncertainty - population.uncertainty
    for axis, seen in ((x, turned.real), (x + 1, turned.imag)):
        np.testing.assert_allclose(anyhow.parameters[axis], 0.0)
        np.testing.assert_allclose(more[np.ix_(axis, axis)], seen.T @ seen / len(seen), atol=1e-12)


def test_errors_that_grow_with_time_decide_how_sure_the_filter_may_be() -> None:
    sound = np.random.default_rng(3).normal(size=(400, 2))
    grown = sound * np.where(np.arange(400) < 200, 1.0, 3.0)[:, None]
    factors = [
        inflation([HeldOutErrors(str(k), one, (one, one), ((one**2).mean(axis=1),) * 2) for k in range(40)])
        for one in (sound, sound[:200] * 3.0, grown)
    ]
    assert (factors[0] < 1.2).all()
    assert (factors[1] > 2.7).all()
    np.testing.assert_allclose(factors[1], factors[2], rtol=0.15)
