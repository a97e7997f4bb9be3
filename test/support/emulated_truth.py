"""Poses of two bodies for an emulated motion capture system, and what a driver makes of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from live_graph import collect

POSE = "geometry_msgs/msg/PoseStamped"
PERIOD_NS = 10_000_000
TURN = np.array([0.5, -0.5, 0.5, 0.5])


def stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec)


def ground_truth(node: Any, body: str) -> list[Any]:
    """What a driver publishes of it."""
    from rclpy.qos import QoSProfile, ReliabilityPolicy

    qos = QoSProfile(depth=5000, reliability=ReliabilityPolicy.BEST_EFFORT)
    return collect(node, POSE, f"ground_truth/{body}/pose", qos)


class Truth:
    """Publishes poses at 100 Hz while the node is spun; y is the number of the instant."""

    def __init__(self, node: Any, bodies: Sequence[str]) -> None:
        from geometry_msgs.msg import PoseStamped

        self._outputs = [node.create_publisher(PoseStamped, f"emulated_truth/{name}/pose", 100) for name in bodies]
        self._message = PoseStamped()
        self._message.header.frame_id = "world"
        turn = self._message.pose.orientation
        turn.x, turn.y, turn.z, turn.w = TURN.tolist()
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
        """Of the stamps, which rise; poses have to be those that were sent."""
        numbers = np.array([one.pose.position.y for one in got])
        np.testing.assert_allclose(numbers, np.round(numbers), rtol=0.0, atol=1e-3)  # what the emulator adds as noise
        turns = [[getattr(one.pose.orientation, part) for part in "xyzw"] for one in got]
        np.testing.assert_allclose(np.abs(turns @ TURN), 1.0, rtol=0.0, atol=1e-12)
        stamps_ns = np.array([stamp_ns(one) for one in got])
        assert (np.diff(stamps_ns) > 0).all()
        assert (np.diff(np.round(numbers)) > 0).all()
        return np.array(1e-9 * (stamps_ns - np.array(self.stamps_ns)[np.round(numbers).astype(int)]))
