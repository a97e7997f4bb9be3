"""Emulated servers of motion capture as rclpy nodes: truth of topics or a bag, as Motive and Vicon would stream it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from drivers.emulators.natnet import NatNetServer, NatNetServerConfiguration
from drivers.emulators.truth_feed import TruthEmulatorNode
from drivers.emulators.vicon import DataStreamServer, ViconEmulatorConfiguration
from drivers.motion_capture.axes import Axes
from drivers.motion_capture.bodies import BodyPoses
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

_REPORT_S = 10.0
_MOST_WAITING = 10_000
_FIRST_NUMBER = 1000
_FRAMES_FOR_RATE = 100


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


class _Late(NamedTuple):
    """A frame that is to go out when it is due; the network's part of its being late, ns."""

    due_ns: int
    network_ns: int
    poses: BodyPoses


class ViconEmulatorNode(TruthEmulatorNode[ViconEmulatorConfiguration]):
    """Streams truth as a DataStream server would, see `TruthEmulatorNode`. Parameters: `ViconEmulatorConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, a port that is taken, a bag without such topics, no bodies.
    """

    def __init__(self) -> None:
        self._server: DataStreamServer | None = None
        super().__init__("vicon_emulator", ViconEmulatorConfiguration)
        self._axes, self._rng = Axes(self.chosen.up_axis), np.random.default_rng(self.chosen.seed)
        self._waiting: deque[_Late] = deque(maxlen=_MOST_WAITING)
        self._rate_hz = self.chosen.rate_hz
        self._first_ns: int | None = None
        self._number = -1
        self._began_s = self._disconnected_s = time.monotonic()

    def destroy_node(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.close()
        super().destroy_node()

    def serve(self, names: tuple[str, ...], frames: Iterable[BodyPoses], is_over: bool) -> bool:
        """See `TruthEmulatorNode`; begins once it is known how often the bodies are seen."""
        for poses in frames:  # what was seen waits for the system's latency, which it tells, and for the network's
            network_ns = round(NANOSECONDS_PER_SECOND * self._rng.exponential(self.chosen.network_jitter_s))
            due_ns = poses.stamp_ns + round(NANOSECONDS_PER_SECOND * self.chosen.latency_s) + network_ns
            due_ns = max(due_ns, self._waiting[-1].due_ns if self._waiting else 0)
            self._waiting.append(_Late(due_ns, network_ns, poses))
        if self._server is None:
            self._begin(names, is_over)
            return False
        self._go_wrong(self._server)
        self._server.serve()
        now_ns = time.time_ns()
        while self._waiting and self._waiting[0].due_ns <= now_ns:
            self._send(self._server, self._waiting.popleft())
        return not self._waiting

    def _begin(self, names: tuple[str, ...], is_over: bool) -> None:
        if not self._rate_hz and len(self._waiting) >= _FRAMES_FOR_RATE:
            # The median: frames that are missing make some of the intervals longer.
            stamps_ns = np.array([one.poses.stamp_ns for one in self._waiting])
            rate_hz = NANOSECONDS_PER_SECOND / max(float(np.median(np.diff(stamps_ns))), 1.0)
            # Cameras run at whole rates, or nearly so; a rate that is a thousandth off cannot be mapped.
            self._rate_hz = float(round(rate_hz)) if abs(rate_hz - round(rate_hz)) < 0.01 * rate_hz else rate_hz
        if self._rate_hz or is_over:
            host = self.chosen.host
            self._server = DataStreamServer(host, self.chosen.port, names, self._rate_hz or 1.0)
            self.say_serving(f"DataStream at {host}:{self._server.port}, {self._rate_hz:.1f} Hz", names)

    def _go_wrong(self, server: DataStreamServer) -> None:
        now_s, chosen = time.monotonic(), self.chosen
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
        if self._rng.random() < self.chosen.frame_drop_rate:
            return
        positions_m, quaternions = self._axes.to_stream(poses.positions_m, poses.quaternions_xyzw)
        seen = poses.tracked & (self._rng.random(len(poses.names)) >= self.chosen.occlusion_rate)
        places = np.flatnonzero(seen).tolist()
        rotations = Rotation.from_quat(quaternions[seen]).as_matrix() if places else ()
        bodies = {
            poses.names[place]: (1e3 * positions_m[place], rotation)
            for place, rotation in zip(places, rotations, strict=True)
        }
        seen_ns = poses.stamp_ns + late.network_ns  # what the network adds, the system does not know
        server.send(
            _FIRST_NUMBER + number,
            bodies,
            lambda: {"emulated": (time.time_ns() - seen_ns) / NANOSECONDS_PER_SECOND},  # from exposure to sending
        )
