"""The marginalised particle filter against an exact Kalman filter, on a mass with unknown friction, and when lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sliding_mass
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sliding_mass import STEP_S, friction_n

from onboard_estimation.filtering.gating import OPEN
from onboard_estimation.filtering.marginalized_particles import (
    Cloud,
    MarginalizedParticleFilter,
    ParticleFilterSettings,
    UnknownFunction,
)
from onboard_estimation.filtering.particle_weights import moments
from onboard_estimation.filtering.walking_prior import HyperParameterWalk
from onboard_estimation.learning.reduced_rank import ReducedRankBasis

Array = NDArray[np.float64]

PERIOD_S = 0.1
BASIS = ReducedRankBasis((2.0,), (2.5,), (0.8,), 5)
CONSTANTS, STDDEVS, NOISE_SHARE = (0.5, -0.2), (1.0, 0.5), 0.3
PROCESS_NOISE = np.array([0.1, 0.2, 0.0])
NOISE = np.array([[0.04, 0.01], [0.01, 0.09]])
OFFSET_NOISE, OFFSET_STDDEV = 0.1, 0.4


class Scheduled:
    """Linear in everything: the unknown functions are of the time, which is a third component of the state."""

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        a, b, time_s = states.T
        return np.column_stack([a + step_s * b, b + step_s * (values[:, 0] - a - 0.3 * b), time_s + step_s])

    def outputs(self, states: Array, inputs: Array, values: Array) -> Array:
        return np.column_stack([states[:, 0] + inputs[0], states[:, 1] + values[:, 1]])

    def places(self, states: Array) -> Array:
        return states[:, 2:]


def scheduled(count: int) -> MarginalizedParticleFilter:
    """Its filter; with a billion degrees of freedom the noise is known and Student's t normal."""
    unknown = UnknownFunction(BASIS, CONSTANTS, STDDEVS, NOISE_SHARE, degrees_of_freedom=1e9)
    settings = ParticleFilterSettings(
        PROCESS_NOISE, NOISE, np.ones(3), count, np.full(2, OFFSET_NOISE), np.full(2, OFFSET_STDDEV), gate=OPEN
    )
    return MarginalizedParticleFilter(Scheduled(), unknown, settings)


def simulated(steps: int) -> tuple[Array, Array]:
    """Measured (K, 2) and given inputs (K,): functions are sines of the time, some readings are missing."""
    rng, model = np.random.default_rng(6), Scheduled()
    given, state, values = rng.normal(size=steps), np.array([[0.4, 0.0, 0.0]]), np.array([CONSTANTS])
    measured = []
    for number in range(steps):
        state = model.propagate(state, np.empty(0), values, PERIOD_S)
        state[:, :2] += np.sqrt(PERIOD_S) * PROCESS_NOISE[:2] * rng.normal(size=2)
        time_s = state[0, 2]
        values = np.array([[0.5 + 0.8 * np.sin(2.0 * time_s), -0.2 + 0.4 * np.cos(time_s)]])
        measured.append(model.outputs(state, given[number : number + 1], values)[0])
    readings = np.array(measured) + rng.multivariate_normal(np.zeros(2), NOISE, steps) + [0.2, -0.1]
    readings[7, 1] = readings[12, 0] = np.nan
    readings[18] = np.nan
    return readings, given


class Kalman:
    """The same by one Kalman filter of (a, b, k1, k2, weights of both functions, offsets)."""

    def __init__(self) -> None:
        m = BASIS.function_count
        weights = np.exp(BASIS.log_spectral_densities())
        self.mean = np.concatenate([[0.3, -0.1], CONSTANTS, np.zeros(2 * m + 2)])
        variances = [[0.04, 0.09, 0.0, 0.0], STDDEVS[0] ** 2 * weights, STDDEVS[1] ** 2 * weights]
        self.covariance = np.diag(np.concatenate([*variances, np.full(2, OFFSET_STDDEV**2)]))
        self.log_likelihood = 0.0

    def step(self, time_s: float, measured: Array, given: float) -> None:
        n, m = len(self.mean), BASIS.function_count
        motion, shift, process = np.eye(n), np.zeros(n), np.zeros(n)
        motion[:2, :3] = np.eye(2, 3) + PERIOD_S * np.array([[0.0, 1.0, 0.0], [-1.0, -0.3, 1.0]])
        phi, _ = BASIS.functions([[time_s]])
        for output in range(2):
            row = 2 + output
            motion[row, row], shift[row] = 0.0, CONSTANTS[output]
            motion[row, 4 + output * m : 4 + (output + 1) * m] = phi[0]
        process[:2], process[-2:] = PERIOD_S * PROCESS_NOISE[:2] ** 2, PERIOD_S * OFFSET_NOISE**2
        process[2:4] = (np.array(STDDEVS) * NOISE_SHARE) ** 2
        self.mean = motion @ self.mean + shift
        self.covariance = motion @ self.covariance @ motion.T + np.diag(process)
        seen = np.zeros((2, n))
        seen[0, 0] = seen[1, 1] = seen[1, 3] = seen[0, -2] = seen[1, -1] = 1.0
        heard = np.isfinite(measured)
        if not heard.any():
            return
        error, noise = (measured - seen @ self.mean - [given, 0.0])[heard], NOISE[np.ix_(heard, heard)]
        seen = seen[heard]
        innovation = seen @ self.covariance @ seen.T + noise
        self.log_likelihood += float(multivariate_normal.logpdf(error, np.zeros(len(error)), innovation))
        gain = self.covariance @ seen.T @ np.linalg.inv(innovation)
        self.mean = self.mean + gain @ error
        self.covariance = self.covariance - gain @ seen @ self.covariance


def test_filter_is_the_kalman_filter_where_all_is_linear() -> None:
    steps, runs = 30, 3
    measured, given = simulated(steps)
    kalman = Kalman()
    for number in range(steps):
        kalman.step((number + 1) * PERIOD_S, measured[number], given[number])
    tracker = scheduled(20_000)
    likelihoods, states, values, offsets, curves = [], [], [], [], []
    places = np.linspace(0.5, 2.5, 5)
    for run in range(runs):
        cloud = tracker.start([0.3, -0.1, 0.0], np.diag([0.04, 0.09, 0.0]), run)
        total = 0.0
        for number in range(steps):
            cloud, info = tracker.step(cloud, PERIOD_S, measured[number], [given[number]])
            total += info.log_likelihood
        weights = np.exp(cloud.log_weights)
        likelihoods.append(total)
        for found, rows, certain in (
            (states, cloud.states[:, :2], 0.0),
            (values, cloud.values, 0.0),
            (offsets, cloud.offsets, cloud.offset_covariance),
        ):
            mean, covariance = moments(weights, rows)
            found.append([*mean, *np.diag(covariance + certain)])
        curves.append(tracker.learned_function(cloud).predict(places[:, None]))
    spread = np.sqrt(np.diag(kalman.covariance))
    close = {"rtol": 0.0, "atol": 0.12}  # of a standard deviation
    assert np.mean(likelihoods) == pytest.approx(kalman.log_likelihood, abs=0.25)
    assert np.std(likelihoods) < 0.5
    for found, index in ((states, slice(0, 2)), (values, slice(2, 4)), (offsets, slice(-2, None))):
        mean = np.mean(found, axis=0)
        np.testing.assert_allclose((mean[:2] - kalman.mean[index]) / spread[index], 0.0, **close)
        np.testing.assert_allclose(np.sqrt(mean[2:]) / spread[index], 1.0, **close)
    phi, _ = BASIS.functions(places[:, None])
    for output in range(2):
        part = slice(4 + 5 * output, 9 + 5 * output)
        expected = CONSTANTS[output] + phi @ kalman.mean[part]
        stddev = np.sqrt(np.einsum("ki,ij,kj->k", phi, kalman.covariance[part, part], phi))
        mean, found = np.mean([[m[:, output], s[:, output]] for m, s in curves], axis=0)
        np.testing.assert_allclose((mean - expected) / stddev, 0.0, **close)
        np.testing.assert_allclose(found / stddev, 1.0, **close)


def state_of(cloud: Cloud) -> tuple[Array, Array]:
    """Mean and covariance of the state."""
    return moments(np.exp(cloud.log_weights), cloud.states)


def bits(cloud: Cloud) -> list[bytes]:
    """All numbers of a cloud."""
    arrays = [*cloud.learned, *(cloud.states, cloud.values, cloud.log_weights, cloud.offsets, cloud.offset_covariance)]
    return [value.tobytes() for value in arrays if isinstance(value, np.ndarray)] + [repr(cloud.draws).encode()]


def test_a_replay_from_a_state_that_was_kept_is_equal_to_the_last_bit() -> None:
    force, _, measured = sliding_mass.run(1.0, 0)
    tracker = sliding_mass.tracker(60, HyperParameterWalk())
    tracker = MarginalizedParticleFilter(
        tracker.model, replace(tracker.unknown, memory_s=0.5), replace(tracker.settings, offset_noise=[1e-4])
    )

    def go_on(cloud: Cloud, first: int, readings: Array, until: int = len(force)) -> Cloud:
        for number in range(first, until):
            cloud, _ = tracker.step(cloud, STEP_S, readings[number : number + 1], force[number : number + 1])
        return cloud

    start, other = (tracker.start([0.0, 0.0], np.diag([1e-6, 1e-4]), key) for key in (3, 4))
    cloud = go_on(start, 0, measured, 40)
    kept = bits(cloud)
    end = go_on(cloud, 40, measured)
    elsewhere = go_on(cloud, 40, measured + 0.002)  # another course, from the same state
    assert bits(cloud) == kept
    assert bits(go_on(cloud, 40, measured)) == bits(end) != bits(elsewhere)
    assert bits(go_on(other, 0, measured)) != bits(end)


@pytest.fixture(scope="module")
def tracked() -> tuple[MarginalizedParticleFilter, list[Cloud], Array, Array, Array]:
    """A filter that knows nothing of friction, its clouds, and the run it followed for twenty seconds."""
    force, states, measured = sliding_mass.run(20.0, 1)
    tracker = sliding_mass.tracker()
    clouds = [tracker.start([0.0, 0.0], np.diag([1e-6, 1e-4]), 1)]
    for number, pushed in enumerate(force):
        cloud, info = tracker.step(clouds[-1], STEP_S, measured[number : number + 1], [pushed])
        assert info.effective_sample_size > 100.0
        clouds.append(cloud)
    return tracker, clouds, force, states, measured


def test_friction_is_learned_from_positions(tracked: Any) -> None:
    tracker, clouds, _, states, _ = tracked
    speed = np.linspace(-1.4, 1.4, 29)
    mean, stddev = tracker.learned_function(clouds[-1]).predict(speed[:, None])
    error = mean[:, 0] - friction_n(speed)
    assert np.sqrt(np.mean(error**2)) < 0.4  # of 2.0: no function at all
    assert np.abs(error[np.abs(speed) > 0.5]).max() < 0.5
    assert stddev[14:].max() < 0.5
    _, before = tracker.learned_function(clouds[0]).predict(speed[:, None])
    np.testing.assert_allclose(before, 2.5, rtol=0.1)
    found = np.array([state_of(cloud)[0] for cloud in clouds])
    assert np.sqrt(np.mean((found - states)[:, 0] ** 2)) < 0.8e-3  # of 1 mm that the sensor has
    assert np.sqrt(np.mean((found - states)[500:, 1] ** 2)) < 0.03
    assert clouds[-1].spreads == 0


def test_an_outlier_is_left_out_and_the_cloud_goes_on(tracked: Any) -> None:
    tracker, clouds, force, states, measured = tracked
    after, info = tracker.step(clouds[1500], STEP_S, [measured[1500] + 0.2], force[1500:1501])
    assert not info.innovation.accepted
    assert (info.log_likelihood, after.rejected_in_a_row, after.spreads) == (0.0, 1, 0)
    assert state_of(after)[0][0] == pytest.approx(states[1501, 0], abs=3e-3)
    silent, info = tracker.step(clouds[1500], STEP_S, [np.nan], force[1500:1501])
    assert info.innovation is None
    np.testing.assert_allclose(state_of(silent)[0], state_of(after)[0], atol=1e-12)
    again, info = tracker.step(after, STEP_S, measured[1501:1502], force[1501:1502])
    assert info.innovation.accepted
    assert again.rejected_in_a_row == 0


def test_a_displaced_mass_is_found_again_and_its_friction_stays_known(tracked: Any) -> None:
    tracker, clouds, force, states, measured = tracked
    cloud, errors = clouds[1500], []
    known, _ = tracker.learned_function(cloud).predict([[0.5], [1.0], [-0.8]])
    spread = []
    for number in range(1500, 1700):
        reading = measured[number] + 0.3
        cloud, info = tracker.step(cloud, STEP_S, [reading], force[number : number + 1])
        spread.append(info.spread)
        if info.spread:  # as wide as the settings say, in what the sensor does not measure
            assert cloud.states[:, 1].std() == pytest.approx(0.3, rel=0.15)
            assert cloud.states[:, 0].std() < 2e-3
        errors.append(state_of(cloud)[0] - states[number + 1] - [0.3, 0.0])
    assert cloud.spreads == sum(spread) == 1
    assert spread.index(True) == tracker.settings.gate.recover_after - 1
    assert np.abs(np.array(errors)[40:, 0]).max() < 5e-3
    assert np.abs(np.array(errors)[100:, 1]).max() < 0.15
    afterwards, _ = tracker.learned_function(cloud).predict([[0.5], [1.0], [-0.8]])
    np.testing.assert_allclose(afterwards, known, atol=0.3)


class Breaking(sliding_mass.SlidingMass):
    """Has no answer for some particles."""

    def __init__(self, limit_m: float) -> None:
        self.limit_m = limit_m

    def propagate(self, states: Array, inputs: Array, values: Array, step_s: float) -> Array:
        moved = super().propagate(states, inputs, values, step_s)
        return np.where(moved[:, :1] > self.limit_m, np.nan, moved)


def test_particles_without_an_answer_die_and_without_any_left_the_filter_says_so(tracked: Any) -> None:
    tracker, clouds, force, _, measured = tracked
    cloud = clouds[1500]
    middle = float(np.median(cloud.states[:, 0] + STEP_S * cloud.states[:, 1]))
    breaking = MarginalizedParticleFilter(Breaking(middle), tracker.unknown, tracker.settings)
    for reading in (measured[1500:1501], None):
        after, _ = breaking.step(cloud, STEP_S, reading, force[1500:1501])
        assert np.isfinite(after.states).all()
        assert np.isfinite(state_of(after)[1]).all()
        assert state_of(after)[0][0] < middle
    broken = MarginalizedParticleFilter(Breaking(-1e9), tracker.unknown, tracker.settings)
    with pytest.raises(ArithmeticError, match="none of 400 particles"):
        broken.step(cloud, STEP_S, None, force[1500:1501])
