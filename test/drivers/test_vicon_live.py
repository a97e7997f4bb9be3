"""The node `vicon` against the node `vicon_emulator`: truth in, truth out, over real TCP and the live graph."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_graph import TF_IS_HERE, collect, collect_transforms, listening_node, running, spin_until

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("ros_domain"),
    pytest.mark.timeout(180),
]


POSE = "geometry_msgs/msg/PoseStamped"
BODIES = ("box", "link")
PERIOD_NS = 10_000_000


def sensor_data() -> Any:
    from rclpy.qos import qos_profile_sensor_data

    return qos_profile_sensor_data


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


class Truth:
    """Publishes poses of two bodies at 100 Hz while the node is spun; y is the number of the instant."""

    def __init__(self, node: Any) -> None:
        from geometry_msgs.msg import PoseStamped

        self._outputs = [node.create_publisher(PoseStamped, f"emulated_truth/{name}/pose", 10) for name in BODIES]
        self._message = PoseStamped()
        self._message.pose.orientation.x, self._message.pose.orientation.w = 1.0, 0.0
        self.stamps_ns: list[int] = []
        node.create_timer(0.002, self._send)

    def _send(self) -> None:
        now_ns = time.time_ns() // PERIOD_NS * PERIOD_NS
        if self.stamps_ns and now_ns <= self.stamps_ns[-1]:
            return
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(now_ns, 10**9)
        self._message.pose.position.y = float(len(self.stamps_ns))
        self.stamps_ns.append(now_ns)
        for output in self._outputs:
            output.publish(self._message)

    def errors_s(self, got: list[Any]) -> np.ndarray:
        """Of the stamps; poses have to be those that were sent."""
        errors_ns = []
        for message in got:
            value = message.pose.position.y
            assert value == pytest.approx(round(value), abs=1e-12)
            assert abs(message.pose.orientation.x) == pytest.approx(1.0, abs=1e-12)
            at_ns = 10**9 * message.header.stamp.sec + message.header.stamp.nanosec
            errors_ns.append(at_ns - self.stamps_ns[round(value)])
        return 1e-9 * np.array(errors_ns)


@pytest.mark.slow
def test_truth_comes_out_as_it_went_in_and_after_disconnections(tmp_path: Path) -> None:
    port = f"port:={free_port()}"
    emulated = ["-p", port, "-p", "bodies:=[box, link]", "-p", "rate_hz:=100.0", "-p", "disconnect_every_s:=3.0"]
    with (
        listening_node() as node,
        running("vicon_emulator", tmp_path, *emulated),
        running("vicon", tmp_path, "-p", port, "-p", "bodies:=[box, link=arm]") as driver,
    ):
        truth = Truth(node)
        got = collect(node, POSE, "ground_truth/arm/pose", sensor_data())
        spin_until(node, lambda: len(got) > 700)
        assert "the server knows box, link" in driver.output
        assert "closed the connection; trying again" in driver.output
    assert abs(np.median(truth.errors_s(got)[-200:])) < 0.003


@pytest.mark.slow
def test_occluded_bodies_are_missing_and_a_server_that_restarts_is_found_again(tmp_path: Path) -> None:
    port = f"port:={free_port()}"
    faults = ["occlusion_rate:=0.3", "restart_every_s:=6.0", "restart_takes_s:=2.5"]
    emulated = [word for one in (port, "bodies:=[box, link]", "rate_hz:=100.0", *faults) for word in ("-p", one)]
    with (
        listening_node() as node,
        running("vicon_emulator", tmp_path, *emulated),
        running("vicon", tmp_path, "-p", port, "-p", "publish_tf:=true") as driver,
    ):
        truth = Truth(node)
        got = {name: collect(node, POSE, f"ground_truth/{name}/pose", sensor_data()) for name in BODIES}
        transforms = collect_transforms(node)
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        spin_until(node, lambda: "frame numbers began anew" in driver.output)
        counts = {name: len(messages) for name, messages in got.items()}
        spin_until(node, lambda: all(len(messages) > counts[name] + 100 for name, messages in got.items()))
        spin_until(node, lambda: reports[-1].status[0].level != b"\2")  # the trouble is over
        assert driver.stop() == 0
    for messages in got.values():
        stamps_ns = [10**9 * one.header.stamp.sec + one.header.stamp.nanosec for one in messages]
        assert (np.diff(stamps_ns) > 0).all()
        assert abs(np.median(truth.errors_s(messages)[:200])) < 0.003
    box, link = ({round(one.pose.position.y) for one in messages} for messages in got.values())
    assert min(len(box & link), len(box - link), len(link - box)) > 20  # each is occluded by itself
    together: list[set[str]] = [{one.child_frame_id for one in message.transforms} for message in transforms]
    if TF_IS_HERE:
        assert {1, 2} <= {len(names) for names in together}
        assert set().union(*together) == {"salp/truth/box", "salp/truth/link"}
    else:
        assert driver.output.count("no tf: tf2_msgs is not installed") == 1
    statuses = [one for report in reports for one in report.status]
    assert any(one.level == b"\2" and "trying again" in one.message for one in statuses)
    assert any(one.level == b"\1" and "not seen in" in one.message for one in statuses)
