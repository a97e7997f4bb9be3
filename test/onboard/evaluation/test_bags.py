"""Bags are read as they were written by other programs, and what we write others read."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import mcap.reader
import numpy as np
import pytest
import yaml
from bag_samples import (
    IMU,
    JAZZY,
    POSE,
    START_NS,
    Sample,
    header,
    imu,
    pose,
    serialised,
    walk,
    write_mcap,
    write_ros1,
    write_rosbag2,
)
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import Reader, StoragePlugin, Writer
from rosbags.typesys import get_types_from_msg

from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.message_types import new, type_hash
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.ros.measurements import MessageFault

Make = Callable[[Path, list[Sample]], Path]

ROS2_BAGS: dict[str, Make] = {
    "mcap": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap"),
    "mcap zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "storage"),
    "mcap file zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "file"),
    "mcap message zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "mcap", "message"),
    "mcap lz4": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "lz4"),
    "mcap of mcap": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "zstd"),
    "mcap no chunks": lambda folder, samples: write_mcap(folder / "bag.mcap", samples, "none", chunks=False),
    "sqlite3": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3"),
    "sqlite3 file zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3", "file"),
    "sqlite3 message zstd": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3", "message"),
    "sqlite3 version 8": lambda folder, samples: write_rosbag2(folder / "bag", samples, "sqlite3", version=8),
}
ROS1_BAGS: dict[str, Make] = {
    f"ros1 {compression}": lambda folder, samples, compression=compression: write_ros1(  # type: ignore[misc]
        folder / "bag.bag", samples, compression
    )
    for compression in ("none", "bz2", "lz4")
}


def contents(bag: Bag) -> list[tuple[str, int, bytes]]:
    return [(raw.topic, raw.log_time_ns, raw.data) for raw in bag.messages()]


def assert_one_line(error: pytest.ExceptionInfo[UserError], *parts: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    for part in parts:
        assert part in text


@pytest.mark.parametrize("kind", ROS2_BAGS)
def test_every_ros2_format_gives_what_was_written(kind: str, tmp_path: Path) -> None:
    samples = walk()
    path = ROS2_BAGS[kind](tmp_path, samples)
    with open_bag(path) as bag:
        assert contents(bag) == serialised(samples)
        assert bag.damage is None
        assert bag.format == kind.split()[0]
        assert (bag.start_ns, bag.end_ns) == (samples[0].log_time_ns, samples[-1].log_time_ns)
        types = {sample.topic: sample.message_type for sample in samples}
        assert {topic.name: topic.message_type for topic in bag.topics.values()} == types
        for name, topic in bag.topics.items():
            assert topic.count == sum(sample.topic == name for sample in samples)


@pytest.mark.parametrize("kind", ROS1_BAGS)
def test_ros1_bags_give_ros2_names_and_the_same_numbers(kind: str, tmp_path: Path) -> None:
    samples = walk()
    with open_bag(ROS1_BAGS[kind](tmp_path, samples)) as bag:
        assert bag.format == "ros1"
        assert bag.damage is None
        assert bag.topics["/imu/link_1/data_raw"].message_type == "sensor_msgs/msg/Imu"
        found = list(bag.messages())
        assert [(raw.topic, raw.log_time_ns) for raw in found] == [(s.topic, s.log_time_ns) for s in samples]
        for raw, sample in zip(found, samples, strict=True):
            message = bag.deserialize(raw)
            assert message.header.stamp.sec == sample.message.header.stamp.sec
            assert message.header.stamp.nanosec == sample.message.header.stamp.nanosec
            assert message.header.frame_id == sample.message.header.frame_id
            if sample.message_type == IMU:
                assert message.angular_velocity.y == sample.message.angular_velocity.y
                assert np.array_equal(message.orientation_covariance, sample.message.orientation_covariance)


@pytest.mark.parametrize("kind", ["mcap", "sqlite3", "ros1 lz4"])
def test_order_and_bytes_are_those_of_rosbags(kind: str, tmp_path: Path) -> None:
    """Log times that run back, within a chunk and by many chunks: the order is by log time."""
    samples = walk(2000)
    rng = np.random.default_rng(3)
    samples = [s._replace(log_time_ns=s.log_time_ns + int(rng.integers(0, 50_000_000))) for s in samples]
    moved = [samples[place] for place in rng.permutation(len(samples))[:500]]
    samples += [s._replace(log_time_ns=s.log_time_ns + 1) for s in moved]
    path = (ROS2_BAGS | ROS1_BAGS)[kind](tmp_path, samples)
    with AnyReader([path]) as reader, open_bag(path) as bag:
        expected = [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]
        found = contents(bag)
        assert [entry[1] for entry in found] == [entry[1] for entry in expected]
        assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("kind", ROS2_BAGS | ROS1_BAGS)
def test_topics_can_be_chosen(kind: str, tmp_path: Path) -> None:
    samples = walk(30)
    chosen = ["/wrench", "/imu/link_2/data_raw"]
    with open_bag((ROS2_BAGS | ROS1_BAGS)[kind](tmp_path, samples)) as bag:
        found = [(raw.topic, raw.log_time_ns) for raw in bag.messages(chosen)]
        assert found == [(s.topic, s.log_time_ns) for s in samples if s.topic in chosen]
        assert list(bag.messages([])) == []
        with pytest.raises(UserError) as error:
            list(bag.messages(["/imu/link_3/data_raw"]))
        assert_one_line(error, "/imu/link_3/data_raw", "/imu/link_1/data_raw", "/imu/link_2/data_raw")


@pytest.mark.parametrize("kind", ["mcap", "sqlite3"])
def test_messages_decode_to_what_was_written(kind: str, tmp_path: Path) -> None:
    samples = walk(20)
    with open_bag(ROS2_BAGS[kind](tmp_path, samples)) as bag:
        for raw, sample in zip(bag.messages(), samples, strict=True):
            data = JAZZY.serialize_cdr(bag.deserialize(raw), sample.message_type)
            assert bytes(data) == raw.data


def test_big_endian_messages_decode(tmp_path: Path) -> None:
    samples = [Sample("/imu", IMU, START_NS, imu(START_NS + 7, (1.5, 2, 3), (4, 5, 6)))]
    with open_bag(write_rosbag2(tmp_path / "bag", samples, little_endian=False)) as bag:
        message = bag.deserialize(next(bag.messages()))
        assert (message.header.stamp.nanosec, message.angular_velocity.x) == (7, 1.5)


def test_a_bag_may_be_named_in_several_ways(tmp_path: Path) -> None:
    samples = walk(10)
    folder = write_rosbag2(tmp_path / "bag", samples)
    renamed = shutil.copyfile(folder / "bag.mcap", tmp_path / "recording.active")
    for path in (folder, folder / "metadata.yaml", folder / "bag.mcap", renamed):
        with open_bag(str(path)) as bag:
            assert contents(bag) == serialised(samples)


def test_a_recording_split_into_many_files_is_one(tmp_path: Path) -> None:
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
        assert contents(bag) == expected
        assert (bag.damage, bag.distribution) == (None, "jazzy")
    (folder / "bag_11.mcap").unlink()
    with open_bag(folder) as bag:
        assert contents(bag) == expected[:330]
        assert bag.damage is not None
        assert "1 of 12 files are missing (bag_11.mcap)" in bag.damage
        assert "330 of 360 (91.7%) messages" in bag.damage


def test_paths_in_the_metadata_do_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write_mcap(tmp_path / "other.mcap", walk(5))
    folder = write_rosbag2(tmp_path / "bag", walk(10))
    text = (folder / "metadata.yaml").read_text()
    (folder / "metadata.yaml").write_text(text.replace("- bag.mcap", "- ../other.mcap\n  - bag.mcap"))
    with open_bag(folder) as bag:
        assert contents(bag) == serialised(walk(10))
        assert bag.damage is not None
        assert "other.mcap" in bag.damage


def test_publishers_that_disagree_about_a_type_are_said(tmp_path: Path) -> None:
    path = tmp_path / "bag"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        poses = writer.add_connection("/x", POSE, typestore=JAZZY)
        imus = writer.add_connection("/x", IMU, typestore=JAZZY)
        for step in range(5):
            writer.write(poses, START_NS + step, JAZZY.serialize_cdr(pose(START_NS, (step, 0, 0)), POSE))
        writer.write(imus, START_NS, JAZZY.serialize_cdr(imu(START_NS, (0, 0, 0), (0, 0, 0)), IMU))
    with open_bag(path) as bag:
        assert (bag.topics["/x"].message_type, bag.topics["/x"].count) == (POSE, 5)
        assert [bag.deserialize(raw).pose.position.x for raw in bag.messages()] == [0, 1, 2, 3, 4]
        assert bag.damage is not None
        assert "topic /x carries geometry_msgs/msg/PoseStamped and also sensor_msgs/msg/Imu" in bag.damage


# Types


def test_types_that_a_bag_defines_itself(tmp_path: Path) -> None:
    store_types = get_types_from_msg("std_msgs/Header header\nfloat64[3] gains\nstring name", "lab_msgs/msg/Gains")
    JAZZY.register({name: fields for name, fields in store_types.items() if name not in JAZZY.fielddefs})
    message = JAZZY.types["lab_msgs/msg/Gains"](header(START_NS, "a"), np.array([1.0, 2.0, 3.0]), "soft")
    sample = Sample("/gains", "lab_msgs/msg/Gains", START_NS, message)
    with open_bag(write_rosbag2(tmp_path / "bag", [sample])) as bag:
        found = bag.deserialize(next(bag.messages()))
        assert (found.gains.tolist(), found.name) == ([1.0, 2.0, 3.0], "soft")
        assert bag.has_header("/gains")
        assert not bag.is_standard("/gains")


@pytest.mark.parametrize(
    "definition",
    [
        "lab_msgs/Endless inside",
        "lab_msgs/Missing inside",
        "string[4000000000] names",
        "std_msgs/Header[4000000000] headers",
        "float64[99999999999999999999] numbers",
        "float64 gains " + "x" * 300_000,
        "float64 a-b",
        "}{",
        "string a" * 3,
    ],
)
def test_definitions_that_no_message_has_are_refused(definition: str, tmp_path: Path) -> None:
    path = tmp_path / "bag"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", "lab_msgs/msg/Endless", msgdef=definition, rihs01="RIHS01_0")
        writer.write(connection, START_NS, b"\0\1\0\0" + bytes(64))
    with open_bag(path) as bag, pytest.raises(UserError) as error:
        bag.deserialize(next(bag.messages()))
    assert_one_line(error, "lab_msgs/msg/Endless")


@pytest.mark.parametrize("name", ["a/msg/B:\n  import os\nclass C", "x", "", "os;import/msg/X", "a/msg/B\u00b2"])
def test_type_names_that_are_code_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bag"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", name, msgdef="float64 x", rihs01="RIHS01_0")
        writer.write(connection, START_NS, b"\0\1\0\0" + bytes(64))
    with open_bag(path) as bag, pytest.raises(UserError):
        bag.deserialize(next(bag.messages()))


def test_a_damaged_definition_of_a_standard_type_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "bag"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", IMU, msgdef="float64 $$", rihs01="RIHS01_0")
        writer.write(connection, START_NS, JAZZY.serialize_cdr(imu(START_NS, (1, 2, 3), (4, 5, 6)), IMU))
    with open_bag(path) as bag:
        assert bag.deserialize(next(bag.messages())).angular_velocity.z == 3


def test_messages_that_are_not_what_their_type_says(tmp_path: Path) -> None:
    path = tmp_path / "bag"
    data = bytes(JAZZY.serialize_cdr(imu(START_NS, (1, 2, 3), (4, 5, 6)), IMU))
    wrong = [b"", data[:100], data + bytes(len(data)), b"\7\7" + data[2:], data[:12] + b"\xff\xff\xff\xff" + data[16:]]
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", IMU, typestore=JAZZY)
        for step, content in enumerate(wrong):
            writer.write(connection, START_NS + step, content)
    with open_bag(path) as bag:
        for raw in bag.messages():
            with pytest.raises(MessageFault, match="does not decode as sensor_msgs/msg/Imu"):
                bag.deserialize(raw)


@pytest.mark.parametrize("little_endian", [True, False])
def test_bytes_behind_the_end_are_counted_and_mean_nothing(tmp_path: Path, little_endian: bool) -> None:
    message = imu(START_NS, (1, 2, 3), (4, 5, 6))
    data = bytes(JAZZY.serialize_cdr(message, IMU, little_endian=little_endian))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", IMU, typestore=JAZZY)
        for tail in range(20):
            writer.write(connection, START_NS + tail, data + b"\x7f" * tail)
    with open_bag(tmp_path / "bag") as bag:
        for place, raw in enumerate(bag.messages()):
            read, tail = bag.decoded(raw)
            assert tail == place
            assert bytes(JAZZY.serialize_cdr(read, IMU, little_endian=little_endian)) == data


def test_a_last_word_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """However little is missing: only what stands behind the end means nothing."""
    data = bytes(JAZZY.serialize_cdr(JAZZY.types["std_msgs/msg/String"]("seven"), "std_msgs/msg/String"))
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/x", "std_msgs/msg/String", typestore=JAZZY)
        for length in range(len(data) + 1):
            writer.write(connection, START_NS + length, data[:length])
    with open_bag(tmp_path / "bag") as bag:
        *cut, whole = bag.messages()
        assert bag.deserialize(whole).data == "seven"
        for raw in cut:
            with pytest.raises(MessageFault, match="does not decode as std_msgs/msg/String"):
                bag.deserialize(raw)


def test_names_from_a_bag_cannot_write_to_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "bag"
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/a\n\x1b[2Jb", "c\x07\x85d", msgdef="float64 x", rihs01="RIHS01_0")
        writer.write(connection, START_NS, b"")
    with open_bag(path) as bag:
        assert list(bag.topics) == ["/a??[2Jb"]
        assert bag.topics["/a??[2Jb"].message_type == "c??d"
        with pytest.raises(UserError) as error:
            list(bag.messages(["/x"]))
    assert_one_line(error, "/a??[2Jb")


# No bags


def test_what_is_no_bag_is_said_in_one_line(tmp_path: Path) -> None:
    write_rosbag2(tmp_path / "monday", walk(3))
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("a walk in the park\n" * 100)
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "empty.mcap").touch()
    (folder / "short.db3").write_bytes(b"SQLite format 3\0")
    (folder / "old.bag").write_bytes(b"#ROSBAG V1.2\n" + bytes(100))
    (folder / "only.mcap").write_bytes(b"\x89MCAP0\r\n")
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
    }
    for name, parts in cases.items():
        with pytest.raises(UserError) as error:
            open_bag(tmp_path / name)
        assert_one_line(error, str(tmp_path / name), *parts)


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_bag_without_messages_is_said(storage: str, tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag", storage) as writer:  # type: ignore[arg-type]
        writer.add_topic("/imu", IMU)
    with pytest.raises(UserError) as error:
        open_bag(tmp_path / "bag")
    assert_one_line(error, "holds no messages")


# Writing


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_what_we_write_rosbags_reads(storage: str, tmp_path: Path) -> None:
    samples = walk(100)
    with BagWriter(tmp_path / "bag", storage) as writer:  # type: ignore[arg-type]
        for sample in samples:
            writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
    assert writer.message_count == len(samples)
    with AnyReader([tmp_path / "bag"]) as reader:
        found = [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]
    assert found == serialised(samples)


def test_the_mcap_package_reads_what_we_write(tmp_path: Path) -> None:
    samples = walk(100)
    with BagWriter(tmp_path / "bag") as writer:
        for sample in samples:
            writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
    content = (tmp_path / "bag" / "bag.mcap").read_bytes()
    reader = mcap.reader.make_reader(io.BytesIO(content), validate_crcs=True)
    assert reader.get_header().profile == "ros2"
    found = [(channel.topic, message.log_time, message.data) for _, channel, message in reader.iter_messages()]
    assert found == serialised(samples)
    summary = reader.get_summary()
    assert summary is not None
    assert summary.statistics is not None
    assert summary.statistics.message_count == len(samples)
    assert {schema.encoding for schema in summary.schemas.values()} == {"ros2msg"}
    assert {channel.message_encoding for channel in summary.channels.values()} == {"cdr"}
    for channel in summary.channels.values():
        assert yaml.safe_load(channel.metadata["offered_qos_profiles"])[0]["reliability"] in {1, "reliable"}


def test_the_metadata_has_all_that_rosbag2_of_jazzy_asks_for(tmp_path: Path) -> None:
    """Keys as `rosbag2_storage/yaml.hpp` of Jazzy decodes them; hashes as ROS 2 publishes them."""
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("imu/body", IMU, START_NS, imu(START_NS, (0, 0, 0), (0, 0, 0)))
        writer.write("/imu/body", IMU, START_NS + 10, imu(START_NS, (0, 0, 0), (0, 0, 0)))
        writer.add_topic("/phase", "std_msgs/msg/String", transient_local=True)
    content = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert content["version"] == 9
    assert content["storage_identifier"] == "mcap"
    assert content["relative_file_paths"] == ["bag.mcap"]
    assert content["message_count"] == 2
    assert content["starting_time"] == {"nanoseconds_since_epoch": START_NS}
    assert content["duration"] == {"nanoseconds": 10}
    assert content.keys() >= {"compression_format", "compression_mode", "files", "custom_data", "ros_distro"}
    first, second = content["topics_with_message_count"]
    assert (first["message_count"], second["message_count"]) == (2, 0)
    assert first["topic_metadata"]["name"] == "/imu/body"
    assert first["topic_metadata"]["serialization_format"] == "cdr"
    assert second["topic_metadata"]["type_description_hash"] == (
        "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    )
    never = {"sec": 9223372036, "nsec": 854775807}
    assert first["topic_metadata"]["offered_qos_profiles"] == [
        {
            "history": "keep_last",
            "depth": 10,
            "reliability": "reliable",
            "durability": "volatile",
            "deadline": never,
            "lifespan": never,
            "liveliness": "automatic",
            "liveliness_lease_duration": never,
            "avoid_ros_namespace_conventions": False,
        }
    ]
    assert second["topic_metadata"]["offered_qos_profiles"][0]["durability"] == "transient_local"


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_the_same_content_gives_the_same_bytes(storage: str, tmp_path: Path) -> None:
    digests = []
    for place in ("a", "b"):
        with BagWriter(tmp_path / place / "bag", storage) as writer:  # type: ignore[arg-type]
            for sample in walk(50):
                writer.write(sample.topic, sample.message_type, sample.log_time_ns, sample.message)
        files = sorted((tmp_path / place / "bag").iterdir())
        digests.append([(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files])
    assert digests[0] == digests[1]
    assert len(digests[0]) == 2


def test_nothing_but_an_empty_folder_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "bag"
    path.mkdir()
    with BagWriter(path) as writer:
        writer.write("/x", IMU, START_NS, imu(START_NS, (1.0, 0, 0), (0, 0, 0)))
    with open_bag(path) as bag:
        assert [bag.deserialize(raw).angular_velocity.x for raw in bag.messages()] == [1.0]
    with pytest.raises(UserError) as error:
        BagWriter(path)
    assert_one_line(error, str(path), "exists already")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="exists already"):
        BagWriter(tmp_path / "empty", grows=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bag", "empty"]


def test_what_appeared_at_the_path_while_we_wrote_is_not_overwritten(tmp_path: Path) -> None:
    def record() -> None:
        with BagWriter(tmp_path / "bag") as writer:
            writer.write("/x", IMU, START_NS, imu(START_NS, (0, 0, 0), (0, 0, 0)))
            (tmp_path / "bag").mkdir()
            (tmp_path / "bag" / "mine").write_text("mine")

    with pytest.raises(UserError, match="exists already"):
        record()
    assert (tmp_path / "bag" / "mine").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["bag"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def record() -> None:
        with BagWriter(tmp_path / "bag") as writer:
            writer.write("/x", IMU, START_NS, imu(START_NS, (0, 0, 0), (0, 0, 0)))
            raise RuntimeError("unplugged")

    with pytest.raises(RuntimeError, match="unplugged"):
        record()
    assert list(tmp_path.iterdir()) == []


def test_wrong_use_of_the_writer_is_refused(tmp_path: Path) -> None:
    message = imu(START_NS, (0, 0, 0), (0, 0, 0))
    with pytest.raises(UserError, match="storage 'avi' is unknown"):
        BagWriter(tmp_path / "bag", "avi")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        BagWriter(tmp_path / "file" / "bag")
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("/x", IMU, START_NS, message)
        with pytest.raises(ValueError, match=r"/x is sensor_msgs/msg/Imu, it cannot be geometry_msgs/msg/PoseStamped"):
            writer.write("/x", POSE, START_NS, pose(START_NS, (0, 0, 0)))
        with pytest.raises(ValueError, match="no standard type"):
            writer.write("/y", "lab_msgs/msg/None", START_NS, message)
        with pytest.raises(ValueError, match="is no geometry_msgs/msg/PoseStamped"):
            writer.write("/y", POSE, START_NS, message)
        with pytest.raises(ValueError, match="log time -1"):
            writer.write("/x", IMU, -1, message)
        message.orientation_covariance = np.zeros(8)
        with pytest.raises(ValueError, match="array length"):
            writer.write("/x", IMU, START_NS, message)


# New messages


def test_new_messages_have_the_defaults_of_ros() -> None:
    message = new(IMU)
    rotation = message.orientation
    assert (rotation.x, rotation.y, rotation.z, rotation.w) == (0.0, 0.0, 0.0, 1.0)
    assert message.angular_velocity_covariance.tolist() == [0.0] * 9
    assert (message.header.stamp.sec, message.header.frame_id) == (0, "")
    assert new("sensor_msgs/msg/NavSatFix").status.status == -2
    assert new("nav_msgs/msg/Odometry").pose.pose.orientation.w == 1.0
    assert new("nav_msgs/msg/Path").poses == []
    assert new(IMU).orientation is not message.orientation


def test_new_messages_take_what_rclpy_takes() -> None:
    joints = new("sensor_msgs/msg/JointState", name=("a", "b"), position=[1, 2.5])
    assert (joints.name, joints.position.dtype, joints.position.tolist()) == (["a", "b"], np.float64, [1.0, 2.5])
    assert new("diagnostic_msgs/msg/DiagnosticStatus", level=b"\x02").level == 2
    assert new("diagnostic_msgs/msg/DiagnosticStatus", level=2).level == 2
    assert new("std_msgs/msg/UInt8MultiArray", data=b"\x01\x02").data.tolist() == [1, 2]
    for kind in ("sensor_msgs/msg/JointState", IMU, "diagnostic_msgs/msg/DiagnosticArray", "nav_msgs/msg/Odometry"):
        data = JAZZY.serialize_cdr(new(kind), kind)
        assert bytes(JAZZY.serialize_cdr(JAZZY.deserialize_cdr(data, kind), kind)) == bytes(data)


@pytest.mark.parametrize(
    ("message_type", "fields", "said"),
    [
        (IMU, {"orientation_covariance": [0.0] * 8}, "orientation_covariance has 8 elements, it must have 9"),
        (IMU, {"gyro": 1}, "has no field gyro; it has: header, orientation"),
        (IMU, {"angular_velocity": new("geometry_msgs/msg/Point")}, "must be a geometry_msgs/msg/Vector3"),
        ("sensor_msgs/msg/JointState", {"name": "left"}, "must be a list"),
        ("sensor_msgs/msg/JointState", {"name": ["left", 3]}, "must be text"),
        ("sensor_msgs/msg/JointState", {"position": ["x"]}, "must be a row of numbers"),
        ("geometry_msgs/msg/Point", {"x": "1"}, "must be a number"),
        ("std_msgs/msg/UInt8", {"data": 256}, "a uint8 is 0 to 255"),
        ("std_msgs/msg/Int32", {"data": 1.5}, "must be a whole number"),
        ("std_msgs/msg/Bool", {"data": 2}, "must be a bool"),
        ("std_msgs/msg/Nothing", {}, "no standard type"),
    ],
)
def test_new_messages_are_checked(message_type: str, fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        new(message_type, **fields)


def test_type_hashes_are_those_that_ros2_publishes() -> None:
    assert type_hash("std_msgs/msg/String") == "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
    # `char` is where rosbags and ROS 2 differ.
    assert type_hash("std_msgs/msg/Char") == "RIHS01_3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9"
    assert JAZZY.hash_rihs01("std_msgs/msg/Char") != type_hash("std_msgs/msg/Char")
    assert type_hash(IMU) == JAZZY.hash_rihs01(IMU)


def test_rosbags_reads_the_metadata_of_what_we_write(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as writer:
        writer.write("/tf_static", "tf2_msgs/msg/TFMessage", START_NS, new("tf2_msgs/msg/TFMessage"))
    with Reader(tmp_path / "bag") as reader:
        assert reader.message_count == 1
        assert reader.connections[0].ext.offered_qos_profiles[0].durability.name == "TRANSIENT_LOCAL"  # type: ignore[union-attr]
