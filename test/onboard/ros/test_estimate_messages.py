"""Estimates as messages: what is published is what the filter says, with covariances as the messages define them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evaluation_samples import CONFIGURATION, LINKS, salp_recording
from numpy.typing import NDArray
from rosbags.highlevel import AnyReader
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.filtering.state_space import StateSpace, angles, se2, so3, vector
from onboard_estimation.judging.judge import judge
from onboard_estimation.report.run_folder import write_estimates
from onboard_estimation.ros.estimates import CONSTRAINED_VARIANCE, UNKNOWN_VARIANCE, EstimateMessages, EstimateReader
from onboard_estimation.ros.measurements import MessageFault
from onboard_estimation.ros.transforms import estimate_transforms
from salp_estimation.robot import ROBOT as SALP

Rows = NDArray[np.float64]
STAMP_NS = 1_700_000_000_123_456_789
SAMPLES = 100_000


def published(space: StateSpace, mean: Rows, covariance: Rows, **options: Any) -> dict[str, Any]:
    outputs = list(EstimateMessages(space, new, **options)(Estimate(STAMP_NS, mean, covariance)))
    assert len({output.topic for output in outputs}) == len(outputs)
    for output in outputs:
        stamp = output.message.header.stamp
        assert stamp.sec * 1_000_000_000 + stamp.nanosec == STAMP_NS
        assert output.message.__msgtype__ == output.message_type
    return {output.topic: output.message for output in outputs}


def covariance_of(rng: np.random.Generator, dimension: int, size: float) -> Rows:
    root = rng.normal(size=(dimension, dimension))
    return size**2 * (root @ root.T + np.eye(dimension)) / dimension


def xyz(message: Any) -> Rows:
    return np.array([message.x, message.y, message.z])


def quaternion(message: Any) -> Rows:
    return np.array([message.x, message.y, message.z, message.w])


def fixed_axis_errors(poses: tuple[Rows, Rotation], true: tuple[Rows, Rotation]) -> Rows:
    """Errors (K, 6) as Odometry's covariance means them: position and rotation vector along the fixed axes."""
    return np.hstack([poses[0] - true[0], (poses[1] * true[1].inv()).as_rotvec()])


def test_a_planar_poses_covariance_lies_along_the_fixed_axes() -> None:
    """Sampled: poses x exp(d), d drawn from the filter's covariance, scatter as the message says."""
    rng, heading = np.random.default_rng(1), -2.5
    space = StateSpace(se2("pose"))
    mean, covariance = np.array([2.0, -1.0, heading]), covariance_of(rng, 3, 0.02)
    odometry = published(space, mean, covariance)["odometry"]
    drawn = space.plus(mean, rng.multivariate_normal(np.zeros(3), covariance, SAMPLES))
    scatter = np.cov((drawn - mean).T)
    stated = odometry.pose.covariance.reshape(6, 6)
    np.testing.assert_allclose(stated[np.ix_([0, 1, 5], [0, 1, 5])], scatter, atol=0.02 * np.abs(scatter).max())
    # z, roll and pitch cannot move, and go with nothing.
    np.testing.assert_array_equal(stated[2:5], np.diag([0.0, 0.0, *[CONSTRAINED_VARIANCE] * 3, 0.0])[2:5])
    np.testing.assert_allclose(xyz(odometry.pose.pose.position), [2.0, -1.0, 0.0])
    turn = Rotation.from_quat(quaternion(odometry.pose.pose.orientation))
    np.testing.assert_allclose(turn.as_rotvec(), [0.0, 0.0, heading], atol=1e-12)
    assert (odometry.header.frame_id, odometry.child_frame_id) == ("odom", "base_link")
    np.testing.assert_array_equal(odometry.twist.covariance.reshape(6, 6), UNKNOWN_VARIANCE * np.eye(6))


def test_a_bodys_covariances_are_turned_into_their_frames() -> None:
    rng = np.random.default_rng(2)
    space = StateSpace(
        vector("position", ("x", "y", "z"), "m"), vector("velocity", ("x", "y", "z"), "m/s"), so3("attitude")
    )
    attitude = Rotation.from_rotvec([0.5, -1.2, 2.0])
    velocity = np.array([1.0, 2.0, -0.5])
    mean = np.concatenate([[1.0, 2.0, 3.0], velocity, attitude.as_quat()])
    covariance = covariance_of(rng, 9, 0.01)
    odometry = published(space, mean, covariance, frame_id="map", child_frame_id="imu")["odometry"]
    assert (odometry.header.frame_id, odometry.child_frame_id) == ("map", "imu")
    drawn = space.plus(mean, rng.multivariate_normal(np.zeros(9), covariance, SAMPLES))
    poses = drawn[:, :3], Rotation.from_quat(drawn[:, 6:])
    scatter = np.cov(fixed_axis_errors(poses, (mean[:3], attitude)).T)
    stated = odometry.pose.covariance.reshape(6, 6)
    np.testing.assert_allclose(stated, scatter, atol=0.02 * np.abs(scatter).max())
    assert np.abs(stated[:3, 3:]).max() > 0.05 * stated.max()  # it is not only blocks on the diagonal
    # Twist in the child frame.
    to_body = attitude.inv()
    np.testing.assert_allclose(xyz(odometry.twist.twist.linear), to_body.apply(velocity), atol=1e-12)
    scatter = np.cov(to_body.apply(drawn[:, 3:6]).T)
    twist = odometry.twist.covariance.reshape(6, 6)
    np.testing.assert_allclose(twist[:3, :3], scatter, atol=0.02 * np.abs(scatter).max())
    np.testing.assert_array_equal(twist[3:, 3:], UNKNOWN_VARIANCE * np.eye(3))


def rebuilt(message: Any, names: tuple[str, ...]) -> Rows:
    """Covariance from its upper triangle, found by the names alone."""
    entries = dict(zip(message.name, message.position, strict=True))
    out = np.full((len(names), len(names)), np.nan)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            key = f"{a}:{b}"
            out[i, j] = entries[key] if key in entries else entries[f"{b}:{a}"]
    return out


def test_a_height_and_its_velocity_go_along_z_and_all_else_is_unknown() -> None:
    space = StateSpace(
        vector("accelerometer_bias", ("b",), "m/s^2"),
        vector("vertical_velocity", ("vz",), "m/s"),
        vector("height", ("z",), "m"),
    )
    rng = np.random.default_rng(5)
    means, covariances = rng.normal(size=(4, 3)), np.array([covariance_of(rng, 3, 0.05) for _ in range(4)])
    for mean, covariance in zip(means, covariances, strict=True):
        _, vz, z = mean
        odometry = published(space, mean, covariance, frame_id="hopper/odom", child_frame_id="hopper/base_link")[
            "odometry"
        ]
        np.testing.assert_array_equal(xyz(odometry.pose.pose.position), [0.0, 0.0, z])
        np.testing.assert_array_equal(quaternion(odometry.pose.pose.orientation), [0.0, 0.0, 0.0, 1.0])
        np.testing.assert_array_equal(xyz(odometry.twist.twist.linear), [0.0, 0.0, vz])
        np.testing.assert_array_equal(xyz(odometry.twist.twist.angular), np.zeros(3))
        for stated, variance in ((odometry.pose, covariance[2, 2]), (odometry.twist, covariance[1, 1])):
            wanted = UNKNOWN_VARIANCE * np.eye(6)
            wanted[2, 2] = variance
            np.testing.assert_array_equal(np.asarray(stated.covariance).reshape(6, 6), wanted)
        base = estimate_transforms(space, mean, np.zeros(3), {}, "hopper/")["hopper/odom", "hopper/base_link"]
        np.testing.assert_array_equal(base, [0.0, 0.0, z, 0.0, 0.0, 0.0, 1.0])
    # All at once, as the estimates of a whole run are written.
    numbers = EstimateMessages(space, new).numbers
    (batch,) = numbers(means, covariances, {"odometry"})
    for index in range(4):
        (alone,) = numbers(means[index : index + 1], covariances[index : index + 1], {"odometry"})
        np.testing.assert_array_equal(batch.values[index], alone.values[0])


def test_the_bag_of_a_judged_run_reads_back_to_the_same_numbers_and_nees(tmp_path: Path) -> None:
    """By `rosbags`; the NEES as a stranger computes it from the estimates' bag and the truth, with none of our code."""
    result = judge(SALP, CONFIGURATION, "ukf", from_simulator(salp_recording(6.0), LINKS))
    space = SALP.estimator(CONFIGURATION, "ukf").space
    write_estimates(result, space, tmp_path / "estimates")
    found: dict[str, list[Any]] = {}
    with AnyReader([tmp_path / "estimates"]) as reader:
        for connection, time_ns, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == time_ns
            found.setdefault(connection.topic, []).append(message)
    names = ("odometry", "joint_states", "joint_states_stddev", "state", "state_covariance")
    assert found["/salp/joint_states"][0].name == ["alpha_1", "alpha_2"]
    assert found["/salp/state"][0].name == list(space.names)
    assert set(found) == {f"/salp/{name}" for name in names}
    assert {len(messages) for messages in found.values()} == {len(result.stamps_ns)}
    np.testing.assert_array_equal([message.position for message in found["/salp/state"]], result.mean)
    covariances = np.array([rebuilt(message, space.names) for message in found["/salp/state_covariance"]])
    np.testing.assert_allclose(covariances, result.covariance, rtol=1e-12, atol=1e-18)
    stddevs = [message.position for message in found["/salp/joint_states_stddev"]]
    np.testing.assert_allclose(stddevs, np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))[:, 3:])
    positions = [xyz(message.pose.pose.position)[:2] for message in found["/salp/odometry"]]
    np.testing.assert_array_equal(positions, result.mean[:, :2])
    noise = np.deg2rad(CONFIGURATION.truth.heading_stddev_deg) ** 2 * np.array([[2.0, -1.0], [-1.0, 2.0]])
    errors = [message.position for message in found["/salp/joint_states"]] - result.parts["joint_angles"].truth
    nees = [error @ np.linalg.solve(one[3:, 3:] + noise, error) for error, one in zip(errors, covariances, strict=True)]
    np.testing.assert_allclose(nees, result.parts["joint_angles"].nees, rtol=1e-8)


def test_an_estimate_with_more_than_is_wanted_is_read_by_names() -> None:
    """A filter that estimates biases, too, is drawn by a node that knows of pose and joint angles only."""
    rng, joints = np.random.default_rng(4), angles("joint_angles", ("alpha_1", "alpha_2"))
    whole = StateSpace(vector("bias", ("a", "b"), "rad/s"), se2("pose"), joints)
    mean, covariance = rng.normal(size=7), covariance_of(rng, 7, 0.1)
    messages = published(whole, mean, covariance)
    reader = EstimateReader(StateSpace(se2("pose"), joints))
    assert reader.take_state(messages["state"]) is None
    read = reader.take_covariance(messages["state_covariance"])
    assert read is not None
    np.testing.assert_array_equal(read.mean, mean[2:])
    np.testing.assert_array_equal(read.covariance, covariance[2:, 2:])
    other = EstimateReader(StateSpace(vector("position", ("x", "y"), "m")))
    with pytest.raises(MessageFault, match="7 numbers"):
        other.take_state(messages["state"])
