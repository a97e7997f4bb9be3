"""MCAP files: with chunks or without, whole, cut off anywhere, or damaged in the middle.

Format: MCAP specification, version 0. A file is a sequence of records (opcode u8, length u64, content); a chunk is a
record that holds further ones, compressed or not. Schemas, channels and the index at the end are parsed by the `mcap`
package. The walk over the records is our own: that package's stream reader takes a message that is cut short for a
whole one, gives nothing of the chunk that a cut falls into (1 MB, several seconds of an IMU), and takes 4 us a message.
"""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, ChunkIndex, Footer, Schema, Statistics
from mcap.stream_reader import StreamReader
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.bags.blocks import (
    BLOCK_MESSAGES,
    MAX_BLOCK_BYTES,
    MAX_MESSAGES,
    MAX_TIME_NS,
    BlockError,
    BlockIndex,
    ChunkedStorage,
    Connection,
    FileBytes,
    Span,
    gather,
    ros2_type_name,
)

MAGIC = b"\x89MCAP0\r\n"
RECORD = struct.Struct("<BQ")
FOOTER_BYTES = 20

_CHUNK = struct.Struct("<QQQII")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MESSAGE_HEADER_BYTES = 22
_HEAD_BYTES = RECORD.size + _MESSAGE_HEADER_BYTES
_MAX_DESCRIPTION_BYTES = 16 * 2**20
_MAX_CHUNK_HEAD_BYTES = 256
_FIRST_PRIVATE_OPCODE = 0x80
_PIECE_BYTES = 2**20
_KNOWN_OPCODES = frozenset(int(opcode) for opcode in Opcode)
_DESCRIPTIONS = frozenset({Opcode.SCHEMA, Opcode.CHANNEL, Opcode.STATISTICS})


_CRC_BYTES = 4
_END_BYTES = RECORD.size + FOOTER_BYTES + len(MAGIC)
_MAX_INDEX_BYTES = 256 * 2**20


class McapStorage(ChunkedStorage):
    """The messages of one MCAP file, which starts as such does."""

    keeps_columns = False

    def __init__(self, file: FileBytes) -> None:
        super().__init__(file)
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self._unknown_records = self._timeless = 0
        self._index = read_index(self.file)
        self.anchors = self._index.anchors
        end = self.walk(len(MAGIC))
        if not (self.closed or self.full) and end < self.file.size:
            self._end_early(end)
        elif not (self.closed or self.full):
            self.faults.append(f"{self.name} was not closed, the index at its end is missing")
        self.say_damage()
        for count, what, why in (
            (self._timeless, "messages", "have an impossible time, and were left out"),
            (self._unknown_records, "records", "are of no known kind, and left out"),
        ):
            if count:
                self.faults.append(f"{count:,} of the {what} in {self.name} {why}")
        self.connections = {number: self._connection(channel) for number, channel in self._channels.items()}

    def _end_early(self, position: int) -> None:
        """The rest of the file cannot be followed: take what a cut chunk still holds, and say where it ends."""
        opcode, stop = self._head(position)
        if stop > self.file.size and opcode in (*_KNOWN_OPCODES, -1):
            if opcode == Opcode.CHUNK:
                self.index_chunk(position, stop, self._chunk(position, stop))
            self.faults.append(f"{self.name} ends in the middle of a record")
        else:
            self.faults.append(f"{self.name} is damaged from byte {position:,} on")
        # How much of a cut chunk is lost nobody knows: no more is claimed than what is whole.
        self.readable_bytes -= self.file.size - position

    def _head(self, position: int) -> tuple[int, int]:
        """Opcode of the record that starts here, and where it ends; (-1, behind the file) where that is cut off."""
        head = self.file.window(position, RECORD.size)
        if len(head) < RECORD.size:
            return -1, self.file.size + 1
        opcode, size = RECORD.unpack_from(head)
        return opcode, position + RECORD.size + size

    def take_record(self, position: int, anchor: int | None) -> int | None:
        """The record, or the messages in a row, that start here.

        No record reaches across a certain anchor, and where the index says that a chunk starts, there has to be one (a
        record of another kind is a damaged chunk).
        """
        limit = anchor if anchor is not None and self._index.certain else self.file.size
        opcode, stop = self._head(position)
        nothing = not opcode and stop == position + RECORD.size
        if nothing or stop > limit or (position in self._index.certain and opcode != Opcode.CHUNK):
            return None
        if opcode == Opcode.MESSAGE:
            if stop - position > MAX_BLOCK_BYTES:
                return None
            window = self.file.window(position, stop - position)[: limit - position]
            found, length = self._messages(window, 0, BLOCK_MESSAGES)
            self.add_block(found, Span(position, position + length))
            return position + length if length else None
        if opcode == Opcode.CHUNK:
            self.index_chunk(position, stop, self._chunk(position, stop))
        elif opcode == Opcode.FOOTER:
            end = bytes(self.file.window(stop, len(MAGIC))[: len(MAGIC)])
            if stop - position != RECORD.size + FOOTER_BYTES or not MAGIC.startswith(end):
                return None
            if end != MAGIC:
                return self.file.size
            self._close(stop + len(MAGIC))
        elif opcode == Opcode.DATA_END:
            self._check_data(position, stop)
        else:
            length = min(stop - position, _MAX_DESCRIPTION_BYTES)
            self._describe(opcode, self.file.window(position, length)[RECORD.size : stop - position])
        return stop

    def _messages(self, buffer: memoryview, position: int, most: int) -> tuple[NDArray[np.int64], int]:
        """What `add_block` takes of up to `most` whole messages that follow each other, and the place after them."""
        content = np.frombuffer(buffer, dtype=np.uint8)
        places = np.empty(min(most, len(buffer) // _HEAD_BYTES), dtype=np.int64)
        count, position = _follow(content, position, places)
        starts = places[:count]
        lengths = np.diff(starts, append=position)
        heads = gather(content, starts, _HEAD_BYTES)
        numbers, times = heads[:, 9:11].copy().view("<u2")[:, 0], heads[:, 15:23].copy().view("<u8")[:, 0]
        timed = times <= MAX_TIME_NS
        self._timeless += int(np.count_nonzero(~timed))
        found = np.array([numbers, times.astype(np.int64), starts + _HEAD_BYTES, lengths - _HEAD_BYTES])
        return found[:, timed], position

    def _close(self, stop: int) -> None:
        """The recording is whole up to its footer, and ends here."""
        self.closed = True
        if stop == self.file.size and self._index.damaged:
            self.faults.append(f"the index at the end of {self.name} is damaged")
        if left := self.file.size - stop:
            self.faults.append(f"{left:,} bytes that follow the end of {self.name} were left out")
        self.readable_bytes -= left

    def _check_data(self, position: int, stop: int) -> None:
        """Compare the checksum that the data may end with (0: none)."""
        if stop - position != RECORD.size + _U32.size:
            self.damaged_descriptions += 1
            return
        (expected,) = _U32.unpack(self.file.read(stop - _U32.size, stop))
        if not expected:
            return
        crc = 0
        for start in range(0, position, _PIECE_BYTES):
            crc = crc32(self.file.read(start, min(start + _PIECE_BYTES, position)), crc)
        if crc != expected:
            self.faults.append(f"the checksum of {self.name} is wrong, some of its messages may be")

    def _chunk(self, position: int, stop: int) -> Span | None:
        """Where the data of the chunk lies whose record goes from `position` to `stop`; None: its header is damaged."""
        head, end = position + RECORD.size, min(stop, self.file.size)
        content = self.file.window(head, _MAX_CHUNK_HEAD_BYTES)[: min(end - head, _MAX_CHUNK_HEAD_BYTES)]
        if len(content) < _CHUNK.size:
            return None
        _, _, size, crc, name_length = _CHUNK.unpack_from(content)
        name_end = _CHUNK.size + name_length
        if name_end + _U64.size > len(content):
            return None
        compression = bytes(content[_CHUNK.size : name_end]).decode("ascii", "replace")
        (length,) = _U64.unpack_from(content, name_end)
        start = head + name_end + _U64.size
        return Span(start, min(start + length, end), compression, size, crc) if start + length <= stop else None

    def columns(self, block: BlockIndex, buffer: bytes | memoryview) -> NDArray[np.int64]:
        found: list[NDArray[np.int64]] = []
        with suppress(BlockError):  # was told when it was indexed
            self.walk_chunk(memoryview(buffer), cut=True, found=found)
        return np.concatenate(found, axis=1)

    def walk_chunk(self, buffer: memoryview, cut: bool, found: list[NDArray[np.int64]]) -> None:
        position, end = 0, len(buffer)
        while position < end:
            messages, position = self._messages(buffer, position, MAX_MESSAGES)
            found.append(messages)
            if position == end:
                return
            head = bytes(buffer[position : position + RECORD.size])
            opcode, size = RECORD.unpack(head.ljust(RECORD.size, b"\0"))
            stop = position + RECORD.size + size
            if opcode == Opcode.MESSAGE or not (opcode or size) or stop > end:
                if cut:
                    return
                raise BlockError("a record in it is damaged")
            self._describe(opcode, buffer[position + RECORD.size : stop])
            position = stop

    def _describe(self, opcode: int, content: memoryview) -> None:
        """Take in a record that describes the messages; others are left, those of unknown kinds counted."""
        self._unknown_records += opcode not in _KNOWN_OPCODES and opcode < _FIRST_PRIVATE_OPCODE
        if opcode not in _DESCRIPTIONS or len(content) >= _MAX_DESCRIPTION_BYTES - RECORD.size:
            return
        stream = ReadDataStream(io.BytesIO(content))
        try:
            if opcode == Opcode.SCHEMA:
                schema = Schema.read(stream)
                self.contradictions += self._schemas.setdefault(schema.id, schema) != schema
            elif opcode == Opcode.CHANNEL:
                channel = Channel.read(stream)
                self.contradictions += self._channels.setdefault(channel.id, channel) != channel
            elif opcode == Opcode.STATISTICS:
                self.expected_messages = Statistics.read(stream).message_count
        except (McapError, struct.error, ValueError):
            self.damaged_descriptions += 1

    def _connection(self, channel: Channel) -> Connection:
        schema = self._schemas.get(channel.schema_id) or Schema(0, b"", "", "")
        return Connection(
            channel.topic,
            ros2_type_name(schema.name),
            channel.message_encoding,
            schema.data.decode("utf-8", "replace"),
            schema.encoding,
            channel.metadata.get("offered_qos_profiles", ""),
        )


@njit(cache=True)
def _follow(content: NDArray[np.uint8], position: int, places: NDArray[np.int64]) -> tuple[int, int]:
    """Into `places` where whole messages start that follow each other from a position on: how many, and where they end.

    Every message of a recording passes here: compiled, an hour of a fast robot takes a tenth of a second.
    """
    count = 0
    while count < len(places) and position + _HEAD_BYTES <= len(content) and content[position] == 5:
        size = np.uint64(0)
        for byte in range(8):
            size |= np.uint64(content[position + 1 + byte]) << np.uint64(8 * byte)
        if size < np.uint64(_MESSAGE_HEADER_BYTES) or size > np.uint64(len(content) - position - 9):
            break
        places[count] = position
        count += 1
        position += 9 + int(np.int64(size))
    return count, position


@dataclass(frozen=True)
class McapIndex:
    """What the index says; empty where there is none.

    Attributes
    ----------
    anchors
        Where chunks start, the index itself, and the footer, sorted.
    certain
        Where a chunk starts for certain, because a checksum covers what the index says, and the length that is found
        there agrees; no record reaches across these. Other anchors only help where a record cannot be followed.
    damaged
        There is an index, and it is damaged.
    """

    anchors: tuple[int, ...] = ()
    certain: frozenset[int] = frozenset()
    damaged: bool = False


def read_index(file: FileBytes) -> McapIndex:
    """The index at the end of the file."""
    footer = file.size - _END_BYTES
    if footer < 0:
        return McapIndex()
    end = file.read(footer, file.size)
    if RECORD.unpack_from(end) != (Opcode.FOOTER, FOOTER_BYTES) or not end.endswith(MAGIC):
        return McapIndex()
    (about,) = _records(end)
    if not isinstance(about, Footer) or not about.summary_start:
        return McapIndex((footer,))
    start = about.summary_start
    if not max(footer - _MAX_INDEX_BYTES, len(MAGIC)) <= start <= footer:
        return McapIndex(damaged=True)
    summary = file.read(start, footer)
    try:
        records = _records(summary + end)
    except (McapError, struct.error, ValueError, OverflowError):
        return McapIndex(damaged=True)
    chunks = {
        record.chunk_start_offset: record.chunk_length
        for record in records
        if isinstance(record, ChunkIndex) and 0 < record.chunk_start_offset < about.summary_start
    }
    anchors = tuple(sorted({*chunks, start, footer}))
    crc = crc32(end[: RECORD.size + FOOTER_BYTES - _CRC_BYTES], crc32(summary))
    if about.summary_crc != crc:
        return McapIndex(anchors, damaged=about.summary_crc != 0)
    lengths = {place: int.from_bytes(file.read(place + 1, place + RECORD.size), "little") for place in chunks}
    return McapIndex(anchors, frozenset(place for place in chunks if RECORD.size + lengths[place] == chunks[place]))


def _records(content: bytes) -> list[object]:
    """The records up to the footer at the content's end; a chunk among them, which no index has, stays packed."""
    return list(StreamReader(io.BytesIO(content), skip_magic=True, emit_chunks=True).records)
