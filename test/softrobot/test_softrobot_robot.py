"""The soft robot as a robot of the suite: what the truth tells, how it is drawn, and the open loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from grey_box_recordings import unknown_robot
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from onboard_estimation.pipeline.pipeline import Pipeline
from softrobot_estimation.model.configuration import SPACE, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip, tip_quaternion_xyzw
from softrobot_estimation.model.description import BASE, PIECES, TIP
from softrobot_estimation.model.grey_box import GreyBox, linearised, nominal, undamped_segment
from softrobot_estimation.model.grey_box_kernels import ROW
from softrobot_estimation.robot import ROBOT

CONFIGURATION = SoftRobotConfiguration()
PLATE_M = CONFIGURATION.segment.tip_plate_thickness_m
LENGTH_M = CONFIGURATION.segment.length_m + PLATE_M


def test_gravity_of_a_tilted_base_points_where_the_base_sees_it() -> None:
    """Turned about its own x, a hanging base sees what was along its z part in +y; about y an upright one in +x."""
    tilted = load(SoftRobotConfiguration, {"mounting.tilt_deg": [30.0, 0.0]})
    np.testing.assert_allclose(tilted.gravity_in_base_m_s2, 9.81 * np.array([0.0, 0.5, np.sqrt(0.75)]))
    upright = load(SoftRobotConfiguration, {"mounting.attitude": "upright", "mounting.tilt_deg": [0.0, 30.0]})
    np.testing.assert_allclose(upright.gravity_in_base_m_s2, 9.81 * np.array([0.5, 0.0, -np.sqrt(0.75)]))


def pressures(steps: int, *gauge_pa: float, first: int = 1) -> list[Measurement]:
    """Of all chambers, the same from that step on."""
    return [
        Measurement(8_000_000 * step, f"pressure/chamber_{number}", np.array([101325.0 + one]))
        for step in range(first, steps)
        for number, one in enumerate(gauge_pa, 1)
    ]


def test_an_arc_is_found_from_where_its_tip_is() -> None:
    """Any bending below 170 degrees, straight included; the plate stands off along the tangent."""
    segment, states = undamped_segment(CONFIGURATION), np.zeros((84, 6))
    bending, towards = (one.ravel() for one in np.meshgrid(np.linspace(0.0, 170.0, 12), np.linspace(0.0, 6.0, 7)))
    states[:, :2] = np.radians(bending)[:, None] * np.column_stack([np.cos(towards), np.sin(towards)])
    states[:, 2] = np.linspace(-0.02, 0.03, 84)
    found = coordinates_of_tip(segment, segment.position(states, offset_m=PLATE_M), PLATE_M)
    np.testing.assert_allclose(found, states[:, :3], atol=1e-8)


def test_the_nominal_model_weighs_what_the_robot_weighs_and_is_damped_as_configured() -> None:
    box = GreyBox(nominal(load(SoftRobotConfiguration, {"model.damping_ratio": 0.25})))
    row = box.resting_row()
    np.testing.assert_allclose(row[:3], [0.0, 0.0, (0.01 + 0.5 * 0.146) * 9.81 / 1400.0], atol=1e-9)
    assert box.loads(row[None], np.array([0.15]), np.zeros(3))[0, 2] == pytest.approx(0.156 * 9.81)
    without_gravity = replace(box.segment, gravity_m_s2=(0.0, 0.0, 0.0))
    poles = np.linalg.eigvals(linearised(without_gravity, np.zeros(3)))
    np.testing.assert_allclose(-poles.real / np.abs(poles), 0.25, rtol=1e-3)


def test_the_truth_is_the_tip_as_the_base_sees_it() -> None:
    """A base that hangs turned and tilted, seen with noise: its mean is taken."""
    rng = np.random.default_rng(1)
    hanging = Rotation.from_euler("xyz", [181.0, -0.7, 40.0], degrees=True)
    place, mounted = np.array([0.01, -0.02, 0.13]), np.array([1.0, 2.0, 1.5])
    base, tip = np.zeros((400, 7)), np.zeros((400, 7))
    base[:, :3] = mounted + 1e-4 * rng.normal(size=(400, 3))
    base[:, 3:] = (hanging * Rotation.from_rotvec(np.radians(0.1) * rng.normal(size=(400, 3)))).as_quat()
    tip[:, :3], tip[:, 6] = mounted + hanging.apply(place), 1.0
    found = ROBOT.true_parts(CONFIGURATION, {TIP: tip, BASE: base, "stiffness": np.full((400, 1), 0.2)})
    assert np.abs(found["position"] - place).max() < 3e-5
    np.testing.assert_array_equal(found["stiffness"], 0.2)
    assert "stiffness" not in ROBOT.true_parts(CONFIGURATION, {TIP: tip, BASE: base})
    # How well the base's axes are known is part of the truth's noise.
    noise = ROBOT.truth_specification(CONFIGURATION).covariances["position"]
    turned = np.radians(CONFIGURATION.truth.alignment_stddev_deg) * LENGTH_M
    np.testing.assert_allclose(noise[0, 0] - noise[2, 2], turned**2)


def test_all_bodies_are_on_one_arc_from_base_to_tip() -> None:
    segment, mean = undamped_segment(CONFIGURATION), np.zeros((1, 7))
    state = np.array([[0.48, -0.32, 0.005, 0.0, 0.0, 0.0]])
    mean[:, :3] = segment.position(state, offset_m=PLATE_M)
    poses = ROBOT.body_poses(CONFIGURATION, SPACE, mean)
    assert list(poses) == [BASE, *(f"backbone_{number}" for number in range(1, PIECES + 1)), TIP]
    np.testing.assert_allclose(poses[TIP][:, :3], mean[:, :3], atol=1e-9)
    np.testing.assert_allclose(poses[TIP][:, 3:], tip_quaternion_xyzw(state), atol=1e-9)
    np.testing.assert_allclose(poses["backbone_3"][:, :3], segment.position(state, 2.5 / PIECES), atol=1e-9)
    # A body's z is the backbone's tangent.
    ahead, behind = segment.position(state, 2.501 / PIECES), segment.position(state, 2.499 / PIECES)
    tangent = (ahead - behind) / np.linalg.norm(ahead - behind)
    np.testing.assert_allclose(Rotation.from_quat(poses["backbone_3"][0, 3:]).as_matrix()[:, 2], tangent[0], atol=1e-6)
    seen = ROBOT.outline(CONFIGURATION, SPACE, mean)[0]
    np.testing.assert_allclose(seen[[0, -1]], [[0.0, 0.0], mean[0, :2]], atol=1e-9)
    links = [link.get("name") for link in ElementTree.fromstring(ROBOT.urdf(CONFIGURATION)).iter("link")]
    assert links == list(ROBOT.body_shapes(CONFIGURATION)) == list(poses)


def test_a_robot_of_another_build_is_refused() -> None:
    topics = [f"pressure/chamber_{number}" for number in range(1, 5)]
    with pytest.raises(UserError, match=r"pressures of 4 chambers \(chamber_1, .*, and the configuration 3 \("):
        ROBOT.refuse_topics(CONFIGURATION, topics)
    ROBOT.refuse_topics(CONFIGURATION, [*topics[:3], "pressure/chamber_1/command", "wrench"])


def pipeline(initial: Estimate | None = None) -> Pipeline:
    return Pipeline(ROBOT.estimator(CONFIGURATION, "open_loop"), ROBOT.channels(CONFIGURATION), initial)


def test_the_open_loop_comes_to_rest_where_the_pressures_hold_the_segment() -> None:
    """Whatever start it was given, which is damped away."""
    initial = Estimate(0, np.array([0.02, 0.0, LENGTH_M - 0.002, 0.0, 0.0, 0.0, 0.15]), np.diag([1e-6] * 6 + [1e-4]))
    record = pipeline(initial).run(pressures(600, 20e3, 10e3, 0.0))
    np.testing.assert_allclose(record[0].mean[:3], initial.mean[:3], atol=1e-3)
    box, row = GreyBox(nominal(CONFIGURATION)), np.zeros((1, ROW))
    row[:, :3] = coordinates_of_tip(box.segment, record[-1].mean[None, :3], PLATE_M)
    moved = box.propagate(row, np.array([0.15]), np.array([20e3, 10e3, 0.0]), 1e-3)
    assert np.abs(moved[0, 3:6] / 1e-3 * [LENGTH_M, LENGTH_M, 1.0]).max() < 1e-2
    assert np.abs(record[-1].mean[3:6]).max() < 1e-5
    assert record[-1].mean[1] < -0.005, "away from the chamber at 90 degrees"


def test_a_silent_chamber_is_said_once_and_makes_the_tip_unsure() -> None:
    measured = pressures(400, 5e3, 5e3, 5e3)
    heard = [one for one in measured if one.sensor != "pressure/chamber_2" or one.stamp_ns < 1_000_000_000]
    whole, deaf = pipeline(), pipeline()
    sure, unsure = whole.run(measured)[-1], deaf.run(heard)[-1]
    assert unsure.covariance[0, 0] > 4.0 * sure.covariance[0, 0]
    (said,) = [sentence for sentence in deaf.messages if "chamber_2" in sentence]
    assert "no pressure of chamber_2 for 0.5 s" in said
    assert not whole.messages


@pytest.mark.data
def test_the_wrench_tells_how_late_motion_capture_is_and_the_open_loop_is_honest(shared_data: Path) -> None:
    """Stamped 5 ms later still, it is found to be 5 ms later; what is judged does not move by it.

    On a robot whose simulator nobody here wrote, with the laboratory's numbers, nothing fitted, the open loop errs by
    a centimetre, and says so.
    """
    configuration, recording = unknown_robot(shared_data, 1, 20.0)
    late_s, sentence = ROBOT.truth_lateness(configuration, recording.series, recording.tracks)
    later = {body: replace(one, stamps_ns=one.stamps_ns + 5_000_000) for body, one in recording.tracks.items()}
    still_s, _ = ROBOT.truth_lateness(configuration, recording.series, later)
    assert 0.0015 < late_s < 0.0035
    assert "ms behind the wrench" in sentence
    assert still_s - late_s == pytest.approx(0.005, abs=2e-4)
    in_time = {body: replace(one, stamps_ns=one.stamps_ns - round(1e9 * late_s)) for body, one in later.items()}
    ahead = {body: replace(one, stamps_ns=one.stamps_ns - 10_000_000) for body, one in in_time.items()}
    assert "5.0 ms ahead of the wrench" in ROBOT.truth_lateness(configuration, recording.series, ahead)[1]
    in_time = {body: replace(one, stamps_ns=one.stamps_ns - 5_000_000) for body, one in in_time.items()}
    assert ROBOT.truth_lateness(configuration, recording.series, in_time) == (0.0, "")
    first, second = (
        judge(ROBOT, configuration, "open_loop", one, JudgeSettings())
        for one in (recording, replace(recording, tracks=later))
    )
    position, velocity = first.metrics["position"], first.metrics["velocity"]
    assert position["position_ate_rmse_m"] < 0.0125
    assert position["position_ate_rmse_m"] == pytest.approx(second.metrics["position"]["position_ate_rmse_m"], rel=0.01)
    assert position["coverage_3_sigma"] > 0.95
    assert velocity["coverage_3_sigma"] > 0.93
    assert sentence in first.notes


def test_without_a_vibration_nobody_knows_how_late_it_is() -> None:
    resting = ROBOT.simulate(CONFIGURATION, "laboratory", "", 1.5, np.random.default_rng(1))
    recording = from_simulator(resting, (TIP, BASE))
    assert ROBOT.truth_lateness(CONFIGURATION, recording.series, recording.tracks) == (0.0, "")
