"""Changes of MCAP files for `fuzz_bags` that keep enough of the structure to get past the first checks.

A file is taken apart into records, and put together again with right or wrong lengths, checksums and offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from zlib import crc32

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from benchmarks.fuzz_bags_bytes import change_bytes, change_items, extreme, set_number

MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = range(1, 9)
STATISTICS, SUMMARY_OFFSET, DATA_END = 11, 14, 15

_RECORD = struct.Struct("<BQ")
_CHUNK = struct.Struct("<QQQII")
_FIELDS: dict[int, tuple[tuple[int, int], ...]] = {
    HEADER: ((0, 4),),
    FOOTER: ((0, 8), (8, 8), (16, 4)),
    SCHEMA: ((0, 2), (2, 4)),
    CHANNEL: ((0, 2), (2, 2), (4, 4)),
    MESSAGE: ((0, 2), (2, 4), (6, 8), (14, 8)),
    CHUNK: ((0, 8), (8, 8), (16, 8), (24, 4), (28, 4)),
    MESSAGE_INDEX: ((0, 2), (2, 4), (6, 8), (14, 8)),
    CHUNK_INDEX: ((0, 8), (8, 8), (16, 8), (24, 8), (32, 4)),
    STATISTICS: ((0, 8), (8, 2), (10, 4), (22, 4), (42, 4)),
    SUMMARY_OFFSET: ((0, 1), (1, 8), (9, 8)),
    DATA_END: ((0, 4),),
}
"""Places and sizes of numbers in a record's content."""


@dataclass(frozen=True)
class Record:
    """A record; `length` is the one that it claims, `origin` its place in the unchanged file (-1: it is new)."""

    opcode: int
    content: bytes
    length: int | None = None
    origin: int = -1

    @property
    def packed(self) -> bytes:
        length = len(self.content) if self.length is None else self.length
        return _RECORD.pack(self.opcode, length % 2**64) + self.content


def records_of(data: bytes, start: int) -> list[Record]:
    """The records of an undamaged file or chunk."""
    found, position = [], start
    while position + _RECORD.size <= len(data):
        opcode, length = _RECORD.unpack_from(data, position)
        content = data[position + _RECORD.size : position + _RECORD.size + length]
        found.append(Record(opcode, content, origin=position))
        position += _RECORD.size + length
    return found


def change_mcap(data: bytes, rng: Random) -> bytes:
    """Change an undamaged file once or twice."""
    records = records_of(data[: -len(MAGIC)], len(MAGIC))
    if rng.random() < 0.35:
        return change_bytes(data, rng, [record.origin for record in records])
    for _ in range(rng.choice((1, 1, 2))):
        _change_records(records, rng)
    return _packed(records, rng)


def _change_records(records: list[Record], rng: Random) -> None:
    if not records:
        return
    place = rng.randrange(len(records))
    if rng.random() < 0.4:  # most of a file is in its chunks
        place = rng.choice([number for number, record in enumerate(records) if record.opcode == CHUNK] or [place])
    if rng.random() < 0.3:
        change_items(records, rng)
    elif records[place].opcode == CHUNK and rng.random() < 0.8:
        records[place] = _changed_chunk(records[place], rng)
    else:
        records[place] = _changed_record(records[place], rng)


def _changed_record(record: Record, rng: Random) -> Record:
    kind = rng.randrange(5)
    if kind == 0:
        return replace(record, opcode=rng.choice((rng.randrange(1, 16), rng.randrange(256), FOOTER, DATA_END)))
    if kind == 1:
        return replace(record, length=extreme(rng, 8, len(record.content)))
    if kind == 2 or record.opcode not in _FIELDS:
        return replace(record, content=change_bytes(record.content, rng))
    content = bytearray(record.content)
    place, size = rng.choice(_FIELDS[record.opcode])
    if place + size <= len(content):
        set_number(content, place, size, rng)
    return replace(record, content=bytes(content))


def _changed_chunk(record: Record, rng: Random) -> Record:
    """Change what a chunk holds before it is compressed again."""
    try:
        first, last, size, crc, name_length = _CHUNK.unpack_from(record.content)
        start = _CHUNK.size + name_length
        compression = record.content[_CHUNK.size : start].decode()
        raw = _DECOMPRESS[compression](record.content[start + 8 :])
    except Exception:  # changed before
        return _changed_record(record, rng)
    inner = records_of(raw, 0)
    if rng.random() < 0.3:
        raw = change_bytes(raw, rng, [part.origin for part in inner])
    else:
        if rng.random() < 0.5:
            change_items(inner, rng)
        elif inner:
            place = rng.randrange(len(inner))
            inner[place] = _changed_record(inner[place], rng)
        raw = b"".join(part.packed for part in inner)
    if rng.random() < 0.85:
        size = len(raw)
    if crc and rng.random() < 0.6:
        crc = crc32(raw)
    if rng.random() < 0.1:
        compression = rng.choice(list(_COMPRESS))
    packed = _COMPRESS[compression](raw)
    head = _CHUNK.pack(first, last, size, crc, len(compression)) + compression.encode()
    return replace(record, content=head + struct.pack("<Q", len(packed)) + packed)


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "lz4": lz4.frame.compress, "zstd": zstandard.compress}
_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "lz4": lz4.frame.decompress,
    "zstd": zstandard.decompress,
}


def _packed(records: list[Record], rng: Random) -> bytes:
    """The file again: mostly with offsets that follow what was moved, and every other time with right checksums."""
    if rng.random() < 0.7:
        _relocate(records)
    if rng.random() < 0.5:
        _repair_checksums(records)
    return MAGIC + b"".join(record.packed for record in records) + MAGIC


def _relocate(records: list[Record]) -> None:
    places: dict[int, int] = {0: 0}
    position = len(MAGIC)
    for record in records:
        if record.origin >= 0:
            places.setdefault(record.origin, position)
        position += len(record.packed)
    fields = {FOOTER: (0, 8), CHUNK_INDEX: (16,), SUMMARY_OFFSET: (1,)}
    for number, record in enumerate(records):
        content = bytearray(record.content)
        for place in fields.get(record.opcode, ()):
            if place + 8 <= len(content):
                (offset,) = struct.unpack_from("<Q", content, place)
                # The record that was there may be gone: then the next one behind it.
                following = min((origin for origin in places if origin >= offset), default=0)
                struct.pack_into("<Q", content, place, places.get(offset, places[following]))
        records[number] = replace(record, content=bytes(content))


def _repair_checksums(records: list[Record]) -> None:
    position, crc, summary = len(MAGIC), crc32(MAGIC), 0
    summary_crc: int | None = None
    for number, record in enumerate(records):
        if record.opcode == DATA_END and record.content != bytes(4):
            records[number] = record = replace(record, content=struct.pack("<I", crc))
        if record.opcode == DATA_END:
            summary, summary_crc = position + len(record.packed), 0
        elif record.opcode == FOOTER and len(record.content) >= 20 and record.content[16:20] != bytes(4):
            if summary_crc is not None and record.content[:8] == struct.pack("<Q", summary):
                whole = crc32(record.packed[: _RECORD.size + 16], summary_crc)
                records[number] = record = replace(record, content=record.content[:16] + struct.pack("<I", whole))
        elif summary_crc is not None:
            summary_crc = crc32(record.packed, summary_crc)
        crc = crc32(record.packed, crc)
        position += len(record.packed)
