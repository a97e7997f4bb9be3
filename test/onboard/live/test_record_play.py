"""record and play with real processes and files: nothing lost, nothing changed, nothing overwritten."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcap.reader
import pytest
import yaml
from bag_samples import IMU, Sample, imu, write_ros1
from evaluation_samples import command, refusal
from hypothesis import given, settings
from hypothesis import strategies as st
from live_nodes import COUNTER, LONGEST_WAIT_S, REPORT, SPIN, heard_by, running, start, stop
from rosbags.interfaces import Qos, QosDurability, QosTime
from rosbags.typesys import get_types_from_msg

from onboard_estimation.bags.bag import RawMessage, open_bag
from onboard_estimation.bags.files import NEVER, offer
from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter
from onboard_estimation.base.errors import UserError
from onboard_estimation.live import qos
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.recorder import Recorder, Selection, definition
from onboard_estimation.live.schedule import PlayOptions
from onboard_estimation.live.session import graph_node, ros_context, spin_beside
from onboard_estimation.live.signals import StopRequest

TIME = "builtin_interfaces/msg/Time"
TRANSFORM = "geometry_msgs/msg/TransformStamped"
"""The wheels of ROS 2 have no tf2_msgs."""
START_NS = 1_700_000_000 * 10**9
MODULE = [sys.executable, "-m", "onboard_estimation"]
PATIENTLY = ("--wait-for-subscribers", "90")
SLOW_NS = 10_000_000
"""Between two messages of a topic, ns: a player's queues hold what comes while another process stands still."""


def bag_of(path: Path, count: int = 100, topics: int = 3, step_ns: int = 2_000_000, storage: Any = "mcap") -> Path:
    """`topics` IMU topics with `count` messages each; the stamp's seconds count all messages of the bag."""
    with BagWriter(path, storage) as writer:
        for number in range(count * topics):
            message = imu(number * 10**9, (number, 0.0, 0.0), (0.0, 0.0, 9.81))
            stamp_ns = START_NS + number * step_ns // topics
            writer.write(f"/imu_{number % topics}", IMU, stamp_ns, message)
        writer.write("/tf_static", TRANSFORM, stamp_ns, new(TRANSFORM))
    return path


def raw(path: Path) -> dict[str, list[RawMessage]]:
    """Messages by topic."""
    out: dict[str, list[RawMessage]] = {}
    with open_bag(path) as bag:
        for message in bag.messages():
            out.setdefault(message.topic, []).append(message)
    return out


def payloads(path: Path) -> dict[str, list[bytes]]:
    return {topic: [message.data for message in messages] for topic, messages in raw(path).items()}


def written(path: Path) -> int:
    """Messages of a recording under way that are on the disk; what is in a subscription's queue is lost at Ctrl-C."""
    try:
        return sum(map(len, payloads(path).values()))
    except (UserError, OSError):
        return 0


def wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def assert_recorded_well(bag: Path, before_ns: int) -> None:
    """When, of which quality of service, and of which type."""
    stamps = [message.log_time_ns for message in raw(bag)["/imu_0"]]
    assert before_ns < stamps[0]
    assert stamps == sorted(stamps)
    with open_bag(bag) as opened:
        assert opened.damage is None
        assert opened.is_standard("/imu_0")
        for topic, usual in (("/tf_static", offer(transient_local=True)), ("/imu_0", offer())):
            assert qos.offer_for_topic(topic, [usual, *qos.parse_offers(opened.offers(topic)[0])]) == (usual, True)
    about = yaml.safe_load((bag / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    hashes = {one["topic_metadata"]["name"]: one["topic_metadata"]["type_description_hash"]
              for one in about["topics_with_message_count"]}  # fmt: skip
    assert hashes["/imu_0"] == "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"


# Recording what is played.


@pytest.mark.live
def test_what_is_played_is_what_is_recorded(ros_domain: int, tmp_path: Path) -> None:
    """By the commands, and by the nodes that launch files start with parameters: these end with 0 on SIGINT too."""
    source, copy, other = bag_of(tmp_path / "source"), tmp_path / "copy", tmp_path / "other"
    words = ["-p", f"output:={other}", "-p", "storage:=sqlite3", "-p", "regex:=^/(imu|tf)", "-r", "__ns:=/salp"]
    recorders = [
        start("record", "--all", "--exclude-regex", "^/(rosout|parameter_events)$", "-o", copy),
        start("run", "recorder", "--ros-args", *words),
    ]
    try:
        wait_for(lambda: copy.is_dir() and other.is_dir(), "the recorders do not start")
        before_ns = time.time_ns()
        words = ["-p", f"bag:={source}", "-p", "wait_for_subscribers:=90.0", "-p", "rate:=2.0"]
        player = start("run", "bag_player", "--ros-args", *words)
        _, errors = player.communicate()
        assert player.returncode == 0, errors
        assert "301 messages on 4 topics played" in errors
        wait_for(lambda: written(copy) == written(other) == 301, "not all is recorded")
    finally:
        ends = [stop(recorder) for recorder in recorders]
    assert [recorder.returncode for recorder in recorders] == [0, 0], ends
    assert "301 messages on 4 topics" in ends[0][0]
    assert "LOST" not in ends[0][0]
    for bag in (copy, other):
        assert payloads(bag) == payloads(source)
        assert_recorded_well(bag, before_ns)
    with (copy / "copy.mcap").open("rb") as file:
        for _, _, message in mcap.reader.make_reader(file).iter_messages():
            assert before_ns < message.publish_time <= message.log_time


@pytest.mark.live
def test_what_has_arrived_when_a_recorder_is_interrupted_is_recorded(ros_domain: int, tmp_path: Path) -> None:
    """Its node gets to the messages only after the end was asked for."""
    with ros_context():
        from onboard_estimation.live.read_out import QuietNode

        node, other = QuietNode("recorder"), QuietNode("other")
        publisher = other.create_publisher(interface_class(IMU), "/imu", 100)
        wait_for(lambda: node.get_publishers_info_by_topic("/imu"), "the publisher is not found")
        request = StopRequest()
        recorder = Recorder(node, BagWriter(tmp_path / "bag", grows=True), Selection(topics=("/imu",)))
        recorder._search()
        wait_for(publisher.get_subscription_count, "the subscription is not found")
        message = interface_class(IMU)()
        for number in range(50):
            message.header.stamp.sec = number
            publisher.publish(message)
        publisher.wait_for_all_acked()
        request.make()
        with spin_beside(node):
            recorder.run(request)
        other.destroy_node()
    assert [message.data[4] for message in raw(tmp_path / "bag")["/imu"]] == list(range(50))


@pytest.mark.live
@pytest.mark.slow
def test_a_recorder_that_is_killed_or_finds_a_full_disk_leaves_a_bag_up_to_there(
    ros_domain: int, tmp_path: Path
) -> None:
    """A limit on the size of files stands for the disk."""
    source, topics = bag_of(tmp_path / "source", step_ns=SLOW_NS), ("/imu_0", "/imu_1", "/imu_2")
    player = start("play", source, "--loop", *PATIENTLY)
    recorders = {
        storage: start("record", *topics, "-o", tmp_path / storage, "-s", storage) for storage in ("mcap", "sqlite3")
    }
    try:
        limited = subprocess.run(
            [*MODULE, "record", *topics, "-o", str(tmp_path / "cut")],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
            capture_output=True, text=True, timeout=LONGEST_WAIT_S, check=False,
        )  # fmt: skip
        files = [tmp_path / "mcap" / "mcap.mcap", tmp_path / "sqlite3" / "sqlite3.db3"]
        wait_for(lambda: all(file.is_file() and file.stat().st_size > 100_000 for file in files), "nothing is written")
    finally:
        for process in (*recorders.values(), player):
            stop(process, signal.SIGKILL)
    assert limited.returncode == 2, limited.stderr
    *_, last = limited.stderr.splitlines()
    assert last.startswith(f"error: recording to {tmp_path / 'cut'} stopped: file too large (")
    assert f"; {written(tmp_path / 'cut')} of " in last
    assert last.endswith(" messages can be read from it")
    assert "Traceback" not in limited.stderr
    assert written(tmp_path / "cut") > 100
    whole = payloads(source)
    for storage in recorders:
        with open_bag(tmp_path / storage) as bag:
            assert bag.damage is not None
            assert "metadata.yaml is missing" in bag.damage
        for topic, messages in payloads(tmp_path / storage).items():
            first = whole[topic].index(messages[0])
            assert len(messages) > 20
            assert messages == [whole[topic][(first + number) % 100] for number in range(len(messages))]


@pytest.mark.live
def test_bad_requests_are_refused_and_nothing_is_overwritten(ros_domain: int, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "notes.txt").write_text("mine")
    assert "exists already and is not empty; name another --output" in refusal("record", "--all", "-o", there)
    assert [entry.name for entry in there.iterdir()] == ["notes.txt"]
    assert "nothing to record" in refusal("record", "-o", tmp_path / "other")
    assert "no regular expression" in refusal("record", "--regex", "(", "-o", tmp_path / "other")
    assert "storage 'zip' is unknown" in refusal("record", "--all", "-s", "zip", "-o", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    source = bag_of(tmp_path / "source", count=2)
    assert "has no topic /nothing; it has: /imu_0, " in refusal("play", source, "--topics", "/nothing")
    assert "write --remap FROM:=TO" in refusal("play", source, "--remap", "/a")
    assert "start-offset 100" in refusal("play", source, "--start-offset", "100")
    assert "does not exist" in refusal("play", tmp_path / "nothing")
    wrong: Any
    for wrong in ({"rate": -1.0}, {"rate": float("nan")}, {"clock_hz": 1e9}, {"topics": ("/a b",)}):
        with pytest.raises(UserError):
            PlayOptions(**wrong)
    with pytest.raises(UserError):
        PlayOptions(exclude_topics=("/a b",))


# Playing.


@pytest.mark.live
def test_rate_zero_loses_nothing_and_keeps_the_order(ros_domain: int, tmp_path: Path) -> None:
    """A node with short queues that is slower than the bag: what overflows at rate 1 does not in step. Of ROS 1."""
    samples = [
        Sample(
            f"/imu_{number % 3}", IMU, START_NS + 300 * number, imu(number * 10**9, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
        )
        for number in range(120)
    ]
    source = write_ros1(tmp_path / "walk.bag", samples)
    with running(COUNTER.replace("DELAY", "0.002") + SPIN + REPORT) as counter:
        played = command("play", source, "--rate", "0", *PATIENTLY)
        assert (played.code, played.error) == (0, ""), played
        assert heard_by(counter) == [[number % 3, number] for number in range(120)]


@pytest.mark.live
def test_the_clock_tells_the_bags_time(ros_domain: int, tmp_path: Path) -> None:
    """Under another name, at half the rate."""
    source = bag_of(tmp_path / "source", count=100, topics=1)
    heard: list[int] = []
    clock: list[int] = []
    with graph_node("test") as node:
        node.create_subscription(interface_class(IMU), "/moved", lambda it: heard.append(it.header.stamp.sec), 200)
        node.create_subscription(
            interface_class("rosgraph_msgs/msg/Clock"),
            "/clock",
            lambda it: clock.append(it.clock.sec * 10**9 + it.clock.nanosec),
            qos.matching([], 10),
        )
        player = start("play", source, "--clock", "--rate", "0.5", "--remap", "/imu_0:=/moved", *PATIENTLY)
        out, errors = player.communicate(timeout=LONGEST_WAIT_S)
        wait_for(lambda: heard == list(range(100)), f"not all is heard: {heard}")
    assert (player.returncode, errors) == (0, "")
    assert "101 messages on 2 topics played" in out
    assert clock == sorted(clock)
    assert START_NS <= clock[0] < clock[-1]


# Selection.


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(everything=True), {"/a", "/a/b", "/rosout"}),
        (Selection(everything=True, include_hidden=True), {"/a", "/a/b", "/_hidden", "/a/_b", "/rosout"}),
        (Selection(topics=("/a", "rosout")), {"/a", "/rosout"}),
        (Selection(topics=("/_hidden",)), set()),
        (Selection(regex="a"), {"/a", "/a/b"}),
        (Selection(regex="b$", exclude_regex="^/a"), set()),
        (Selection(everything=True, exclude_regex="b|ros"), {"/a"}),
    ],
)
def test_topics_are_selected_as_rosbag2_does(selection: Selection, taken: set[str]) -> None:
    assert {topic for topic in ("/a", "/a/b", "/_hidden", "/a/_b", "/rosout") if selection.takes(topic)} == taken


# Quality of service in bags.


durations = st.just(NEVER) | st.builds(QosTime, st.integers(1, 10**6), st.integers(0, 10**9 - 1))
offers = st.builds(offer, st.booleans(), st.booleans(), st.integers(1, 1000), *3 * [durations], st.booleans())


@settings(max_examples=25)
@given(st.lists(offers, min_size=1, max_size=3))
def test_offers_are_read_as_they_were_written(written: list[Qos]) -> None:
    from rosbags.rosbag2.metadata import dump_qos_v8, dump_qos_v9

    assert qos.parse_offers(dump_qos_v8(written)) == written
    # Without the aliases of equal parts, which are refused.
    assert qos.parse_offers(json.dumps(dump_qos_v9(written))) == written


def test_damaged_offers_are_left_out() -> None:
    for damaged in ("", "[", "[1, 2]", "{a: 1}", "- {depth: x}", "[" * 1_000, "- {depth: 1}"):
        assert qos.parse_offers(damaged) == []


def test_infinities_of_old_bags_are_no_durations() -> None:
    entry = {"history": 1, "depth": 5, "reliability": 2, "durability": 2, "liveliness": 1}
    for infinity in ({"sec": 2147483647, "nsec": 4294967295}, {"sec": 9223372036, "nsec": 854775807}):
        parsed = qos.parse_offers(yaml.safe_dump([{**entry, "deadline": infinity, "lifespan": {**infinity}}]))
        assert parsed == [offer(reliable=False, transient_local=False, depth=5)]


def test_a_player_offers_what_all_recorded_publishers_offered() -> None:
    best_effort, reliable = offer(reliable=False), offer()
    assert qos.offer_for_topic("/a", [best_effort, offer(reliable=False, depth=3)]) == (best_effort, True)
    assert qos.offer_for_topic("/a", [best_effort, reliable]) == (offer(), False)
    assert qos.offer_for_topic("/tf_static", [])[0].durability == QosDurability.TRANSIENT_LOCAL
    assert qos.offer_for_topic("/tf", [])[0].durability == QosDurability.VOLATILE


def test_growing_bag_of_a_type_that_nobody_defines(tmp_path: Path) -> None:
    bag = BagWriter(tmp_path / "bag", grows=True)
    bag.add_topic("/a", "ours/msg/Thing", definition="", offered=[offer()])
    bag.write_serialized("/a", "ours/msg/Thing", START_NS, b"\x00\x01\x00\x00data", START_NS - 5)
    bag.close()
    assert payloads(tmp_path / "bag") == {"/a": [b"\x00\x01\x00\x00data"]}


def test_definitions_of_an_installed_package_go_into_the_bag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those of the types within, standard ones too; of what cannot be found or read, none."""
    pytest.importorskip("ament_index_python")
    texts = {
        "Thing": "# What it is.\nstd_msgs/Header header\nPart[] parts\nuint8 MANY=3\n",
        "Part": "float64 x",
        "Odd": "nobody/Knows it\n",
        "Damaged": "float64",
    }
    for folder in ("share/ours/msg", "share/ament_index/resource_index/packages"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "share/ament_index/resource_index/packages/ours").touch()
    for name, text in texts.items():
        (tmp_path / f"share/ours/msg/{name}.msg").write_text(text)
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    text, digest = definition("ours/msg/Thing")
    found = get_types_from_msg(text, "ours/msg/Thing")
    assert set(found) == {"ours/msg/Thing", "ours/msg/Part", "std_msgs/msg/Header", TIME}
    assert [name for name, _ in found["ours/msg/Thing"][1]] == ["header", "parts"]
    assert digest is None
    for name in ("Odd", "Damaged", "Absent"):
        assert definition(f"ours/msg/{name}") == ("", None)
    assert definition("nobody/msg/Knows") == ("", None)
    assert definition(IMU)[1] is not None


# Beside a real ROS 2.


@pytest.mark.live
@pytest.mark.ros2
def test_ros2_bag_takes_our_bags_and_we_take_its(ros_domain: int, tmp_path: Path) -> None:
    from ros2_support import real_ros2

    ros2 = real_ros2()
    source = bag_of(tmp_path / "source", count=50)
    # Ours records what the other plays.
    recorder = start("record", "--regex", "^/imu", "-o", tmp_path / "ours")
    try:
        wait_for((tmp_path / "ours").is_dir, "the recorder does not start")
        played = ros2.command("ros2", "bag", "play", source, "--delay", "2", "--disable-keyboard-controls")
        assert played.returncode == 0, played.stderr
        _, errors = stop(recorder)
    finally:
        stop(recorder, signal.SIGKILL)
    assert recorder.returncode == 0, errors
    imus = {topic: data for topic, data in payloads(source).items() if topic != "/tf_static"}
    assert payloads(tmp_path / "ours") == imus
    told = ros2.command("ros2", "bag", "info", tmp_path / "ours")
    assert "Topic: /imu_0 | Type: sensor_msgs/msg/Imu | Count: 50 |" in told.stdout, told.stderr
    # The other records what ours plays.
    words = ("ros2", "bag", "record", "--regex", "^/imu", "-o", tmp_path / "theirs", "--disable-keyboard-controls")
    with ros2.start_command(*words) as other:
        wait_for(lambda: any("Listening for topics" in line for line in other.lines), "ros2 bag record does not start")
        # In step: its queues of ten messages overflow on a busy machine.
        played = command("play", tmp_path / "ours", "--wait-for-subscribers", "30", "--rate", "0")
        assert played.code == 0, played.error
        other.stop()
    assert payloads(tmp_path / "theirs") == imus
