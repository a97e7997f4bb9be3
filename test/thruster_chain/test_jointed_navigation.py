"""Headings from IMUs and pins on simulated hardware: better than gyros, honest, clocks found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.base.measurement import IMU
from onboard_estimation.base.series import Recording, in_time_order
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from thruster_chain_estimation.estimators import inertial_kernels, pin_kernels
from thruster_chain_estimation.estimators.jointed_navigation import (
    TICK_S,
    JointedNavigation,
    NavigationState,
)
from thruster_chain_estimation.estimators.parameter_filter import ParameterPassage
from thruster_chain_estimation.estimators.robust_estimator import PastTick
from thruster_chain_estimation.model import inertial_layout
from thruster_chain_estimation.model.configuration import ThrusterChainConfiguration
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.simulator import ThrusterChainSimulation

Array = NDArray[np.float64]

COUNT = 3
CONFIGURATION = laboratory(COUNT)
TURN_RAD, APART_RAD = 0.1, 0.005
"""Deviations of the headings at the start: of them all together, and of each."""
SPREAD = TURN_RAD**2 * np.ones((COUNT, COUNT)) + APART_RAD**2 * np.eye(COUNT)
CLOCKS = inertial_layout.LINK * np.arange(COUNT) + inertial_layout.CLOCK
HEADINGS = inertial_layout.LINK * np.arange(COUNT) + inertial_layout.HEADING


class Run(NamedTuple):
    """A simulated run, and what the clocks of its IMUs are ahead, s."""

    recording: Recording
    clock_offset_s: Array

    def headings(self, at_s: Array) -> Array:
        """(K, N) by motion capture."""
        tracks = [one for one in self.recording.truth if one.channel.topic.endswith("/pose")]
        return np.column_stack(
            [np.interp(at_s, 1e-9 * one.stamps_ns, np.unwrap(planar_pose(one.values)[:, 2])) for one in tracks]
        )


class Tick(NamedTuple):
    """What the navigation was before a tick, and what came of that."""

    before: NavigationState
    state: NavigationState
    accepted: bool
    passage: PastTick


def driven(seed: int, duration_s: float) -> Run:
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", "mixed", np.random.default_rng(seed))
    assert isinstance(simulation, ThrusterChainSimulation)
    return Run(simulation.advance(round(1e9 * duration_s)), simulation.build.clock_offset_s)


def ticks(run: Run, spread: Array = SPREAD, configuration: ThrusterChainConfiguration = CONFIGURATION) -> list[Tick]:
    """The navigation alone, started from true headings."""
    navigation, out = JointedNavigation(configuration), list[Tick]()
    state = navigation.start(run.headings(np.zeros(1))[0], spread, np.zeros(2))
    imus = {f"imu/{name}": link for link, name in enumerate(configuration.chain.link_names)}
    for stamp_ns, channel, value in in_time_order(run.recording.sensors):
        if channel.sensor not in imus or stamp_ns < 0:
            continue
        now_s, link = 1e-9 * stamp_ns, imus[channel.sensor]
        rate, force = value[IMU.angular_velocity], value[IMU.linear_acceleration]
        reading = np.array([now_s - configuration.imu.delay_s, rate[2], *force[:2]])
        state = navigation.heard(state, link, reading)
        while (tick_s := TICK_S * (len(out) + 1)) < now_s and navigation.ready(state, tick_s, now_s):
            tick = navigation.advanced(state, tick_s)
            state, innovation, pinned = navigation.pinned(tick, tick_s < configuration.initial.rest_s)
            passage = PastTick(tick.transition, pinned, ParameterPassage(np.empty((0, 3))))
            out.append(Tick(tick.before, state, innovation.accepted, passage))
    return out


def stddev(found: list[Tick], along: Array) -> Array:
    """(K,) of a combination of the state, which is `along` of the headings (N,)."""
    covariances = np.array([one.state.covariance[np.ix_(HEADINGS, HEADINGS)] for one in found])
    return np.sqrt(np.einsum("i,kij,j->k", along, covariances, along))


@pytest.fixture(scope="module")
def run() -> Run:
    return driven(1, 8.0)


@pytest.fixture(scope="module")
def found(run: Run) -> list[Tick]:
    return ticks(run)


def test_joint_angles_are_honest_and_better_than_those_of_gyros(run: Run, found: list[Tick]) -> None:
    """The pins tell them. Headings have the common clock in them, which only thrust shows: they are `robust`'s."""
    assert np.mean([one.accepted for one in found]) > 0.98
    time_s = TICK_S * (1.0 + np.arange(len(found)))
    errors = np.array([one.state.mean[HEADINGS] for one in found]) - run.headings(time_s)
    errors, late = (errors + np.pi) % (2.0 * np.pi) - np.pi, time_s > CONFIGURATION.initial.rest_s
    for link in range(COUNT - 1):
        along = np.eye(COUNT)[link] - np.eye(COUNT)[link + 1]
        sigmas = errors[late] @ along / np.hypot(stddev(found, along), np.deg2rad(0.03))[late]
        assert np.mean(np.abs(sigmas) < 3.0) > 0.95, np.abs(sigmas).max()
        assert np.sqrt(np.mean(sigmas**2)) > 0.1
    specification = ROBOT.truth_specification(CONFIGURATION)
    recording = from_simulator(run.recording, specification.bodies, specification.held)
    gyros = judge(ROBOT, CONFIGURATION, "gyros", recording, JudgeSettings(initial="exact")).parts["headings"]
    assert np.sqrt(np.mean(np.diff(errors) ** 2)) < 0.6 * np.sqrt(np.nanmean(np.diff(gyros.error) ** 2))


def test_a_turn_of_the_whole_stays_as_unknown_as_it_was(
    run: Run, found: list[Tick], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain filter would learn it from noise, and be sure of what nothing tells."""
    whole = np.full(COUNT, 1.0 / COUNT)
    assert stddev(found, whole).min() > 0.99 * TURN_RAD
    assert stddev(found, whole).max() < 1.2 * TURN_RAD
    monkeypatch.setattr(inertial_kernels, "keep_unobservable", lambda covariance, change, count: covariance)
    for kernel in (pin_kernels.look, pin_kernels.hold):  # which compiled would not see it
        monkeypatch.setattr(pin_kernels, kernel.__name__, kernel.py_func)
    assert stddev(ticks(run), whole)[-1] < 0.4 * TURN_RAD


def test_clocks_are_found_against_each_other_only(run: Run, found: list[Tick]) -> None:
    prior = inertial_layout.clock_stddev_s(CONFIGURATION)
    last = found[-1].state
    clocks, spread = last.mean[CLOCKS], last.covariance[np.ix_(CLOCKS, CLOCKS)]
    apart = np.eye(COUNT) - 1.0 / COUNT
    deviation = np.sqrt(np.diag(apart @ spread @ apart.T))
    assert (deviation < 0.15 * prior).all()
    assert (np.abs(apart @ (clocks - run.clock_offset_s)) < 3.5 * deviation + 1e-4).all()  # they drift by 20 ppm
    common = np.full(COUNT, 1.0 / COUNT)
    assert np.sqrt(common @ spread @ common) == pytest.approx(prior / np.sqrt(COUNT), rel=0.01)
    assert abs(clocks.mean()) < 0.05 * prior


# What is told to the filter of the parameters: to believe the same of the velocity, and no more.
