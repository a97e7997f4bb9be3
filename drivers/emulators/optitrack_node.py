"""The emulated NatNet server as an rclpy node: truth from a simulator's topics or a bag, as Motive would stream it."""

from __future__ import annotations

import rclpy.clock
from rclpy.clock import ClockType
from rclpy.node import Node

from drivers.emulators.natnet import NatNetServer, OptitrackEmulatorConfiguration
from drivers.emulators.truth_feed import FeedSearch, TruthFeed
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
        self._search, self._chosen = FeedSearch(self, chosen.bodies, chosen.bag), chosen
        self._feed: TruthFeed | None = None
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_TICK_S, self._stream, clock=steady)
        self.create_timer(_REPORT_S, self._tell, clock=steady)
        self._begin()

    def _begin(self) -> None:
        """Serve, once it is known which bodies."""
        self._feed, chosen = self._search.feed(), self._chosen
        if self._feed is None:
            return
        self._server = NatNetServer(self._feed.names, chosen)
        self.get_logger().info(
            f"NatNet {chosen.version} at {chosen.interface}:{chosen.command_port}, {chosen.transport}; bodies: "
            f"{', '.join(self._feed.names)}, from {chosen.bag or 'emulated_truth/<body>/pose'}"
        )

    def destroy_node(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        super().destroy_node()

    def _stream(self) -> None:
        feed, server = self._feed, self._server
        if feed is None or server is None:
            self._begin()
            return
        for poses in feed.take():
            server.submit(poses)
        if feed.is_over and server.is_idle:
            self.get_logger().info(f"the bag is over: {server.sent} frames sent")
            self.context.try_shutdown()

    def _tell(self) -> None:
        server = self._server
        if server is None:
            self.get_logger().info("waiting for emulated_truth/<body>/pose of any body", throttle_duration_sec=30.0)
            return
        self.get_logger().info(
            f"{server.sent} frames sent, {server.dropped} dropped, {server.restarts} restarts",
            throttle_duration_sec=60.0,
        )
