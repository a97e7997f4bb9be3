"""ROS 1 bags (format 2.0): whole, not indexed, or cut off.

A file is a sequence of records: u32 length, header of fields `name=value`, u32 length, data. A chunk's data holds
records of messages and connections, compressed or not. http://wiki.ros.org/Bags/Format/2.0
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag1.reader import Header, ReaderError

from onboard_estimation.bags.blocks import BlockError, ChunkedStorage, Connection, FileBytes, Span, ros2_type_name
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

MAGIC = b"#ROSBAG V"

_VERSION = b"#ROSBAG V2.0\n"
_U32 = struct.Struct("<I")
_TIME = struct.Struct("<II")
_MAX_HEADER_BYTES = 2**20
_MAX_DESCRIPTION_BYTES = 16 * 2**20

_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class _Record:
    """A record: its header's fields, and where its data lies."""

    kind: int
    fields: Mapping[str, bytes]
    start: int
    stop: int


class Ros1Storage(ChunkedStorage):
    """The messages of one .bag file.

    Raises
    ------
    BlockError
        The file does not start as a ROS 1 bag does, is of another version, or is encrypted.
    """

    def __init__(self, file: FileBytes) -> None:
        super().__init__(file)
        version = bytes(self.file.window(0, len(_VERSION))[: len(_VERSION)])
        if version != _VERSION:
            start = version.decode("ascii", "replace").strip()
            raise BlockError(f"it starts with {start!r}, and only version 2.0 of ROS 1 bags is read")
        self._indexed_messages = 0
        position = len(_VERSION)
        header = self._record_at(position)
        fields = header.fields if header is not None and header.kind == _BAG else {}
        if fields.get("encryptor"):
            raise BlockError("it is encrypted")
        index = _number(fields, "index_pos")
        self.anchors = self._anchors(index)
        self._sum_up(self.walk(position), index, _number(fields, "chunk_count"))

    def take_record(self, position: int, anchor: int | None) -> int | None:
        record = self._record_at(position)
        if record is None:
            return None
        cut = record.stop > self.file.size
        # The header is filled up to where the first chunk starts, and no further.
        too_long = record.kind == _BAG and record.stop > min(self.anchors, default=record.stop)
        if (cut or too_long) and anchor is not None:
            return None
        if record.kind == _CHUNK:
            self.index_chunk(record.start, record.stop, self._span(record))
        elif record.kind == _INDEX:
            self._indexed_messages += _number(record.fields, "count")
        elif not cut and (length := record.stop - record.start) <= _MAX_DESCRIPTION_BYTES:
            self._describe(record, bytes(self.file.window(record.start, length)[:length]))
        return None if cut else record.stop

    def _anchors(self, index: int) -> list[int]:
        """Where chunks start, after the index at the file's end, and where that starts; empty where it is missing."""
        anchors, position = [index], index
        while 0 < position < self.file.size:
            record = self._record_at(position)
            if record is None or record.stop > self.file.size:
                break
            if record.kind == _CHUNK_INFO:
                anchors.append(_number(record.fields, "chunk_pos"))
            position = record.stop
        return sorted(anchor for anchor in anchors if 0 < anchor < self.file.size)

    def _record_at(self, position: int) -> _Record | None:
        """The record that starts here in the file; None where its header is damaged or cut."""
        return _record(self.file.window(position, _MAX_HEADER_BYTES + 2 * _U32.size), 0, position)

    def _sum_up(self, position: int, index: int, chunks: int) -> None:
        name = self.name
        if position < self.file.size and not self.full:
            if not self.blocks or self.blocks[-1].place.start < position:
                self.readable_bytes -= self.file.size - position
            self.faults.append(f"{name} ends in the middle of a record or is damaged, at byte {position:,}")
        elif not index:
            self.faults.append(f"{name} was not closed, its index is missing")
        elif index >= self.file.size:
            self.faults.append(f"{name} is cut off")
        if not self.full and self.chunk_count < chunks:
            self.faults.append(f"{chunks - self.chunk_count:,} of {chunks:,} chunks of {name} are missing")
        self.expected_messages = max(self.expected_messages or 0, self._indexed_messages) or None
        self.say_damage()

    def _span(self, record: _Record) -> Span:
        stated = record.fields.get("compression", b"").decode("ascii", "replace")
        (size,) = _U32.unpack(record.fields.get("size", b"").ljust(4, b"\0")[:4])
        stop = min(record.stop, self.file.size)
        return Span(record.start, stop, "" if stated == "none" else stated or "unknown", size)

    def walk_chunk(self, buffer: memoryview, cut: bool, found: list[NDArray[np.int64]]) -> None:
        rows: list[tuple[int, int, int, int]] = []
        try:
            position = 0
            while position < len(buffer):
                record = _record(buffer, position)
                if record is None or record.stop > len(buffer):
                    if cut:
                        return
                    raise BlockError("a record in it is damaged")
                if record.kind == _MESSAGE:
                    connection, time = record.fields.get("conn", b""), record.fields.get("time", b"")
                    if len(connection) != _U32.size or len(time) != _TIME.size:
                        raise BlockError("a message in it is damaged")
                    seconds, nanoseconds = _TIME.unpack(time)
                    log_time_ns = seconds * NANOSECONDS_PER_SECOND + nanoseconds
                    length = record.stop - record.start
                    rows.append((*_U32.unpack(connection), log_time_ns, record.start, length))
                elif record.kind == _CONNECTION:
                    self._describe(record, bytes(buffer[record.start : record.stop]))
                position = record.stop
        finally:
            found.append(np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    def _describe(self, record: _Record, data: bytes) -> None:
        """Take in a connection, or how many messages a chunk should hold; other records are left."""
        if record.kind == _CHUNK_INFO:
            if len(data) != 8 * _number(record.fields, "count"):
                self.damaged_descriptions += 1
                return
            counts = sum(count for _, count in struct.iter_unpack("<II", data))
            self.expected_messages = (self.expected_messages or 0) + counts
        if record.kind != _CONNECTION:
            return
        number = record.fields.get("conn", b"")
        fields = _fields(data)
        if len(number) != _U32.size or fields is None:
            self.damaged_descriptions += 1
            return
        topic = record.fields.get("topic", fields.get("topic", b"")).decode("utf-8", "replace")
        connection = Connection(
            topic if topic.startswith("/") else f"/{topic}",
            ros2_type_name(fields.get("type", b"").decode("utf-8", "replace")),
            "ros1",
            fields.get("message_definition", b"").decode("utf-8", "replace"),
            "ros1msg",
        )
        self.contradictions += self.connections.setdefault(_U32.unpack(number)[0], connection) != connection


def _number(fields: Mapping[str, bytes], name: str) -> int:
    """A little-endian number in a header; 0 where it is missing."""
    return int.from_bytes(fields.get(name, b"")[:8], "little")


def _record(buffer: memoryview, position: int, origin: int = 0) -> _Record | None:
    """The record that starts here; None where its header is damaged or cut. Its data may reach beyond the buffer.

    `origin` is the buffer's place, to which the places in the record are added.
    """
    head = position + _U32.size
    if head > len(buffer):
        return None
    (header_bytes,) = _U32.unpack_from(buffer, position)
    start = head + header_bytes + _U32.size
    if header_bytes > _MAX_HEADER_BYTES or start > len(buffer):
        return None
    fields = _fields(bytes(buffer[head : head + header_bytes]))
    if fields is None or len(fields.get("op", b"")) != 1:
        return None
    (data_bytes,) = _U32.unpack_from(buffer, start - _U32.size)
    return _Record(fields["op"][0], fields, origin + start, origin + start + data_bytes)


def _fields(header: bytes) -> Header | None:
    """`name=value` of a header; None where it is damaged."""
    try:
        return Header.read(io.BytesIO(_U32.pack(len(header)) + header))
    except (ReaderError, UnicodeDecodeError):
        return None
