"""Attitude sensors: the orientation of `sensor_msgs/Imu` as a measurement, one by one and in bulk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_samples import IMU, START_NS, Sample, imu, type_of, write_ros1, write_rosbag2
from scipy.spatial.transform import Rotation

from onboard_estimation.bags import bulk
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import read_channels
from onboard_estimation.bags.message_types import new
from onboard_estimation.base.measurement import Channel, neutral_value, value_size
from onboard_estimation.base.series import imu_channel, set_pose_channel
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.sensor_messages import to_message

CHANNEL = Channel("imu/attitude/data", "sensor_msgs/msg/Imu", "imu/attitude", "orientation", required=False)
TOPIC = "/imu/attitude/data"
WRITERS: dict[str, Callable[[Path, list[Sample]], Path]] = {
    "mcap": lambda folder, samples: write_rosbag2(folder / "bag", samples),
    "big-endian": lambda folder, samples: write_rosbag2(folder / "bag", samples, little_endian=False),
    "ros1": lambda folder, samples: write_ros1(folder / "bag.bag", samples),
}


def attitude(step: int, quaternion: Any, first_covariance: float = 1e-4) -> Any:
    message = imu(START_NS + step, (0.1, 0.2, 0.3), (1.0, 2.0, 9.8))
    x, y, z, w = quaternion
    message.orientation = type_of("geometry_msgs/msg/Quaternion")(x=x, y=y, z=z, w=w)
    message.orientation_covariance = np.array([first_covariance, *np.linspace(0.0, 1e-3, 8)])
    return message


def turns(count: int) -> Any:
    return Rotation.random(count, random_state=4).as_quat()


@pytest.mark.parametrize("kind", WRITERS)
def test_the_orientation_is_the_value(kind: str, tmp_path: Path) -> None:
    quaternions = turns(40)
    samples = [Sample(TOPIC, IMU, START_NS + n, attitude(n, q)) for n, q in enumerate(quaternions)]
    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        for fast in (True, False):
            column = read_channels(bag, {TOPIC: CHANNEL}, fast)[TOPIC]
            np.testing.assert_array_equal(column.values, quaternions)
            assert not column.faults
    assert value_size(CHANNEL) == 4
    assert value_size(imu_channel("body")) == 6
    np.testing.assert_array_equal(neutral_value(CHANNEL), [0.0, 0.0, 0.0, 1.0])


def test_what_is_no_attitude_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    """At the start of the recording too, from where a layout would be taken."""
    quaternions = turns(30)
    messages = [attitude(n, q) for n, q in enumerate(quaternions)]
    messages[0] = attitude(0, (0.0, 0.0, 0.0, 0.0))
    messages[1] = attitude(1, quaternions[1], -1.0)
    messages[7] = attitude(7, 1.02 * quaternions[7])
    messages[9] = attitude(9, 1.004 * quaternions[9])  # of a sensor that rounds coarsely
    messages[11] = attitude(11, (np.nan, 0.0, 0.0, 1.0))  # that is for the pipeline to count
    messages[20] = attitude(20, quaternions[20], -1.0)
    samples = [Sample(TOPIC, IMU, START_NS + n, message) for n, message in enumerate(messages)]
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        fast, slow = (read_channels(bag, {TOPIC: CHANNEL}, way)[TOPIC] for way in (True, False))
    np.testing.assert_array_equal(fast.values, slow.values)
    np.testing.assert_array_equal(fast.stamps_ns, slow.stamps_ns)
    kept = [n for n in range(30) if n not in (0, 1, 7, 20)]
    assert (fast.stamps_ns - START_NS).tolist() == kept
    assert np.isnan(fast.values[kept.index(11), 0])
    assert fast.faults == slow.faults
    reasons = {words.partition(" (")[0]: count for words, count in fast.faults.items()}
    assert reasons["has an orientation that is no unit quaternion"] == 2
    assert sum("not measured" in words for words in reasons) == 1
    assert sum(reasons.values()) == 4


def test_good_messages_are_not_decoded_singly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [Sample(TOPIC, IMU, START_NS + n, attitude(n, q)) for n, q in enumerate(turns(20))]
    path = write_rosbag2(tmp_path / "bag", samples)

    def refuse(*_: object) -> None:
        pytest.fail("a message was decoded on its own")

    monkeypatch.setattr(bulk._ChannelReader, "_read_singly", refuse)
    with open_bag(path) as bag:
        assert len(read_channels(bag, {TOPIC: CHANNEL})[TOPIC].values) == 20


def test_a_simulated_sensors_message_reads_back() -> None:
    quaternion = turns(1)[0]
    message = to_message(new, CHANNEL, START_NS, quaternion, "hopper/")
    np.testing.assert_array_equal(to_measurement(CHANNEL, message).value, quaternion)
    assert message.header.frame_id == "hopper/imu_attitude"
    # It measures neither rates nor accelerations, and an IMU without an attitude measures no orientation.
    assert message.angular_velocity_covariance[0] == message.linear_acceleration_covariance[0] == -1.0
    assert message.orientation_covariance[0] == 0.0
    plain = to_message(new, imu_channel("low_g"), START_NS, np.arange(6.0))
    with pytest.raises(MessageFault, match="not measured"):
        to_measurement(CHANNEL, plain)


def test_a_given_pose_reads_back_with_its_covariance() -> None:
    value = np.concatenate([[1.0, 2.0, 3.0], turns(1)[0], np.arange(36.0)])
    message = to_message(new, set_pose_channel(), START_NS, value, "hopper/")
    np.testing.assert_array_equal(to_measurement(set_pose_channel(), message).value, value)
    assert message.header.frame_id == "hopper/map"  # the estimator's node refuses all other frames
