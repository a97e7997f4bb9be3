"""Changes of ROS 1 bags for `fuzz_bags`: of records, of their headers' fields, and of what chunks hold."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import lz4.frame  # type: ignore[import-untyped]

from benchmarks.fuzz_bags_bytes import change_bytes, change_items, extreme, set_number

VERSION = b"#ROSBAG V2.0\n"
BAG, CHUNK, CHUNK_INFO = 3, 5, 6

_U32 = struct.Struct("<I")
Field = tuple[bytes, bytes]


@dataclass(frozen=True)
class Record:
    """A record: its header's fields, and its data; lengths where it claims others than it has."""

    fields: list[Field] = field(default_factory=list)
    data: bytes = b""
    header_length: int | None = None
    data_length: int | None = None
    origin: int = -1

    @property
    def kind(self) -> int:
        return next((value[0] for name, value in self.fields if name == b"op" and value), 0)

    @property
    def packed(self) -> bytes:
        header = b"".join(_U32.pack(len(name) + 1 + len(value)) + name + b"=" + value for name, value in self.fields)
        lengths = (self.header_length, len(header)), (self.data_length, len(self.data))
        first, second = (_U32.pack(right if claimed is None else claimed) for claimed, right in lengths)
        return first + header + second + self.data


def records_of(data: bytes, start: int) -> list[Record]:
    """The records of an undamaged file or chunk."""
    found, position = [], start
    while position + 4 <= len(data):
        (length,) = _U32.unpack_from(data, position)
        header = data[position + 4 : position + 4 + length]
        (size,) = _U32.unpack_from(data, position + 4 + length)
        stop = position + 8 + length + size
        fields, place = [], 0
        while place < len(header):
            (size,) = _U32.unpack_from(header, place)
            name, _, value = header[place + 4 : place + 4 + size].partition(b"=")
            fields.append((name, value))
            place += 4 + size
        found.append(Record(fields, data[position + 8 + length : stop], origin=position))
        position = stop
    return found


def change_ros1(data: bytes, rng: Random) -> bytes:
    """Change an undamaged file once or twice."""
    records = records_of(data, len(VERSION))
    if rng.random() < 0.35:
        return change_bytes(data, rng, [record.origin for record in records])
    for _ in range(rng.choice((1, 1, 2))):
        _change_records(records, rng)
    if rng.random() < 0.7:
        _relocate(records)
    return VERSION + b"".join(record.packed for record in records)


def _change_records(records: list[Record], rng: Random) -> None:
    if not records:
        return
    place = rng.randrange(len(records))
    if rng.random() < 0.4:
        place = rng.choice([number for number, record in enumerate(records) if record.kind == CHUNK] or [place])
    if rng.random() < 0.3:
        change_items(records, rng)
    elif records[place].kind == CHUNK and rng.random() < 0.8:
        records[place] = _changed_chunk(records[place], rng)
    else:
        records[place] = _changed_record(records[place], rng)


def _changed_record(record: Record, rng: Random) -> Record:
    kind = rng.randrange(6)
    if kind == 0:
        operation = bytes([rng.choice((*range(1, 9), rng.randrange(256)))])
        return replace(record, fields=[(name, operation if name == b"op" else value) for name, value in record.fields])
    if kind == 1:
        return replace(record, header_length=extreme(rng, 4, len(record.packed) - 8 - len(record.data)))
    if kind == 2:
        return replace(record, data_length=extreme(rng, 4, len(record.data)))
    if kind == 3:
        return replace(record, data=change_bytes(record.data, rng))
    fields = list(record.fields)
    if kind == 4:
        change_items(fields, rng)
    elif fields:
        place = rng.randrange(len(fields))
        name, value = fields[place]
        if len(value) in {1, 4, 8} and rng.random() < 0.8:
            number = bytearray(value)
            set_number(number, 0, len(value), rng)
            fields[place] = name, bytes(number)
        else:
            fields[place] = (name, change_bytes(value, rng)) if rng.random() < 0.7 else (change_bytes(name, rng), value)
    return replace(record, fields=fields)


def _changed_chunk(record: Record, rng: Random) -> Record:
    """Change what a chunk holds before it is compressed again."""
    fields = dict(record.fields)
    compression = fields.get(b"compression", b"").decode("ascii", "replace")
    try:
        raw = _DECOMPRESS[compression](record.data)
        inner = records_of(raw, 0)
    except Exception:  # changed before
        return _changed_record(record, rng)
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
        fields[b"size"] = _U32.pack(len(raw))
    if rng.random() < 0.1:
        compression = rng.choice(list(_COMPRESS))
        fields[b"compression"] = compression.encode()
    return replace(record, fields=list(fields.items()), data=_COMPRESS[compression](raw))


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "lz4": lz4.frame.compress,
    "bz2": bz2.compress,
}
_DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "lz4": lz4.frame.decompress,
    "bz2": bz2.decompress,
}


def _relocate(records: list[Record]) -> None:
    """Let the places in the file's header and in the chunks' descriptions follow what was moved."""
    places: dict[int, int] = {0: 0}
    position = len(VERSION)
    for record in records:
        if record.origin >= 0:
            places.setdefault(record.origin, position)
        position += len(record.packed)
    names = {BAG: b"index_pos", CHUNK_INFO: b"chunk_pos"}
    for number, record in enumerate(records):
        wanted = names.get(record.kind)
        fields = []
        for name, value in record.fields:
            if name == wanted and len(value) == 8:
                (offset,) = struct.unpack("<Q", value)
                following = min((origin for origin in places if origin >= offset), default=0)
                value = struct.pack("<Q", places.get(offset, places[following]))
            fields.append((name, value))
        records[number] = replace(record, fields=fields)
