"""Bags are read as they were written by other programs, and what we write others read."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import mcap.reader
import numpy as np
import pytest
import yaml
from bag_formats import FORMATS, contents, write_bytes
from bag_samples import IMU, JAZZY, POSE, START_NS, Sample, header, imu, pose, serialised, walk, write_mcap
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import get_types_from_msg

from onboard_estimation.bags.bag import open_bag
from onboard_estimation.bags.files import offer
from onboard_estimation.bags.message_types import new, type_hash
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.ros.measurements import MessageFault

STRING = "std_msgs/msg/String"
MESSAGE = imu(START_NS, (1, 2, 3), (4, 5, 6))
DATA = bytes(JAZZY.serialize_cdr(MESSAGE, IMU))


def refused(action: Callable[[], object], *parts: str) -> None:
    """In one line that holds these words."""
    with pytest.raises(UserError) as error:
        action()
    assert "\n" not in str(error.value)
    assert [part for part in parts if part not in str(error.value)] == [], str(error.value)


# Reading


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_what_was_written_of_all_or_of_chosen_topics(kind: str, tmp_path: Path) -> None:
    samples, chosen = walk(40), ["/wrench", "/imu/link_2/data_raw"]
    with open_bag(FORMATS[kind](tmp_path, samples)) as bag:
        assert (bag.format, bag.damage) == (kind.split()[0], None)
        assert (bag.start_ns, bag.end_ns) == (samples[0].log_time_ns, samples[-1].log_time_ns)
        topics = [sample.topic for sample in samples]
        types = {sample.topic: (sample.message_type, topics.count(sample.topic)) for sample in samples}
        assert {topic.name: (topic.message_type, topic.count) for topic in bag.topics.values()} == types
        found = [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()]
        if bag.format == "ros1":  # in the bytes of ROS 1; what they say is compared in test_bulk
            assert [one[:2] for one in found] == [(sample.topic, sample.log_time_ns) for sample in samples]
        else:
            assert found == serialised(samples)
        assert [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages(chosen)] == [
            one for one in found if one[0] in chosen
        ]
        assert list(bag.messages([])) == []
        refused(lambda: list(bag.messages(["/imu/link_3/data_raw"])), "/imu/link_3/data_raw", "/imu/link_1/data_raw")


@pytest.mark.parametrize("kind", ["mcap lz4", "sqlite3", "ros1 lz4"])
def test_order_and_bytes_are_those_of_rosbags(kind: str, tmp_path: Path) -> None:
    """Log times that run back, within a chunk and by many chunks: the order is by log time."""
    times = START_NS + np.random.default_rng(3).permutation(200) // 2
    texts = [chr(65 + n % 26) * (n * 997 % 30_000) for n in range(200)]
    samples = [
        Sample(f"/{n % 3}", STRING, int(time), JAZZY.types[STRING](text))
        for n, (time, text) in enumerate(zip(times, texts, strict=True))
    ]
    path = FORMATS[kind](tmp_path, samples)
    with AnyReader([path]) as reader:
        expected = [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]
    found, _ = contents(path)
    assert [entry[1] for entry in found] == [entry[1] for entry in expected]
    assert sorted(found) == sorted(expected)


def test_a_bag_may_be_named_in_several_ways(tmp_path: Path) -> None:
    samples = walk(10)
    folder = FORMATS["mcap"](tmp_path, samples)
    renamed = shutil.copyfile(folder / "bag.mcap", tmp_path / "recording.active")
    for path in (folder, folder / "metadata.yaml", folder / "bag.mcap", renamed):
        assert contents(path)[0] == serialised(samples)


def test_a_recording_split_into_many_files_is_one_and_one_that_is_missing_is_said(tmp_path: Path) -> None:
    samples = walk(120)
    folder = tmp_path / "bag"
    folder.mkdir()
    for place in range(12):
        write_mcap(folder / f"bag_{place}.mcap", samples[place * 30 : (place + 1) * 30])
    expected = serialised(samples[:360])
    names = [f"bag_{place}.mcap" for place in range(12)]
    information = {"relative_file_paths": names, "message_count": 360, "ros_distro": "jazzy"}
    (folder / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": information}))
    with open_bag(folder) as bag:
        assert bag.distribution == "jazzy"
    assert contents(folder) == (expected, "")
    (folder / "bag_11.mcap").unlink()
    found, damage = contents(folder)
    assert found == expected[:330]
    assert "1 of 12 files are missing (bag_11.mcap)" in damage
    assert "330 of 360 (91.7%) messages" in damage


def test_publishers_that_disagree_about_a_type_are_said(tmp_path: Path) -> None:
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        poses, imus = (writer.add_connection("/x", kind, typestore=JAZZY) for kind in (POSE, IMU))
        for step in range(5):
            writer.write(poses, START_NS + step, JAZZY.serialize_cdr(pose(START_NS, (step, 0, 0)), POSE))
        writer.write(imus, START_NS, DATA)
    with open_bag(tmp_path / "bag") as bag:
        assert (bag.topics["/x"].message_type, bag.topics["/x"].count) == (POSE, 5)
        assert [bag.deserialize(raw).pose.position.x for raw in bag.messages()] == [0, 1, 2, 3, 4]
        assert "topic /x carries geometry_msgs/msg/PoseStamped and also sensor_msgs/msg/Imu" in (bag.damage or "")


# Types and messages


def test_types_that_a_bag_defines_itself(tmp_path: Path) -> None:
    store_types = get_types_from_msg("std_msgs/Header header\nfloat64[3] gains\nstring name", "lab_msgs/msg/Gains")
    JAZZY.register({name: fields for name, fields in store_types.items() if name not in JAZZY.fielddefs})
    message = JAZZY.types["lab_msgs/msg/Gains"](header(START_NS, "a"), np.array([1.0, 2.0, 3.0]), "soft")
    with open_bag(FORMATS["mcap"](tmp_path, [Sample("/gains", "lab_msgs/msg/Gains", START_NS, message)])) as bag:
        found = bag.deserialize(next(bag.messages()))
        assert (found.gains.tolist(), found.name) == ([1.0, 2.0, 3.0], "soft")
        assert bag.has_header("/gains")
        assert not bag.is_standard("/gains")


NESTED = "lab_msgs/msg/Endless"


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        (NESTED, "lab_msgs/Endless inside"),
        (NESTED, "lab_msgs/Missing inside"),
        (NESTED, "string[4000000000] names"),
        (NESTED, "std_msgs/Header[4000000000] headers"),
        (NESTED, "float64[99999999999999999999] numbers"),
        (NESTED, "float64 gains " + "x" * 300_000),
        (NESTED, "float64 a-b"),
        ("a/msg/B:\n  import os\nclass C", "float64 x"),
        ("os;import/msg/X", "float64 x"),
        ("", "float64 x"),
    ],
    ids=lambda text: text[:20],
)
def test_types_that_no_message_has_or_that_are_code_are_refused(name: str, definition: str, tmp_path: Path) -> None:
    with open_bag(write_bytes(tmp_path / "bag", [b"\0\1\0\0" + bytes(64)], name, definition)) as bag:
        refused(lambda: bag.deserialize(next(bag.messages())), name.partition(":")[0])


def test_messages_that_are_not_what_their_type_says(tmp_path: Path) -> None:
    """However little is missing at the end: only what stands behind it means nothing."""
    string = bytes(JAZZY.serialize_cdr(JAZZY.types[STRING]("seven"), STRING))
    cases = {
        IMU: [b"", DATA[:100], DATA + bytes(len(DATA)), b"\7\7" + DATA[2:], DATA[:12] + b"\xff" * 4 + DATA[16:]],
        STRING: [string[:length] for length in range(len(string))],
    }
    for number, (kind, wrong) in enumerate(cases.items()):
        with open_bag(write_bytes(tmp_path / f"bag_{number}", wrong, kind)) as bag:
            for raw in bag.messages():
                with pytest.raises(MessageFault, match=f"does not decode as {kind}"):
                    bag.deserialize(raw)


def test_names_from_a_bag_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    with open_bag(write_bytes(tmp_path / "bag", [b""], "c\x07\x85d", "float64 x", "/a\n\x1b[2Jb")) as bag:
        assert {name: topic.message_type for name, topic in bag.topics.items()} == {"/a??[2Jb": "c??d"}
        refused(lambda: list(bag.messages(["/x"])), "/a??[2Jb")


# No bags


def test_what_is_no_bag_is_said_in_one_line(tmp_path: Path) -> None:
    FORMATS["mcap"](tmp_path, walk(3)).rename(tmp_path / "monday")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("a walk in the park\n" * 100)
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.mcap").touch()
    (folder / "short.db3").write_bytes(b"SQLite format 3\0")
    (folder / "old.bag").write_bytes(b"#ROSBAG V1.2\n" + bytes(100))
    (folder / "only.mcap").write_bytes(b"\x89MCAP0\r\n")
    for storage in ("mcap", "sqlite3"):
        with BagWriter(tmp_path / storage, storage) as writer:
            writer.add_topic("/imu", IMU)
    cases = {
        "tuesday": ("does not exist", "monday"),
        ".": ("holds no .mcap or .db3 file", "monday"),
        "empty": ("holds no .mcap or .db3 file",),
        "notes.txt": ("no .mcap, .db3 or .bag",),
        "files": ("holds no messages", "short.db3 cannot be read", "metadata.yaml is missing"),
        "files/empty.mcap": ("empty (0 bytes)",),
        "files/short.db3": ("cannot be read as a bag's database",),
        "files/old.bag": ("#ROSBAG V1.2", "version 2.0"),
        "files/only.mcap": ("holds no messages", "was not closed"),
        "mcap": ("holds no messages",),
        "sqlite3": ("holds no messages",),
    }
    for name, parts in cases.items():
        refused(lambda name=name: open_bag(tmp_path / name), str(tmp_path / name), *parts)  # type: ignore[misc]


# Writing


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_what_we_write_others_read_and_the_same_content_gives_the_same_bytes(storage: str, tmp_path: Path) -> None:
    samples = walk(50)
    for place in ("a", "b"):
        with BagWriter(tmp_path / place / "bag", storage) as writer:
            for sample in samples:
                writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
    files = [{file.name: file.read_bytes() for file in (tmp_path / place / "bag").iterdir()} for place in "ab"]
    assert files[0] == files[1]
    with AnyReader([tmp_path / "a" / "bag"]) as reader:
        found = [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]
    assert found == serialised(samples)
    if storage == "mcap":
        theirs = mcap.reader.make_reader(io.BytesIO(files[0]["bag.mcap"]), validate_crcs=True)
        assert theirs.get_header().profile == "ros2"
        assert [(channel.topic, one.log_time, one.data) for _, channel, one in theirs.iter_messages()] == found
        summary = theirs.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == len(samples)
        assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
        for channel in summary.channels.values():
            assert channel.message_encoding == "cdr"
            assert yaml.safe_load(channel.metadata["offered_qos_profiles"])[0]["reliability"] in {1, "reliable"}


def test_the_metadata_has_all_that_rosbag2_of_jazzy_asks_for(tmp_path: Path) -> None:
    """Keys as `rosbag2_storage/yaml.hpp` of Jazzy decodes them; hashes as ROS 2 publishes them."""
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("imu/body", IMU, START_NS, MESSAGE)
        writer.write("/imu/body", IMU, START_NS + 10, MESSAGE)
        writer.add_topic("/phase", STRING, offered=[offer(transient_local=True)])
        writer.write("/tf_static", "tf2_msgs/msg/TFMessage", START_NS + 10, new("tf2_msgs/msg/TFMessage"))
    content = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    expected = {"version": 9, "storage_identifier": "mcap", "relative_file_paths": ["bag.mcap"], "message_count": 3}
    expected |= {"starting_time": {"nanoseconds_since_epoch": START_NS}, "duration": {"nanoseconds": 10}}
    assert {key: content[key] for key in expected} == expected
    assert content.keys() >= {"compression_format", "compression_mode", "files", "custom_data", "ros_distro"}
    first, second, third = content["topics_with_message_count"]
    assert [one["message_count"] for one in (first, second, third)] == [2, 0, 1]
    assert first["topic_metadata"]["name"] == "/imu/body"
    assert first["topic_metadata"]["serialization_format"] == "cdr"
    assert second["topic_metadata"]["type_description_hash"] == type_hash(STRING)
    never = {"sec": 9223372036, "nsec": 854775807}
    (offered,) = first["topic_metadata"]["offered_qos_profiles"]
    assert all(offered.pop(name) == never for name in ("deadline", "lifespan", "liveliness_lease_duration"))
    expected = {"history": "keep_last", "depth": 10, "reliability": "reliable", "durability": "volatile"}
    assert offered == expected | {"liveliness": "automatic", "avoid_ros_namespace_conventions": False}
    assert second["topic_metadata"]["offered_qos_profiles"][0]["durability"] == "transient_local"
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 3
        latched = next(one for one in reader.connections if one.topic == "/tf_static")
        assert latched.ext.offered_qos_profiles[0].durability.name == "TRANSIENT_LOCAL"  # type: ignore[union-attr]


def test_type_hashes_are_those_that_ros2_publishes() -> None:
    assert type_hash(STRING) == "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    # `char` is where rosbags and ROS 2 differ.
    assert type_hash("std_msgs/msg/Char") == "RIHS01_3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9"
    assert type_hash(IMU) == JAZZY.hash_rihs01(IMU)


def test_nothing_but_an_empty_folder_is_overwritten_also_if_it_appears_meanwhile(tmp_path: Path) -> None:
    def record(path: Path, meanwhile: Callable[[], object] = lambda: None) -> None:
        with BagWriter(path) as writer:
            writer.write("/x", IMU, START_NS, MESSAGE)
            meanwhile()

    def another() -> None:
        (tmp_path / "late").mkdir()
        (tmp_path / "late" / "mine").write_text("mine")

    def fail() -> None:
        raise RuntimeError("unplugged")

    (tmp_path / "bag").mkdir()
    record(tmp_path / "bag")
    assert contents(tmp_path / "bag")[0] == [("/x", START_NS, DATA)]
    refused(lambda: BagWriter(tmp_path / "bag"), str(tmp_path / "bag"), "exists already")
    (tmp_path / "empty").mkdir()
    refused(lambda: BagWriter(tmp_path / "empty", grows=True), "exists already")
    refused(lambda: record(tmp_path / "late", another), "exists already")
    assert (tmp_path / "late" / "mine").read_text() == "mine"
    with pytest.raises(RuntimeError, match="unplugged"):
        record(tmp_path / "failed", fail)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bag", "empty", "late"]  # nothing left behind


def test_wrong_use_of_the_writer_is_refused(tmp_path: Path) -> None:
    refused(lambda: BagWriter(tmp_path / "bag", "avi"), "storage 'avi' is unknown")
    (tmp_path / "file").write_text("")
    refused(lambda: BagWriter(tmp_path / "file" / "bag"), "cannot write")
    short = imu(START_NS, (0, 0, 0), (0, 0, 0))
    short.orientation_covariance = np.zeros(8)
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("/x", IMU, START_NS, MESSAGE)
        for topic, kind, stamp, message, said in (
            ("/x", POSE, START_NS, pose(START_NS, (0, 0, 0)), "/x is sensor_msgs/msg/Imu, it cannot be geometry_msgs"),
            ("/y", "lab_msgs/msg/None", START_NS, MESSAGE, "no standard type"),
            ("/y", POSE, START_NS, MESSAGE, "is no geometry_msgs/msg/PoseStamped"),
            ("/x", IMU, -1, MESSAGE, "log time -1"),
            ("/x", IMU, START_NS, short, "array length"),
        ):
            with pytest.raises(ValueError, match=said):
                writer.write(topic, kind, stamp, message)


# New messages


def test_new_messages_have_the_defaults_of_ros_and_take_what_rclpy_takes() -> None:
    message = new(IMU)
    assert (message.orientation.w, message.header.frame_id) == (1.0, "")
    assert message.angular_velocity_covariance.tolist() == [0.0] * 9
    assert new("sensor_msgs/msg/NavSatFix").status.status == -2
    joints = new("sensor_msgs/msg/JointState", name=("a", "b"), position=[1, 2.5])
    assert (list(joints.name), joints.position.dtype, joints.position.tolist()) == (["a", "b"], np.float64, [1.0, 2.5])
    assert new("diagnostic_msgs/msg/DiagnosticStatus", level=b"\x02").level == 2
    assert new("std_msgs/msg/UInt8MultiArray", data=b"\x01\x02").data.tolist() == [1, 2]

    for kind, fields, said in (
        (IMU, {"gyro": 1}, "no field gyro; it has: header"),
        ("std_msgs/msg/Nothing", {}, "no st"),
    ):
        with pytest.raises(ValueError, match=said):
            new(kind, **fields)
