"""ROS 1 bags (format 2.0): whole, not indexed, or cut off.

A file is a sequence of records: u32 length, header of fields `name=value`, u32 length, data. A chunk's data holds
records of messages and connections, compressed or not. http://wiki.ros.org/Bags/Format/2.0
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from onboard_estimation.evaluation.bag_blocks import (
    MAX_BLOCK_BYTES,
    MAX_MESSAGES,
    BlockError,
    Connection,
    IndexBuilder,
    Storage,
    decompress,
    ros2_type_name,
)

MAGIC = b"#ROSBAG V"

_VERSION = b"#ROSBAG V2.0\n"
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_TIME = struct.Struct("<II")
_MAX_HEADER_BYTES = 2**20

_MESSAGE, _BAG, _INDEX, _CHUNK, _CHUNK_INFO, _CONNECTION = 2, 3, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class _Record:
    """A record: its header's fields, and where its data lies."""

    kind: int
    fields: dict[bytes, bytes]
    start: int
    stop: int


class Ros1Storage(Storage):
    """The messages of one .bag file.

    Raises
    ------
    BlockError
        The file does not start as a ROS 1 bag does, is of another version, or is encrypted.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self._file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._view = memoryview(self._file)
        self.size_bytes = self.readable_bytes = len(self._view)
        if self._view[: len(_VERSION)] != _VERSION:
            start = bytes(self._view[: len(_VERSION)]).decode("ascii", "replace").strip()
            raise BlockError(f"it starts with {start!r}, and only version 2.0 of ROS 1 bags is read")
        self._chunks: list[tuple[int, int, str, int]] = []
        self._chunk_count = 0
        self._damaged_chunks: list[str] = []
        self._walk_file()

    def load(self, block: int) -> bytes | memoryview:
        """The decompressed chunk, or the whole file where nothing is compressed."""
        start, stop, compression, limit = self._chunks[block]
        return decompress(self._view[start:stop], compression, limit) if compression != "none" else self._view

    def close(self) -> None:
        """Let go of the file; arrays that still look into it keep it open."""
        try:
            self._view.release()
            self._file.close()
        except BufferError:
            pass

    def _walk_file(self) -> None:
        position = len(_VERSION)
        indexed = False
        while position < self.size_bytes and not self.full:
            record = _record_at(self._view, position, self.size_bytes)
            if record is None:
                break
            cut = record.stop > self.size_bytes
            if record.kind == _BAG:
                if record.fields.get(b"encryptor"):
                    raise BlockError("it is encrypted")
                indexed = _U64.unpack(record.fields.get(b"index_pos", b"").ljust(8, b"\0")[:8])[0] > 0
            elif record.kind == _CHUNK:
                self._index_chunk(record, cut)
            elif record.kind == _CONNECTION and not cut:
                self._connect(self._view, record)
            if cut:
                break
            position = record.stop
        self._sum_up_faults(position, indexed)

    def _sum_up_faults(self, position: int, indexed: bool) -> None:
        name = self.path.name
        if position < self.size_bytes and not self.full:
            if not self._chunks or self._chunks[-1][0] < position:
                self.readable_bytes -= self.size_bytes - position
            self.faults.append(f"{name} ends in the middle of a record or is damaged, at byte {position:,}")
        elif not indexed:
            self.faults.append(f"{name} was not closed, its index is missing")
        if self._damaged_chunks:
            share = f"{len(self._damaged_chunks):,} of {self._chunk_count:,} chunks"
            self.faults.append(f"{share} of {name} are damaged (the first one: {self._damaged_chunks[0]})")
        if self.full:
            self.faults.append(f"{name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")

    def _index_chunk(self, record: _Record, cut: bool) -> None:
        self._chunk_count += 1
        stop = min(record.stop, self.size_bytes)
        compression = record.fields.get(b"compression", b"").decode("ascii", "replace")
        (limit,) = _U32.unpack(record.fields.get(b"size", b"").ljust(4, b"\0")[:4])
        builder = IndexBuilder()
        try:
            if limit > MAX_BLOCK_BYTES:
                raise BlockError(f"it says it holds {limit:,} bytes, more than the {MAX_BLOCK_BYTES:,} allowed")
            if compression == "none":
                self._walk_chunk(self._view, record.start, stop, builder, cut)
            else:
                data = memoryview(decompress(self._view[record.start : stop], compression, limit))
                self._walk_chunk(data, 0, len(data), builder, cut)
        except BlockError as error:
            if not cut:
                self._damaged_chunks.append(str(error))
                self.readable_bytes -= stop - record.start
        if len(builder):
            self._chunks.append((record.start, stop, compression, limit))
            self.add_block(builder)

    def _walk_chunk(self, buffer: memoryview, position: int, end: int, builder: IndexBuilder, cut: bool) -> None:
        while position < end:
            record = _record_at(buffer, position, end)
            if record is None or record.stop > end:
                if cut:
                    return
                raise BlockError("a record in it is damaged")
            if record.kind == _MESSAGE:
                connection, time = record.fields.get(b"conn", b""), record.fields.get(b"time", b"")
                if len(connection) != _U32.size or len(time) != _TIME.size:
                    raise BlockError("a message in it is damaged")
                seconds, nanoseconds = _TIME.unpack(time)
                builder.connections.append(_U32.unpack(connection)[0])
                builder.log_times_ns.append(seconds * 1_000_000_000 + nanoseconds)
                builder.starts.append(record.start)
                builder.lengths.append(record.stop - record.start)
            elif record.kind == _CONNECTION:
                self._connect(buffer, record)
            position = record.stop

    def _connect(self, buffer: memoryview, record: _Record) -> None:
        number = record.fields.get(b"conn", b"")
        fields = _fields(bytes(buffer[record.start : record.stop]))
        if len(number) != _U32.size or fields is None:
            return
        topic = record.fields.get(b"topic", fields.get(b"topic", b"")).decode("utf-8", "replace")
        self.connections.setdefault(
            _U32.unpack(number)[0],
            Connection(
                topic if topic.startswith("/") else f"/{topic}",
                ros2_type_name(fields.get(b"type", b"").decode("utf-8", "replace")),
                "ros1",
                fields.get(b"message_definition", b"").decode("utf-8", "replace"),
                "ros1msg",
            ),
        )


def _record_at(buffer: memoryview, position: int, end: int) -> _Record | None:
    """The record that starts here; None where its header is damaged or cut. Its data may reach beyond `end`."""
    head = position + _U32.size
    if head > end:
        return None
    (header_bytes,) = _U32.unpack_from(buffer, position)
    start = head + header_bytes + _U32.size
    if header_bytes > _MAX_HEADER_BYTES or start > end:
        return None
    fields = _fields(bytes(buffer[head : head + header_bytes]))
    if fields is None or len(fields.get(b"op", b"")) != 1:
        return None
    (data_bytes,) = _U32.unpack_from(buffer, start - _U32.size)
    return _Record(fields[b"op"][0], fields, start, start + data_bytes)


def _fields(header: bytes) -> dict[bytes, bytes] | None:
    """`name=value` of a header; None where it is damaged."""
    fields = {}
    position = 0
    while position < len(header):
        if position + _U32.size > len(header):
            return None
        stop = position + _U32.size + _U32.unpack_from(header, position)[0]
        name, separator, value = header[position + _U32.size : stop].partition(b"=")
        if stop > len(header) or not separator:
            return None
        fields[name] = value
        position = stop
    return fields
