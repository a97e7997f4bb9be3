"""NatNet's messages: header, connection, echo, model definitions, frames; lengths and counts checked.

Written from the open-source samples of OptiTrack's NatNet SDK (PacketClient.cpp, NatNetClient.py) and recorded
messages. Little-endian; each message is one UDP datagram: u16 kind, u16 length of what follows.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.motion_capture.bodies import printable

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
        if layout.size > self.left:
            raise NatNetFault("too short")
        values = layout.unpack_from(self.data, self.place)
        self.place += layout.size
        return values

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
        found = printable(self.data[self.place : end])
        self.place = end + 1
        return found

    def section(self) -> int:
        """Place after a section whose length, of 4.1 and later, stands here."""
        size = self.i32()
        if not 0 <= size <= self.left:
            raise NatNetFault("section beyond its message")
        return self.place + size


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
    name = printable(data[:NAME_BYTES].split(b"\0")[0])
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


# Model definitions of NatNet (message 5): the rigid bodies by name and number; all else is passed over.


Model = IntEnum("Model", "MARKER_SET RIGID_BODY SKELETON FORCE_PLATE DEVICE CAMERA ASSET", start=0)
"""Kind of a description."""


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
    for _ in range(reader.count(8)):
        kind = reader.i32()
        end = reader.section() if version >= (4, 1) else None
        if kind == Model.RIGID_BODY:
            found.append(_rigid_body(reader, version))
        elif end is None:
            _pass_model(reader, kind, version)
        if end is not None:
            if reader.place > end:
                raise NatNetFault("model beyond its section")
            reader.place = end
    return tuple(found)


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


def _pass_model(reader: Reader, kind: int, version: Version) -> None:
    """Pass a model before 4.1."""
    if kind == Model.MARKER_SET:
        reader.text()
        _pass_texts(reader)
    elif kind == Model.SKELETON:
        reader.text()
        reader.skip(4)
        for _ in range(reader.count(21)):
            _rigid_body(reader, version)
    elif kind == Model.FORCE_PLATE and version >= (3, 0):
        reader.skip(4)
        reader.text()
        reader.skip(20 + 4 * 144 + 4 * 12 + 8)  # sizes and place, calibration, four corners, kinds
        _pass_texts(reader)
    elif kind == Model.DEVICE and version >= (3, 0):
        reader.skip(4)
        reader.text()
        reader.text()
        reader.skip(8)
        _pass_texts(reader)
    elif kind == Model.CAMERA:
        reader.text()
        reader.skip(28)
    else:
        raise NatNetFault("model of an unknown kind")


def _pass_texts(reader: Reader) -> None:
    for _ in range(reader.count(1)):
        reader.text()


# Frames of NatNet (message 7): number, rigid bodies, times and flags; all else is passed over.
#
# From 4.1 each section says its length, so that those not needed here are passed without a look. Before, each marker
# set, skeleton and device has to be walked through.

_MODELS_CHANGED = 2
_TRACKED = 1
_POINT_BYTES = 12

_BODY = np.dtype([("id", "<i4"), ("position", "<f4", 3), ("quaternion", "<f4", 4), ("error", "<f4"), ("flags", "<u2")])
"""Of 3.0 and later, without padding."""
_BODY_HEAD = np.dtype([("id", "<i4"), ("position", "<f4", 3), ("quaternion", "<f4", 4)])
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
    positions_m, quaternions_xyzw
        (B, 3) and (B, 4) float64, of what were float32.
    tracked
        (B,) as the server says. 2.5 does not: true, and a body that is not seen has no quaternion.
    time_s
        Of the server's software; NaN where there is none, in 2.5.
    exposure_ticks, received_ticks, transmitted_ticks
        Of its clock: in the middle of the cameras' exposure, when the data came, when they went; None before 3.0.
    models_changed
        Whether the models are others than before.
    """

    number: int
    ids: NDArray[np.int32]
    positions_m: NDArray[np.float64]
    quaternions_xyzw: NDArray[np.float64]
    tracked: NDArray[np.bool_]
    time_s: float
    exposure_ticks: int | None
    received_ticks: int | None
    transmitted_ticks: int | None
    models_changed: bool


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
    sized = version >= (4, 1)
    _pass(reader, sized, _pass_marker_set, 5)
    _pass(reader, sized, _pass_point, _POINT_BYTES)  # other markers
    bodies = _bodies(reader, version)
    _pass(reader, sized, lambda inner: _pass_skeleton(inner, version), 8)
    if sized:
        _pass(reader, sized, _pass_point, 0)  # assets, by their length
    marker = 20 + (2 if version >= (2, 6) else 0) + (4 if version >= (3, 0) else 0)
    _pass(reader, sized, lambda inner: inner.skip(marker), marker)
    if version >= (2, 9):
        _pass(reader, sized, _pass_channels, 8)  # force plates
    if version >= (2, 11):
        _pass(reader, sized, _pass_channels, 8)  # devices
    if version < (3, 0):
        reader.skip(4)  # what the software took
    reader.skip(8)  # time code
    if version < (2, 6) and reader.left < _F32.size + _FLAGS.size:  # Motive 1.5 sends neither time nor flags
        return Frame(number, *bodies, math.nan, None, None, None, False)
    (time_s,) = reader.take(_F64 if version >= (2, 7) else _F32)
    exposure, received, transmitted = reader.take(TICKS) if version >= (3, 0) else (None, None, None)
    if sized and reader.left != _FLAGS.size + 4:
        reader.skip(8)  # time by a PTP clock, which the SDK's samples call optionally present
    (flags,) = reader.take(_FLAGS)
    return Frame(number, *bodies, time_s, exposure, received, transmitted, bool(flags & _MODELS_CHANGED))


_Bodies = tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]
"""Ids, positions, quaternions, whether tracked."""


def _bodies(reader: Reader, version: Version) -> _Bodies:
    if version >= (3, 0):
        count = reader.count(_BODY.itemsize)
        end = reader.section() if version >= (4, 1) else reader.place + count * _BODY.itemsize
        if count * _BODY.itemsize > end - reader.place:
            raise NatNetFault("count beyond its section")
        rows = np.frombuffer(reader.data, _BODY, count, reader.place)
        flags, reader.place = rows["flags"], end
    else:  # the markers of each body stand behind it
        heads, each = [], []
        for _ in range(reader.count(_BODY_HEAD.itemsize + 8)):
            heads.append(reader.data[reader.place : reader.place + _BODY_HEAD.itemsize])
            each.append(_pass_body(reader, version))
        rows, flags = np.frombuffer(b"".join(heads), _BODY_HEAD), np.array(each, dtype=np.uint16)
    tracked: NDArray[np.bool_] = (flags & _TRACKED) != 0
    with np.errstate(invalid="ignore"):  # a NaN may be one that signals
        return rows["id"], rows["position"].astype(np.float64), rows["quaternion"].astype(np.float64), tracked


def _pass_body(reader: Reader, version: Version) -> int:
    """Pass a rigid body; gives its flags."""
    reader.skip(_BODY_HEAD.itemsize)
    if version < (3, 0):
        reader.skip(reader.count(_POINT_BYTES + 8) * (_POINT_BYTES + 8))  # markers: positions, ids, sizes
    reader.skip(4)  # mean error
    return int(reader.take(_FLAGS)[0]) if version >= (2, 6) else _TRACKED


def _pass(reader: Reader, sized: bool, pass_one: Callable[[Reader], object], least_bytes: int) -> None:
    """Pass a section."""
    if sized:
        reader.skip(4)  # the count: what counts is the length
        reader.place = reader.section()
        return
    for _ in range(reader.count(least_bytes)):
        pass_one(reader)


def _pass_marker_set(reader: Reader) -> None:
    reader.text()
    reader.skip(reader.count(_POINT_BYTES) * _POINT_BYTES)


def _pass_point(reader: Reader) -> None:
    reader.skip(_POINT_BYTES)


def _pass_skeleton(reader: Reader, version: Version) -> None:
    reader.skip(4)
    for _ in range(reader.count(_BODY_HEAD.itemsize)):
        _pass_body(reader, version)


def _pass_channels(reader: Reader) -> None:
    """Force plate or device: of each channel the values since the last frame."""
    reader.skip(4)
    for _ in range(reader.count(4)):
        reader.skip(4 * reader.count(4))
