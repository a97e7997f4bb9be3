"""Columns of a bag: what was written, by both ways of reading, in the bag's order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
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
    walk,
    write_mcap,
    write_ros1,
    write_rosbag2,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rosbags.rosbag2 import StoragePlugin, Writer

from onboard_estimation.bags import bulk
from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.bulk import Column, read_channels, read_headers
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.message_layouts import NoLayout, layout_of

WRITERS: dict[str, Callable[[Path, list[Sample]], Path]] = {
    "mcap": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap"),
    "mcap chunks": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "zstd"),
    "mcap bare": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "none", chunks=False),
    "mcap messages": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "message"),
    "sqlite3": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3"),
    "ros1": lambda folder, samples: write_ros1(folder / "bag.bag", samples, "lz4"),
    "big-endian": lambda folder, samples: write_rosbag2(folder / "bag", samples, little_endian=False),
}


def numbers_of(message: object, message_type: str) -> list[float]:
    """What a measurement's value must hold, field by field."""
    m = SimpleNamespace(m=message).m
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


def assert_same(one: Column, other: Column) -> None:
    np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
    np.testing.assert_array_equal(one.log_times_ns, other.log_times_ns)
    np.testing.assert_array_equal(one.values, other.values)
    np.testing.assert_array_equal(one.order, other.order)
    assert one.faults == other.faults


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("kind", WRITERS)
def test_columns_hold_what_was_written(kind: str, one_by_one: bool, tmp_path: Path) -> None:
    samples = walk()
    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        columns = read_channels(bag, CHANNELS, bulk=not one_by_one)
    assert list(columns) == list(CHANNELS)
    for topic, column in columns.items():
        places = [place for place, sample in enumerate(samples) if sample.topic == topic]
        chosen = [samples[place] for place in places]
        stamps = [s.message.header.stamp.sec * 10**9 + s.message.header.stamp.nanosec for s in chosen]
        assert column.stamps_ns.tolist() == stamps
        assert column.log_times_ns.tolist() == [s.log_time_ns for s in chosen]
        assert column.order.tolist() == places
        assert column.values.tolist() == [numbers_of(s.message, s.message_type) for s in chosen]
        assert column.values.dtype == np.float64
        assert not column.faults


@pytest.mark.parametrize("kind", ["mcap", "mcap bare", "sqlite3", "ros1"])
def test_no_message_is_decoded_singly_where_all_are_alike(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = WRITERS[kind](tmp_path, walk(50))

    def refuse(*_: object) -> None:
        pytest.fail("a message was decoded on its own")

    monkeypatch.setattr(bulk._ChannelReader, "_read_singly", refuse)
    with open_bag(path) as bag:
        assert len(read_channels(bag, CHANNELS)["/wrench"].values) == 17


def test_not_finite_numbers_pass(tmp_path: Path) -> None:
    samples = [Sample("/imu", IMU, START_NS, imu(START_NS, (np.nan, np.inf, -np.inf), (-0.0, 5e-324, 1e308)))]
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        for fast in (True, False):
            values = read_channels(bag, {"/imu": Channel("imu", IMU, "imu")}, fast)["/imu"].values
            np.testing.assert_array_equal(values, [[np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308]])
            assert np.signbit(values[0, 3])


@pytest.mark.parametrize("kind", ["mcap", "ros1"])
def test_what_a_message_says_it_did_not_measure_is_nan(kind: str, tmp_path: Path) -> None:
    samples = []
    for step in range(40):
        message = imu(START_NS + step, (0.1, 0.2, step), (1.0, 2.0, 9.8))
        for part, absent in (("angular_velocity", step % 2), ("linear_acceleration", step % 3 == 0)):
            covariance = getattr(message, f"{part}_covariance").copy()
            covariance[0] = -1.0 if absent else 0.0
            setattr(message, f"{part}_covariance", covariance)
        samples.append(Sample("/imu", IMU, START_NS + step, message))
    channel = Channel("imu", IMU, "imu")
    expected = np.array([[0.1, 0.2, step, 1.0, 2.0, 9.8] for step in range(40)])
    expected[1::2, :3] = np.nan
    expected[::3, 3:] = np.nan
    for sample, row in zip(samples, expected, strict=True):
        np.testing.assert_array_equal(to_measurement(channel, sample.message).value, row)
    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        for fast in (True, False):
            np.testing.assert_array_equal(read_channels(bag, {"/imu": channel}, fast)["/imu"].values, expected)


def test_stamps_before_the_epoch_and_at_the_ends_of_their_range(tmp_path: Path) -> None:
    stamps = [0, -1, -(2**31) * 10**9, (2**31 - 1) * 10**9 + 999_999_999]
    samples = [Sample("/x", POSE, START_NS + n, pose(stamp, (1, 2, 3))) for n, stamp in enumerate(stamps)]
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        for fast in (True, False):
            assert read_channels(bag, {"/x": Channel("x", POSE, "x")}, fast)["/x"].stamps_ns.tolist() == stamps


# Messages that are not alike


def test_joints_come_in_the_order_of_the_names_however_each_message_orders_them(tmp_path: Path) -> None:
    samples = []
    for step in range(60):
        names = [["a", "b", "c"], ["c", "a", "b"], ["b", "c", "extra", "a"]][step % 3 if step > 20 else 0]
        values = [{"a": 1.0, "b": 2.0, "c": 3.0, "extra": 9.0}[name] * step for name in names]
        samples.append(Sample("/j", JOINTS, START_NS + step, joints(START_NS, names, effort=values)))
    channel = Channel("j", JOINTS, "j", field="effort", names=("c", "a"))
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        fast, slow = (read_channels(bag, {"/j": channel}, way)["/j"] for way in (True, False))
    assert_same(fast, slow)
    assert fast.values.tolist() == [[3.0 * step, 1.0 * step] for step in range(60)]


def test_joints_without_names_come_in_their_own_order(tmp_path: Path) -> None:
    samples = [Sample("/j", JOINTS, START_NS + n, joints(START_NS, ["b", "a"], position=(n, -n))) for n in range(5)]
    samples.append(Sample("/j", JOINTS, START_NS + 9, joints(START_NS, ["b", "a", "c"], position=(1, 2, 3))))
    channel = Channel("j", JOINTS, "j", field="position")
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        fast, slow = (read_channels(bag, {"/j": channel}, way)["/j"] for way in (True, False))
    assert_same(fast, slow)
    assert fast.values.tolist() == [[n, -n] for n in range(5)]
    assert fast.faults == {"has 3 elements, those before had 2": 1}


def test_faults_are_counted_by_their_reason(tmp_path: Path) -> None:
    good = joints(START_NS, ["left", "right"], velocity=(1, 2))
    bad = [
        joints(START_NS, ["left"], velocity=(1,)),
        joints(START_NS, ["left", "right"], velocity=(1, 2, 3)),
        joints(START_NS, ["left", "right"], position=(1, 2)),
        joints(START_NS, ["left", "right", "right"], velocity=(1, 2, 3)),
    ]
    samples = [Sample("/j", JOINTS, START_NS + n, m) for n, m in enumerate([good, bad[0], *bad, good])]
    channel = Channel("j", JOINTS, "j", names=("right", "left"))
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag:
        fast, slow = (read_channels(bag, {"/j": channel}, way)["/j"] for way in (True, False))
    assert_same(fast, slow)
    assert fast.values.tolist() == [[2, 1], [2, 1]]
    assert fast.faults == {
        "lacks 'right' (it has: 'left')": 2,
        "has 3 elements in 'velocity' for 2 names": 1,
        "has 0 elements in 'velocity' for 2 names": 1,
        "has 'right' more than once": 1,
    }


def test_messages_that_do_not_decode_are_counted(tmp_path: Path) -> None:
    data = [bytes(JAZZY.serialize_cdr(imu(START_NS + n, (n, 0, 0), (0, 0, 0)), IMU)) for n in range(6)]
    data[1] = data[1][:-9]
    data[2] = data[2] + b"\0\0\0"  # padding that a middleware may leave
    data[3] = data[3] + bytes(len(data[3]))
    data[4] = data[4][:16] + b"\xff\xff" + data[4][18:]  # a frame's name that is no text
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/imu", IMU, typestore=JAZZY)
        for step, content in enumerate(data):
            writer.write(connection, START_NS + step, content)
    with open_bag(tmp_path / "bag") as bag:
        fast, slow = (read_channels(bag, {"/imu": Channel("imu", IMU, "imu")}, way)["/imu"] for way in (True, False))
    assert_same(fast, slow)
    assert fast.values[:, 0].tolist() == [0, 2, 5]
    assert fast.faults == {"does not decode as sensor_msgs/msg/Imu": 3}


def test_a_type_that_the_bag_defines_otherwise_is_read_by_that_definition(tmp_path: Path) -> None:
    definition = "std_msgs/Header header\nuint8 mode\ngeometry_msgs/Point point\n" + "=" * 80
    definition += "\nMSG: geometry_msgs/Point\nfloat64 x\nfloat64 y\nfloat64 z\n" + "=" * 80
    definition += "\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n" + "=" * 80
    definition += "\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
    # Header with the frame "ab", a mode, three numbers.
    data = b"\0\1\0\0" + bytes(8) + b"\3\0\0\0ab\0" + b"\7" + np.array([1.0, 2.0, 3.0]).tobytes()
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/p", POINT, msgdef=definition, rihs01="RIHS01_0")
        writer.write(connection, START_NS, data)
    with open_bag(tmp_path / "bag") as bag:
        column = read_channels(bag, {"/p": Channel("p", POINT, "p")})["/p"]
    assert column.values.tolist() == [[1.0, 2.0, 3.0]]


names = st.lists(st.sampled_from(["a", "b", "c", "\u00e9", "long name"]), max_size=4)
joint_messages = st.tuples(names, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(st.lists(joint_messages, min_size=1, max_size=12), st.sampled_from([(), ("a",), ("b", "a")]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_ways_agree_on_any_joint_states(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[list[str], int, int, int]], wanted: tuple[str, ...]
) -> None:
    samples = [
        Sample("/j", JOINTS, START_NS + n, joints(n, names, range(p), range(10, 10 + v), range(20, 20 + e)))
        for n, (names, p, v, e) in enumerate(drawn)
    ]
    channel = Channel("j", JOINTS, "j", names=wanted)
    folder = tmp_path_factory.mktemp("bag")
    for path in (write_rosbag2(folder / "bag", samples), write_ros1(folder / "bag.bag", samples)):
        with open_bag(path) as bag:
            fast, slow = (read_channels(bag, {"/j": channel}, way)["/j"] for way in (True, False))
        assert_same(fast, slow)


@given(st.binary(max_size=120), st.sampled_from(list(CHANNELS.values())), st.sampled_from(["cdr", "ros1"]))
def test_a_layout_is_found_or_not(content: bytes, channel: Channel, encoding: str) -> None:
    for message in (content, b"\0\1\0\0" + content):
        try:
            layout = layout_of(channel, encoding, message)
        except NoLayout:
            continue
        assert all(place + 8 * count <= len(message) for place, count in layout.runs)
        assert all(message[place : place + len(fixed)] == fixed for place, fixed in layout.fixed)


# Order


@pytest.mark.parametrize("kind", ["mcap", "mcap bare", "sqlite3", "ros1"])
def test_merged_columns_are_in_the_order_of_the_messages(kind: str, tmp_path: Path) -> None:
    """Log times that run back and repeat, over several chunks."""
    rng = np.random.default_rng(2)
    samples = [s._replace(log_time_ns=s.log_time_ns + int(rng.integers(0, 9)) * 10_000_000) for s in walk(700)]
    chosen = {topic: CHANNELS[topic] for topic in ("/wrench", "/imu/link_1/data_raw", "/imu/link_2/data_raw")}
    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        columns = read_channels(bag, chosen)
        expected = [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages(chosen)]
        stamps = [bag.deserialize(raw).header.stamp.nanosec for raw in bag.messages(chosen)]
    places = sorted((place, topic, row) for topic, column in columns.items() for row, place in enumerate(column.order))
    assert [(topic, columns[topic].log_times_ns[row]) for _, topic, row in places] == [one[:2] for one in expected]
    assert [columns[topic].stamps_ns[row] % 10**9 for _, topic, row in places] == stamps
    assert all(np.all(np.diff(column.order) > 0) for column in columns.values())


# What a user can mend


def test_a_wrong_type_is_said(tmp_path: Path) -> None:
    with open_bag(write_rosbag2(tmp_path / "bag", walk(5))) as bag:
        wrong = {"/wrench": Channel("wrench", IMU, "imu/base")}
        with pytest.raises(UserError, match=r"/wrench is geometry_msgs/msg/WrenchStamped, not sensor_msgs/msg/Imu"):
            read_channels(bag, wrong)


def test_a_missing_topic_is_said_unless_it_may_be_missing(tmp_path: Path) -> None:
    channel = Channel("imu/link_3/data_raw", IMU, "imu/link_3")
    with open_bag(write_rosbag2(tmp_path / "bag", walk(5))) as bag:
        with pytest.raises(UserError, match=r"has no topic /imu/link_3/data_raw; it has: .*/imu/link_2/data_raw"):
            read_channels(bag, {"/imu/link_3/data_raw": channel})
        columns = read_channels(bag, {"/imu/link_3/data_raw": replace(channel, required=False), **CHANNELS})
        assert columns["/imu/link_3/data_raw"].values.shape == (0, 6)
        assert len(columns["/imu/link_1/data_raw"].values) == 5


def test_a_type_without_a_value_is_said(tmp_path: Path) -> None:
    samples = [Sample("/s", "std_msgs/msg/String", START_NS, JAZZY.types["std_msgs/msg/String"]("x"))]
    channel = Channel("s", "std_msgs/msg/String", "s")
    with open_bag(write_rosbag2(tmp_path / "bag", samples)) as bag, pytest.raises(UserError, match="cannot be measure"):
        read_channels(bag, {"/s": channel})


# Headers alone


@pytest.mark.parametrize("kind", WRITERS)
def test_headers_are_read_whatever_follows_them(kind: str, tmp_path: Path) -> None:
    samples = walk(40)
    for place in range(0, len(samples), 7):
        samples[place].message.header.frame_id = f"frame_{place % 3}"
    with open_bag(WRITERS[kind](tmp_path, samples)) as bag:
        read = read_headers(bag, bag.topics)
        for topic in bag.topics:
            headers = [sample.message.header for sample in samples if sample.topic == topic]
            found = read[topic]
            assert found.stamps_ns.tolist() == [h.stamp.sec * 10**9 + h.stamp.nanosec for h in headers]
            frames = [h.frame_id for h in headers]
            assert found.frames == {frame: frames.count(frame) for frame in frames}
            assert found.too_short == 0


# Single messages


class Duck:
    """A message of rclpy as far as it matters: attributes, and arrays of Python's `array` or lists."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


def duck_header(sec: int = 1, nanosec: int = 5) -> Duck:
    return Duck(stamp=Duck(sec=sec, nanosec=nanosec), frame_id="")


def duck_joints(names: Sequence[str], velocity: Sequence[float]) -> Duck:
    return Duck(header=duck_header(), name=list(names), position=[], velocity=list(velocity), effort=[])


def test_messages_are_taken_by_their_fields() -> None:
    channel = Channel("j", JOINTS, "wheels", names=("b", "a"))
    measurement = to_measurement(channel, duck_joints(["a", "b"], [1, 2]))
    assert (measurement.stamp_ns, measurement.sensor) == (1_000_000_005, "wheels")
    assert measurement.value.tolist() == [2.0, 1.0]
    assert measurement.value.dtype == np.float64


def test_a_value_is_a_copy() -> None:
    velocity = np.array([1.0, 2.0])
    message = Duck(header=duck_header(), name=["a", "b"], position=[], velocity=velocity, effort=[])
    value = to_measurement(Channel("j", JOINTS, "j"), message).value
    velocity[:] = 0.0
    assert value.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (duck_joints(["a"], [1]), "lacks 'b' \\(it has: 'a'\\)"),
        (duck_joints([], []), "lacks 'a', 'b' \\(it has: no names\\)"),
        (duck_joints(["a", "b"], [1]), "has 1 elements in 'velocity' for 2 names"),
        (duck_joints(["a", "b", "b"], [1, 2, 3]), "has 'b' more than once"),
        (Duck(header=duck_header(), name=["a", "b"]), "lacks what a sensor_msgs/msg/JointState has"),
        (Duck(name=["a", "b"], velocity=[1, 2]), "has no header with a stamp"),
    ],
)
def test_a_message_that_cannot_be_a_measurement_says_why(message: Duck, said: str) -> None:
    with pytest.raises(MessageFault, match=said):
        to_measurement(Channel("j", JOINTS, "j", names=("a", "b")), message)


# Bytes behind the end


@pytest.mark.parametrize("one_by_one", [False, True])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tails=st.lists(st.binary(max_size=14), min_size=1, max_size=9), cuts=st.lists(st.integers(1, 30), max_size=3))
def test_tails_are_counted_and_change_nothing(
    one_by_one: bool, tails: list[bytes], cuts: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """And what is cut off is left out, as ever."""
    samples, path = walk(40), tmp_path_factory.mktemp("tails")
    written = [(one, bytes(JAZZY.serialize_cdr(one.message, one.message_type))) for one in samples]
    tailed = [(one, data + tails[place % len(tails)]) for place, (one, data) in enumerate(written)]
    for place, cut in enumerate(cuts):
        tailed[3 * place] = (tailed[3 * place][0], written[3 * place][1][:-cut])
    kept = [one for place, one in enumerate(written) if place not in range(0, 3 * len(cuts), 3)]
    columns = []
    for name, content in (("plain", kept), ("tailed", tailed)):
        with Writer(path / name, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
            connections = {
                topic: writer.add_connection(topic, channel.message_type, typestore=JAZZY)
                for topic, channel in CHANNELS.items()
            }
            for sample, data in content:
                writer.write(connections[sample.topic], sample.log_time_ns, data)
        with open_bag(path / name) as bag:
            columns.append(read_channels(bag, CHANNELS, bulk=not one_by_one))
    for topic, plain in columns[0].items():
        found, places = columns[1][topic], [place for place, one in enumerate(samples) if one.topic == topic]
        np.testing.assert_array_equal(found.stamps_ns, plain.stamps_ns)
        np.testing.assert_array_equal(found.values, plain.values)
        lost = sum(place in range(0, 3 * len(cuts), 3) for place in places)
        assert sum(found.faults.values()) == lost
        lengths = [len(tailed[place][1]) - len(written[place][1]) for place in places]
        long = [length for length in lengths if length > 3]
        assert (found.tailed, found.longest_tail) == (len(long), max(long, default=0))
        assert (plain.tailed, plain.longest_tail, plain.notes(topic)) == (0, 0, [])
        said = [note for note in found.notes("x") if note.startswith(f"x: {len(long)} messages carry up to ")]
        assert len(said) == bool(long)


# Databases that no recorder makes


def test_tables_that_are_not_as_rosbag2_writes_them_are_read(tmp_path: Path) -> None:
    """Messages longer than a page, another order of the columns, a table without row numbers, rows taken out."""
    changes = {
        "as it is": [],
        "rows taken out": ["DELETE FROM messages WHERE id % 3 = 1"],
        "long": [
            "INSERT INTO messages(topic_id, timestamp, data) SELECT topic_id, timestamp, zeroblob(9000) FROM messages"
        ],
        "text": ["INSERT INTO messages(topic_id, timestamp, data) VALUES (1, 2, 'text')"],
        "before 1970": ["INSERT INTO messages(topic_id, timestamp, data) VALUES (1, -2, x'00')"],
        "order": [
            "CREATE TABLE other(id INTEGER PRIMARY KEY, timestamp INTEGER, topic_id INTEGER, data BLOB)",
            "INSERT INTO other(id, timestamp, topic_id, data) SELECT id, timestamp, topic_id, data FROM messages",
            "DROP TABLE messages",
            "ALTER TABLE other RENAME TO messages",
        ],
    }
    for number, (name, statements) in enumerate(changes.items()):
        path = write_rosbag2(tmp_path / f"bag_{number}", walk(300), "sqlite3")
        database = sqlite3.connect(next(path.glob("*.db3")))
        for statement in statements:
            database.execute(statement)
        database.commit()
        expected = database.execute(
            "SELECT count(*) FROM messages WHERE typeof(data) = 'blob' AND timestamp >= 0"
        ).fetchone()[0]
        database.close()
        with open_bag(path) as bag:
            assert sum(topic.count for topic in bag.topics.values()) == expected, name
            columns = read_channels(bag, CHANNELS)
            stamps = columns["/imu/link_1/data_raw"].stamps_ns
        if name != "rows taken out":
            assert len(stamps) == 300, name
        assert np.all(np.diff(stamps) > 0), name
