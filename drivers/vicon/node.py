"""Driver of a Vicon system, as an rclpy node."""

from __future__ import annotations

import math
import time

import rclpy.clock
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile

from drivers.motion_capture.axes import Axes
from drivers.motion_capture.bodies import parsed_names
from drivers.motion_capture.configuration import NoRobot
from drivers.motion_capture.outputs import TruthOutputs
from drivers.vicon.configuration import ViconConfiguration
from drivers.vicon.connection import Connection
from drivers.vicon.frame_clock import FrameClock
from drivers.vicon.receiver import Receiver
from onboard_estimation.live.messages import new
from onboard_estimation.nodes.pacing import LONGEST_STAY_S
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.frames import resolved_prefix

_PERIOD_S = 0.0005
_LOOK_S = 1.0


class ViconNode(Node):
    """Publishes what a Vicon system tracks; protocol: `drivers.vicon.protocol`.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, stamped at the exposure in host time) of each body
    that is seen, tf where asked for, and `/diagnostics`. Parameters: `ViconConfiguration`.

    A server that is not there, falls silent, or sends what is no DataStream is told of, and asked again, later each
    time.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed.
    """

    def __init__(self) -> None:
        self._receiver: Receiver | None = None
        super().__init__("vicon", automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[NoRobot, ViconConfiguration] = NodeParameters(self, NoRobot, ViconConfiguration)
        self._configuration = chosen = parameters.host
        prefix = resolved_prefix(chosen.frame_prefix, self.get_namespace())
        self._truth = TruthOutputs(self, parsed_names(chosen.bodies), chosen.publish_tf, prefix)
        say = self.get_logger().info
        connection = Connection(chosen.host, chosen.port, chosen.interface, say)
        clock = FrameClock(chosen.latency_s, self.get_logger().warning)
        self._receiver = Receiver(connection, clock, Axes(chosen.up_axis), say)
        self._names: tuple[str, ...] = ()
        self._jumps = 0
        self._is_silent = self._is_settled = False
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_PERIOD_S, self._stay, clock=steady)
        self.create_timer(_LOOK_S, self._report, clock=steady)

    def destroy_node(self) -> None:
        """Leave the server."""
        if self._receiver is not None:
            self._receiver.connection.close()
        super().destroy_node()

    def _stay(self) -> None:
        """Publish for a while what arrives, as it arrives."""
        assert self._receiver is not None
        until_s = time.monotonic() + LONGEST_STAY_S
        while (left_s := until_s - time.monotonic()) > 0.0 and self.context.ok():
            for frame in self._receiver.read(left_s):
                if frame.names is not self._names:
                    self._new_bodies(frame.names)
                self._truth.publish(frame)

    def _new_bodies(self, names: tuple[str, ...]) -> None:
        self._names = names
        topics, missing = self._truth.set_bodies(names)
        if topics:
            self.get_logger().info(f"published: {', '.join(topics)}")
        if missing:
            self.get_logger().warning(f"bodies: the server has no {', '.join(missing)}; it has {', '.join(names)}")

    def _report(self) -> None:
        """Once a second: who listens, what is to be said, diagnostics."""
        assert self._receiver is not None
        self._truth.look()
        clock = self._receiver.clock
        self._say_changes(self._receiver, clock)
        more = {
            "repeated": self._receiver.repeated,
            "invalid_poses": self._receiver.invalid,
            "implausible_latencies": clock.implausible_latencies,
            "frame_rate_hz": clock.rate_hz,
            "clock_jumps": clock.jumps,
        }
        name, stamp_ns = self.get_fully_qualified_name().strip("/"), self.get_clock().now().nanoseconds
        self._diagnostics.publish(
            self._receiver.health.message(
                new, name, stamp_ns, self._receiver.connection.trouble, clock.device_clock, more
            )
        )

    def _say_changes(self, receiver: Receiver, clock: FrameClock) -> None:
        if clock.jumps > self._jumps:
            self._jumps = clock.jumps
            self._is_settled = False
            self.get_logger().warning("frame numbers began anew, a restart or another rate: times are mapped anew")
        mapped = clock.device_clock
        if not self._is_settled and mapped is not None and mapped.is_settled:
            self._is_settled = True
            self.get_logger().info(
                f"{clock.rate_hz:g} Hz; stamps to {1e6 * clock.stddev_s:.0f} us, standard deviation, beside what the "
                f"network takes at least, one way (latency_s: {self._configuration.latency_s:g} s)"
            )
        since_s = time.monotonic() - receiver.last_s
        if receiver.connection.is_open and math.isnan(since_s):
            since_s = receiver.connection.age_s
        is_silent = receiver.connection.is_open and since_s > self._configuration.silent_s
        if is_silent and not self._is_silent:
            self.get_logger().warning(f"connected, and no frame for {since_s:.1f} s: is the server live, or paused?")
        self._is_silent = is_silent
