"""The emulated NatNet server as an rclpy node: truth from a simulator's topics or a bag, as Motive would stream it."""

from __future__ import annotations

from collections.abc import Iterable

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
from drivers.emulators.truth_feed import TruthEmulatorNode
from drivers.motion_capture.bodies import BodyPoses

_REPORT_S = 10.0


class OptitrackEmulatorNode(TruthEmulatorNode[NatNetServerConfiguration]):
    """Streams truth as a NatNet server would, see `TruthEmulatorNode`. Parameters: `NatNetServerConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken, a bag without such topics, no bodies.
    """

    def __init__(self) -> None:
        self._server: NatNetServer | None = None
        super().__init__("optitrack_emulator", NatNetServerConfiguration)
        self.every(_REPORT_S, self._tell)

    def destroy_node(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        super().destroy_node()

    def serve(self, names: tuple[str, ...], frames: Iterable[BodyPoses], is_over: bool) -> bool:
        """See `TruthEmulatorNode`."""
        if self._server is None:
            chosen = self.chosen
            self._server = NatNetServer(names, chosen)
            where = f"{chosen.interface}:{chosen.command_port}, {chosen.transport}"
            self.say_serving(f"NatNet {chosen.version} at {where}", names)
        for poses in frames:
            self._server.submit(poses)
        return self._server.is_idle

    def _tell(self) -> None:
        if (server := self._server) is not None:
            self.get_logger().info(
                f"{server.sent} frames sent, {server.dropped} dropped, {server.restarts} restarts",
                throttle_duration_sec=60.0,
            )
