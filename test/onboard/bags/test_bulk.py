"""Columns of a bag: what was written, by both ways of reading, in the bag's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bag_formats import FORMATS, write_bytes
from bag_samples import (
    CHANNELS,
    FIELD,
    IMU,
    JAZZY,
    JOINTS,
    ODOMETRY,
    POINT,
    POSE,
    START_NS,
    TWIST,
    WRENCH,
    Sample,
    imu,
    joints,
    pose,
    type_of,
    walk,
    write_rosbag2,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from onboard_estimation.bags import bulk
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import Column, read_channels, read_headers
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel

WRITERS = {name: FORMATS[name] for name in ("mcap", "mcap message zstd", "mcap bare", "sqlite3", "ros1 lz4")} | {
    "big-endian": lambda folder, samples: write_rosbag2(folder / "bag", samples, little_endian=False)
}


def numbers_of(m: Any, message_type: str) -> list[float]:
    """What a measurement's value must hold, field by field."""
    if message_type == IMU:
        rate, force = m.angular_velocity, m.linear_acceleration
        return [rate.x, rate.y, rate.z, force.x, force.y, force.z]
    if message_type == JOINTS:
        return [m.velocity[2], m.velocity[1]]
    if message_type == POSE:
        position, rotation = m.pose.position, m.pose.orientation
        return [position.x, position.y, position.z, rotation.x, rotation.y, rotation.z, rotation.w]
    if message_type == POINT:
        return [m.point.x, m.point.y, m.point.z]
    if message_type == WRENCH:
        force, torque = m.wrench.force, m.wrench.torque
        return [force.x, force.y, force.z, torque.x, torque.y, torque.z]
    if message_type == TWIST:
        linear, angular = m.twist.linear, m.twist.angular
        return [linear.x, linear.y, linear.z, angular.x, angular.y, angular.z]
    if message_type == FIELD:
        return [m.magnetic_field.x, m.magnetic_field.y, m.magnetic_field.z]
    if message_type == ODOMETRY:
        return [*numbers_of(m.pose, POSE), *m.pose.covariance]
    return [m.fluid_pressure]


def both_ways(path: Path, channel: Channel, topic: str = "/x") -> Column:
    """The topic as a column, which is the same by NumPy and one by one."""
    with open_bag(path) as bag:
        fast, slow = (read_channels(bag, {topic: channel}, way)[topic] for way in (True, False))
    for name in ("stamps_ns", "log_times_ns", "values", "order"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))
    assert fast.faults == slow.faults
    return fast


def bag_of(folder: Path, messages: Sequence[Any], kind: str = "mcap") -> Path:
    """Of messages of one type on one topic."""
    samples = [Sample("/x", message.__msgtype__, START_NS + n, message) for n, message in enumerate(messages)]
    return WRITERS[kind](folder, samples)


@pytest.mark.parametrize("kind", WRITERS)
def test_columns_and_headers_hold_what_was_written(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And by NumPy no message is decoded on its own where few layouts are enough."""
    samples = walk(60)
    for place in range(0, len(samples), 7):
        samples[place].message.header.frame_id = f"frame_{place % 3}"

    def refuse(*_: object) -> None:
        pytest.fail("a message was decoded on its own")

    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        one_by_one, headers = read_channels(bag, CHANNELS, bulk=False), read_headers(bag, bag.topics)
        if kind != "big-endian":
            monkeypatch.setattr(bulk._ChannelReader, "_read_singly", refuse)
        columns = read_channels(bag, CHANNELS)
    assert list(columns) == list(one_by_one) == list(CHANNELS)
    for topic in CHANNELS:
        places = [place for place, sample in enumerate(samples) if sample.topic == topic]
        chosen = [samples[place] for place in places]
        stamps = [s.message.header.stamp.sec * 10**9 + s.message.header.stamp.nanosec for s in chosen]
        for column in (columns[topic], one_by_one[topic]):
            assert column.stamps_ns.tolist() == stamps
            assert column.log_times_ns.tolist() == [s.log_time_ns for s in chosen]
            assert column.order.tolist() == places
            assert column.values.tolist() == [numbers_of(s.message, s.message_type) for s in chosen]
            assert column.values.dtype == np.float64
            assert not column.faults
        frames = [s.message.header.frame_id for s in chosen]
        column, found = headers[topic]
        assert column.stamps_ns.tolist() == stamps
        assert found == {frame: frames.count(frame) for frame in frames}
        assert column.faults.total() == 0


def test_not_finite_numbers_and_stamps_at_the_ends_of_their_range_pass(tmp_path: Path) -> None:
    message = imu(START_NS, (np.nan, np.inf, -np.inf), (-0.0, 5e-324, 1e308))
    values = both_ways(bag_of(tmp_path / "a", [message]), Channel("x", IMU, "x")).values
    np.testing.assert_array_equal(values, [[np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308]])
    assert np.signbit(values[0, 3])
    stamps = [0, -1, -(2**31) * 10**9, (2**31 - 1) * 10**9 + 999_999_999]
    bag = bag_of(tmp_path / "b", [pose(stamp, (1, 2, 3)) for stamp in stamps])
    assert both_ways(bag, Channel("x", POSE, "x")).stamps_ns.tolist() == stamps


@pytest.mark.parametrize("kind", ["mcap", "ros1 lz4"])
def test_what_a_message_says_it_did_not_measure_is_nan(kind: str, tmp_path: Path) -> None:
    messages = []
    for step in range(12):
        messages.append(message := imu(START_NS + step, (0.1, 0.2, step), (1.0, 2.0, 9.8)))
        for part, absent in (("angular_velocity", step % 2), ("linear_acceleration", step % 3 == 0)):
            setattr(message, f"{part}_covariance", np.array([-1.0 if absent else 0.0, *np.arange(1.0, 9.0)]))
    expected = np.array([[0.1, 0.2, step, 1.0, 2.0, 9.8] for step in range(12)])
    expected[1::2, :3] = np.nan
    expected[::3, 3:] = np.nan
    np.testing.assert_array_equal(
        both_ways(bag_of(tmp_path, messages, kind), Channel("imu", IMU, "imu")).values, expected
    )


# Attitudes


ATTITUDE = Channel("imu/attitude/data", IMU, "imu/attitude", "orientation", required=False)


def attitude(step: int, quaternion: Any, first_covariance: float = 1e-4) -> Any:
    message = imu(START_NS + step, (0.1, 0.2, 0.3), (1.0, 2.0, 9.8))
    message.orientation = type_of("geometry_msgs/msg/Quaternion")(*quaternion)
    message.orientation_covariance = np.array([first_covariance, *np.linspace(0.0, 1e-3, 8)])
    return message


@pytest.mark.parametrize("kind", ["mcap", "big-endian", "ros1 lz4"])
def test_an_orientation_is_a_value_and_what_is_none_is_counted(kind: str, tmp_path: Path) -> None:
    """At the start of the recording too, from where a layout would be taken."""
    quaternions = Rotation.random(30, random_state=4).as_quat()
    messages = [attitude(n, q) for n, q in enumerate(quaternions)]
    messages[0] = attitude(0, (0.0, 0.0, 0.0, 0.0))
    messages[7] = attitude(7, 1.02 * quaternions[7])
    for step in (1, 20):
        messages[step] = attitude(step, quaternions[step], -1.0)
    quaternions[9] *= 1.004  # of a sensor that rounds coarsely
    quaternions[11] = (np.nan, 0.0, 0.0, 1.0)  # that is for the pipeline to count
    messages[9], messages[11] = attitude(9, quaternions[9]), attitude(11, quaternions[11])
    found = both_ways(bag_of(tmp_path, messages, kind), ATTITUDE)
    kept = [n for n in range(30) if n not in (0, 1, 7, 20)]
    assert (found.stamps_ns - START_NS).tolist() == kept
    np.testing.assert_array_equal(found.values, quaternions[kept])
    reasons = {words.partition(" (")[0]: count for words, count in found.faults.items()}
    assert reasons.pop("has an orientation that is no unit quaternion") == 2
    ((reason, count),) = reasons.items()
    assert "not measured" in reason
    assert count == 2


# Messages that are not alike


def test_faults_are_counted_by_their_reason(tmp_path: Path) -> None:
    good, lacking = (joints(START_NS, ["left", "right"][:n], velocity=(1, 2)[:n]) for n in (2, 1))
    bad = [
        joints(START_NS, ["left", "right"], velocity=(1, 2, 3)),
        joints(START_NS, ["left", "right"], position=(1, 2)),
        joints(START_NS, ["left", "right", "right"], velocity=(1, 2, 3)),
    ]
    bag = bag_of(tmp_path, [good, lacking, lacking, *bad, good])
    found = both_ways(bag, Channel("j", JOINTS, "j", names=("right", "left")))
    assert found.values.tolist() == [[2, 1], [2, 1]]
    assert found.faults == {
        "lacks 'right' (it has: 'left')": 2,
        "has 3 elements in 'velocity' for 2 names": 1,
        "has 0 elements in 'velocity' for 2 names": 1,
        "has 'right' more than once": 1,
    }


def test_messages_that_do_not_decode_and_bytes_behind_the_end_are_counted(tmp_path: Path) -> None:
    data = [bytes(JAZZY.serialize_cdr(imu(START_NS + n, (n, 0, 0), (0, 0, 0)), IMU)) for n in range(9)]
    data[1] = data[1][:-9]
    data[2] = data[2] + b"\0\0\0"  # padding that a middleware may leave
    data[3] = data[3] + bytes(len(data[3]))
    data[4] = data[4][:16] + b"\xff\xff" + data[4][18:]  # a frame's name that is no text
    data[6], data[7] = data[6] + b"\x7f" * 4, data[7] + b"\x7f" * 13
    found = both_ways(write_bytes(tmp_path / "bag", data, IMU), Channel("imu", IMU, "imu"))
    assert found.values[:, 0].tolist() == [0, 2, 5, 6, 7, 8]
    assert found.faults == {"does not decode as sensor_msgs/msg/Imu": 3}
    assert (found.tails.total(), max(found.tails)) == (2, 13)
    assert found.notes("x")[1].startswith("x: 2 messages carry up to 13 bytes behind their end")


def test_a_type_that_the_bag_defines_otherwise_is_read_by_that_definition(tmp_path: Path) -> None:
    definition = "std_msgs/Header header\nuint8 mode\ngeometry_msgs/Point point\n" + "=" * 80
    definition += "\nMSG: geometry_msgs/Point\nfloat64 x\nfloat64 y\nfloat64 z\n" + "=" * 80
    definition += "\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n" + "=" * 80
    definition += "\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
    # Header with the frame "ab", a mode, three numbers.
    data = b"\0\1\0\0" + bytes(8) + b"\3\0\0\0ab\0" + b"\7" + np.array([1.0, 2.0, 3.0]).tobytes()
    bag = write_bytes(tmp_path / "bag", [data], POINT, definition)
    assert both_ways(bag, Channel("p", POINT, "p")).values.tolist() == [[1.0, 2.0, 3.0]]


names = st.lists(st.sampled_from(["a", "b", "c", "\u00e9", "long name"]), max_size=4)
joint_messages = st.tuples(names, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(
    st.lists(joint_messages, min_size=1, max_size=12),
    st.sampled_from([(), ("a",), ("b", "a")]),
    st.sampled_from(["mcap", "ros1 lz4"]),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_agree_on_any_joint_states(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[list[str], int, int, int]],
    wanted: tuple[str, ...],
    kind: str,
) -> None:
    messages = [
        joints(n, names, range(p), range(10, 10 + v), range(20, 20 + e)) for n, (names, p, v, e) in enumerate(drawn)
    ]
    both_ways(bag_of(tmp_path_factory.mktemp("bag"), messages, kind), Channel("j", JOINTS, "j", names=wanted))


# Order


@pytest.mark.parametrize("kind", ["mcap lz4", "sqlite3"])
def test_merged_columns_are_in_the_order_of_the_messages(kind: str, tmp_path: Path) -> None:
    """Log times that run back and repeat, over several chunks."""
    rng = np.random.default_rng(2)
    samples = [s._replace(log_time_ns=s.log_time_ns + int(rng.integers(0, 9)) * 10_000_000) for s in walk(100)]
    chosen = {topic: CHANNELS[topic] for topic in ("/wrench", "/imu/link_1/data_raw", "/imu/link_2/data_raw")}
    with open_bag(FORMATS[kind](tmp_path, samples)) as bag:
        columns = read_channels(bag, chosen)
        expected = [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages(chosen)]
        stamps = [bag.deserialize(raw).header.stamp.nanosec for raw in bag.messages(chosen)]
    places = sorted((place, topic, row) for topic, column in columns.items() for row, place in enumerate(column.order))
    assert [(topic, columns[topic].log_times_ns[row]) for _, topic, row in places] == [one[:2] for one in expected]
    assert [columns[topic].stamps_ns[row] % 10**9 for _, topic, row in places] == stamps
    assert all(np.all(np.diff(column.order) > 0) for column in columns.values())


# What a user can mend


def test_a_wrong_or_missing_topic_is_said_unless_it_may_be_missing(tmp_path: Path) -> None:
    text = Sample("/s", "std_msgs/msg/String", START_NS, JAZZY.types["std_msgs/msg/String"]("x"))
    third = Channel("imu/link_3/data_raw", IMU, "imu/link_3")
    with open_bag(write_rosbag2(tmp_path / "bag", [*walk(5), text])) as bag:
        for topic, channel, said in (
            ("/wrench", Channel("wrench", IMU, "base"), "/wrench is geometry_msgs/msg/WrenchStamped, not sensor_msgs"),
            ("/s", Channel("s", text.message_type, "s"), "cannot be measurements"),
            ("/imu/link_3/data_raw", third, r"has no topic /imu/link_3/data_raw; it has: .*/imu/link_2/data_raw"),
        ):
            with pytest.raises(UserError, match=said):
                read_channels(bag, {topic: channel})
        columns = read_channels(bag, {"/imu/link_3/data_raw": replace(third, required=False), **CHANNELS})
        assert columns["/imu/link_3/data_raw"].values.shape == (0, 6)
        assert len(columns["/imu/link_1/data_raw"].values) == 5
