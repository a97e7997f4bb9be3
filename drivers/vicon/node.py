"""Driver of a Vicon system, as an rclpy node."""

from __future__ import annotations

import math
import time

from drivers.motion_capture.node import TruthNode
from drivers.vicon.configuration import ViconConfiguration
from drivers.vicon.receiver import Receiver


class ViconNode(TruthNode[ViconConfiguration, Receiver]):
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
        self._jumps = 0
        self._is_silent = self._is_settled = False
        super().__init__("vicon", ViconConfiguration)

    def connect(self, chosen: ViconConfiguration) -> Receiver:
        """See `TruthNode`."""
        return Receiver(chosen, self.get_logger().info, self.get_logger().warning)

    def watch(self, client: Receiver) -> None:
        """See `TruthNode`."""
        clock, connection = client.clock, client.connection
        if clock.jumps > self._jumps:
            self._jumps = clock.jumps
            self._is_settled = False
            self.get_logger().warning("frame numbers began anew, a restart or another rate: times are mapped anew")
        if not self._is_settled and clock.device_clock is not None and clock.device_clock.is_settled:
            self._is_settled = True
            self.get_logger().info(
                f"{clock.rate_hz:g} Hz; stamps to {1e6 * clock.stddev_s:.0f} us, standard deviation, beside what the "
                f"network takes at least, one way (latency_s: {self.chosen.latency_s:g} s)"
            )
        since_s = time.monotonic() - client.last_s
        if connection.is_open and math.isnan(since_s):
            since_s = connection.age_s
        is_silent = connection.is_open and since_s > self.chosen.silent_s
        if is_silent and not self._is_silent:
            self.get_logger().warning(f"connected, and no frame for {since_s:.1f} s: is the server live, or paused?")
        self._is_silent = is_silent
