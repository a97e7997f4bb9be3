"""The parameter filter on true motion: what it learns, what it cannot know, loads, blows, and disturbances that last.

The motion is integrated by the simulator's kernel; gyros and accelerometers have white noise, and nothing else is
wrong but what a test adds.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from onboard_estimation.filtering.moments import Moments, correction, see
from thruster_chain_estimation.estimators import jumps as evidence_of
from thruster_chain_estimation.estimators.jumps import Corrected, Jumps
from thruster_chain_estimation.estimators.parameter_filter import (
    STOP_MARGIN_RAD,
    WINDOW,
    ParameterFilter,
    ParameterPassage,
    ParameterState,
)
from thruster_chain_estimation.estimators.pin_kernels import Moved, NavigationErrors
from thruster_chain_estimation.model import parameter_layout as layout
from thruster_chain_estimation.model.configuration import ChainConfiguration, ThrusterChainConfiguration
from thruster_chain_estimation.simulation import simulation_kernels as simulated
from thruster_chain_estimation.simulation.simulator import laboratory_mixture

Array = NDArray[np.float64]

CONFIGURATION = ThrusterChainConfiguration(chain=ChainConfiguration(joint_travel_deg=110.0))
CHAIN = CONFIGURATION.chain
COUNT = CHAIN.count
LINKS = layout.LINK * np.arange(COUNT)
TICK_S, STEPS = 0.01, 10
COMMANDED = 2  # ticks: 50 Hz
FIRST_PUSH_S = 0.3
DRIFT = 3e-4  # (m/s)^2/s, of the velocity that is dead-reckoned


class Truth(NamedTuple):
    """A robot near its design, and what it is moved by beside its thrusters."""

    mass: Array
    inertia: Array
    centre: Array
    gain: Array
    draught_n: float = 0.0
    draught_time_s: float = 1.0

    @classmethod
    def drawn(cls, seed: int, **more: float) -> Truth:
        rng = np.random.default_rng(seed)
        return cls(
            CHAIN.masses * (1.0 + rng.uniform(-0.2, 0.2, COUNT)),
            CHAIN.inertias * (1.0 + rng.uniform(-0.2, 0.2, COUNT)),
            rng.uniform(-5e-3, 5e-3, (COUNT, 2)),
            1.0 + rng.uniform(-0.05, 0.05, COUNT),
            **more,
        )

    def loaded(self, link: int, share: float) -> Truth:
        mass, inertia = self.mass.copy(), self.inertia.copy()
        mass[link] += share * CHAIN.masses[link]
        inertia[link] += 0.7 * share * CHAIN.inertias[link]
        return self._replace(mass=mass, inertia=inertia)

    def physics(self) -> simulated.Physics:
        along, zero = np.column_stack([0.5 * CHAIN.lengths, np.zeros(COUNT)]), np.zeros(COUNT)
        pins, places = (-along - self.centre, along - self.centre), CHAIN.thruster_places - self.centre
        thrusters = CHAIN.thruster_angles, self.gain, self.gain, np.full(COUNT, 0.035), zero
        drag = np.full(COUNT, 0.005), np.full(COUNT, 2.6e-5), zero, np.zeros(2)
        joint = np.array([1.0, 2e-4, 0.0, np.deg2rad(CHAIN.joint_travel_deg), 2.0, 0.02])
        free = np.zeros(COUNT - 1)
        return simulated.Physics(self.mass, self.inertia, *pins, places, *thrusters, *drag, free, free, joint)


class Driven(NamedTuple):
    """Commands (K, N), each for two ticks, and what the navigation would see of the K ticks."""

    commands: Array
    moved: tuple[Moved, ...]


def driven(stretches: tuple[tuple[Truth, float], ...], seed: int) -> Driven:
    """A robot for so many seconds, and then another one in its place, that moves on from there."""
    rng, n = np.random.default_rng(seed), COUNT
    ticks = [round(lasted_s / TICK_S) for _, lasted_s in stretches]
    pattern = laboratory_mixture(n, CONFIGURATION.thruster.limit_n, FIRST_PUSH_S - 0.3, rng)
    instants = TICK_S * (np.arange(sum(ticks)) // COMMANDED) * COMMANDED
    commands = pattern(instants + 1e-9)
    state, pieces, at = np.zeros(3 * n + 4), [], 0
    state[:n] = rng.uniform(-0.6, 0.6, n)
    for (truth, _), count in zip(stretches, ticks, strict=True):
        rows = np.repeat(commands[at : at + count], STEPS, axis=0)
        motion = simulated.drive(truth.physics(), state, rows, draughts(truth, len(rows), rng), 0, TICK_S / STEPS)
        state = motion.states[-1].copy()
        pieces += seen(truth, motion, rng)
        at += count
    return Driven(commands, tuple(pieces))


def draughts(truth: Truth, count: int, rng: np.random.Generator) -> Array:
    """(count, N, 2), N: white noise through a lag."""
    keep = np.exp(-TICK_S / STEPS / truth.draught_time_s)
    start, white = rng.normal(size=(COUNT, 2)), rng.normal(size=(count, COUNT, 2))
    return truth.draught_n * lfilter([np.sqrt(1.0 - keep**2)], [1.0, -keep], white, axis=0, zi=keep * start[None])[0]


def seen(truth: Truth, motion: simulated.Motion, rng: np.random.Generator) -> list[Moved]:
    """Ticks of a motion by gyros and an accelerometer with white noise."""
    heading, rate = motion.states[:, :COUNT], motion.states[::STEPS, COUNT : 2 * COUNT]
    middle = velocities(truth, motion.states[:: STEPS // 2])
    gyro = rate + CONFIGURATION.gyro_stddev_rad_s * rng.normal(size=rate.shape)
    noise = CONFIGURATION.accelerometer.noise_density_m_s2_sqrt_hz / np.sqrt(TICK_S)
    errors = NavigationErrors(DRIFT * TICK_S * np.eye(2), np.empty(0), np.empty((0, 2)), np.empty(0), np.zeros(4))
    out = []
    for k in range(len(gyro) - 1):
        before, at, after = (heading[STEPS * k + part * STEPS // 2] for part in range(3))
        c, s = np.cos(at[0]), np.sin(at[0])
        pull = (middle[2 * k + 2, 0] - middle[2 * k, 0]) / TICK_S + noise * rng.normal(size=2)
        rates, turned = (after - before) / TICK_S, (gyro[k + 1] - gyro[k]) / TICK_S
        forces = np.array([[c, s], [-s, c]]) @ pull
        out.append(Moved(TICK_S, at, rates, turned, middle[2 * k + 1], forces, True, errors))
    return out


def velocities(truth: Truth, states: Array) -> Array:
    """(K, N, 2) of the links' middles, m/s."""
    physics, n = truth.physics(), COUNT
    out, place, velocity = np.empty((len(states), n, 2)), np.empty((n, 2)), np.empty((n, 2))
    x, y = -truth.centre.T
    for k, state in enumerate(states):
        simulated.centres(physics, state, place, velocity)
        c, s, rate = np.cos(state[:n]), np.sin(state[:n]), state[n : 2 * n]
        out[k] = velocity + rate[:, None] * np.column_stack([-s * x - c * y, c * x - s * y])
    return out


def ticked(
    tracker: ParameterFilter, state: ParameterState, tick: int, moved: Moved
) -> tuple[ParameterState, ParameterPassage]:
    """The tick of that number, and what is learned at the end of a window."""
    state, passage = tracker.ticked(state, TICK_S * (tick + 1), moved, TICK_S * tick < FIRST_PUSH_S)
    return tracker.learned(state, passage) if len(state.window) == WINDOW else (state, passage)


def filtered(run: Driven, first: int = 0, state: ParameterState | None = None) -> list[ParameterState]:
    """States after each tick from a number on."""
    tracker = ParameterFilter(CONFIGURATION)
    state, states = tracker.start() if state is None else state, []
    for k in range(first, len(run.moved)):
        if k % COMMANDED == 0:
            state = tracker.commanded(state, TICK_S * k, run.commands[k])
        state, _ = ticked(tracker, state, k, run.moved[k])
        states.append(state)
    return states


def known(belief: Moments, truth: Truth) -> tuple[Array, Array, Array]:
    """Errors and deviations (2N,) of the logarithms of masses and inertias, and errors in deviations."""
    at = np.concatenate([LINKS + layout.LOG_MASS, LINKS + layout.LOG_INERTIA])
    true = np.log(np.concatenate([truth.mass / CHAIN.masses, truth.inertia / CHAIN.inertias]))
    stddev = np.sqrt(np.diag(belief.covariance))[at]
    return belief.mean[at] - true, stddev, (belief.mean[at] - true) / stddev


def ratios(belief: Moments, truth: Truth) -> Array:
    """(N,) errors of the shares of the whole mass."""
    mass = CHAIN.masses * np.exp(belief.mean[LINKS + layout.LOG_MASS])
    return mass / mass.sum() / (truth.mass / truth.mass.sum()) - 1.0


@cache
def plain() -> tuple[Truth, Driven, tuple[ParameterState, ...]]:
    """Fifteen seconds without a load, with draughts."""
    truth = Truth.drawn(2, draught_n=0.003)
    run = driven(((truth, 15.0),), 2)
    return truth, run, tuple(filtered(run))


def test_masses_and_inertias_are_learned_within_what_is_stated_and_nothing_changes() -> None:
    prior = layout.prior(CONFIGURATION)[1]
    truth, _, states = plain()
    assert states[-1].changes == 0
    sigmas = [known(state.belief, truth)[2] for state in states[499::100]]
    _, stddev, _ = known(states[-1].belief, truth)
    assert (stddev[:COUNT] < 0.4 * prior[layout.LOG_MASS]).all()
    assert (stddev[COUNT:] < 0.9 * prior[layout.LOG_INERTIA]).all()
    assert np.mean(np.abs(sigmas) < 3.0) > 0.97
    assert 0.3 < np.sqrt(np.mean(np.square(sigmas))) < 1.5  # and not for being unsure of all
    found, at_first = (np.abs(ratios(one, truth)) for one in (states[-1].belief, ParameterFilter(CONFIGURATION).prior))
    assert np.median(found) < 0.04
    assert np.median(found) < 0.5 * np.median(at_first)


def test_the_common_scale_of_masses_and_thrust_is_not_learned() -> None:
    """The information along it is the prior's, and what is left of the masses is that of the gains."""
    truth, _, states = plain()
    belief, prior = states[-1].belief, ParameterFilter(CONFIGURATION).prior
    along = np.zeros(len(belief.mean))
    along[LINKS + layout.LOG_MASS] = along[LINKS + layout.LOG_INERTIA] = 1.0
    along[LINKS + layout.GAIN] = 1.0 + belief.mean[LINKS + layout.GAIN]
    forces = slice(layout.LINK * COUNT, layout.chain_part(COUNT) + layout.DELAY)
    along[forces] = belief.mean[forces]
    own = slice(0, layout.chain_part(COUNT) + layout.VELOCITY_X)  # errors of the navigation come and go
    before = along[own] @ np.linalg.solve(prior.covariance[own, own], along[own])
    after = along[own] @ np.linalg.solve(belief.covariance[own, own], along[own])
    _, stddev, _ = known(belief, truth)
    assert 0.5 * before < after < 1.1 * before  # less is what a random walk of the masses takes away
    assert (stddev > 0.9 / np.sqrt(before)).all()
    # A direction that the motion shows: one mass against the others.
    apart = np.zeros(len(belief.mean))
    apart[LINKS[1] + layout.LOG_MASS] = 1.0
    gained = apart[own] @ np.linalg.solve(belief.covariance[own, own], apart[own])
    assert gained > 10.0 * apart[own] @ np.linalg.solve(prior.covariance[own, own], apart[own])


def test_a_load_is_found_within_seconds_and_weighed() -> None:
    truth = Truth.drawn(11, draught_n=0.003)
    after = truth.loaded(2, 0.4)
    states = filtered(driven(((truth, 8.0), (after, 7.0)), 11))
    changes = np.array([state.changes for state in states])
    found_s = TICK_S * int(np.argmax(changes > 0))
    assert changes[-1] > 0
    assert 8.0 < found_s < 13.0
    assert np.abs(known(states[-1].belief, after)[2]).max() < 3.0
    assert np.abs(known(states[799].belief, after)[2]).max() > 3.0  # it had been sure of the old masses


def test_draughts_that_last_are_not_taken_for_masses() -> None:
    """Ten times those of a room."""
    truth = Truth.drawn(21, draught_n=0.03, draught_time_s=0.3)
    states = filtered(driven(((truth, 12.0),), 21))
    *_, quiet = plain()
    assert states[-1].scale > 1.5 * quiet[len(states) - 1].scale
    assert np.abs(known(states[-1].belief, truth)[2]).max() < 3.0
    assert states[-1].changes == 0


def test_a_blow_is_no_information() -> None:
    """A knock of 0.1 s on one link: masses and deviations stay where they were, and nothing is said to change."""
    truth, run, before = plain()
    bent = [np.abs(np.diff(moved.headings)).max() for moved in run.moved]
    at = next(k for k in range(1000, 1400, 10) if max(bent[k : k + 20]) < 1.0)  # no end stop near
    struck = list(run.moved)
    for k in range(at, at + 10):
        struck[k] = struck[k]._replace(angular=struck[k].angular + np.array([40.0, -30.0, 20.0]))
    states = filtered(run._replace(moved=tuple(struck)), at, before[at - 1])
    moved = states[19].belief.mean - before[at + 19].belief.mean
    stddev = np.sqrt(np.diag(before[at - 1].belief.covariance))
    assert states[19].scale > 1.01 * before[at + 19].scale
    assert np.abs(moved / stddev).max() < 1.0
    assert states[-1].changes == 0
    assert (np.diag(states[19].belief.covariance) > 0.81 * np.diag(before[at + 19].belief.covariance)).all()
    assert np.abs(known(states[-1].belief, truth)[2]).max() < 3.0


def test_at_an_end_stop_masses_are_learned_from_what_the_stop_does_not_tell() -> None:
    """A third of the run; of longer chains one joint is at a stop half of the time."""
    truth, run, states = plain()
    bent = [np.abs(np.diff(moved.headings)).max() for moved in run.moved]
    stopped = np.array(bent) > np.deg2rad(CHAIN.joint_travel_deg) - STOP_MARGIN_RAD
    at = next(k for k in range(WINDOW, len(bent), WINDOW) if stopped[k : k + 2 * WINDOW].all())
    masses = LINKS + layout.LOG_MASS
    before, after = (states[k].belief.covariance[np.ix_(masses, masses)] for k in (at - 1, at + 2 * WINDOW - 1))
    assert np.linalg.slogdet(after)[1] < np.linalg.slogdet(before)[1]
    assert np.abs(known(states[-1].belief, truth)[2]).max() < 3.0
    assert states[-1].changes == 0


def test_evidence_of_a_jump_is_the_likelihood_ratio_of_a_filter_that_allows_for_it() -> None:
    rng, n, places = np.random.default_rng(5), 5, np.array([[0, 1], [3, 4]])
    variances, transition = rng.uniform(0.5, 2.0, (2, 2)), np.array([[2.0, 1.0, 0.3], [4.0, 0.0, -0.2]])
    whole = np.eye(n)
    for row, column, entry in transition:
        whole[int(row), int(column)] += entry
    jumps, ratios = Jumps.of(places, n), np.zeros(2)
    plain, *freed = (Moments(np.zeros(n), np.eye(n)) for _ in range(3))
    for one, where, variance in zip(freed, places, variances, strict=True):
        one.covariance[where, where] += variance
    beliefs = [plain, *freed]
    for _ in range(6):
        slopes, measured = rng.normal(size=(2, n)), 3.0 * rng.normal(size=2)
        jumps, found = evidence_of.carried(jumps, transition), []
        for k, (mean, covariance) in enumerate(beliefs):
            mean, covariance = whole @ mean, whole @ covariance @ whole.T
            sight = see(covariance, measured - slopes @ mean, slopes, 0.5 * np.eye(2))
            change, covariance = correction(covariance, sight)
            beliefs[k] = Moments(mean + change, covariance)
            found.append((sight, -0.5 * sight.nis - np.log(np.diag(sight.root)).sum()))
        jumps = evidence_of.corrected(jumps, Corrected(slopes, found[0][0], 1.0), True)
        ratios += [likelihood - found[0][1] for _, likelihood in found[1:]]
    np.testing.assert_allclose(evidence_of.evidence(jumps, variances), ratios, rtol=1e-9)
