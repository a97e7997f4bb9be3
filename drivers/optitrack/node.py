"""Rigid bodies of OptiTrack as ground truth: the rclpy node."""

from __future__ import annotations

from drivers.motion_capture.node import TruthNode
from drivers.optitrack.client import NatNetClient
from drivers.optitrack.configuration import OptitrackConfiguration


class OptitrackNode(TruthNode[OptitrackConfiguration, NatNetClient]):
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
        super().__init__("optitrack", OptitrackConfiguration)

    def connect(self, chosen: OptitrackConfiguration) -> NatNetClient:
        """See `TruthNode`."""
        way = f"{chosen.transport}, at {chosen.interface}"
        self.get_logger().info(f"looking for a NatNet server at {chosen.server}:{chosen.command_port} ({way})")
        return NatNetClient(chosen, self.get_logger().info)
