"""From a recording to a judged result: what is matched, aligned, started, left out, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, LINKS, salp_recording
from numpy.typing import NDArray
from salp_noise import IDEAL_NOISE
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Estimate, Measurement
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import Robot, TruthSpecification
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.state_space import StateSpace, se2, so3, vector
from onboard_estimation.judging import what_if
from onboard_estimation.judging.judge import judge, pipeline_notes
from onboard_estimation.judging.options import JudgeSettings, WhatIf
from onboard_estimation.judging.replay import EstimateSeries, Record
from onboard_estimation.pipeline.estimator import Estimator, Step
from salp_estimation.robot import ROBOT as SALP

Rows = NDArray[np.float64]
SECOND = 1_000_000_000


@cache
def whole() -> LoadedRecording:
    return from_simulator(salp_recording(10.0), LINKS)


def judged(recording: LoadedRecording | None = None, **settings: Any) -> EvaluationResult:
    return judge(SALP, IDEAL_NOISE, "ukf", recording or whole(), JudgeSettings(**settings))


def with_truth_where(seen: Callable[[Rows], NDArray[np.bool_]]) -> LoadedRecording:
    """Of the seconds that are asked for."""
    tracks = {
        body: replace(track, stamps_ns=track.stamps_ns[keep], values=track.values[keep])
        for body, track in whole().tracks.items()
        for keep in [seen(track.stamps_ns / SECOND)]
    }
    return replace(whole(), tracks=tracks)


def with_truth_between(start_s: float, end_s: float) -> LoadedRecording:
    return with_truth_where(lambda time_s: (time_s >= start_s) & (time_s <= end_s))


def note(result: EvaluationResult, start: str) -> str:
    found = [one for one in result.notes if one.startswith(start)]
    assert len(found) == 1, result.notes
    return found[0]


def test_everything_matched() -> None:
    result = judged()
    assert result.matched_ratio == 1.0
    assert "at 100 % of the estimates (gaps up to 0.1 s)" in note(result, "Truth matched")
    assert result.source == "simulated"
    assert result.time_s[0] == 0.0
    assert len(result.time_s) == 201  # one estimate an instant, though three gyros share it
    assert result.metrics["joint_angles"]["rmse_deg"] < 0.3
    one, two, other = judged(seed=3), judged(seed=3), judged(seed=4)
    np.testing.assert_array_equal(one.mean, two.mean)
    assert one.metrics == two.metrics
    assert not np.array_equal(one.mean, other.mean)


def test_a_beacon_does_not_hide_that_the_truth_is_left_handed() -> None:
    with pytest.raises(UserError, match="the ground truth is left-handed"):
        judged(whole().mirrored("y"), beacon_s=1.0)


def test_errors_nees_and_bounds_are_those_of_the_definition() -> None:
    """Body-frame error, covariance of the filter plus that of the truth."""
    result = judged()
    noise = SALP.truth_specification(CONFIGURATION).covariances
    pose, joints = result.parts["pose"], result.parts["joint_angles"]
    for k in (0, 50, 200):
        covariance = result.covariance[k][3:, 3:] + noise["joint_angles"]
        error = joints.estimate[k] - joints.truth[k]
        np.testing.assert_allclose(joints.error[k], error, atol=1e-12)
        np.testing.assert_allclose(joints.stddev[k], np.sqrt(np.diag(covariance)))
        assert joints.nees[k] == pytest.approx(error @ np.linalg.inv(covariance) @ error, rel=1e-9)
        covariance = result.covariance[k][:3, :3] + noise["pose"]
        # The truth seen from the estimate is exp(-error).
        seen = np.linalg.inv(matrix(pose.estimate[k])) @ matrix(pose.truth[k])
        np.testing.assert_allclose(matrix_of_twist(-pose.error[k]), seen, atol=1e-9)
        assert pose.nees[k] == pytest.approx(pose.error[k] @ np.linalg.inv(covariance) @ pose.error[k], rel=1e-9)


def matrix(pose: Rows) -> Rows:
    x, y, h = pose
    return np.array([[np.cos(h), -np.sin(h), x], [np.sin(h), np.cos(h), y], [0.0, 0.0, 1.0]])


def matrix_of_twist(twist: Rows) -> Rows:
    from scipy.linalg import expm

    x, y, h = twist
    out: Rows = expm(np.array([[0.0, -h, x], [h, 0.0, y], [0.0, 0.0, 0.0]]))
    return out


def test_the_initial_error_is_drawn_from_the_initial_covariance() -> None:
    """Over seeds, the first error has the covariance that the filter starts with; with `exact` there is none."""
    short = from_simulator(salp_recording(0.1), LINKS)
    first = []
    for seed in range(150):
        result = judged(short, seed=seed)
        first.append(np.concatenate([result.parts["pose"].error[0], result.parts["joint_angles"].error[0]]))
    # The first gyro readings tell nothing of the heading and the position.
    stddev = np.std(first, axis=0)
    np.testing.assert_allclose(stddev[:3], [0.01, 0.01, np.deg2rad(5.0)], rtol=0.2)
    assert np.abs(np.mean(first, axis=0)[:3] / stddev[:3]).max() < 4.0 / np.sqrt(150)
    exact = judged(short, initial="exact")
    assert np.abs(exact.parts["pose"].error[0]).max() < 1e-3
    assert note(exact, "Initial state") == "Initial state from the ground truth, without an error."
    assert "(seed 4)" in note(judged(short, seed=4), "Initial state")


def test_without_truth() -> None:
    result = judged(replace(whole(), tracks={}))
    assert result.matched_ratio == 0.0
    assert set(result.metrics) == {"run"}
    assert result.verdict.startswith("not judged")
    assert "Without ground truth the filter started from its configured initial state." in result.notes
    one_too_few = {body: track for body, track in whole().tracks.items() if body != "link_2"}
    assert judged(replace(whole(), tracks=one_too_few)).matched_ratio == 0.0
    moved = {body: replace(track, stamps_ns=track.stamps_ns - 100 * SECOND) for body, track in whole().tracks.items()}
    of_another_clock = judged(replace(whole(), tracks=moved))
    assert of_another_clock.matched_ratio == 0.0
    assert "link_1, link_2, link_3 runs from -100.0 to -90.0 s" in " ".join(of_another_clock.notes)
    # What the filter says of itself is there.
    assert set(result.parts) == {"pose", "joint_angles"}
    for part in result.parts.values():
        assert not part.matched.any()
        assert np.isnan(part.truth).all()
        assert np.isfinite(part.stddev).all()
    assert result.drawing is not None
    assert np.isfinite(result.drawing.estimate).all()
    assert np.isnan(result.drawing.truth).all()


def test_truth_that_ends_early() -> None:
    result = judged(with_truth_between(0.0, 8.0))
    assert result.matched_ratio == pytest.approx(161 / 201)
    assert "at 80.1 % of the estimates" in note(result, "Truth matched")
    assert "(truth covers 80.1 % of the run)" in result.verdict
    joints = result.parts["joint_angles"]
    assert joints.matched.tolist() == (result.time_s <= 8.0).tolist()
    settled = joints.matched & (result.time_s >= 6.0)
    rmse = np.rad2deg(np.sqrt(np.mean(joints.error[settled] ** 2)))
    assert result.metrics["joint_angles"]["rmse_deg"] == pytest.approx(rmse)


def test_what_is_shorter_than_the_settling_time_is_judged_all_the_same() -> None:
    result = judged(with_truth_between(0.0, 4.0))
    said = note(result, "The ground truth ends")
    assert said.startswith("The ground truth ends after 4.0 s and the filter settles for 6 s: too short")
    assert result.metrics["run"]["left_out_at_start_s"] == 0.0
    assert "rmse_deg" in result.metrics["joint_angles"]
    assert "run from 0 to 10.0 s; the truth of link_1, link_2, link_3 runs from 0.0 to 4.0 s" in " ".join(result.notes)
    short = judged(from_simulator(salp_recording(3.0), LINKS))
    assert note(short, "The run ends").startswith("The run ends after 3.0 s and the filter settles for 6 s")
    barely = judged(from_simulator(salp_recording(6.2), LINKS))  # 0.2 s would be judged in the place of the run
    assert barely.metrics["run"]["left_out_at_start_s"] == 0.0
    few = judged(from_simulator(salp_recording(0.5), LINKS))
    assert few.verdict.startswith("too short to judge consistency (11 estimates)")


def test_truth_that_starts_late() -> None:
    result = judged(with_truth_between(3.0, 10.0))
    assert result.time_s[-1] == pytest.approx(7.0)
    said = note(result, "Initial state")
    assert said.endswith("The truth starts after 3.0 s: 240 messages before it are left out.")


def test_no_estimate_is_an_error_with_the_counts() -> None:
    """Whose times show sensors on another clock."""
    for change, said in (
        (WhatIf(drop=("imu",)), r"salp gave no estimate .*: actuators/command 201 messages from 0\.0 to 10\.0 s"),
        (WhatIf(delay_s={"imu": 30.0}), r"imu/link_1 201 messages from 30\.0 to 40\.0 s"),
    ):
        with pytest.raises(UserError, match=said):
            judged(what_if.changed(whole(), change))


def test_of_several_estimates_of_an_instant_the_last_counts() -> None:
    told = [(1, 1.0), (1, 2.0), (2, 3.0), (3, 4.0), (3, 5.0)]
    record = EstimateSeries.of([Estimate(stamp, np.array([value]), np.eye(1)) for stamp, value in told])
    assert record.stamps_ns.tolist() == [1, 2, 3]
    assert record.means[:, 0].tolist() == [2.0, 3.0, 5.0]
    assert len(EstimateSeries.of([]).stamps_ns) == 0


def test_of_large_states_as_many_estimates_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evenly, with the first and the last; of small ones all."""
    monkeypatch.setattr("onboard_estimation.judging.replay.MOST_BYTES", 10 * 65**2 * 8)
    for size, count in ((65, 10), (65, 11), (65, 47), (65, 123), (64, 123)):
        told, record = [Estimate(k, np.zeros(size), np.eye(size)) for k in range(count)], Record()
        for k in range(0, count, 7):
            record.extend(told[k : k + 7])
        *kept, last = EstimateSeries.of(record).stamps_ns.tolist()
        assert last == count - 1
        assert kept == list(range(0, count - 1, record.every))
        assert (len(kept) == count - 1) == (record.every == 1) == (size == 64 or count <= 10)
        assert len(kept) <= 10 or size == 64
    assert EstimateSeries.of(Record(told[:0])).thinned == EstimateSeries.of(told).thinned == ""


# A robot that gives back what it is told, so that alignment and drawing are seen alone.


@dataclass(frozen=True)
class Nothing:
    """No parameters."""


class Echo(Estimator[None]):
    def __init__(self, space: StateSpace, covariance: Rows) -> None:
        self.space = space
        self._covariance = covariance

    def start(self, initial: Estimate | None) -> None:
        return None

    def step(self, state: None, measurement: Measurement) -> Step:
        return Step(None, Estimate(measurement.stamp_ns, measurement.value, self._covariance))


class EchoRobot(Robot):
    name = "echo"
    summary = "gives back what it is told"
    configuration_type = Nothing

    def __init__(self, space: StateSpace, covariance: Rows, truth: str, alignment: Literal["none", "heading"]) -> None:
        self.space, self.covariance, self.truth, self.alignment = space, covariance, truth, alignment

    def channels(self, configuration: Nothing) -> tuple[Channel, ...]:
        return (Channel("told", "sensor_msgs/msg/JointState", "told"),)

    def estimator(self, configuration: Nothing, name: str) -> Echo:
        return Echo(self.space, self.covariance)

    def truth_specification(self, configuration: Nothing) -> TruthSpecification:
        return TruthSpecification(("body",), self.alignment)

    def true_parts(self, configuration: Nothing, bodies: Mapping[str, Rows]) -> dict[str, Rows]:
        poses = bodies["body"]
        assert np.isfinite(poses).all()  # a robot need not know of instants without truth
        if self.truth == "pose":
            heading = Rotation.from_quat(poses[:, 3:]).as_euler("ZYX")[:, 0]
            return {"pose": np.column_stack([poses[:, :2], heading])}
        return {self.truth: poses[:, : self.space.block(self.truth).dimension]}


TIMES = np.arange(0.0, 20.0, 0.1)


def curve(dimensions: int = 3) -> Rows:
    heading = 0.2 * TIMES
    path = 0.1 * np.cumsum(np.column_stack([np.cos(heading), np.sin(heading), 0.2 * np.sin(TIMES)]), axis=0)
    return path[:, :dimensions]


def echo(
    space: StateSpace, told: Rows, positions: Rows, alignment: Literal["none", "heading"], truth: str, covariance: Rows
) -> EvaluationResult:
    stamps = np.round(TIMES * SECOND).astype(np.int64) + 5 * SECOND
    poses = np.zeros((len(TIMES), 7))
    poses[:, : positions.shape[1]] = positions
    poses[:, 3:] = Rotation.from_rotvec(np.outer(0.2 * TIMES, [0.0, 0.0, 1.0])).as_quat()
    robot = EchoRobot(space, covariance, truth, alignment)
    (channel,), tracks = robot.channels(Nothing()), {"body": BodyTrack("body", stamps, poses)}
    recording = LoadedRecording((Series(channel, stamps, told),), np.zeros_like(stamps), tracks, simulated=False)
    return judge(robot, Nothing(), "default", recording)


def test_alignment_turns_positions_velocities_attitudes_and_their_covariances() -> None:
    space = StateSpace(
        vector("position", ("x", "y", "z"), "m"), vector("velocity", ("x", "y", "z"), "m/s"), so3("attitude")
    )
    rng = np.random.default_rng(1)
    root = rng.normal(size=(9, 9))
    covariance = root @ root.T
    truth = curve()
    turn = Rotation.from_rotvec([0.0, 0.0, 2.3])
    velocity = np.gradient(truth, 0.1, axis=0)
    attitude = Rotation.from_rotvec(np.outer(0.2 * TIMES, [0.0, 0.1, 1.0]))
    back = turn.inv()
    told = np.hstack([back.apply(truth) + np.array([4.0, 5.0, 6.0]), back.apply(velocity), (back * attitude).as_quat()])
    result = echo(space, told, truth, "heading", "position", covariance)
    assert result.source == "recorded"
    np.testing.assert_allclose(result.mean[:, :3], truth, atol=1e-9)
    np.testing.assert_allclose(result.mean[:, 3:6], velocity, atol=1e-9)
    found = Rotation.from_quat(result.mean[:, 6:])
    assert (found.inv() * attitude).magnitude().max() < 1e-9
    turned = np.eye(9)
    turned[:3, :3] = turned[3:6, 3:6] = turn.as_matrix()  # the attitude's error is the body's
    np.testing.assert_allclose(result.covariance[7], turned @ covariance @ turned.T, atol=1e-9)
    assert result.metrics["position"]["position_ate_rmse_m"] < 1e-9
    assert "Estimate turned by 131.78 deg about the vertical" in note(result, "Estimate turned")


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_singular_covariance_has_no_nees_and_that_is_said() -> None:
    """Exactly singular, and singular by rounding: neither may take the other instants along, nor end in an error."""
    space = StateSpace(vector("position", ("x", "y"), "m"))
    told = curve(2) + 0.1
    sound = echo(space, told, curve(2), "none", "position", np.diag([0.04, 1e-12]))
    np.testing.assert_allclose(sound.parts["position"].nees, 0.01 / 0.04 + 0.01 / 1e-12, rtol=1e-6)
    for covariance in (np.diag([0.04, 0.0]), np.array([[1e18, 1e9], [1e9, 1.0]]), np.zeros((2, 2))):
        result = echo(space, told, curve(2), "none", "position", covariance)
        assert np.isnan(result.parts["position"].nees).all()
        assert "NEES of position: left out at 200 of 200 instants, covariance singular." in result.notes
        assert result.metrics["position"]["position_ate_rmse_m"] == pytest.approx(0.1 * np.sqrt(2.0))


def test_alignment_of_a_planar_pose() -> None:
    space = StateSpace(se2("pose"))
    covariance = np.diag([1e-4, 4e-4, 1e-3])
    turned = Rotation.from_rotvec([0.0, 0.0, -3.0]).apply(curve())
    told = np.column_stack([turned[:, :2] + 1.0, 0.2 * TIMES - 3.0])
    result = echo(space, told, curve(2), "heading", "pose", covariance)
    pose = result.parts["pose"]
    assert np.abs(pose.error).max() < 1e-9
    assert np.abs(pose.estimate[:, 2]).max() <= np.pi
    np.testing.assert_allclose(result.covariance[3], covariance)  # it is the body's


def test_the_drawn_ellipse_is_the_covariance_along_the_worlds_axes() -> None:
    """Sampled: poses x exp(d) with d from the covariance scatter as the ellipse says."""
    space = StateSpace(se2("pose"))
    covariance = np.diag([0.01**2, 0.05**2, 1e-9])
    told = np.column_stack([curve(2), np.full(len(TIMES), 0.7)])
    result = echo(space, told, curve(2), "none", "pose", covariance)
    assert result.drawing is not None
    rng = np.random.default_rng(2)
    samples = space.plus(told[5], rng.multivariate_normal(np.zeros(3), covariance, 40_000))
    np.testing.assert_allclose(result.drawing.ellipse[5], np.cov(samples[:, :2].T), atol=4e-5)
    np.testing.assert_array_equal(result.drawing.centre, told[:, :2])


def test_a_sentence_that_begins_with_a_sensor_leaves_its_name_as_it_is() -> None:
    told = ["imu/link_3 repeats one reading", "the heading is lost"]
    assert pipeline_notes(told, {"imu/link_3": {}}) == ["imu/link_3 repeats one reading.", "The heading is lost."]


def test_a_hop_is_drawn_from_the_side_and_a_height_not_at_all() -> None:
    space = StateSpace(vector("position", ("x", "y", "z"), "m"))
    hop = np.column_stack([0.01 * TIMES, np.zeros(len(TIMES)), np.abs(np.sin(TIMES))])
    result = echo(space, hop, hop, "none", "position", np.diag([1.0, 2.0, 3.0]))
    assert result.drawing is not None
    assert result.drawing.axes == ("x (m)", "z (m)")
    np.testing.assert_array_equal(result.drawing.ellipse[0], np.diag([1.0, 3.0]))
    height = StateSpace(vector("height", ("z",), "m"))
    assert echo(height, curve()[:, 2:], curve(), "none", "height", np.eye(1)).drawing is None
