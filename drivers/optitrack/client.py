"""A client of NatNet: connects, learns the models, keeps the server's clock, and hears when the server is another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from drivers.motion_capture.axes import Axes
from drivers.motion_capture.bodies import BodyPoses, plausible
from drivers.motion_capture.health import StreamHealth
from drivers.optitrack import descriptions, frames, protocol
from drivers.optitrack.configuration import OptitrackConfiguration
from drivers.optitrack.descriptions import RigidBody
from drivers.optitrack.frames import Frame
from drivers.optitrack.protocol import VERSIONS, Kind, NatNetFault, ServerInfo, shown
from drivers.optitrack.sockets import NatNetSockets
from drivers.optitrack.stamps import FrameStamps
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix
from onboard_estimation.timing.device_clock import DeviceClock

_CONNECT_S, _PRESENT_S = 0.5, 1.0
"""How often a server is called: while it does not answer, and while it does, to hear that it is another."""
_AT_ONCE_S = 0.05
_MODELS_S = 0.5
_ECHO_S, _FIRST_ECHO_S, _FIRST_ECHOES = 0.1, 0.02, 25
_KEEP_ALIVE_S = 1.0
_SILENT_S = 2.0
_RESTART_FALL = 100
"""Numbers of frames fall by so many only where the server has started anew; by fewer where the network mixes them."""
_FALLS = 5


class NatNetClient:
    """Reads one server.

    Parameters
    ----------
    chosen
        Addresses of server and interface, and what is known of the stream.
    tell
        Takes a sentence where something about the server is new.
    clock
        Seconds that pass evenly.

    Attributes
    ----------
    health
        Counts.
    info
        Of the server; None before it has answered.
    stamps
        Times of its frames; None before.
    bodies
        Rigid bodies of the stream, in its order; None before they are known.
    trouble
        Why nothing comes; empty where all is well.

    Raises
    ------
    UserError
        The interface is none of this host. `read` raises it where the server's version is not understood.
    """

    def __init__(
        self,
        chosen: OptitrackConfiguration,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chosen, self._tell, self._clock = chosen, tell, clock
        self._axes, self._sockets = Axes(chosen.up_axis), NatNetSockets(chosen)
        self.health = StreamHealth()
        self.info: ServerInfo | None = None
        self.stamps: FrameStamps | None = None
        self.bodies: tuple[RigidBody, ...] | None = None
        self.trouble = f"no answer from a NatNet server at {chosen.server}:{chosen.command_port} so far"
        self._due_s = {"connect": 0.0, "models": 0.0, "echo": 0.0, "alive": 0.0}
        self._wants_models = False
        self._heard_s = -1.0
        self._falls = 0
        self._unstamped = 0
        self._names: tuple[str, ...] = ()
        self._ids = np.zeros(0, dtype=np.int32)

    def close(self) -> None:
        """Say goodbye, and give the ports back."""
        if self.info is not None:
            self._sockets.send(protocol.message(Kind.DISCONNECT))
        self._sockets.close()

    @property
    def device_clock(self) -> DeviceClock | None:
        """Of the server; None before it has answered."""
        return self.stamps.clock if self.stamps is not None else None

    def figures(self) -> dict[str, float]:
        """For `/diagnostics`, beside its health."""
        stamps = self.stamps
        told = {"stamp_stddev_us": 1e6 * stamps.stddev_s} if stamps is not None else {}
        return told | {"of_other_senders": self._sockets.foreign, "echoes": stamps.echoes if stamps is not None else 0}

    def read(self, timeout_s: float) -> Iterator[BodyPoses]:
        """Frames that have come, as soon as there are any, and do what is due."""
        self._do_what_is_due()
        for data, arrived_ns in self._sockets.receive(timeout_s):
            try:
                poses = self._take(data, arrived_ns)
            except NatNetFault as fault:
                self.health.refuse(str(fault))
                continue
            if poses is not None:
                yield poses

    def _do_what_is_due(self) -> None:
        now_s = self._clock()
        if self.info is not None and now_s - self._heard_s > _SILENT_S and not self.trouble:
            self._say(f"the server at {self._chosen.server} has fallen silent")
        if self._is_due("connect", now_s, _CONNECT_S if self.trouble else _PRESENT_S):
            self._sockets.send(protocol.connect())
        if self.info is None:
            return
        if self._wants_models and self._is_due("models", now_s, _MODELS_S):
            self._sockets.send(protocol.message(Kind.MODELS_REQUEST))
        if self._is_due("alive", now_s, _KEEP_ALIVE_S):
            self._sockets.send(protocol.message(Kind.KEEP_ALIVE))
        stamps = self.stamps
        if stamps is not None and stamps.is_echoed:
            often_s = _FIRST_ECHO_S if stamps.echoes < _FIRST_ECHOES else _ECHO_S
            if self._is_due("echo", now_s, often_s):
                self._sockets.send(protocol.echo_request(stamps.ask()))

    def _is_due(self, what: str, now_s: float, period_s: float) -> bool:
        if now_s < self._due_s[what]:
            return False
        self._due_s[what] = now_s + period_s
        return True

    def _take(self, data: bytes, arrived_ns: int) -> BodyPoses | None:
        kind, payload = protocol.payload(data)
        self._heard_s = self._clock()
        if kind == Kind.FRAME:
            return self._take_frame(payload, arrived_ns)
        if kind == Kind.ECHO and self.stamps is not None:
            if not self.stamps.answer(*protocol.echo(payload), arrived_ns):
                self.health.refuse("echo not asked for")
        elif kind == Kind.SERVER_INFO:
            self._take_info(protocol.server_info(payload))
        elif kind == Kind.MODELS and self.info is not None:
            self._take_models(descriptions.parse(payload, self.info.version))
        return None

    def _take_info(self, info: ServerInfo) -> None:
        if info.version not in VERSIONS:
            raise UserError(
                f"the server {info.application[:40]!r} at {self._chosen.server} streams NatNet "
                f"{shown(info.version)}; understood are {', '.join(map(shown, VERSIONS))}: choose one of them in its "
                "streaming settings, or update this package"
            )
        if info == self.info and not self.trouble:
            return
        if self.info is not None:
            self.health.reconnections += 1
        self._begin_anew(info)
        version = ".".join(map(str, info.application_version))
        self._say("", f"{info.application} {version} at {self._chosen.server}: NatNet {shown(info.version)}")
        if info.is_multicast is not None and info.is_multicast != (self._chosen.group is not None):
            to = "multicast" if info.is_multicast else "unicast"
            self._tell(f"the server streams by {to}, and this node listens otherwise: set transport:={to}")
        elif info.is_multicast and (info.group, info.data_port) != (self._chosen.group, self._chosen.data_port):
            self._tell(f"the server streams to {info.group}, port {info.data_port}: set multicast_group and data_port")
        if not self.stamps or not self.stamps.is_echoed:
            self._tell(
                f"NatNet {shown(info.version)} does not tell when the cameras exposed: stamps are arrivals less "
                f"latency_s ({1e3 * self._chosen.latency_s:g} ms)"
            )

    def _begin_anew(self, info: ServerInfo) -> None:
        """Clock, numbers and models are unknown again."""
        self.info = info
        if self.stamps is not None:
            self._unstamped += self.stamps.unstamped
        self.stamps = FrameStamps(info, self._chosen.latency_s)
        self.health.forget_number()
        self._falls = 0
        self._wants_models = True
        self._due_s |= {"models": 0.0, "echo": 0.0, "alive": 0.0}

    def _take_models(self, bodies: tuple[RigidBody, ...]) -> None:
        self._wants_models = False
        if bodies == self.bodies:
            return
        if self.bodies is not None:
            self.health.model_changes += 1
        self.bodies = bodies
        self._names = tuple(body.name for body in bodies)
        self._ids = np.array([body.number for body in bodies], dtype=np.int32)

    def _take_frame(self, payload: bytes, arrived_ns: int) -> BodyPoses | None:
        if self.info is None or self.stamps is None:
            return None
        if self.trouble:  # after a silence the server may be another: it is asked first
            self._due_s["connect"] = min(self._due_s["connect"], self._clock() + _AT_ONCE_S)
            return None
        frame = frames.parse(payload, self.info.version)
        if not self.health.count(frame.number):
            self._watch_falls(frame.number)
            return None
        self._falls = 0
        if frame.models_changed:
            self._wants_models = True
        if self.bodies is None:
            return None
        stamp_ns = self.stamps(frame, arrived_ns)
        self.health.unstamped = self._unstamped + self.stamps.unstamped
        if stamp_ns is None:
            return None
        poses = self._poses(frame, stamp_ns)
        self.health.take(poses, 1e-9 * (arrived_ns - stamp_ns))
        return poses

    def _watch_falls(self, number: int) -> None:
        """A number below the last one: one frame came late, or the server has started anew."""
        self._falls += 1
        assert self.info is not None
        if self.health.fallen_by(number) > _RESTART_FALL or self._falls >= _FALLS:
            self.health.reconnections += 1
            # That it is there again is said with it: its answer to the next greeting is no other return.
            self._say("", f"frame numbers fell to {number}: the server at {self._chosen.server} has started anew")
            self._begin_anew(self.info)

    def _poses(self, frame: Frame, stamp_ns: int) -> BodyPoses:
        """In the order of the models."""
        positions, quaternions, tracked = frame.positions_m, frame.quaternions_xyzw, frame.tracked
        if not np.array_equal(frame.ids, self._ids):
            self._wants_models = True  # bodies that the models have not, or that the frame has not
            positions, quaternions, tracked = self._in_order(frame)
        tracked = tracked & plausible(positions, quaternions)
        positions, quaternions = self._axes.to_world(positions, quaternions)
        return BodyPoses(stamp_ns, self._names, positions, quaternions, tracked)

    def _in_order(self, frame: Frame) -> tuple[Matrix, Matrix, NDArray[np.bool_]]:
        """Rows of the bodies that the models have; not tracked where the frame has none."""
        rows = {number: row for row, number in enumerate(frame.ids.tolist())}
        found = np.array([rows.get(number, -1) for number in self._ids.tolist()], dtype=np.int64)
        there = found >= 0
        positions, quaternions = np.zeros((len(found), 3)), np.zeros((len(found), 4))
        tracked = np.zeros(len(found), dtype=np.bool_)
        positions[there] = frame.positions_m[found[there]]
        quaternions[there] = frame.quaternions_xyzw[found[there]]
        tracked[there] = frame.tracked[found[there]]
        return positions, quaternions, tracked

    def _say(self, trouble: str, well: str = "") -> None:
        self.trouble = trouble
        self._tell(trouble or well)
