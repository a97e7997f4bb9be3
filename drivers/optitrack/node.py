"""Rigid bodies of OptiTrack as ground truth: the rclpy node."""

from __future__ import annotations

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
from drivers.optitrack.client import NatNetClient
from drivers.optitrack.configuration import OptitrackConfiguration
from drivers.optitrack.descriptions import RigidBody
from onboard_estimation.live.messages import new
from onboard_estimation.nodes.pacing import LONGEST_STAY_S
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.frames import resolved_prefix

_PERIOD_S = 0.0005
_LOOK_S = 1.0


class OptitrackNode(Node):
    """Publishes what a NatNet server tracks, 2.5 to 4.2.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, best effort; stamps: the middle of the exposure in
    host time) of bodies that are tracked and listened to, `/tf` by choice, `/diagnostics`. A server that is not there,
    restarts, or changes its models is said once and followed. Parameters: `OptitrackConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed; an interface that is none of this host; a server's version that is not
        understood.
    """

    def __init__(self) -> None:
        self._client: NatNetClient | None = None
        super().__init__("optitrack", automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[NoRobot, OptitrackConfiguration] = NodeParameters(
            self, NoRobot, OptitrackConfiguration
        )
        chosen = parameters.host
        prefix = resolved_prefix(chosen.frame_prefix, self.get_namespace())
        self._truth = TruthOutputs(self, parsed_names(chosen.bodies), chosen.publish_tf, prefix)
        self._bodies: tuple[RigidBody, ...] | None = None
        client = NatNetClient(chosen.addresses, Axes(chosen.up_axis), chosen.latency_s, self.get_logger().info)
        self._client = client
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_PERIOD_S, lambda: self._stay(client), clock=steady)
        self.create_timer(_LOOK_S, lambda: self._report(client), clock=steady)
        way = f"{chosen.transport}, at {chosen.interface}"
        self.get_logger().info(f"looking for a NatNet server at {chosen.server}:{chosen.command_port} ({way})")

    def destroy_node(self) -> None:
        """Say goodbye to the server."""
        if self._client is not None:
            self._client.close()
        super().destroy_node()

    def _stay(self, client: NatNetClient) -> None:
        """Read for a while what arrives, as it arrives."""
        until_s = time.monotonic() + LONGEST_STAY_S
        while (left_s := until_s - time.monotonic()) > 0.0 and self.context.ok():
            for poses in client.poll(left_s):
                if client.bodies is not self._bodies:
                    self._take_bodies(client)
                self._truth.publish(poses)

    def _take_bodies(self, client: NatNetClient) -> None:
        self._bodies = client.bodies or ()
        names = [body.name for body in self._bodies]
        topics, missing = self._truth.set_bodies(names)
        self.get_logger().info(f"{len(names)} rigid bodies in the stream; published: {', '.join(topics) or 'none'}")
        if missing:
            there = ", ".join(names) or "none"
            self.get_logger().warning(f"not in the stream: {', '.join(missing)}; rigid bodies in it: {there}")

    def _report(self, client: NatNetClient) -> None:
        """Once a second: who listens, diagnostics."""
        self._truth.look()
        name, stamp_ns = self.get_fully_qualified_name().strip("/"), self.get_clock().now().nanoseconds
        stamps = client.stamps
        more = {"stamp_stddev_us": 1e6 * stamps.stddev_s} if stamps is not None else {}
        more |= {"of_other_senders": client.foreign, "echoes": stamps.echoes if stamps is not None else 0}
        clock = stamps.clock if stamps is not None else None
        self._diagnostics.publish(client.health.message(new, name, stamp_ns, client.trouble, clock, more))
