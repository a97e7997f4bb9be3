"""NatNet's messages: header, connection, echo, model definitions, frames; lengths and counts checked.

Written from the open-source samples of OptiTrack's NatNet SDK (PacketClient.cpp, NatNetClient.py) and recorded
messages. Little-endian; each message is one UDP datagram: u16 kind, u16 length of what follows.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import printable

COMMAND_PORT, DATA_PORT, MULTICAST_GROUP = 1510, 1511, "239.255.42.99"
LONGEST_MESSAGE = 65_507

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = (
    *((2, minor) for minor in range(5, 12)),
    *((3, 0), (3, 1), (4, 0), (4, 1), (4, 2)),
)
"""Of the stream, that are understood."""

_HEADER = struct.Struct("<HH")
NAME_BYTES = 256
_LONGEST_TEXT = 256
_SLOWEST_CLOCK_HZ, _FASTEST_CLOCK_HZ = 1_000, 100_000_000_000


class Kind(IntEnum):
    """Of a message."""

    CONNECT = 0
    SERVER_INFO = 1
    REQUEST = 2
    RESPONSE = 3
    MODELS_REQUEST = 4
    MODELS = 5
    FRAME = 7
    TEXT = 8
    DISCONNECT = 9
    KEEP_ALIVE = 10
    ECHO_REQUEST = 12
    ECHO = 13
    UNRECOGNIZED = 100


class NatNetFault(ValueError):
    """A message that cannot be one; its text is one of a few, to count by."""


@dataclass(frozen=True)
class ServerInfo:
    """What a server tells of itself.

    Attributes
    ----------
    application, application_version
        Such as Motive, 2.1.0.0.
    version
        Of its stream.
    clock_hz
        Of its ticks; None before 3.0.
    data_port, is_multicast, group
        Where its frames go; None before 3.0.
    """

    application: str
    application_version: tuple[int, int, int, int]
    version: Version
    clock_hz: int | None = None
    data_port: int | None = None
    is_multicast: bool | None = None
    group: str | None = None


class Reader:
    """Walks the bytes of a message and never past their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return len(self.data) - self.place

    def skip(self, length: int) -> None:
        """Pass over bytes."""
        if not 0 <= length <= self.left:
            raise NatNetFault("too short")
        self.place += length

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next values."""
        try:
            values = layout.unpack_from(self.data, self.place)
        except struct.error as error:
            raise NatNetFault("too short") from error
        self.place += layout.size
        return values

    def pass_over(self, layout: Iterable[Any]) -> None:
        """Pass what is laid out like that, see `TEXT`."""
        for part in layout:
            if isinstance(part, int):
                self.skip(part)
            elif part == TEXT:
                self.text()
            elif callable(part):
                part(self)
            else:
                for _ in range(self.count(sum(one if isinstance(one, int) else 1 for one in part))):
                    self.pass_over(part)

    def i32(self) -> int:
        """The next int32."""
        return int(self.take(_I32)[0])

    def count(self, least_bytes: int) -> int:
        """How many things follow, each of that many bytes at least."""
        count = self.i32()
        if count < 0 or count * least_bytes > self.left:
            raise NatNetFault("count beyond its message")
        return count

    def text(self) -> str:
        """The next text, up to its zero."""
        end = self.data.find(b"\0", self.place, self.place + _LONGEST_TEXT)
        if end < 0:
            raise NatNetFault("text without an end")
        found = printable(self.data[self.place : end].decode(errors="replace"))
        self.place = end + 1
        return found

    def section(self, version: Version) -> Reader:
        """Reads what follows; from 4.1 on its length stands here, and this one is past it."""
        if version < (4, 1):
            return self
        size = self.i32()
        if not 0 <= size <= self.left:
            raise NatNetFault("section beyond its message")
        self.place += size
        return Reader(self.data[self.place - size : self.place])


_I32 = struct.Struct("<i")
APPLICATION = struct.Struct("<4B4B")
CONNECTION = struct.Struct("<QHB4B")
_ECHO = struct.Struct("<QQ")


def message(kind: Kind, payload: bytes = b"") -> bytes:
    """A message to send."""
    return _HEADER.pack(kind, len(payload)) + payload


def payload(data: bytes) -> tuple[int, bytes]:
    """Kind of a message, and what it holds.

    Raises
    ------
    NatNetFault
        Its length is not what it says; Motive itself sends some with more than that, which are cut.
    """
    if len(data) < _HEADER.size:
        raise NatNetFault("too short")
    kind, length = _HEADER.unpack_from(data)
    if length > len(data) - _HEADER.size:
        raise NatNetFault("shorter than it says")
    return kind, data[_HEADER.size : _HEADER.size + length]


def connect(wanted: Version = VERSIONS[-1]) -> bytes:
    """The message that asks for `ServerInfo`, and for that version of the stream, which servers from 4.0 may heed."""
    body = b"Ping".ljust(NAME_BYTES, b"\0") + bytes(4) + bytes([*wanted, 0, 0])
    return message(Kind.CONNECT, body + bytes([0, *wanted, 0, 0]) + b"\0")


def server_info(data: bytes) -> ServerInfo:
    """What a message of kind 1 holds.

    Raises
    ------
    NatNetFault
        It is too short; a clock that none has.
    """
    reader = Reader(data)
    reader.skip(NAME_BYTES)
    name = printable(data[:NAME_BYTES].split(b"\0")[0].decode(errors="replace"))
    values = reader.take(APPLICATION)
    application, version = values[:4], (values[4], values[5])
    if version < (3, 0):
        return ServerInfo(name, application, version)
    clock_hz, port, multicast, *group = reader.take(CONNECTION)
    if not _SLOWEST_CLOCK_HZ <= clock_hz <= _FASTEST_CLOCK_HZ:
        raise NatNetFault("clock that none has")
    return ServerInfo(name, application, version, clock_hz, port, bool(multicast), ".".join(map(str, group)))


def echo_request(asked_ns: int) -> bytes:
    """The message to which the server answers with the same number and its clock's ticks."""
    return message(Kind.ECHO_REQUEST, struct.pack("<Q", asked_ns))


def echo(data: bytes) -> tuple[int, int]:
    """Number of the request and ticks of the server's clock when it came there, of a message of kind 13.

    Raises
    ------
    NatNetFault
        It is too short.
    """
    asked_ns, ticks = Reader(data).take(_ECHO)
    return asked_ns, ticks


def shown(version: Version) -> str:
    """As it is written: 3.1."""
    return f"{version[0]}.{version[1]}"


TEXT = "text"
"""In a layout, whose other parts are numbers of bytes, what passes them by itself, and lists: of so many as is told."""


# Model definitions of NatNet (message 5): the rigid bodies by name and number; all else is passed over.

_RIGID_BODY = 1


@dataclass(frozen=True)
class RigidBody:
    """A body of the stream.

    Attributes
    ----------
    number
        That its frames name it by.
    parent
        Number of the body that it hangs on; none: -1 or 0.
    """

    name: str
    number: int
    parent: int = -1


def rigid_bodies(data: bytes, version: Version) -> tuple[RigidBody, ...]:
    """The rigid bodies, without those of skeletons and assets, of a message of kind 5.

    Raises
    ------
    NatNetFault
        Its lengths or counts are not of this version; before 4.1 also a kind of model that is not known.
    """
    reader = Reader(data)
    found: list[RigidBody] = []
    others = _other_models(version)
    for _ in range(reader.count(8)):
        kind = reader.i32()
        section = reader.section(version)
        if kind == _RIGID_BODY:
            found.append(_rigid_body(section, version))
        elif section is reader and kind not in others:
            raise NatNetFault("model of an unknown kind")
        elif section is reader:
            reader.pass_over(others[kind])
    return tuple(found)


def _other_models(version: Version) -> dict[int, tuple[Any, ...]]:
    """Layouts of those that are passed, by their kind; later ones say their length."""
    marker_set, camera, channels = (TEXT, [TEXT]), (TEXT, 28), [TEXT]
    found: dict[int, tuple[Any, ...]] = {0: marker_set, 5: camera}
    found[2] = (TEXT, 4, [lambda reader: _rigid_body(reader, version)])  # a skeleton's bones
    if version >= (3, 0):  # force plate: sizes and place, calibration, four corners, kinds; device
        found |= {3: (4, TEXT, 20 + 4 * 144 + 4 * 12 + 8, channels), 4: (4, TEXT, TEXT, 8, channels)}
    return found


def _rigid_body(reader: Reader, version: Version) -> RigidBody:
    name = reader.text()
    number, parent = reader.i32(), reader.i32()
    reader.skip(12 + (16 if version >= (4, 2) else 0))  # offset from the parent, turn
    if version >= (3, 0):
        markers = reader.count(16)
        reader.skip(16 * markers)  # positions, labels
        for _ in range(markers if version >= (4, 0) else 0):
            reader.text()
    return RigidBody(name, number, parent)


# Frames of NatNet (message 7): number, rigid bodies, times and flags; all else is passed over.
#
# From 4.1 each section says its length, so that those not needed here are passed without a look. Before, each marker
# set, skeleton and device has to be walked through.

_MODELS_CHANGED = 2
_TRACKED = struct.pack("<H", 1)

_BODY = np.dtype([("id", "<i4"), ("pose", "<f4", 7), ("error", "<f4"), ("tracked", "u1"), ("flags", "u1")])
"""Of 3.0 and later, without padding; before, markers stand in front of the error, and in 2.5 there are no flags."""
_HEAD_BYTES = 32
TICKS = struct.Struct("<QQQ")
_FLAGS = struct.Struct("<H")
_F64, _F32 = struct.Struct("<d"), struct.Struct("<f")


@dataclass(frozen=True)
class Frame:
    """A frame of B rigid bodies, in the stream's axes.

    Attributes
    ----------
    number
        Of the frame.
    ids
        (B,) int32, of the bodies.
    poses
        (B, 7) float64, of what were float32: position in m, quaternion xyzw.
    tracked
        (B,) as the server says. 2.5 does not: true, and a body that is not seen has no quaternion.
    time_s
        Of the server's software; NaN where there is none, in 2.5.
    ticks
        Of its clock: in the middle of the cameras' exposure, when the data came, when they went; None before 3.0.
    models_changed
        Whether the models are others than before.
    """

    number: int
    ids: NDArray[np.int32]
    poses: NDArray[np.float64]
    tracked: NDArray[np.bool_]
    time_s: float
    ticks: tuple[int, ...] | None
    models_changed: bool

    @property
    def exposure(self) -> int | None:
        """Ticks of the exposure; None where they are not told, or of a take that is played."""
        return self.ticks[0] or None if self.ticks else None


def parse_frame(data: bytes, version: Version) -> Frame:
    """The frame that a message of kind 7 holds.

    Raises
    ------
    NatNetFault
        Its lengths or counts are not of this version.
    """
    reader = Reader(data)
    number = reader.i32()
    if number < 0:
        raise NatNetFault("number below zero")
    before, (body,), after = _sections(version)
    _pass_sections(reader, version, before)
    rows = _bodies(reader, version, body)
    _pass_sections(reader, version, after)
    with np.errstate(invalid="ignore"):  # a NaN may be one that signals
        bodies = rows["id"], rows["pose"].astype(np.float64), (rows["tracked"] & 1).astype(np.bool_)
    reader.skip(8 if version >= (3, 0) else 12)  # time code, and before what the software took
    if version < (2, 6) and reader.left < _F32.size + _FLAGS.size:  # Motive 1.5 sends neither time nor flags
        return Frame(number, *bodies, math.nan, None, False)
    (time_s,) = reader.take(_F64 if version >= (2, 7) else _F32)
    ticks = reader.take(TICKS) if version >= (3, 0) else None
    if version >= (4, 1) and reader.left != _FLAGS.size + 4:
        reader.skip(8)  # time by a PTP clock, which the SDK's samples call optionally present
    (flags,) = reader.take(_FLAGS)
    return Frame(number, *bodies, time_s, ticks, bool(flags & _MODELS_CHANGED))


@lru_cache
def _sections(version: Version) -> tuple[list[Any], list[Any], list[Any]]:
    """Layout of one thing of each section: of those before the rigid bodies, of these, of those behind them."""
    flags = 2 * (version >= (2, 6))
    body = [_HEAD_BYTES, *([[20]] if version < (3, 0) else []), 4 + flags]  # markers: position, id, size
    marker = 20 + flags + 4 * (version >= (3, 0))
    channels = [4, [[4]]]  # of a force plate or device: of each channel the values since the last frame
    assets: list[Any] = []  # from 4.1, as all sections then, of a length that is told
    after = [((2, 5), [4, [*body]]), ((4, 1), assets), ((2, 5), [marker]), ((2, 9), channels), ((2, 11), channels)]
    return [[TEXT, [12]], [12]], [body], [section for since, section in after if version >= since]


def _pass_sections(reader: Reader, version: Version, sections: list[Any]) -> None:
    for section in sections:
        if version >= (4, 1):
            reader.skip(4)  # the count: what counts is the length
            reader.section(version)
        else:
            reader.pass_over([section])


def _bodies(reader: Reader, version: Version, layout: list[Any]) -> NDArray[np.void]:
    """(B,) of `_BODY`."""
    if version >= (3, 0):
        count = reader.count(_BODY.itemsize)
        section = reader.section(version)
        start = section.place
        section.skip(count * _BODY.itemsize)
        return np.frombuffer(section.data, _BODY, count, start)
    each = []
    for _ in range(reader.count(_HEAD_BYTES + 8)):
        start = reader.place
        reader.pass_over(layout)
        tail = reader.data[reader.place - layout[-1] : reader.place]
        each.append(reader.data[start : start + _HEAD_BYTES] + (tail + _TRACKED)[:6])
    return np.frombuffer(b"".join(each), _BODY)
