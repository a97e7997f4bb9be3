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
from bisect import bisect_right
from zlib import crc32

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Metadata, Schema, Statistics

from onboard_estimation.evaluation import bag_blocks
from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    MAX_BLOCK_BYTES,
    MAX_MESSAGES,
    MAX_TIME_NS,
    BlockError,
    Connection,
    FileBytes,
    IndexBuilder,
    Span,
    Storage,
    decompress,
    ros2_type_name,
)
from onboard_estimation.evaluation.bag_mcap_index import FOOTER_BYTES, MAGIC, RECORD, read_index, record_at

_MESSAGE = struct.Struct("<BQHIQQ")
_CHUNK = struct.Struct("<QQQII")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MESSAGE_HEADER_BYTES = _MESSAGE.size - RECORD.size
_MAX_DESCRIPTION_BYTES = 16 * 2**20
_MAX_CHUNK_RECORD_BYTES = MAX_BLOCK_BYTES + 2**10
_FIRST_PRIVATE_OPCODE = 0x80
_SHORTEST_MESSAGE_BYTES = 64
_PIECE_BYTES = 2**20


class McapStorage(Storage):
    """The messages of one MCAP recording: a file, or what follows from `begin` on where files were joined into one.

    Attributes
    ----------
    following
        Where the next recording begins in the file; None where this is the last.

    Raises
    ------
    BlockError
        The file does not start as an MCAP file does.
    """

    def __init__(self, file: FileBytes, begin: int = 0) -> None:
        super().__init__(file)
        self.size_bytes = self.readable_bytes = self.file.size - begin
        if self.file.window(begin, len(MAGIC))[: len(MAGIC)] != MAGIC:
            raise BlockError("it does not start as an MCAP file does")
        self.following: int | None = None
        self._begin = begin
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._chunk_count = 0
        self._damaged_chunks: list[str] = []
        self._damaged_places: list[tuple[int, int]] = []
        self._damaged_descriptions = self._contradictions = self._unknown_records = self._timeless = 0
        self._closed = False
        self._compiled = self.file.size >= bag_blocks.COMPILED_FROM_BYTES
        self._index = read_index(self.file, begin)
        self._walk_file()
        self._sum_up_faults()
        self.connections = {number: self._connection(channel) for number, channel in self._channels.items()}

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

    def _walk_file(self) -> None:
        """Index the file to its end, past damaged places as far as the index at the end tells where to go on."""
        position, size = self._begin + len(MAGIC), self.file.size
        while not (self._closed or self.full):
            limit = self._anchor_after(position) if self._index.certain else size
            position = self._walk_records(position, limit)
            if self._closed or self.full or position == limit < size:
                continue
            if position == size:
                self.faults.append(f"{self.name} was not closed, the index at its end is missing")
                return
            following = self._anchor_after(position)
            if following == size:
                self._end_early(position)
                return
            self._damaged_places.append((position, following))
            self.readable_bytes -= following - position
            position = following

    def _anchor_after(self, position: int) -> int:
        """The next place where a record starts for certain; the end of the file where there is none."""
        following = bisect_right(self._index.anchors, position)
        return self._index.anchors[following] if following < len(self._index.anchors) else self.file.size

    def _end_early(self, position: int) -> None:
        """The rest of the file cannot be followed: take what a cut chunk still holds, and say where it ends."""
        before = self.message_count
        if self._is_cut(position):
            self._index_chunk(position)
            self.faults.append(f"{self.name} ends in the middle of a record")
        else:
            self.faults.append(f"{self.name} is damaged from byte {position:,} on")
        if self.message_count == before:
            self.readable_bytes -= self.file.size - position

    def _sum_up_faults(self) -> None:
        name = self.name
        if self._damaged_places:
            count = sum(stop - start for start, stop in self._damaged_places)
            self.faults.append(f"{count:,} bytes of {name} are damaged, from byte {self._damaged_places[0][0]:,} on")
        if self._damaged_chunks:
            share = f"{len(self._damaged_chunks):,} of {self._chunk_count:,} chunks"
            self.faults.append(f"{share} of {name} are damaged (the first one: {self._damaged_chunks[0]})")
        if self._damaged_descriptions:
            self.faults.append(f"{self._damaged_descriptions:,} descriptions of topics or types in {name} are damaged")
        if self._contradictions:
            self.faults.append(
                f"{self._contradictions:,} of the descriptions of topics and types in {name} contradict others"
            )
        if self._timeless:
            self.faults.append(
                f"{self._timeless:,} of the messages in {name} have an impossible time, and were left out"
            )
        if self._unknown_records:
            self.faults.append(f"{self._unknown_records:,} of the records in {name} are of no known kind, and left out")
        if self.full:
            self.faults.append(f"{name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")

    def _walk_records(self, position: int, limit: int) -> int:
        """Follow the records up to `limit`, which none may reach across; gives the place that could not be followed.

        Where the index says that a chunk starts, there has to be one: a record of another kind is a damaged chunk.
        """
        must_be_chunk = position in self._index.certain
        while position < limit and not (self._closed or self.full):
            head = self.file.window(position, RECORD.size)
            if limit - position < RECORD.size:
                return position
            opcode, size = RECORD.unpack_from(head)
            stop = position + RECORD.size + size
            if not (opcode or size) or stop > limit or (must_be_chunk and opcode != Opcode.CHUNK):
                return position
            must_be_chunk = False
            if opcode == Opcode.MESSAGE:
                length = self._index_messages(position, size, limit)
                if not length:
                    return position
                position += length
                continue
            if opcode == Opcode.CHUNK:
                self._index_chunk(position)
            elif opcode == Opcode.FOOTER:
                end = bytes(self.file.window(stop, len(MAGIC))[: len(MAGIC)])
                if size != FOOTER_BYTES or not MAGIC.startswith(end):
                    return position
                if end != MAGIC:
                    return self.file.size
                self._close(stop + len(MAGIC))
            elif opcode == Opcode.DATA_END:
                self._check_data(position, size)
            elif opcode not in _KNOWN_OPCODES and opcode < _FIRST_PRIVATE_OPCODE:
                self._unknown_records += 1
            elif opcode in _DESCRIPTIONS and size <= _MAX_DESCRIPTION_BYTES:
                self._describe(opcode, self.file.window(position, RECORD.size + size)[RECORD.size :][:size])
            position = stop
        return position

    def _index_messages(self, position: int, size: int, limit: int) -> int:
        """Index messages that are in no chunk; gives how many bytes they take, 0 where the first is damaged."""
        if size > MAX_BLOCK_BYTES:
            return 0
        window = self.file.window(position, RECORD.size + size)
        builder = IndexBuilder()
        length = self._walk_messages(window, 0, min(len(window), limit - position), builder, BLOCK_MESSAGES)
        if len(builder):
            self.add_block(builder.index(), Span(position, position + length))
        return length or self._skip_timeless(window[: limit - position], 0)

    def _skip_timeless(self, buffer: memoryview, position: int) -> int:
        """Count a whole message with a time that is none; gives the place after it, or that of another record."""
        if len(buffer) - position < _MESSAGE.size:
            return position
        opcode, size, _, _, log_time, _ = _MESSAGE.unpack_from(buffer, position)
        stop = position + RECORD.size + size
        if opcode != Opcode.MESSAGE or size < _MESSAGE_HEADER_BYTES or stop > len(buffer) or log_time <= MAX_TIME_NS:
            return position
        self._timeless += 1
        return int(stop)

    def _close(self, stop: int) -> None:
        """The recording is whole up to its footer, and ends here."""
        self._closed = True
        if stop == self.file.size and self._index.damaged:
            self.faults.append(f"the index at the end of {self.name} is damaged")
        left = self.file.size - stop
        if left and self.file.window(stop, len(MAGIC))[: len(MAGIC)] == MAGIC:
            self.following = stop
        elif left:
            self.faults.append(f"{left:,} bytes that follow the end of {self.name} were left out")
        self.size_bytes -= left if self.following else 0
        self.readable_bytes -= left

    def _check_data(self, position: int, size: int) -> None:
        """Compare the checksum that the data may end with (0: none)."""
        if size != _U32.size:
            self._damaged_descriptions += 1
            return
        (expected,) = _U32.unpack_from(self.file.window(position + RECORD.size, size))
        if not expected:
            return
        crc = 0
        for start in range(self._begin, position, _PIECE_BYTES):
            crc = crc32(self.file.read(start, min(start + _PIECE_BYTES, position)), crc)
        if crc != expected:
            self.faults.append(f"the checksum of {self.name} is wrong, some of its messages may be")

    def _is_cut(self, position: int) -> bool:
        """Whether a record of a known kind starts here that needs more bytes than the file has."""
        if position + RECORD.size > self.file.size:
            return True
        opcode, size = RECORD.unpack_from(self.file.window(position, RECORD.size))
        return opcode in _KNOWN_OPCODES and position + RECORD.size + size > self.file.size

    def _index_chunk(self, position: int) -> None:
        """Index the chunk whose record starts here; of a chunk that the file's end cuts off, what is there."""
        head = position + RECORD.size
        if head + _CHUNK.size > self.file.size or self.file.window(position, 1)[0] != Opcode.CHUNK:
            return
        self._chunk_count += 1
        (_, size) = RECORD.unpack_from(self.file.window(position, RECORD.size))
        stop = min(head + size, self.file.size)
        cut = head + size > self.file.size
        builder = IndexBuilder()
        try:
            if stop - head > _MAX_CHUNK_RECORD_BYTES:
                raise BlockError(f"it is {stop - head:,} bytes long, more than the {MAX_BLOCK_BYTES:,} allowed")
            content = self.file.window(head, stop - head)[: stop - head]
            start, end, compression, limit, crc = _chunk(content, cut)
            data = content[start:end]
            if compression:
                data = memoryview(decompress(data, compression, limit))
            if not cut and len(data) != limit:
                raise BlockError(f"it holds {len(data):,} bytes of {limit:,}")
            if not cut and crc and crc32(data) != crc:
                raise BlockError("its checksum is wrong")
            self._walk_chunk(data, builder, cut)
        except BlockError as error:
            if not cut:
                self._damaged_chunks.append(str(error))
                self.readable_bytes -= stop - position
        if len(builder):
            self.add_block(builder.index(), Span(head + start, head + end, compression, limit))

    def _walk_chunk(self, buffer: memoryview, builder: IndexBuilder, cut: bool) -> None:
        position, end = 0, len(buffer)
        while position < end:
            position = self._walk_messages(buffer, position, end, builder, MAX_MESSAGES)
            if position == end:
                return
            if (skipped := self._skip_timeless(buffer, position)) > position:
                position = skipped
                continue
            record = record_at(buffer, position)
            if record is None and cut:
                return
            if record is None:
                raise BlockError("a record in it is damaged")
            opcode, stop = record
            self._unknown_records += opcode not in _KNOWN_OPCODES and opcode < _FIRST_PRIVATE_OPCODE
            self._describe(opcode, buffer[position + RECORD.size : stop])
            position = stop

    def _describe(self, opcode: int, content: memoryview) -> None:
        """Take in a record that describes the messages; others are left."""
        if opcode not in _DESCRIPTIONS or len(content) > _MAX_DESCRIPTION_BYTES:
            return
        stream = ReadDataStream(io.BytesIO(content))
        try:
            if opcode == Opcode.SCHEMA:
                schema = Schema.read(stream)
                self._contradictions += self._schemas.setdefault(schema.id, schema) != schema
            elif opcode == Opcode.CHANNEL:
                channel = Channel.read(stream)
                self._contradictions += self._channels.setdefault(channel.id, channel) != channel
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


def _chunk(content: memoryview, cut: bool) -> tuple[int, int, str, int, int]:
    """Of a chunk's record: start and end of its data, compression, how many bytes it holds, and their checksum."""
    if len(content) < _CHUNK.size:
        raise BlockError("its header is damaged")
    _, _, raw_size, crc, name_length = _CHUNK.unpack_from(content)
    start = _CHUNK.size + name_length + _U64.size
    if start > len(content):
        raise BlockError("its header is damaged")
    compression = bytes(content[_CHUNK.size : start - _U64.size]).decode("ascii", "replace")
    (size,) = _U64.unpack_from(content, start - _U64.size)
    if start + size > len(content) and not cut:
        raise BlockError("its header is damaged")
    if raw_size > MAX_BLOCK_BYTES:
        raise BlockError(f"it says it holds {raw_size:,} bytes, more than the {MAX_BLOCK_BYTES:,} allowed")
    return start, min(start + size, len(content)), compression, raw_size, crc


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
