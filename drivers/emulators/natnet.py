"""A NatNet server on this host, with faults on request: what the OptiTrack node connects to where there are no cameras.

It stamps by a clock of its own that runs fast or slow. A thread answers the clients, so that echoes do not wait for
whatever else the process does.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from drivers.motion_capture import optitrack_protocol as protocol
from drivers.motion_capture.bodies import UP_AXES, BodyPoses, TruthEmulatorConfiguration
from drivers.motion_capture.optitrack_protocol import Frame, Kind, NatNetFault, ServerInfo, Version, message, shown
from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

# What a NatNet server sends, as bytes: information, model definitions, frames, of each version from 2.5 to 4.2.
#
# Written apart from the client's parsers, which it is to check: from the samples of OptiTrack's SDK, as those are.


def server_info(info: ServerInfo) -> bytes:
    """Message 1."""
    body = info.application.encode()[:255].ljust(protocol.NAME_BYTES, b"\0")
    body += protocol.APPLICATION.pack(*info.application_version, *info.version, 0, 0)
    group = map(int, (info.group or "0.0.0.0").split("."))
    way = protocol.CONNECTION.pack(info.clock_hz or 0, info.data_port or 0, bool(info.is_multicast), *group)
    return message(Kind.SERVER_INFO, body + _since((3, 0), way, info.version))


def models(names: Sequence[str], version: Version, others: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Message 5: the bodies, numbered from 1, and further models by kind and content."""
    bodies = [(1, rigid_body_model(name, number, version)) for number, name in enumerate(names, 1)]
    parts = [(0, text("all") + i32(0)), *bodies, *others]
    rows = [i32(kind) + _since((4, 1), i32(len(part)), version) + part for kind, part in parts]
    return message(Kind.MODELS, i32(len(parts)) + b"".join(rows))


def rigid_body_model(name: str, number: int, version: Version, markers: int = 0) -> bytes:
    """What is told of one of them; its markers are at its origin."""
    data = text(name) + i32(number, -1) + f32(0.0, 0.0, 0.0) + _since((4, 2), f32(0.0, 0.0, 0.0, 1.0), version)
    labels = _since((4, 0), markers * text("Marker"), version)
    return data + _since((3, 0), i32(markers) + bytes(16 * markers) + labels, version)


_SECTIONS = ["marker sets", "other markers", "bodies", "skeletons", "assets"]
_SECTIONS += ["labelled markers", "force plates", "devices"]
_LATER_SECTIONS = {"assets": (4, 1), "force plates": (2, 9), "devices": (2, 11)}
"""Since when a frame has them."""


def frame(sent: Frame, version: Version, others: Mapping[str, bytes] | None = None) -> bytes:
    """Message 7, of rigid bodies without markers.

    Parameters
    ----------
    others
        One thing each of the sections `marker sets`, `other markers`, `skeletons`, `assets`, `labelled markers`,
        `force plates` and `devices`, which are empty otherwise.
    """
    given = {name: [content] for name, content in (others or {}).items()}
    fields = (sent.ids, sent.poses, sent.tracked)
    rows = zip(*(field.tolist() for field in fields), strict=True)
    given["bodies"] = [rigid_body(version, *row) for row in rows]
    data = i32(sent.number)
    for name in _SECTIONS:
        things = given.get(name, [])
        content = b"".join(things)
        section = i32(len(things)) + _since((4, 1), i32(len(content)), version) + content
        data += _since(_LATER_SECTIONS.get(name, (2, 5)), section, version)
    data += (b"" if version >= (3, 0) else f32(0.004)) + i32(0, 0)  # what the software took, time code
    data += struct.pack("<d", sent.time_s) if version >= (2, 7) else _since((2, 6), f32(sent.time_s), version)
    data += _since((3, 0), protocol.TICKS.pack(*(sent.ticks or (0, 0, 0))), version)
    data += _since((4, 1), i32(0, 0), version) + _since((2, 6), u16(2 * sent.models_changed), version)
    return message(Kind.FRAME, data + i32(0))


def rigid_body(version: Version, number: int, pose: Sequence[float], tracked: bool, markers: int = 0) -> bytes:
    """Its part of a frame; markers, which it has before 3.0, are at the origin."""
    if not tracked and version < (2, 6):  # which have no flag
        pose = (0.0,) * 7
    inside = b"" if version >= (3, 0) else i32(markers) + bytes(20 * markers)
    return i32(number) + f32(*pose) + inside + f32(0.0003) + _since((2, 6), u16(tracked), version)


def _since(first: Version, content: bytes, version: Version) -> bytes:
    return content if version >= first else b""


def i32(*values: int) -> bytes:
    """One behind the other."""
    return struct.pack(f"<{len(values)}i", *values)


def f32(*values: float) -> bytes:
    """One behind the other."""
    return struct.pack(f"<{len(values)}f", *values)


def u16(value: int) -> bytes:
    """One."""
    return struct.pack("<H", value)


def text(value: str) -> bytes:
    """With the zero at its end."""
    return value.encode() + b"\0"


CLOCK_HZ = 10_000_000
_FIRST_TICKS = 8_000_000_000
_MOST_CLIENTS, _CLIENT_S = 16, 10.0
_CHANGED_FRAMES = 5
_DOWN_S, _LOOK_S = 0.5, 0.05


@dataclass(frozen=True)
class NatNetServerConfiguration(TruthEmulatorConfiguration):
    """The server, and its clock."""

    version: str = parameter("4.1", "of NatNet", choices=tuple(map(shown, protocol.VERSIONS)))
    interface: str = parameter("127.0.0.1", "address of this host that the server is at")
    transport: str = parameter("multicast", "where frames go", choices=("multicast", "unicast"))
    multicast_group: str = parameter(protocol.MULTICAST_GROUP, "where they go by multicast")
    command_port: int = bounded(protocol.COMMAND_PORT, 1, 65535, "where clients ask")
    data_port: int = bounded(protocol.DATA_PORT, 1, 65535, "of the multicast group")
    up_axis: str = parameter("y", "of the stream", choices=UP_AXES)
    clock_skew_ppm: float = bounded(0.0, -1000.0, 1000.0, "by how much the server's clock runs fast", "ppm")


class NatNetServer:
    """Serves frames of these bodies until it is closed.

    Parameters
    ----------
    names
        Of the bodies.

    Attributes
    ----------
    info
        What it tells of itself.
    dropped
        Frames that were left out on request.
    number
        Of the newest frame.

    Raises
    ------
    UserError
        The port is taken, or the interface none of this host.
    """

    def __init__(self, names: tuple[str, ...], configuration: NatNetServerConfiguration) -> None:
        self._names, self._chosen = names, configuration
        self._version = next(one for one in protocol.VERSIONS if shown(one) == configuration.version)
        way = configuration.data_port, configuration.transport == "multicast", configuration.multicast_group
        self.info = ServerInfo("emulator", (1, 0, 0, 0), self._version, CLOCK_HZ, *way)
        self._rng = np.random.default_rng(configuration.seed)
        self.dropped = self.number = 0
        self._boot_ns = time.time_ns()
        self._changed_frames = 0
        self._clients: dict[tuple[str, int], float] = {}
        self._is_closed = False
        self._socket = self._bound()
        self._thread = threading.Thread(target=self._serve, name="natnet server", daemon=True)
        self._thread.start()

    def restart(self) -> None:
        """Start anew, as a server that was ended and started: silent for a moment, clients forgotten."""
        self._boot_ns = time.time_ns() + round(_DOWN_S * NANOSECONDS_PER_SECOND)
        self.number = 0
        self._clients.clear()

    def close(self) -> None:
        """Stop serving."""
        self._is_closed = True
        self._thread.join(5.0)
        self._socket.close()

    def ticks(self, host_ns: int) -> int:
        """Of the server's clock at that time of the host."""
        passed_s = (host_ns - self._boot_ns) * (1.0 + 1e-6 * self._chosen.clock_skew_ppm) / NANOSECONDS_PER_SECOND
        return _FIRST_TICKS + round(passed_s * CLOCK_HZ)

    def _bound(self) -> socket.socket:
        chosen = self._chosen
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(chosen.interface))
            one.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
            one.bind((chosen.interface, chosen.command_port))
        except OSError as error:
            one.close()
            raise UserError(
                f"no NatNet server at {chosen.interface}:{chosen.command_port}: {error.strerror or error}; choose "
                "another command_port, or an address of this host as interface"
            ) from error
        one.settimeout(_LOOK_S)
        return one

    def _serve(self) -> None:
        while not self._is_closed:
            with suppress(OSError, NatNetFault):  # nobody asked, a client has gone, no message
                data, client = self._socket.recvfrom(2048)
                now_ns = time.time_ns()
                answer = self._answer(*protocol.payload(data), client, now_ns) if now_ns >= self._boot_ns else b""
                if answer:
                    self._put(answer, client)
            if (every_s := self._chosen.restart_every_s) and time.time_ns() - self._boot_ns > 1e9 * every_s:
                self.restart()

    def _answer(self, kind: int, content: bytes, client: tuple[str, int], now_ns: int) -> bytes:
        if client in self._clients or (kind == Kind.CONNECT and len(self._clients) < _MOST_CLIENTS):
            self._clients[client] = time.monotonic()
        if kind == Kind.ECHO_REQUEST and self._version >= (3, 0):
            if len(content) != 8:
                raise NatNetFault("echo of another length")
            return message(Kind.ECHO, content + struct.pack("<Q", self.ticks(now_ns)))
        if kind == Kind.CONNECT:
            return server_info(self.info)
        if kind == Kind.MODELS_REQUEST:
            return models(self._names, self._version)
        if kind == Kind.REQUEST:
            return message(Kind.RESPONSE, struct.pack("<i", 0))
        if kind == Kind.DISCONNECT:
            self._clients.pop(client, None)
        return b"" if kind in (Kind.DISCONNECT, Kind.KEEP_ALIVE) else message(Kind.UNRECOGNIZED)

    def send(self, poses: BodyPoses) -> None:
        """Send a frame, stamped at its exposure by this host's clock; one of other bodies changes the models."""
        chosen, now_ns = self._chosen, time.time_ns()
        if poses.stamp_ns < self._boot_ns:
            return
        self.number += 1
        if poses.names != self._names:
            self._names, self._changed_frames = poses.names, _CHANGED_FRAMES
        seen = chosen.seen(poses, self._rng)
        if seen is None:
            self.dropped += 1
            return
        exposure, now = self.ticks(poses.stamp_ns), self.ticks(now_ns)
        changed = self._changed_frames > 0
        self._changed_frames -= changed
        times, time_s = (exposure, (exposure + now) // 2, now), (exposure - _FIRST_TICKS) / CLOCK_HZ
        ids = np.arange(1, len(poses.names) + 1, dtype=np.int32)
        data = frame(Frame(self.number, ids, seen.poses, seen.tracked, time_s, times, changed), self._version)
        if chosen.transport == "multicast":
            self._put(data, (chosen.multicast_group, chosen.data_port))
        else:
            for client, heard_s in list(self._clients.items()):
                if time.monotonic() - heard_s > _CLIENT_S:
                    del self._clients[client]
                else:
                    self._put(data, client)

    def _put(self, data: bytes, to: tuple[str, int]) -> None:
        with suppress(OSError):  # nobody there, or no room: lost, as on a network
            self._socket.sendto(data, to)
