"""A DataStream server on a socket, as Vicon's programs have one, for any number of clients, with faults on request."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress

import numpy as np
from scipy.spatial.transform import Rotation

from drivers.motion_capture import vicon_protocol as protocol
from drivers.motion_capture.bodies import BodyPoses, TruthEmulatorConfiguration
from onboard_estimation.base.configuration import bounded, non_negative, parameter
from onboard_estimation.base.errors import UserError

_STATIC = (protocol.STREAM_INFO, protocol.SUBJECT_INFO)
_MOST_CLIENTS = 32


@dataclass(frozen=True)
class ViconEmulatorConfiguration(TruthEmulatorConfiguration):
    """The server."""

    host: str = parameter("127.0.0.1", "address to listen at")
    port: int = bounded(protocol.PORT, 0, 65535, "to listen at; below 1024 it takes a right of its own")
    rate_hz: float = non_negative(
        0.0, "frames a second; of truth that comes more often, the nearest; 0: as the truth comes"
    )
    restart_takes_s: float = non_negative(1.0, "the server is gone for so long", "s")


def subjects_of(names: Sequence[str]) -> tuple[protocol.Subject, ...]:
    """Subjects for bodies named `subject/segment`, or `subject` where it has one segment, which has its name."""
    segments: dict[str, list[protocol.Segment]] = {}
    for name in names:
        subject, _, segment = name.partition("/")
        have = segments.setdefault(subject, [])
        have.append(protocol.Segment(len(have) + 1, 0, segment or subject))
    return tuple(protocol.Subject(1 + place, name, tuple(have)) for place, (name, have) in enumerate(segments.items()))


@dataclass
class _Client:
    """One of those that are connected."""

    socket: socket.socket
    packets: protocol.Packets = field(default_factory=protocol.Packets)
    wanted: frozenset[int] = frozenset()
    is_streaming: bool = False
    told: frozenset[int] = frozenset()  # of the kinds that change seldom, those it has


class DataStreamServer:
    """Serves frames to clients; it does all it does within `serve` and `send`, which never wait.

    Parameters
    ----------
    host, port
        To listen at; port 0: any, see `port`.
    bodies
        Names: `subject/segment`, or `subject`.
    rate_hz
        Of the frames, as told.

    Attributes
    ----------
    port
        It listens at.

    Raises
    ------
    UserError
        It cannot listen there.
    """

    def __init__(self, host: str, port: int, bodies: Sequence[str], rate_hz: float) -> None:
        self._host, self.port = host, port
        self._clients: list[_Client] = []
        self._listener: socket.socket | None = None
        self.tell(bodies, rate_hz)
        self.listen()

    def tell(self, bodies: Sequence[str], rate_hz: float) -> None:
        """Have these from now on, which clients are told."""
        self._subjects, self._rate_hz = subjects_of(bodies), rate_hz
        self._places = {
            name: (subject.subject_id, segment.segment_id)
            for subject in self._subjects
            for segment in subject.segments
            for name in {f"{subject.name}/{segment.name}", *([subject.name] if len(subject.segments) == 1 else [])}
        }
        for client in self._clients:
            client.told = frozenset()

    def listen(self) -> None:
        """Take clients, again after `close`."""
        if self._listener is None:
            self._listener = _listening(self._host, self.port)
            self.port = self._listener.getsockname()[1]

    def close(self) -> None:
        """Send all clients away and take none, until it listens again."""
        self.disconnect()
        if self._listener is not None:
            self._listener.close()
        self._listener = None

    def disconnect(self) -> None:
        """Send all clients away; they may come again."""
        for client in self._clients:
            client.socket.close()
        self._clients = []

    def serve(self, timeout_s: float = 0.0) -> None:
        """Take new clients and what clients ask; returns after the timeout, or once there was something to do."""
        if self._listener is None:
            return
        sockets = [self._listener, *(client.socket for client in self._clients)]
        readable = set(select.select(sockets, [], [], timeout_s)[0])
        if self._listener in readable:
            self._accept(self._listener)
        for client in [one for one in self._clients if one.socket in readable]:
            try:
                data = client.socket.recv(65536)
                for packet in client.packets.feed(data):
                    self._heed(client, packet)
            except (OSError, protocol.StreamError):
                data = b""
            if not data:
                self._drop(client)

    def send(self, number: int, poses: BodyPoses, told: Callable[[], Mapping[str, float]]) -> None:
        """One frame to all who want it.

        Parameters
        ----------
        poses
            In the stream's axes, of bodies with these names; those that are tracked are seen.
        told
            Latencies by stage, s, when the frame goes out.
        """
        made: dict[frozenset[int], bytes] = {}
        for client in [one for one in self._clients if one.is_streaming]:
            wanted = client.wanted - client.told
            if wanted not in made:
                held = client.wanted & client.told
                made[wanted] = self.packet(wanted, held, number, poses, told)
            client.told |= wanted & frozenset(_STATIC)
            self._write(client, made[wanted])

    def packet(
        self,
        wanted: frozenset[int],
        unchanged: frozenset[int],
        number: int,
        poses: BodyPoses,
        told: Callable[[], Mapping[str, float]],
    ) -> bytes:
        """Of a frame, of those kinds; `unchanged` are said to be as they were."""
        made: dict[int, Callable[[], list[bytes]]] = {
            protocol.STREAM_INFO: lambda: [protocol.PERIOD.pack(round(protocol.PERIOD_TICKS_PER_S / self._rate_hz))],
            protocol.SUBJECT_INFO: lambda: [encode_subject(subject) for subject in self._subjects],
            protocol.FRAME_INFO: lambda: [_u32(number)],
            protocol.HARDWARE_FRAME: lambda: [_u32(number)],
            protocol.FRAME_RATE: lambda: [encode_named_numbers({"Cameras": self._rate_hz})],
            protocol.GLOBAL_SEGMENTS: lambda: self._segments(poses),
        }
        found = {kind: make() for kind, make in made.items() if kind in wanted}
        if protocol.CONTENTS in wanted:
            told_kinds = sorted(wanted - {protocol.CONTENTS})
            counts = [(kind, 1 if kind == protocol.LATENCY_INFO else len(found[kind])) for kind in told_kinds]
            table = protocol.UINT.pack(len(counts)) + b"".join(protocol.TWO_UINTS.pack(*entry) for entry in counts)
            found = {protocol.CONTENTS: [table + protocol.encode_uints(unchanged)], **found}
        packet = b"".join(protocol.block(kind, content) for kind, several in found.items() for content in several)
        if protocol.LATENCY_INFO in wanted:  # last: what was encoded meanwhile is in it
            packet += protocol.block(protocol.LATENCY_INFO, encode_named_numbers(told()))
        return protocol.block(protocol.PACKET, packet)

    def _segments(self, poses: BodyPoses) -> list[bytes]:
        """Of each subject; one of which none is seen has an empty list."""
        by_subject: dict[int, list[bytes]] = {subject.subject_id: [] for subject in self._subjects}
        rows = poses.poses[poses.tracked]
        records = np.zeros(len(rows), dtype=protocol.SEGMENTS)
        records["position_mm"], records["rotation"] = 1e3 * rows[:, :3], Rotation.from_quat(rows[:, 3:]).as_matrix()
        for name, record in zip(compress(poses.names, poses.tracked), records, strict=True):
            subject_id, record["id"] = self._places[name]
            by_subject[subject_id].append(record.tobytes())
        return [
            protocol.TWO_UINTS.pack(subject_id, len(seen)) + b"".join(seen) for subject_id, seen in by_subject.items()
        ]

    def _accept(self, listener: socket.socket) -> None:
        try:
            made, _ = listener.accept()
        except OSError:
            return
        if len(self._clients) >= _MOST_CLIENTS:
            made.close()
            return
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = _Client(made)
        self._clients.append(client)
        offer = protocol.block(protocol.OBJECT_ENUMS, protocol.encode_uints(protocol.WANTED))
        self._write(client, protocol.block(protocol.PACKET, offer))

    def _heed(self, client: _Client, packet: bytes) -> None:
        for kind, content in protocol.blocks(packet):
            if kind == protocol.OBJECT_ENUMS:
                client.wanted = frozenset(protocol.decode_uints(content)) & protocol.WANTED
                client.told = frozenset()
            elif kind == protocol.REQUEST_FRAME and content:
                client.is_streaming = content[0] != 0

    def _write(self, client: _Client, data: bytes) -> None:
        """A client that does not take what it asked for is sent away; it may come again."""
        try:
            client.socket.sendall(data)
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        client.socket.close()
        self._clients = [one for one in self._clients if one is not client]


def encode_subject(subject: protocol.Subject) -> bytes:
    """Subject info without markers."""
    parts = [_u32(subject.subject_id), _text(subject.name), _u32(len(subject.segments))]
    for segment in subject.segments:
        bounds = (0.0,) * 6
        parts += [protocol.SEGMENT_INFO.pack(segment.parent_id, segment.segment_id, *bounds), _text(segment.name)]
    return b"".join([*parts, _u32(0, 0)])


def encode_named_numbers(values: Mapping[str, float]) -> bytes:
    """Latency info, frame rates."""
    rows = [_text(name) + protocol.NUMBER.pack(value) for name, value in values.items()]
    return _u32(len(values)) + b"".join(rows)


def _u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *(value & 0xFFFFFFFF for value in values))


def _text(text: str) -> bytes:
    return _u32(len(text.encode())) + text.encode()


def _listening(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(8)
        made.setblocking(False)
    except (OSError, OverflowError) as error:
        made.close()
        hint = "; ports below 1024 need a right of their own: take another, such as 8801" if 0 < port < 1024 else ""
        raise UserError(
            f"the emulated server cannot listen at {host}:{port}: {getattr(error, 'strerror', None) or error}{hint}"
        ) from error
    return made
