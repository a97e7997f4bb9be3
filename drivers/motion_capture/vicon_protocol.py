"""Vicon's DataStream on the wire: what is sent over TCP 801, encoded and decoded.

Everything is little-endian and made of blocks: kind u32, length u32, then so many bytes. The outermost block
(0x1A2B0001) is a packet and holds others. Strings are a u32 of their bytes and these; lists, sets and tables a u32 of
their entries and these.

object enums (100001)
    set of u32: after the connection the kinds that the server has; the client answers with those it wants
request frame (100002)
    u8: 1 asks for all frames as they come, 0 for one
contents (100004)
    table of how many blocks there are of each kind, u32 to u32; set of the kinds that are as they were, and left out
stream info (1)
    i64: period of a frame, in ticks of 135 MHz
subject info (2), of each subject
    id u32, name, list of segments (parent's id u32, id u32, bounds 6 x f32, name), then markers, which are not read
frame info (5)
    frame number u32
global segments (9), of each subject
    subject's id u32, list of segments (id u32, position 3 x f64 mm, rotation matrix 9 x f64, row by row), in the room's
    axes; one that is occluded is missing
latency info (26)
    list of samples (name, f64 s): what each stage has taken
hardware frame (36)
    the cameras' own frame number u32
frame rate (39)
    table of rates by name, f64 Hz

Source: the headers of Vicon's open DataStream SDK (CGStream). Nothing that arrives is trusted: each length has to fit
into the block around it, and each count into what is left of its block, before anything is made of it. A block of
another kind is skipped by its length; so is what follows in a known block after what is read of it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import printable

PORT = 801

PACKET = 0x1A2B0001
OBJECT_ENUMS, REQUEST_FRAME, CONTENTS = 100001, 100002, 100004
STREAM_INFO, SUBJECT_INFO, FRAME_INFO, GLOBAL_SEGMENTS = 1, 2, 5, 9
LATENCY_INFO, HARDWARE_FRAME, FRAME_RATE = 26, 36, 39

WANTED = frozenset(
    {CONTENTS, STREAM_INFO, SUBJECT_INFO, FRAME_INFO, GLOBAL_SEGMENTS, LATENCY_INFO, HARDWARE_FRAME, FRAME_RATE}
)
NEEDED = {SUBJECT_INFO: "subject info", FRAME_INFO: "frame info", GLOBAL_SEGMENTS: "global segments"}

PERIOD_TICKS_PER_S = 135e6
LARGEST_PACKET = 4 << 20
"""Bytes; twenty bodies take 3 kB, and kinds that are large were not asked for."""

LONGEST_NAME = 255
"""Bytes; names are said in the log."""

HEADER = struct.Struct("<II")
UINT = struct.Struct("<I")
TWO_UINTS = struct.Struct("<II")
PERIOD = struct.Struct("<q")
NUMBER = struct.Struct("<d")
SEGMENT_INFO = struct.Struct("<II6f")
SEGMENTS = np.dtype([("id", "<u4"), ("position_mm", "<f8", 3), ("rotation", "<f8", (3, 3))])
"""As they stand in a block, and of a whole frame in one array."""
_SEGMENT_BYTES = SEGMENTS.itemsize

_LEAST_SEGMENT_INFO = SEGMENT_INFO.size + UINT.size
_LEAST_SAMPLE = UINT.size + NUMBER.size


class StreamError(ValueError):
    """Bytes that are no DataStream, or contradict themselves."""


class Segment(NamedTuple):
    """A rigid part of a subject."""

    segment_id: int
    parent_id: int
    name: str


class Subject(NamedTuple):
    """What moves and has a name; a rigid object has one segment."""

    subject_id: int
    name: str
    segments: tuple[Segment, ...]


class Poses(NamedTuple):
    """Those of a frame that are seen, K of them.

    Attributes
    ----------
    ids
        Of subject and segment.
    values
        (K,) of `SEGMENTS`: mm, and matrices that turn from the segment's axes to the room's.
    """

    ids: list[tuple[int, int]]
    values: NDArray[np.void]


class Packets:
    """Cuts what arrives into packets.

    Raises
    ------
    StreamError
        By `feed`: what comes is no packet, or one beyond `LARGEST_PACKET`.
    """

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The contents of packets that are complete now."""
        self._data += data
        found, start = [], 0
        while len(self._data) - start >= HEADER.size:
            kind, length = HEADER.unpack_from(self._data, start)
            if kind != PACKET:
                raise StreamError(f"a packet begins with {PACKET:#x}, this one with {kind:#x}: is it another service?")
            if length > LARGEST_PACKET:
                raise StreamError(f"a packet of {length} bytes is announced, more than {LARGEST_PACKET}")
            end = start + HEADER.size + length
            if len(self._data) < end:
                break
            found.append(bytes(self._data[start + HEADER.size : end]))
            start = end
        del self._data[:start]
        return found


def block(kind: int, content: bytes) -> bytes:
    """One block."""
    return HEADER.pack(kind, len(content)) + content


def encode_uints(values: Iterable[int]) -> bytes:
    """A set of u32, as object enums hold."""
    listed = sorted(values)
    return struct.pack(f"<{1 + len(listed)}I", len(listed), *listed)


def encode_answer(wanted: Iterable[int]) -> bytes:
    """What a client says once it knows what there is: which kinds, and that frames may come."""
    return block(PACKET, block(OBJECT_ENUMS, encode_uints(wanted))) + block(PACKET, block(REQUEST_FRAME, b"\x01"))


def decode_uints(content: bytes) -> list[int]:
    """Of object enums; raises `StreamError`."""
    return _Reader(content).uints()


def blocks(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and content of each block of a packet; raises `StreamError`."""
    reader = _Reader(packet, "packet")
    while reader.left:
        kind, length = reader.take(HEADER)
        yield kind, reader.bytes(length)


class _Reader:
    """Walks the content of a block, or of a packet, and never past its end."""

    def __init__(self, content: bytes, what: str = "block") -> None:
        self._content, self._at, self._what = content, 0, what

    @property
    def left(self) -> int:
        """Bytes behind what was read."""
        return len(self._content) - self._at

    def bytes(self, size: int) -> bytes:
        """The next bytes."""
        self._check(size)
        self._at += size
        return self._content[self._at - size : self._at]

    def _check(self, size: int) -> None:
        if size > self.left:
            raise StreamError(f"{size} bytes are told of, and the {self._what} has {self.left} left")

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        """The next values."""
        return layout.unpack(self.bytes(layout.size))

    def count(self, least: int) -> int:
        """Of entries of at least so many bytes each, all of which have room."""
        count = int(self.take(UINT)[0])
        self._check(count * least)
        return count

    def text(self) -> str:
        length = self.count(1)
        if length > LONGEST_NAME:
            raise StreamError(f"a name of {length} bytes is told, more than {LONGEST_NAME}")
        return printable(self.bytes(length).decode(errors="replace"))

    def uints(self, width: int = 1) -> list[int]:
        """Entries of so many u32 each, one behind the other."""
        return np.frombuffer(self.bytes(4 * width * self.count(4 * width)), dtype="<u4").tolist()

    def named_numbers(self) -> list[float]:
        """Numbers, all finite, whatever their names."""
        found = [(self.text(), *self.take(NUMBER)) for _ in range(self.count(_LEAST_SAMPLE))]
        for name, value in found:
            if not math.isfinite(value):
                raise StreamError(f"{name or 'a number without a name'} is {value}")
        return [value for _, value in found]

    def subject(self) -> Subject:
        (subject_id,), name = self.take(UINT), self.text()
        segments = []
        for _ in range(self.count(_LEAST_SEGMENT_INFO)):
            parent_id, segment_id, *_ = self.take(SEGMENT_INFO)
            segments.append(Segment(segment_id, parent_id, self.text()))
        return Subject(subject_id, name, tuple(segments))


# One connection's conversation with a DataStream server: what is asked, and frames of what comes, with names.


class Session:
    """Takes bytes of one connection, from its beginning.

    Attributes
    ----------
    answer
        Bytes to be sent now, and to be emptied then.
    is_answered
        Whether the server has said what it has.
    subjects
        Those that the server knows now.
    rates_hz
        Of the frames, the stream's own first: candidates for what the clock number counts by.
    poses, latency_s
        Of the frame; and from its exposure to sending, as told, None: it is not.

    Raises
    ------
    StreamError
        By `feed`: what comes is no DataStream, contradicts itself, or lacks what is needed.
    """

    def __init__(self) -> None:
        self._packets = Packets()
        self.answer, self.is_answered = b"", False
        self._period_hz: tuple[float, ...] = ()
        self._table_hz: tuple[float, ...] = ()
        self.subjects: tuple[Subject, ...] = ()
        self.poses = Poses([], np.empty(0, dtype=SEGMENTS))
        self.latency_s: float | None = None

    @property
    def rates_hz(self) -> tuple[float, ...]:
        return self._period_hz + self._table_hz

    def feed(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Numbers of frames that are complete now; with each, the attributes are those of its packet.

        That which the server counts, which falls where a recording begins anew; that which the cameras count, or else
        the same.
        """
        for packet in self._packets.feed(data):
            if (numbers := self._read(packet)) is not None:
                yield numbers

    def _read(self, packet: bytes) -> tuple[int, int] | None:
        numbers: dict[int, int] = {}
        unchanged: frozenset[int] = frozenset()
        latency_s: float | None = None
        subjects: list[Subject] = []
        owners: list[int] = []  # subject of each segment
        segments: list[bytes] = []
        for kind, content in blocks(packet):
            reader = _Reader(content)
            if kind == GLOBAL_SEGMENTS:
                subject_id, count = reader.take(TWO_UINTS)
                segments.append(reader.bytes(count * _SEGMENT_BYTES))
                owners += count * [subject_id]
            elif kind in (FRAME_INFO, HARDWARE_FRAME):
                (numbers[kind],) = reader.take(UINT)
            elif kind == LATENCY_INFO:
                latency_s = sum(reader.named_numbers())
            elif kind == FRAME_RATE:
                self._table_hz = _plausible(reader.named_numbers())
            elif kind == STREAM_INFO:
                (ticks,) = reader.take(PERIOD)  # zero where the server does not know it
                self._period_hz = _plausible([PERIOD_TICKS_PER_S / ticks]) if ticks > 0 else self._period_hz
            elif kind == CONTENTS:
                reader.uints(2)  # how many there are of each kind shows in the packet
                unchanged = frozenset(reader.uints())
            elif kind == SUBJECT_INFO:
                subjects.append(reader.subject())
            elif kind == OBJECT_ENUMS:
                self._offer(frozenset(reader.uints()))
        if tuple(subjects) not in ((), self.subjects):
            self.subjects = tuple(subjects)
        if segments or GLOBAL_SEGMENTS not in unchanged:
            values = np.frombuffer(b"".join(segments), dtype=SEGMENTS)
            self.poses = Poses(list(zip(owners, values["id"].tolist(), strict=True)), values)
        if latency_s is not None or LATENCY_INFO not in unchanged:
            self.latency_s = latency_s
        number = numbers.get(FRAME_INFO)
        return None if number is None else (number, numbers.get(HARDWARE_FRAME) or number)

    def _offer(self, offered: frozenset[int]) -> None:
        if lacking := NEEDED.keys() - offered:
            raise StreamError(f"the server does not offer {', '.join(NEEDED[kind] for kind in sorted(lacking))}")
        self.answer, self.is_answered = encode_answer(WANTED & offered), True


def body_names(subjects: Iterable[Subject]) -> dict[tuple[int, int], str]:
    """Name of each segment by its ids: `subject/segment`, or that of a subject which has but one."""
    return {
        (subject.subject_id, segment.segment_id): (
            subject.name if len(subject.segments) == 1 else f"{subject.name}/{segment.name}"
        )
        for subject in subjects
        for segment in subject.segments
    }


def _plausible(rates_hz: Iterable[float]) -> tuple[float, ...]:
    return tuple(rate for rate in rates_hz if 1.0 <= rate <= 20_000.0)
