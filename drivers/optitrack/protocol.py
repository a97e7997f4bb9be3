"""NatNet's messages but for frames and descriptions: header, connection, echo; lengths and counts checked.

Written from the open-source samples of OptiTrack's NatNet SDK (PacketClient.cpp, NatNetClient.py) and recorded
messages. Little-endian; each message is one UDP datagram: u16 kind, u16 length of what follows.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

COMMAND_PORT, DATA_PORT, MULTICAST_GROUP = 1510, 1511, "239.255.42.99"
LONGEST_MESSAGE = 65_507

Version = tuple[int, int]
VERSIONS: tuple[Version, ...] = (
    *((2, minor) for minor in range(5, 12)),
    *((3, 0), (3, 1), (4, 0), (4, 1), (4, 2)),
)
"""Of the stream, that are understood."""

_HEADER = struct.Struct("<HH")
_NAME_BYTES = 256
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
    FRAME_REQUEST = 6
    FRAME = 7
    TEXT = 8
    DISCONNECT = 9
    KEEP_ALIVE = 10
    ECHO_REQUEST = 12
    ECHO = 13
    DISCOVERY = 14
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
        found = self.data[self.place : end].decode("utf-8", "replace")
        self.place = end + 1
        return found

    def section(self) -> int:
        """Place after a section whose length, of 4.1 and later, stands here."""
        size = self.i32()
        if not 0 <= size <= self.left:
            raise NatNetFault("section beyond its message")
        return self.place + size


_I32 = struct.Struct("<i")
_VERSIONS = struct.Struct("<4B4B")
_CONNECTION = struct.Struct("<QHB4B")
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
    body = b"Ping".ljust(_NAME_BYTES, b"\0") + bytes(4) + bytes([*wanted, 0, 0])
    return message(Kind.CONNECT, body + bytes([0, *wanted, 0, 0]) + b"\0")


def server_info(data: bytes) -> ServerInfo:
    """What a message of kind 1 holds.

    Raises
    ------
    NatNetFault
        It is too short; a clock that none has.
    """
    reader = Reader(data)
    reader.skip(_NAME_BYTES)
    name = data[:_NAME_BYTES].split(b"\0")[0].decode("utf-8", "replace")
    values = reader.take(_VERSIONS)
    application, version = values[:4], (values[4], values[5])
    if version < (3, 0):
        return ServerInfo(name, application, version)
    clock_hz, port, multicast, *group = reader.take(_CONNECTION)
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
