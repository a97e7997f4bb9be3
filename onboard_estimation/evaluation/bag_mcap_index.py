"""The index at the end of an MCAP file (its summary), as far as it helps to follow a damaged file."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from zlib import crc32

from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import ChunkIndex, Footer
from mcap.stream_reader import StreamReader

from onboard_estimation.evaluation.bag_blocks import FileBytes

MAGIC = b"\x89MCAP0\r\n"
RECORD = struct.Struct("<BQ")
FOOTER_BYTES = 20

_CRC_BYTES = 4
_END_BYTES = RECORD.size + FOOTER_BYTES + len(MAGIC)
_MAX_INDEX_BYTES = 256 * 2**20


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


def read_index(file: FileBytes, begin: int) -> McapIndex:
    """The index at the end of the file, for the recording that begins at `begin`."""
    footer = file.size - _END_BYTES
    if footer < begin:
        return McapIndex()
    end = file.read(footer, file.size)
    if RECORD.unpack_from(end) != (Opcode.FOOTER, FOOTER_BYTES) or not end.endswith(MAGIC):
        return McapIndex()
    (about,) = _records(end)
    if not isinstance(about, Footer) or not about.summary_start:
        return McapIndex((footer,))
    start = begin + about.summary_start
    if not max(footer - _MAX_INDEX_BYTES, begin + len(MAGIC)) <= start <= footer:
        return McapIndex(damaged=True)
    summary = file.read(start, footer)
    try:
        records = _records(summary + end)
    except (McapError, struct.error, ValueError, OverflowError):
        return McapIndex(damaged=True)
    chunks = {
        begin + record.chunk_start_offset: record.chunk_length
        for record in records
        if isinstance(record, ChunkIndex) and 0 < record.chunk_start_offset < about.summary_start
    }
    anchors = tuple(sorted({*chunks, start, footer}))
    crc = crc32(end[: RECORD.size + FOOTER_BYTES - _CRC_BYTES], crc32(summary))
    if about.summary_crc != crc:
        return McapIndex(anchors, damaged=about.summary_crc != 0)
    return McapIndex(anchors, frozenset(place for place in chunks if _length_at(file, place) == chunks[place]))


def _records(content: bytes) -> list[object]:
    """The records up to the footer at the content's end; a chunk among them, which no index has, stays packed."""
    return list(StreamReader(io.BytesIO(content), skip_magic=True, emit_chunks=True).records)


def _length_at(file: FileBytes, place: int) -> int:
    """How long the record is that starts there, by what it says; its kind may be damaged."""
    head = file.read(place, place + RECORD.size)
    return RECORD.size + int(RECORD.unpack(head)[1]) if len(head) == RECORD.size else 0
