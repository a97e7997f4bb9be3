"""The emulated NatNet server as an rclpy node: truth from a simulator's topics or a bag, as Motive would stream it."""

from __future__ import annotations

import rclpy.clock
from rclpy.clock import ClockType
from rclpy.node import Node

from drivers.emulators.natnet import NatNetServer, OptitrackEmulatorConfiguration
from drivers.emulators.truth_feed import TruthFeed, feed_of
from drivers.motion_capture.configuration import NoRobot
from onboard_estimation.nodes.parameters import NodeParameters

_TICK_S = 0.001
_REPORT_S = 10.0


class OptitrackEmulatorNode(Node):
    """Streams truth as a NatNet server would; subscribes to `emulated_truth/<body>/pose` (PoseStamped).

    The stamp of a pose is the middle of its exposure. Parameters: `OptitrackEmulatorConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken, a bag without such topics, no bodies.
    """

    def __init__(self) -> None:
        self._server: NatNetServer | None = None
        super().__init__("optitrack_emulator", automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[NoRobot, OptitrackEmulatorConfiguration] = NodeParameters(
            self, NoRobot, OptitrackEmulatorConfiguration
        )
        chosen = parameters.host
        feed = feed_of(self, chosen.bodies, chosen.bag)
        self._server = server = NatNetServer(feed.names, chosen)
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK_S, lambda: self._stream(server, feed), clock=steady)
        self.create_timer(_REPORT_S, lambda: self._tell(server), clock=steady)
        self.get_logger().info(
            f"NatNet {chosen.version} at {chosen.interface}:{chosen.command_port}, {chosen.transport}; bodies: "
            f"{', '.join(feed.names)}, from {chosen.bag or 'emulated_truth/<body>/pose'}"
        )

    def destroy_node(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        super().destroy_node()

    def _stream(self, server: NatNetServer, feed: TruthFeed) -> None:
        for poses in feed.take():
            server.submit(poses)
        if feed.is_over and server.is_idle:
            self.get_logger().info(f"the bag is over: {server.sent} frames sent")
            raise SystemExit(0)

    def _tell(self, server: NatNetServer) -> None:
        self.get_logger().info(
            f"{server.sent} frames sent, {server.dropped} dropped, {server.restarts} restarts",
            throttle_duration_sec=60.0,
        )
