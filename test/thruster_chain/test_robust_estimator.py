"""The estimator `robust` keeps the suite's contract, and is better than gyros on recordings of robots of unknown build.

Nothing is trained and nothing was set by a single run: each is of a robot left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.testing import Check, checks
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator
from thruster_chain_estimation.model import inertial_layout, parameter_layout
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation.unknown_chain import read_unknown_chain

Array = NDArray[np.float64]

RUNS = tuple(f"robot_{robot}/run_{number}" for robot in "ab" for number in (1, 2, 3))
SHORT_S = 15.0


def contract(count: int) -> list[object]:
    """All checks."""
    return [pytest.param(check, id=str(check)) for check in checks(ROBOT, laboratory(count), "robust")]


@pytest.mark.parametrize("check", contract(2))
def test_contract_with_two_links(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", contract(5))
def test_contract_with_five_links(check: Check) -> None:
    check()


@cache
def judged(data: Path, run: str, estimator: str, duration_s: float) -> EvaluationResult:
    """A run's first so many seconds; skipped where there are no recordings."""
    folder = data / "unknown_thruster_chain" / run
    if not folder.is_dir():
        pytest.skip(f"no unknown_thruster_chain in {data}")
    content = read_unknown_chain(folder)
    configuration = content.configurations["thruster_chain"]
    stop_ns = min(int(one.stamps_ns[0]) for one in content.recording.sensors) + round(1e9 * duration_s)
    sensors, truth = (
        tuple(one.rows(one.stamps_ns < stop_ns) for one in series)
        for series in (content.recording.sensors, content.recording.truth)
    )
    specification = ROBOT.truth_specification(configuration)
    return judge(
        ROBOT,
        configuration,
        estimator,
        from_simulator(Recording(sensors, truth), specification.bodies, specification.held),
    )


def rmse_deg(result: EvaluationResult) -> tuple[float, float]:
    """Of headings and of joint angles."""
    error = result.parts["headings"].error
    heading, joint = (float(np.sqrt(np.nanmean(one**2))) for one in (error, np.diff(error)))
    return np.rad2deg(heading), np.rad2deg(joint)


def covered(result: EvaluationResult, part: str, after_s: float) -> float:
    """Share of the errors within three of the deviations that are stated."""
    late = result.time_s > after_s
    sigmas = np.abs(result.parts[part].error[late] / result.parts[part].stddev[late])
    return float(np.mean(sigmas[np.isfinite(sigmas)] < 3.0))


def assert_good(data: Path, run: str, duration_s: float) -> None:
    ours, gyros = (judged(data, run, estimator, duration_s) for estimator in ("robust", "gyros"))
    heading, joint = (mine / theirs for mine, theirs in zip(rmse_deg(ours), rmse_deg(gyros), strict=True))
    assert heading < 1.0
    assert joint < 1.0
    assert covered(ours, "headings", 0.0) > 0.95
    for part in ("masses", "inertias"):
        assert covered(ours, part, 5.0) >= 0.95, part
    assert covered(ours, "position", 0.0) > 0.9
    assert (ours.parts["masses"].stddev[-1] < 0.8 * ours.parts["masses"].stddev[0]).all()  # it has learned


@pytest.mark.parametrize("silent", ["imu/link_2", "all"])
def test_what_was_not_heard_is_not_claimed(silent: str) -> None:
    """Six seconds without one IMU, and without any: what is told from then on holds the truth.

    Of one between two others the pins at both its ends tell the heading all the time.
    """
    configuration = laboratory(3)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 18.0, 41)
    heard = tuple(
        one.rows((one.stamps_ns < 6e9) | (one.stamps_ns > 12e9)) if silent in ("all", one.channel.sensor) else one
        for one in recording.series
    )
    arrival = np.repeat(np.arange(len(heard)), [len(one.stamps_ns) for one in heard])
    order = np.argsort(np.concatenate([one.stamps_ns for one in heard]), kind="stable")
    cut = replace(recording, series=heard, arrival=arrival[order])
    result = judge(ROBOT, configuration, "robust", cut)
    for part in ("headings", "masses", "inertias", "position"):
        assert covered(result, part, 6.0) > 0.95, part
    assert sum(row.get("breakdowns", 0) for row in result.sensors.values()) == 0
    middle = np.abs(result.parts["headings"].error[(result.time_s > 6.0) & (result.time_s < 12.0), 1])
    assert silent == "all" or middle.max() < 0.1


@pytest.mark.parametrize("run", ["robot_a/run_2", "robot_b/run_1"])
def test_unknown_robots_are_followed_and_weighed(shared_data: Path, run: str) -> None:
    """The first seconds of one run of each robot."""
    assert_good(shared_data, run, SHORT_S)


def test_what_is_told_of_a_calibrated_chain_is_a_covariance() -> None:
    """Masses and inertias that are known but for one scale: where the centre of mass is goes with both."""
    estimator = RobustEstimator(laboratory(3))
    state = estimator.start(None)
    scale = np.zeros(len(state.parameters.belief.mean))
    for part in (parameter_layout.LOG_MASS, parameter_layout.LOG_INERTIA):
        scale[parameter_layout.LINK * np.arange(3) + part] = 0.1, 0.12, 0.09
    certain = Moments(state.parameters.belief.mean, np.outer(scale, scale) + 1e-9 * np.eye(len(scale)))
    known = state.parameters._replace(belief=certain, challenger=certain)
    told = estimator.told(state._replace(start_ns=0, parameters=known, pushed=True), 0)
    assert np.linalg.eigvalsh(told.covariance).min() > 0.0
    masses, position = estimator.space.tangent("masses"), estimator.space.tangent("position")
    assert np.abs(told.covariance[masses, position]).max() > 1e-5


def test_a_chain_across_the_turn_of_angles_is_learned_as_any_other() -> None:
    """Headings of 179 and -179 degrees are two apart: with a joint at 358 nothing was learned of masses."""
    straight = laboratory(3)
    across = replace(
        straight, initial=replace(straight.initial, headings_rad=(np.pi - 0.02, 0.02 - np.pi, np.pi - 0.01))
    )
    turned = replace(
        straight, initial=replace(straight.initial, headings_rad=(np.pi - 0.02, np.pi + 0.02, np.pi - 0.01))
    )
    here, there = (RobustEstimator(one).start(None).navigation.mean for one in (across, turned))
    np.testing.assert_allclose(here, there, rtol=0.0, atol=1e-12)


def test_a_turn_of_the_whole_and_a_shift_of_all_clocks_are_told_of() -> None:
    """The way is wrong by a wrong heading of the whole; a delay that thrust knows tells the clocks in common."""
    configuration = laboratory(3)
    estimator = RobustEstimator(configuration)
    started = estimator.start(None)._replace(start_ns=0, pushed=True)
    navigation, known = started.navigation._replace(rates=np.full(3, 4.0)), started.parameters
    headings, chain = estimator.navigation.headings, inertial_layout.chain_part(3)
    turn = np.zeros(len(navigation.mean))
    turn[headings], turn[chain + 2 : chain + 4] = 1.0, (-3.0, 1.0)
    turned = navigation._replace(covariance=navigation.covariance + 0.02**2 * np.outer(turn, turn))
    place, angles = estimator.space.tangent("position"), estimator.space.tangent("headings")
    told = [estimator.told(started._replace(navigation=one), 0).covariance for one in (navigation, turned)]
    gained = told[1][place, place] - told[0][place, place]
    along = np.array([-3.0, 1.0]) / np.sqrt(10.0)
    assert 0.02**2 * 10.0 * 0.5 < along @ gained @ along < 0.02**2 * 10.0 * 1.5
    delay = parameter_layout.chain_part(3) + parameter_layout.DELAY
    surer = known.belief.covariance.copy()
    surer[delay, :] = surer[:, delay] = 0.0
    surer[delay, delay] = 1e-8
    certain = Moments(known.belief.mean, surer)
    sure = known._replace(belief=certain, challenger=certain)
    late = estimator.told(started._replace(navigation=navigation, parameters=sure), 0)
    shared = inertial_layout.clock_stddev_s(configuration) ** 2 / 3
    less = (told[0] - late.covariance)[angles, angles]
    assert 0.2 * shared < less[0, 1] / 16.0 < shared


@pytest.mark.parametrize("seed", range(301, 306))
def test_position_is_as_unsure_as_it_is_wrong(seed: int) -> None:
    """Dead-reckoned on a table that is not level, in moving air: some robots were sure of what was metres away."""
    configuration = laboratory(2 + seed % 2)
    result = judge(
        ROBOT, configuration, "robust", simulated_recording(ROBOT, configuration, "hardware", "mixed", 30.0, seed)
    )
    assert covered(result, "position", 0.0) > 0.95
    assert np.nanmax(np.abs(result.parts["position"].error)) < 4.0


def test_two_minutes_of_fast_turns_are_held() -> None:
    """At 700 deg/s clocks that drift by 20 ppm, and accelerometers of unlike axes, tell: all was refused after 80 s."""
    configuration = laboratory(3)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 120.0, 4)
    result = judge(ROBOT, configuration, "robust", recording)
    for part in ("headings", "masses", "inertias", "position"):
        assert covered(result, part, 5.0) > 0.95, part
    joints = np.diff(result.parts["headings"].error, axis=1)
    assert np.rad2deg(np.sqrt(np.nanmean(joints**2))) < 0.5
    assert not any("asses changed" in note for note in result.notes)


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_every_recorded_run(shared_data: Path, run: str) -> None:
    """Angles no worse than those of gyros, never sure and wrong; masses' ratios within 8 % in the median."""
    assert_good(shared_data, run, 1e3)
    part = judged(shared_data, run, "robust", 1e3).parts["masses"]
    found, true = (values[part.matched][-1] for values in (part.estimate, part.truth))
    assert np.median(np.abs(found / found.sum() / (true / true.sum()) - 1.0)) < 0.08
