"""MCAP files: with chunks or without, whole, cut off anywhere, or damaged in the middle.

Format: MCAP specification, version 0. A file is a sequence of records (opcode u8, length u64, content); a chunk is a
record that holds further ones, compressed or not. Schemas, channels and the index at the end are parsed by the `mcap`
package. The walk over the records is our own: that package's stream reader takes a message that is cut short for a
whole one, and gives nothing of the chunk that a cut falls into (1 MB, several seconds of an IMU).
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, ChunkIndex, Metadata, Schema, Statistics

from onboard_estimation.evaluation import bag_mapping
from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    MAX_BLOCK_BYTES,
    MAX_MESSAGES,
    MAX_TIME_NS,
    BlockError,
    Connection,
    IndexBuilder,
    Storage,
    decompress,
    ros2_type_name,
)
from onboard_estimation.evaluation.bag_mapping import MappedFile

MAGIC = b"\x89MCAP0\r\n"

_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<BQHIQQ")
_CHUNK = struct.Struct("<QQQII")
_U64 = struct.Struct("<Q")
_FOOTER_BYTES = _RECORD.size + 20 + len(MAGIC)
_MESSAGE_HEADER_BYTES = _MESSAGE.size - _RECORD.size
_MAX_DESCRIPTION_BYTES = 16 * 2**20
_FIRST_PRIVATE_OPCODE = 0x80
_SHORTEST_MESSAGE_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A block's data in the file; without compression, the block's `starts` refer to the file itself."""

    start: int
    stop: int
    compression: str
    limit: int


class McapStorage(Storage):
    """The messages of one MCAP file.

    Raises
    ------
    BlockError
        The file does not start as an MCAP file does.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = MappedFile(path)
        self._view = self._file.view
        self.size_bytes = self.readable_bytes = len(self._view)
        if self._view[: len(MAGIC)] != MAGIC:
            raise BlockError("it does not start as an MCAP file does")
        self._chunks: list[_Chunk] = []
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._chunk_count = 0
        self._damaged_chunks: list[str] = []
        self._damaged_places: list[tuple[int, int]] = []
        self._damaged_descriptions = 0
        self._closed = False
        self._compiled = self.size_bytes >= bag_mapping.COMPILED_FROM_BYTES
        self._walk_file()
        self._sum_up_faults()
        self.connections = {number: self._connection(channel) for number, channel in self._channels.items()}

    def load(self, block: int) -> bytes | memoryview:
        """The decompressed chunk, or the whole file where nothing is compressed."""
        chunk = self._chunks[block]
        self._file.forget(chunk.start)
        if not chunk.compression:
            return self._view
        return decompress(self._view[chunk.start : chunk.stop], chunk.compression, chunk.limit)

    def _walk_messages(self, buffer: memoryview, position: int, end: int, builder: IndexBuilder, most: int) -> int:
        """`_walk_messages`, compiled for a large file."""
        if not self._compiled:
            return _walk_messages(buffer, position, end, builder, most)
        from onboard_estimation.evaluation.bag_kernels import walk_mcap_messages

        data = np.frombuffer(buffer, dtype=np.uint8)
        while True:
            # Room for as many as there may be of an ordinary length; shorter ones take further rounds.
            room = min(most, max((end - position) // _SHORTEST_MESSAGE_BYTES, 1), BLOCK_MESSAGES)
            index = np.empty((4, room), dtype=np.int64)
            count, position = walk_mcap_messages(data, position, end, index)
            builder.extend(index[:, :count])
            most -= count
            if count < room or not most:
                return position

    def close(self) -> None:
        """Let go of the file; arrays that still look into it keep it open."""
        self._file.close()

    def _walk_file(self) -> None:
        """Index the file to its end, past damaged places as far as the index at the end tells where to go on."""
        position, end = len(MAGIC), self.size_bytes
        anchors: list[int] | None = None
        while True:
            position = self._walk_records(position, end)
            if self._complete:
                return
            if position == end:
                self.faults.append(f"{self.path.name} was not closed, the index at its end is missing")
                return
            if anchors is None:
                anchors = self._anchors()
            following = next((anchor for anchor in anchors if anchor > position), None)
            if following is None:
                self._end_early(position)
                return
            self._damaged_places.append((position, following))
            self.readable_bytes -= following - position
            position = following

    @property
    def _complete(self) -> bool:
        return self._closed or self.full

    def _end_early(self, position: int) -> None:
        """The rest of the file cannot be followed: take what a cut chunk still holds, and say where it ends."""
        before = self.message_count
        cut = self._is_cut(position)
        if cut:
            self._index_chunk(position)
            self.faults.append(f"{self.path.name} ends in the middle of a record")
        else:
            self.faults.append(f"{self.path.name} is damaged from byte {position:,} on")
        if self.message_count == before:
            self.readable_bytes -= self.size_bytes - position

    def _sum_up_faults(self) -> None:
        name = self.path.name
        if self._damaged_places:
            count = sum(stop - start for start, stop in self._damaged_places)
            self.faults.append(f"{count:,} bytes of {name} are damaged, from byte {self._damaged_places[0][0]:,} on")
        if self._damaged_chunks:
            share = f"{len(self._damaged_chunks):,} of {self._chunk_count:,} chunks"
            self.faults.append(f"{share} of {name} are damaged (the first one: {self._damaged_chunks[0]})")
        if self._damaged_descriptions:
            self.faults.append(f"{self._damaged_descriptions:,} descriptions of topics or types in {name} are damaged")
        if self.full:
            self.faults.append(f"{name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")

    def _walk_records(self, position: int, end: int) -> int:
        """Follow the records of the file; gives `end`, or the place of a record that cannot be followed."""
        while position < end and not self.full:
            builder = IndexBuilder()
            self._file.forget(position)
            position = self._walk_messages(self._view, position, end, builder, BLOCK_MESSAGES)
            if len(builder):
                self._chunks.append(_Chunk(0, 0, "", 0))
                self.add_block(builder)
                continue
            record = _record_at(self._view, position, end)
            if record is None:
                return position
            opcode, stop = record
            if opcode == Opcode.CHUNK:
                self._index_chunk(position)
            elif opcode == Opcode.FOOTER:
                self._closed = self._view[stop : stop + len(MAGIC)] == MAGIC
                return end
            else:
                self._describe(opcode, self._view[position + _RECORD.size : stop])
            position = stop
        return position

    def _is_cut(self, position: int) -> bool:
        """Whether a record of a known kind starts here that needs more bytes than the file has."""
        if position + _RECORD.size > self.size_bytes:
            return True
        opcode, size = _RECORD.unpack_from(self._view, position)
        return opcode in _KNOWN_OPCODES and position + _RECORD.size + size > self.size_bytes

    def _index_chunk(self, position: int) -> None:
        """Index the chunk whose record starts here; of a chunk that the file's end cuts off, what is there."""
        head = position + _RECORD.size
        if head + _CHUNK.size > self.size_bytes or self._view[position] != Opcode.CHUNK:
            return
        self._chunk_count += 1
        _, size = _RECORD.unpack_from(self._view, position)
        stop = min(head + size, self.size_bytes)
        cut = head + size > self.size_bytes
        builder = IndexBuilder()
        try:
            chunk, crc = self._chunk_at(head, stop, cut)
            data = self._view[chunk.start : chunk.stop]
            if chunk.compression:
                data = memoryview(decompress(data, chunk.compression, chunk.limit))
            if not cut and len(data) != chunk.limit:
                raise BlockError(f"it holds {len(data):,} bytes of {chunk.limit:,}")
            if not cut and crc and crc32(data) != crc:
                raise BlockError("its checksum is wrong")
            base = 0 if chunk.compression else chunk.start
            self._walk_chunk(data if chunk.compression else self._view, base, base + len(data), builder, cut)
        except BlockError as error:
            if not cut:
                self._damaged_chunks.append(str(error))
                self.readable_bytes -= stop - position
        if len(builder):
            self._chunks.append(chunk)
            self.add_block(builder)

    def _chunk_at(self, head: int, stop: int, cut: bool) -> tuple[_Chunk, int]:
        """The chunk whose record's content lies between `head` and `stop`, and its checksum (0: none)."""
        _, _, raw_size, crc, name_length = _CHUNK.unpack_from(self._view, head)
        start = head + _CHUNK.size + name_length + _U64.size
        if start > stop:
            raise BlockError("its header is damaged")
        compression = bytes(self._view[head + _CHUNK.size : start - _U64.size]).decode("ascii", "replace")
        (size,) = _U64.unpack_from(self._view, start - _U64.size)
        if start + size > stop and not cut:
            raise BlockError("its header is damaged")
        if raw_size > MAX_BLOCK_BYTES:
            raise BlockError(f"it says it holds {raw_size:,} bytes, more than the {MAX_BLOCK_BYTES:,} allowed")
        return _Chunk(start, min(start + size, stop), compression, raw_size), crc

    def _walk_chunk(self, buffer: memoryview, position: int, end: int, builder: IndexBuilder, cut: bool) -> None:
        while position < end:
            position = self._walk_messages(buffer, position, end, builder, MAX_MESSAGES)
            if position == end:
                return
            record = _record_at(buffer, position, end)
            if record is None and cut:
                return
            if record is None:
                raise BlockError("a record in it is damaged")
            opcode, stop = record
            self._describe(opcode, buffer[position + _RECORD.size : stop])
            position = stop

    def _describe(self, opcode: int, content: memoryview) -> None:
        """Take in a record that describes the messages; others are left."""
        if opcode not in _DESCRIPTIONS or len(content) > _MAX_DESCRIPTION_BYTES:
            return
        stream = ReadDataStream(io.BytesIO(content))
        try:
            if opcode == Opcode.SCHEMA:
                schema = Schema.read(stream)
                self._schemas.setdefault(schema.id, schema)
            elif opcode == Opcode.CHANNEL:
                channel = Channel.read(stream)
                self._channels.setdefault(channel.id, channel)
            elif opcode == Opcode.STATISTICS:
                self.expected_messages = Statistics.read(stream).message_count
            elif opcode == Opcode.METADATA:
                self._read_metadata(Metadata.read(stream))
        except (McapError, struct.error, ValueError):
            self._damaged_descriptions += 1

    def _read_metadata(self, record: Metadata) -> None:
        text = "\n".join(f"{key}: {value}" for key, value in record.metadata.items())
        found = re.search(r"^ros_distro: *(\w+)", text, re.MULTILINE | re.IGNORECASE)
        if record.name == "rosbag2" and found and found.group(1) != "rosbags":
            self.distribution = found.group(1)

    def _anchors(self) -> list[int]:
        """Where chunks and the summary start, after the index at the file's end; empty where it is missing."""
        position = self.size_bytes - _FOOTER_BYTES
        if position < 0 or self._view[position] != Opcode.FOOTER or self._view[-len(MAGIC) :] != MAGIC:
            return []
        (summary,) = _U64.unpack_from(self._view, position + _RECORD.size)
        anchors = {summary, position}
        while summary < position and (record := _record_at(self._view, summary, position)):
            opcode, stop = record
            if opcode == Opcode.CHUNK_INDEX:
                try:
                    content = self._view[summary + _RECORD.size : stop]
                    anchors.add(ChunkIndex.read(ReadDataStream(io.BytesIO(content))).chunk_start_offset)
                except (McapError, struct.error, ValueError):
                    pass
            summary = stop
        return sorted(anchor for anchor in anchors if anchor <= position)

    def _connection(self, channel: Channel) -> Connection:
        schema = self._schemas.get(channel.schema_id)
        if schema is None:
            return Connection(channel.topic, "", channel.message_encoding)
        definition = schema.data.decode("utf-8", "replace")
        return Connection(
            channel.topic, ros2_type_name(schema.name), channel.message_encoding, definition, schema.encoding
        )


_KNOWN_OPCODES = frozenset(int(opcode) for opcode in Opcode)
_DESCRIPTIONS = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.STATISTICS, Opcode.METADATA})


def _record_at(buffer: memoryview, position: int, end: int) -> tuple[int, int] | None:
    """(opcode, end of the record) of a whole record that is no message, else None."""
    if position + _RECORD.size > end:
        return None
    opcode, size = _RECORD.unpack_from(buffer, position)
    stop = position + _RECORD.size + size
    known = opcode in _KNOWN_OPCODES or opcode >= _FIRST_PRIVATE_OPCODE
    return (opcode, stop) if known and opcode != Opcode.MESSAGE and stop <= end else None


def _walk_messages(buffer: memoryview, position: int, end: int, builder: IndexBuilder, most: int) -> int:
    """Index up to `most` whole messages that follow each other; gives the place after the last of them.

    This loop sees every message of a recording, so it does nothing but what each of them needs.
    """
    unpack = _MESSAGE.unpack_from
    add_connection, add_time = builder.connections.append, builder.log_times_ns.append
    add_start, add_length = builder.starts.append, builder.lengths.append
    last = end - _MESSAGE.size
    while position <= last and most:
        opcode, size, connection, _, log_time, _ = unpack(buffer, position)
        stop = position + 9 + size
        if opcode != 5 or stop > end or size < _MESSAGE_HEADER_BYTES or log_time > MAX_TIME_NS:
            break
        add_connection(connection)
        add_time(log_time)
        add_start(position + 31)
        add_length(size - 22)
        position = stop
        most -= 1
    return position
