"""Foxglove's server: real messages of DDS reach a real WebSocket client, whole, and nothing goes the other way."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from evaluation_samples import refusal
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from onboard_estimation.live.session import graph_node
from onboard_estimation.live.types import interface_class

pytestmark = [
    pytest.mark.skipif(find_spec("foxglove") is None, reason="foxglove-sdk is not installed (extra `foxglove`)"),
    pytest.mark.live,
]
LONGEST_WAIT_S = 60.0
IMU, WORDS = "sensor_msgs/msg/Imu", "std_msgs/msg/String"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def port(ros_domain: int) -> Iterator[int]:
    """Of `view --foxglove`, which runs."""
    found = free_port()
    arguments = ["-m", "onboard_estimation", "view", "--foxglove", "--port", str(found)]
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, env=os.environ.copy(), text=True)
    assert process.stdout is not None
    said = [process.stdout.readline(), process.stdout.readline()]
    assert f"ws://127.0.0.1:{found}" in said[1], said
    yield found
    process.send_signal(signal.SIGINT)
    assert process.wait(LONGEST_WAIT_S) == 0


class Client:
    """A client of Foxglove's protocol: https://github.com/foxglove/ws-protocol, frames by hand."""

    def __init__(self, port: int) -> None:
        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        protocols = [Subprotocol("foxglove.sdk.v1"), Subprotocol("foxglove.websocket.v1")]
        self.socket = connect(f"ws://127.0.0.1:{port}", subprotocols=protocols, max_size=None)
        self.server_info: dict[str, Any] = {}
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: list[tuple[int, int, bytes]] = []

    def until(self, condition: Callable[[], bool], each: Callable[[], None] = lambda: None) -> None:
        """Read until the condition holds."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while not condition():
            assert time.monotonic() < deadline, (list(self.channels), len(self.messages))
            each()
            try:
                self.take(self.socket.recv(timeout=0.1))
            except TimeoutError:
                continue

    def take(self, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            if frame[0] == 1:
                subscription, log_time_ns = struct.unpack_from("<IQ", frame, 1)
                self.messages.append((subscription, log_time_ns, frame[13:]))
            return
        told = json.loads(frame)
        if told["op"] == "serverInfo":
            self.server_info = told
        for channel in told.get("channels", []):
            self.channels[channel["topic"]] = channel

    def subscribe(self, number: int, topic: str) -> None:
        asked = {"op": "subscribe", "subscriptions": [{"id": number, "channelId": self.channels[topic]["id"]}]}
        self.socket.send(json.dumps(asked))


def test_messages_arrive_whole_late_topics_and_latched_ones_as_well(port: int) -> None:
    client = Client(port)
    with graph_node("foxglove_test") as node:
        from rclpy.qos import DurabilityPolicy, QoSProfile

        kind = interface_class(IMU)
        hidden = node.create_publisher(kind, "/bench/_hidden", 10)
        imu = node.create_publisher(kind, "/bench/imu", 10)  # after the server and its client
        message = kind()
        message.header.frame_id = "bench/body"
        message.angular_velocity.y = -0.125
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        words = node.create_publisher(interface_class(WORDS), "/bench/words", latched)
        words.publish(interface_class(WORDS)(data="once, before anybody looked"))
        client.until(lambda: {"/bench/imu", "/bench/words"} <= set(client.channels))
        time.sleep(0.3)  # the one message has gone through by now
        client.subscribe(7, "/bench/words")
        client.until(lambda: any(one[0] == 7 for one in client.messages))
        client.subscribe(8, "/bench/imu")
        client.until(lambda: any(one[0] == 8 for one in client.messages), lambda: imu.publish(message))
        assert hidden.topic_name not in client.channels
    channel = client.channels["/bench/imu"]
    assert (channel["encoding"], channel["schemaName"], channel["schemaEncoding"]) == ("cdr", IMU, "ros2msg")
    # Read by nothing but the advertised text.
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(channel["schema"], IMU))
    _, log_time_ns, data = next(one for one in client.messages if one[0] == 8)
    read: Any = store.deserialize_cdr(data, IMU)
    assert read.header.frame_id == "bench/body"
    assert (read.angular_velocity.y, read.angular_velocity.x) == (-0.125, 0.0)
    assert abs(log_time_ns - time.time_ns()) < LONGEST_WAIT_S * 1e9
    told = next(one for one in client.messages if one[0] == 7)[2]
    assert b"once, before anybody looked" in told


def test_clients_can_change_nothing(port: int) -> None:
    """It offers no capability, and a client that publishes all the same is not heard in the graph."""
    client = Client(port)
    client.until(lambda: bool(client.server_info))
    assert client.server_info["capabilities"] == []
    channel = {"id": 1, "topic": "/bench/set_pose", "encoding": "cdr", "schemaName": WORDS}
    client.socket.send(json.dumps({"op": "advertise", "channels": [channel]}))
    client.socket.send(struct.pack("<BI", 1, 1) + b"\x00\x01\x00\x00\x01\x00\x00\x00\x00")
    with graph_node("foxglove_test") as node:
        seen = node.create_publisher(interface_class(WORDS), "/bench/there", 1)
        client.until(lambda: "/bench/there" in client.channels)  # it goes on, and its own topics would be known by now
        assert "/bench/set_pose" not in dict(node.get_topic_names_and_types())
        node.destroy_publisher(seen)


def test_of_a_recording_it_says_which_file_to_open(tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "bag_0.mcap").write_bytes(b"")
    assert "bag_0.mcap" in refusal("view", str(tmp_path / "bag"), "--foxglove")
    (tmp_path / "empty").mkdir()
    assert "no .mcap" in refusal("view", str(tmp_path / "empty"), "--foxglove")


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refusal("view", "--foxglove", "--port", str(port))
