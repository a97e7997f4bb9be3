"""The node `vicon` against the node `vicon_emulator`: truth in, truth out, over real TCP and the live graph."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import numpy as np
import pytest
from live_graph import collect, listening_node, running, spin_until

import embedded_ros

pytestmark = [
    pytest.mark.skipif(
        embedded_ros.runtime() is embedded_ros.Runtime.NONE, reason="neither ROS 2 nor CycloneDDS for Python is here"
    ),
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(180),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def test_truth_comes_out_as_it_went_in_and_after_disconnections(tmp_path: Path) -> None:
    port = f"port:={free_port()}"
    emulated = ["-p", port, "-p", "bodies:=[box, link]", "-p", "rate_hz:=100.0", "-p", "disconnect_every_s:=3.0"]
    with (
        listening_node() as node,
        running("vicon_emulator", tmp_path, *emulated),
        running("vicon", tmp_path, "-p", port, "-p", "bodies:=[box, link=arm]") as driver,
    ):
        from geometry_msgs.msg import PoseStamped
        from rclpy.qos import qos_profile_sensor_data

        outputs = [node.create_publisher(PoseStamped, f"emulated_truth/{name}/pose", 10) for name in ("box", "link")]
        sent: dict[int, float] = {}

        def send() -> None:
            now_ns = time.time_ns() // 10_000_000 * 10_000_000
            if now_ns in sent:
                return
            sent[now_ns] = float(len(sent))
            message = PoseStamped()
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(now_ns, 10**9)
            message.pose.orientation.x = 1.0
            message.pose.orientation.w = 0.0
            message.pose.position.y = sent[now_ns]
            for output in outputs:
                output.publish(message)

        node.create_timer(0.002, send)
        got = collect(node, "geometry_msgs/msg/PoseStamped", "ground_truth/arm/pose", qos_profile_sensor_data)
        spin_until(node, lambda: len(got) > 700)
        assert "the server knows box, link" in driver.output
        assert "closed the connection; trying again" in driver.output
    stamps = {value: at_ns for at_ns, value in sent.items()}
    errors_ms = []
    for message in got:
        value = message.pose.position.y
        assert value == pytest.approx(round(value), abs=1e-12)
        assert abs(message.pose.orientation.x) == pytest.approx(1.0, abs=1e-12)
        at_ns = 10**9 * message.header.stamp.sec + message.header.stamp.nanosec
        errors_ms.append(1e-6 * (at_ns - stamps[float(round(value))]))
    assert abs(np.median(errors_ms[-200:])) < 3.0
