"""The emulated DataStream server as an rclpy node: truth from topics or a bag, as Vicon would stream it."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import numpy as np
import rclpy.clock
from rclpy.clock import ClockType
from rclpy.node import Node

from drivers.emulators.truth_feed import FeedSearch, TruthFeed
from drivers.emulators.vicon import DataStreamServer
from drivers.emulators.vicon_configuration import ViconEmulatorConfiguration
from drivers.motion_capture.axes import Axes
from drivers.motion_capture.bodies import BodyPoses
from drivers.motion_capture.configuration import NoRobot
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.nodes.parameters import NodeParameters

_TICK_S = 0.001
_MOST_WAITING = 10_000
_FIRST_NUMBER = 1000
_FRAMES_FOR_RATE = 100


class _Late(NamedTuple):
    """A frame that is to go out when it is due; the network's part of its being late, ns."""

    due_ns: int
    network_ns: int
    poses: BodyPoses


class ViconEmulatorNode(Node):
    """Streams truth as a DataStream server would; subscribes to `emulated_truth/<body>/pose` (PoseStamped).

    The stamp of a pose is that of its exposure. Parameters: `ViconEmulatorConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken, a bag without such topics, no bodies.
    """

    def __init__(self) -> None:
        self._server: DataStreamServer | None = None
        super().__init__("vicon_emulator", automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[NoRobot, ViconEmulatorConfiguration] = NodeParameters(
            self, NoRobot, ViconEmulatorConfiguration
        )
        self._chosen = chosen = parameters.host
        self._search = FeedSearch(self, chosen.bodies, chosen.bag)
        self._feed: TruthFeed | None = None
        self._axes, self._rng = Axes(chosen.up_axis), np.random.default_rng(chosen.seed)
        self._waiting: deque[_Late] = deque(maxlen=_MOST_WAITING)
        self._rate_hz = chosen.rate_hz
        self._first_ns: int | None = None
        self._number = -1
        self._began_s = self._disconnected_s = time.monotonic()
        self.sent = self.dropped = 0
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK_S, self._stream, clock=steady)

    def _begin(self) -> None:
        """Serve, once it is known which bodies, and how often they are seen."""
        chosen = self._chosen
        if self._feed is None:
            self._feed = self._search.feed()
            if self._feed is None:
                self.get_logger().info("waiting for emulated_truth/<body>/pose of any body", throttle_duration_sec=30.0)
        if self._feed is None:
            return
        self._take(self._feed)
        if not self._rate_hz and len(self._waiting) >= _FRAMES_FOR_RATE:
            # The median: frames that are missing make some of the intervals longer.
            stamps_ns = np.array([one.poses.stamp_ns for one in self._waiting])
            rate_hz = NANOSECONDS_PER_SECOND / max(float(np.median(np.diff(stamps_ns))), 1.0)
            # Cameras run at whole rates, or nearly so; a rate that is a thousandth off cannot be mapped.
            self._rate_hz = float(round(rate_hz)) if abs(rate_hz - round(rate_hz)) < 0.01 * rate_hz else rate_hz
        if self._rate_hz or self._feed.is_over:
            self._server = server = DataStreamServer(chosen.host, chosen.port, self._feed.names, self._rate_hz or 1.0)
            self.get_logger().info(
                f"DataStream at {chosen.host}:{server.port}, {self._rate_hz:.1f} Hz; bodies: "
                f"{', '.join(self._feed.names)}, from {chosen.bag or 'emulated_truth/<body>/pose'}"
            )

    def destroy_node(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        super().destroy_node()

    def _stream(self) -> None:
        server, feed = self._server, self._feed
        if server is None or feed is None:
            self._begin()
            return
        self._go_wrong(server)
        server.serve()
        self._take(feed)
        now_ns = time.time_ns()
        while self._waiting and self._waiting[0].due_ns <= now_ns:
            self._send(server, self._waiting.popleft())
        if feed.is_over and not self._waiting:
            self.get_logger().info(f"the bag is over: {self.sent} frames sent")
            self.context.try_shutdown()

    def _take(self, feed: TruthFeed) -> None:
        """What the cameras have seen waits for the system's latency, which it tells, and for the network's."""
        for poses in feed.take():
            network_ns = round(NANOSECONDS_PER_SECOND * self._rng.exponential(self._chosen.network_jitter_s))
            due_ns = poses.stamp_ns + round(NANOSECONDS_PER_SECOND * self._chosen.latency_s) + network_ns
            self._waiting.append(
                _Late(max(due_ns, self._waiting[-1].due_ns if self._waiting else 0), network_ns, poses)
            )

    def _go_wrong(self, server: DataStreamServer) -> None:
        now_s, chosen = time.monotonic(), self._chosen
        if chosen.disconnect_every_s and now_s - self._disconnected_s > chosen.disconnect_every_s:
            self._disconnected_s = now_s
            server.disconnect()
        if not chosen.restart_every_s:
            return
        if now_s - self._began_s > chosen.restart_every_s + chosen.restart_takes_s:
            self._began_s, self._first_ns, self._number = now_s, None, -1
            server.listen()
        elif now_s - self._began_s > chosen.restart_every_s:
            server.refuse()

    def _send(self, server: DataStreamServer, late: _Late) -> None:
        """Numbers count exposures at the rate, so that a frame which is not there leaves a gap in them."""
        poses = late.poses
        if self._first_ns is None:
            self._first_ns = poses.stamp_ns
        number = round((poses.stamp_ns - self._first_ns) / NANOSECONDS_PER_SECOND * self._rate_hz)
        if number <= self._number:
            return
        self._number = number
        if self._rng.random() < self._chosen.frame_drop_rate:
            self.dropped += 1
            return
        positions_m, quaternions = self._axes.to_stream(poses.positions_m, poses.quaternions_xyzw)
        seen = poses.tracked & (self._rng.random(len(poses.names)) >= self._chosen.occlusion_rate)
        bodies = {
            name: (1e3 * positions_m[place], rotation_matrix(quaternions[place]))
            for place, name in enumerate(poses.names)
            if seen[place]
        }
        seen_ns = poses.stamp_ns + late.network_ns  # what the network adds, the system does not know

        def told() -> dict[str, float]:
            """From exposure to sending."""
            return {"emulated": (time.time_ns() - seen_ns) / NANOSECONDS_PER_SECOND}

        server.send(_FIRST_NUMBER + number, bodies, told)
        self.sent += 1


def rotation_matrix(quaternion_xyzw: Vector) -> Vector:
    """(3, 3) of a quaternion of any length but zero."""
    x, y, z, w = quaternion_xyzw / np.linalg.norm(quaternion_xyzw)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
