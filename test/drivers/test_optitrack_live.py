"""The node `optitrack` over real DDS, with the node `optitrack_emulator`: from topics and from a bag, by both ways."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_graph import TF_IS_HERE, await_being_heard, collect, collect_transforms, listening_node, running, spin_until
from natnet_samples import free_ports
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

pytestmark = [
    pytest.mark.live,
    pytest.mark.usefixtures("compiled_kernels", "ros_domain"),
    pytest.mark.timeout(200),
]
POSE = "geometry_msgs/msg/PoseStamped"
TURN = np.array([0.5, -0.5, 0.5, 0.5])


def ports() -> tuple[str, ...]:
    """Parameters that both nodes share."""
    command, data = free_ports()
    return ("-p", f"command_port:={command}", "-p", f"data_port:={data}")


def sensor_data() -> Any:
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    return QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)


def stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec)


class Truth:
    """Publishes poses of two bodies at 100 Hz while it is asked to; x is the number of the instant."""

    def __init__(self, node: Any) -> None:
        from geometry_msgs.msg import PoseStamped

        names = ("link_1", "link_2")
        self._outputs = [node.create_publisher(PoseStamped, f"emulated_truth/{name}/pose", 100) for name in names]
        self._message = PoseStamped()
        self._message.header.frame_id = "world"
        self.stamps_ns: list[int] = []
        self._next_ns = time.time_ns()

    def publish(self) -> bool:
        """What is due; true, for conditions."""
        while self._next_ns <= time.time_ns():
            message, pose = self._message, self._message.pose
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(self._next_ns, 1_000_000_000)
            (pose.position.x, pose.position.y), pose.position.z = (float(len(self.stamps_ns)), 1.0), 2.0
            pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = TURN.tolist()
            for output in self._outputs:
                output.publish(message)
            self.stamps_ns.append(self._next_ns)
            self._next_ns += 10_000_000
        return True


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["multicast", "unicast"])
def test_a_simulators_truth_comes_back_as_ground_truth(transport: str, tmp_path: Path) -> None:
    shared = (*ports(), "-p", f"transport:={transport}")
    streamed = ("-p", "bodies:=[link_1, link_2]", "-p", "clock_skew_ppm:=90.0", "-p", "occlude_every_s:=3.0")
    asked = ("-p", "bodies:=[link_1=base, link_2]", "-p", "publish_tf:=true")
    with (
        running("optitrack_emulator", tmp_path, *shared, *streamed) as emulator,
        running("optitrack", tmp_path, *shared, *asked) as driver,
        listening_node() as node,
    ):
        emulator.wait_for("bodies: link_1, link_2")
        truth = Truth(node)
        base = collect(node, POSE, "ground_truth/base/pose", sensor_data())
        link = collect(node, POSE, "ground_truth/link_2/pose", sensor_data())
        transforms = collect_transforms(node)
        reports = collect(node, "diagnostic_msgs/msg/DiagnosticArray", "/diagnostics")
        await_being_heard(node, "/salp/optitrack", "/salp/optitrack_emulator")
        spin_until(node, lambda: truth.publish() and len(base) > 400 and len(link) > 400)
        spin_until(node, lambda: truth.publish() and (not TF_IS_HERE or bool(transforms)))
        assert "published: /salp/ground_truth/base/pose, /salp/ground_truth/link_2/pose" in driver.output
        # Each message has the number and the stamp of an instant; what was occluded is missing.
        numbers = np.array([round(one.pose.position.x) for one in base])
        errors_s = 1e-9 * np.array([stamp_ns(one) - truth.stamps_ns[k] for k, one in zip(numbers, base, strict=True)])
        assert np.median(np.abs(errors_s)) < 0.002
        assert np.diff(numbers).min() > 0
        assert np.diff(numbers).max() > 10
        last = base[-1]
        assert last.header.frame_id == "world"
        assert (last.pose.position.y, last.pose.position.z) == (1.0, 2.0)
        turn = last.pose.orientation
        assert [turn.x, turn.y, turn.z, turn.w] == TURN.tolist()
        frames = {one.child_frame_id for message in transforms for one in message.transforms}
        assert frames == ({"salp/truth/base", "salp/truth/link_2"} if TF_IS_HERE else set())
        ours = [one for report in reports for one in report.status if one.name == "salp/optitrack: stream"]
        figures = {one.key: float(one.value) for one in ours[-1].values}
        assert figures["lost"] == figures["reconnections"] == figures["of_other_senders"] == 0.0
        assert figures["frames"] > 200
        assert any("link_1: not" not in one.message and "not seen" in one.message for r in reports for one in r.status)
        assert emulator.stop() == driver.stop() == 0


@pytest.mark.slow
def test_a_bag_is_streamed_as_if_it_were_now(tmp_path: Path) -> None:
    store, bag, shared = get_typestore(Stores.ROS2_HUMBLE), tmp_path / "bag", ports()
    kinds = {name.rpartition("/")[2]: kind for name, kind in store.types.items()}
    kinds["Time"] = store.types["builtin_interfaces/msg/Time"]
    with Writer(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        output = writer.add_connection("/lab/ground_truth/arm/pose", POSE, typestore=store)
        for number in range(1000):
            at_ns = 1_000_000_000_000 + 10_000_000 * number
            header = kinds["Header"](stamp=kinds["Time"](*divmod(at_ns, 1_000_000_000)), frame_id="world")
            pose = kinds["Pose"](kinds["Point"](float(number), 0.0, 0.0), kinds["Quaternion"](0.0, 0.0, 0.0, 1.0))
            message = kinds["PoseStamped"](header=header, pose=pose)
            writer.write(output, at_ns, store.serialize_cdr(message, POSE))
    with (
        listening_node() as node,
        running("optitrack", tmp_path, *shared),
        running("optitrack_emulator", tmp_path, *shared, "-p", f"bag:={bag}") as emulator,
    ):
        arm = collect(node, POSE, "ground_truth/arm/pose", sensor_data())
        spin_until(node, lambda: len(arm) > 300)
        numbers = np.array([one.pose.position.x for one in arm])
        at_s = 1e-9 * np.array([stamp_ns(one) for one in arm])
        assert abs(at_s[-1] - time.time()) < 5.0
        away_s = (at_s - at_s[-1]) - 0.01 * (numbers - numbers[-1])
        assert np.abs(away_s).max() < 0.01
        emulator.wait_for("the bag is over")


def test_addresses_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with running("optitrack", tmp_path, "-p", "server:=239.1.1.1", "-p", "bodies:=[a=b c]") as driver:
        driver.wait_for("allowed: no multicast address")
        assert "STREAM_NAME=topic_name" in driver.output
