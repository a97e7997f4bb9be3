"""The estimator `robust` is better than gyros on recordings of robots of unknown build, and never sure and wrong.

Nothing is trained and nothing was set by a single run: each is of a robot left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.thruster_chain.unknown import laboratory
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.simulated_bags import simulated_recording
from thruster_chain_estimation.estimators.robust_estimator import RobustEstimator
from thruster_chain_estimation.model import parameter_layout
from thruster_chain_estimation.robot import ROBOT
from thruster_chain_estimation.simulation import simulator
from thruster_chain_estimation.simulation.unknown_chain import read_unknown_chain


def judged(data: Path, run: str, estimator: str) -> EvaluationResult:
    """Skipped where there are no recordings."""
    folder = data / "unknown_thruster_chain" / run
    if not folder.is_dir():
        pytest.skip(f"no unknown_thruster_chain in {data}")
    content = read_unknown_chain(folder)
    configuration = content.configurations["thruster_chain"]
    specification = ROBOT.truth_specification(configuration)
    recording = from_simulator(content.recording, specification.bodies, specification.held)
    return judge(ROBOT, configuration, estimator, recording)


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


@pytest.mark.parametrize("silent", ["imu/link_2", "all"])
def test_what_was_not_heard_is_not_claimed(silent: str) -> None:
    """Six seconds without one IMU, and without any: what is told from then on holds the truth.

    Of one between two others the pins at both its ends tell the heading all the time.
    """
    configuration = laboratory(3)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 14.0, 41)
    heard = tuple(
        one.rows((one.stamps_ns < 4e9) | (one.stamps_ns > 10e9)) if silent in ("all", one.channel.sensor) else one
        for one in recording.series
    )
    arrival = np.repeat(np.arange(len(heard)), [len(one.stamps_ns) for one in heard])
    order = np.argsort(np.concatenate([one.stamps_ns for one in heard]), kind="stable")
    cut = replace(recording, series=heard, arrival=arrival[order])
    result = judge(ROBOT, configuration, "robust", cut)
    for part in ("headings", "masses", "inertias", "position"):
        assert covered(result, part, 4.0) > 0.95, part
    assert sum(row.get("breakdowns", 0) for row in result.sensors.values()) == 0
    middle = np.abs(result.parts["headings"].error[(result.time_s > 4.0) & (result.time_s < 10.0), 1])
    assert silent == "all" or middle.max() < 0.1
    assert sum("link_2 is silent" in note and "(at 4." in note for note in result.notes) == (silent != "all")


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
    across, turned = (
        replace(straight, initial=replace(straight.initial, headings_rad=(np.pi - 0.02, middle, np.pi - 0.01)))
        for middle in (0.02 - np.pi, np.pi + 0.02)
    )
    here, there = (RobustEstimator(one).start(None).navigation.mean for one in (across, turned))
    np.testing.assert_allclose(here, there, rtol=0.0, atol=1e-12)


def test_position_is_as_unsure_as_it_is_wrong() -> None:
    """Dead-reckoned on a table that is not level, in moving air: some robots were sure of what was metres away."""
    configuration = laboratory(2)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 12.0, 302)
    result = judge(ROBOT, configuration, "robust", recording)
    assert covered(result, "position", 0.0) > 0.95
    assert np.nanmax(np.abs(result.parts["position"].error)) < 4.0


def test_fast_turns_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 700 deg/s clocks that drift by 20 ppm, and accelerometers of unlike axes, tell: soon all was refused."""
    mixture = simulator.laboratory_mixture

    def spun_up(count: int, limit_n: float, rest_s: float, *more: Any) -> simulator.Pattern:
        """The mixture, after a second and a half in which all thrusters turn the whole."""
        mixed = mixture(count, limit_n, rest_s + 1.5, *more)
        return lambda time_s: np.where(np.abs(time_s - rest_s - 0.75)[:, None] < 0.75, -limit_n, mixed(time_s))

    monkeypatch.setattr(simulator, "laboratory_mixture", spun_up)
    configuration = laboratory(3)
    recording = simulated_recording(ROBOT, configuration, "hardware", "mixed", 16.0, 4)
    (gyro,) = (one.values[:, 2] for one in recording.series if one.channel.sensor == "imu/link_1")
    assert np.deg2rad(650.0) < np.abs(gyro).max() < configuration.gyro.range_rad_s
    result = judge(ROBOT, configuration, "robust", recording)
    for part in ("headings", "masses", "inertias", "position"):
        assert covered(result, part, 5.0) > 0.95, part
    joints = np.diff(result.parts["headings"].error, axis=1)
    assert np.rad2deg(np.sqrt(np.nanmean(joints**2))) < 0.5
    assert not any("asses changed" in note for note in result.notes)


@pytest.mark.parametrize("run", ["robot_a/run_2", "robot_b/run_3"])
def test_unknown_robots_are_followed_and_weighed(shared_data: Path, run: str) -> None:
    """Angles no worse than those of gyros, never sure and wrong; masses' ratios within 8 % in the median."""
    ours, gyros = (judged(shared_data, run, estimator) for estimator in ("robust", "gyros"))
    assert all(mine < theirs for mine, theirs in zip(rmse_deg(ours), rmse_deg(gyros), strict=True))
    for name, after_s, most in (("headings", 0.0, 0.95), ("masses", 5.0, 0.95), ("inertias", 5.0, 0.95)):
        assert covered(ours, name, after_s) >= most, name
    assert covered(ours, "position", 0.0) > 0.9
    part = ours.parts["masses"]
    assert (part.stddev[-1] < 0.8 * part.stddev[0]).all()  # it has learned
    found, true = (values[part.matched][-1] for values in (part.estimate, part.truth))
    assert np.median(np.abs(found / found.sum() / (true / true.sum()) - 1.0)) < 0.08
