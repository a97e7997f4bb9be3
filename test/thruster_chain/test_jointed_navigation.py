"""Headings from IMUs and pins on simulated hardware: better than gyros, honest, clocks found, a silent IMU."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.base.measurement import IMU, Estimate, Measurement, Notice
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from thruster_chain_estimation.estimators import inertial_kernels
from thruster_chain_estimation.estimators.jointed_navigation import JointedNavigation, NavigationState
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator
from thruster_chain_estimation.model import inertial_layout
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.simulator import ThrusterChainSimulation

Array = NDArray[np.float64]

COUNT = 3
CONFIGURATION = laboratory(COUNT)
NAMES = CONFIGURATION.chain.link_names
TURN_RAD, APART_RAD = 0.1, 0.005
"""Deviations of the headings at the start: of them all together, and of each."""
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

    def messages(self) -> list[Measurement]:
        """In the order of their stamps."""
        told = [
            Measurement(stamp_ns, one.channel.sensor, value)
            for one in self.recording.sensors
            for stamp_ns, value in zip(one.stamps_ns.tolist(), one.values, strict=True)
            if stamp_ns >= 0
        ]
        return sorted(told, key=lambda message: message.stamp_ns)


class Navigated(NamedTuple):
    """After each tick: instants, means and covariances; and the share of the ticks at which pins were accepted."""

    time_s: Array
    means: Array
    covariances: Array
    accepted: float

    def errors(self, run: Run) -> Array:
        """(K, N) of the headings."""
        error = self.means[:, HEADINGS] - run.headings(self.time_s)
        return (error + np.pi) % (2.0 * np.pi) - np.pi

    def stddev(self, along: Array) -> Array:
        """(K,) of a combination of the state."""
        return np.sqrt(np.einsum("i,kij,j->k", along, self.covariances, along))


def driven(seed: int, duration_s: float) -> Run:
    simulation = ROBOT.simulation(CONFIGURATION, "hardware", "mixed", np.random.default_rng(seed))
    assert isinstance(simulation, ThrusterChainSimulation)
    return Run(simulation.advance(round(1e9 * duration_s)), simulation.build.clock_offset_s)


def navigated(run: Run) -> Navigated:
    """The navigation alone, started from true headings."""
    navigation = JointedNavigation(CONFIGURATION)
    spread = TURN_RAD**2 * np.ones((COUNT, COUNT)) + APART_RAD**2 * np.eye(COUNT)
    mean, covariance = inertial_layout.started(CONFIGURATION, run.headings(np.zeros(1))[0], spread, np.zeros(2))
    state: NavigationState = navigation.start(mean, covariance)
    kept, accepted = [], []
    for message in run.messages():
        if not message.sensor.startswith("imu/"):
            continue
        now_s, link = 1e-9 * message.stamp_ns, NAMES.index(message.sensor.removeprefix("imu/"))
        rate, force = message.value[IMU.angular_velocity], message.value[IMU.linear_acceleration]
        reading = np.array([now_s - CONFIGURATION.imu.delay_s, rate[2], *force[:2]])
        state = navigation.heard(state, link, reading)
        while (tick_s := 0.01 * (len(kept) + 1)) < now_s and navigation.ready(state, tick_s, now_s):
            state, _, innovation, _ = navigation.tick(state, tick_s, tick_s < CONFIGURATION.initial.rest_s)
            accepted.append(innovation.accepted)
            kept.append(state)
    return Navigated(
        0.01 * (1.0 + np.arange(len(kept))),
        np.array([one.mean for one in kept]),
        np.array([one.covariance for one in kept]),
        float(np.mean(accepted)),
    )


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [driven(seed, 8.0) for seed in (1, 2)]


@pytest.fixture(scope="module")
def found(runs: list[Run]) -> list[Navigated]:
    return [navigated(run) for run in runs]


def test_joint_angles_are_better_than_those_of_gyros(runs: list[Run], found: list[Navigated]) -> None:
    """The pins tell them. Headings have the common clock in them, which only thrust shows: they are `robust`'s."""
    specification = ROBOT.truth_specification(CONFIGURATION)
    recording = from_simulator(runs[0].recording, specification.bodies, specification.held)
    gyros = judge(ROBOT, CONFIGURATION, "gyros", recording, JudgeSettings(initial="exact")).parts["headings"]
    ours = np.sqrt(np.mean(np.diff(found[0].errors(runs[0])) ** 2))
    assert ours < 0.6 * np.sqrt(np.nanmean(np.diff(gyros.error) ** 2))


def test_it_is_honest_and_takes_what_the_pins_say(runs: list[Run], found: list[Navigated]) -> None:
    """Between links, where the common clock is as good as nothing; and of all headings at rest."""
    for run, one in zip(runs, found, strict=True):
        assert one.accepted > 0.98
        errors, late = one.errors(run), one.time_s > CONFIGURATION.initial.rest_s
        for link in range(COUNT - 1):
            along = np.zeros(one.means.shape[1])
            along[HEADINGS[link : link + 2]] = 1.0, -1.0
            sigmas = (errors[:, link] - errors[:, link + 1]) / np.hypot(one.stddev(along), np.deg2rad(0.03))
            assert np.mean(np.abs(sigmas[late]) < 3.0) > 0.95, np.abs(sigmas[late]).max()
            assert np.sqrt(np.mean(sigmas[late] ** 2)) > 0.1


def test_a_turn_of_the_whole_stays_as_unknown_as_it_was(found: list[Navigated]) -> None:
    for one in found:
        along = np.zeros(one.means.shape[1])
        along[HEADINGS] = 1.0 / COUNT
        stddev = one.stddev(along)
        assert stddev.min() > 0.99 * TURN_RAD
        assert stddev.max() < 1.2 * TURN_RAD


def test_a_turn_would_be_learned_from_noise_by_a_plain_filter(runs: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """What `keep_unobservable` is there for: without it, the filter becomes sure of what nothing tells."""
    monkeypatch.setattr(inertial_kernels, "keep_unobservable", lambda covariance, change, count: covariance)
    along = np.zeros(inertial_layout.state_size(COUNT))
    along[HEADINGS] = 1.0 / COUNT
    assert navigated(runs[0]).stddev(along)[-1] < 0.4 * TURN_RAD


def test_clocks_are_found_against_each_other_only(runs: list[Run], found: list[Navigated]) -> None:
    prior = inertial_layout.clock_stddev_s(CONFIGURATION)
    for run, one in zip(runs, found, strict=True):
        clocks, spread = one.means[-1, CLOCKS], one.covariances[-1][np.ix_(CLOCKS, CLOCKS)]
        apart = np.eye(COUNT) - 1.0 / COUNT
        errors = apart @ (clocks - run.clock_offset_s)
        stddev = np.sqrt(np.diag(apart @ spread @ apart.T))
        assert (stddev < 0.15 * prior).all()
        assert (np.abs(errors) < 3.5 * stddev + 1e-4).all()  # they drift by 20 ppm
        common = np.full(COUNT, 1.0 / COUNT)
        assert np.sqrt(common @ spread @ common) == pytest.approx(prior / np.sqrt(COUNT), rel=0.01)
        assert abs(clocks.mean()) < 0.05 * prior


def test_an_imu_that_is_silent_for_some_seconds(runs: list[Run]) -> None:
    """The chain goes on without it, says so once, grows unsure of its link, and takes it up again."""
    run, (gone_s, back_s) = runs[1], (4.0, 6.0)
    estimator = RobustEstimator(CONFIGURATION)
    space = estimator.space
    mean = space.origin()
    mean[space.coordinates("headings")] = run.headings(np.zeros(1))[0]
    mean[space.coordinates("masses")] = CONFIGURATION.chain.masses
    mean[space.coordinates("inertias")] = CONFIGURATION.chain.inertias
    state = estimator.start(Estimate(0, mean, ROBOT.initial_covariance(CONFIGURATION)))
    estimates, said = [], []
    for message in run.messages():
        now_s = 1e-9 * message.stamp_ns
        if message.sensor == "imu/link_2" and gone_s < now_s < back_s:
            continue
        step = estimator.step(state, message)
        state = step.state
        said += [event.sentence for event in step.events if isinstance(event, Notice)]
        if step.estimate is not None:
            estimates.append(step.estimate)
    time_s = np.array([1e-9 * one.stamp_ns for one in estimates])
    place, at = space.tangent("headings"), space.coordinates("headings")
    stddev = np.array([np.sqrt(np.diag(one.covariance[place, place])) for one in estimates])
    error = np.array([one.mean[at] for one in estimates]) - run.headings(time_s)
    error = (error + np.pi) % (2.0 * np.pi) - np.pi
    assert [sentence for sentence in said if "link_2 is silent" in sentence] == said
    assert len(said) == 1
    assert np.diff(time_s).max() < 0.25  # at most the time that it was waited for
    before, silent, after = (
        (time_s < gone_s) & (time_s > 2.0),
        (time_s > gone_s + 0.3) & (time_s < back_s),
        time_s > 7.2,
    )
    assert stddev[silent, 1][-1] > 3.0 * stddev[before, 1].max()
    assert stddev[after, 1].max() < 0.7 * stddev[silent, 1][-1]
    assert np.mean(np.abs(error[silent]) < 3.0 * stddev[silent]) > 0.95
    assert np.mean(np.abs(error[after]) < 3.0 * stddev[after] + np.deg2rad(0.1)) > 0.95
