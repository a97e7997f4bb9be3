"""What other readers make of a bag, for `fuzz_bags`: `mcap`, `rosbags`, and Python's sqlite3.

They are held to the formats more strictly than they are by themselves: the stream reader of `mcap` takes a record that
the end of the file cuts off for a whole one, and reads over the end of a record that claims to be shorter than it is.
"""

from __future__ import annotations

import io
import shutil
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcap.reader
import mcap.stream_reader
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.reader import McapReader, NonSeekingReader, SeekingReader
from mcap.records import Channel, McapRecord, Schema
from mcap.records import Chunk as McapChunk
from mcap.records import Message as McapMessage
from rosbags.rosbag1 import Reader as Ros1Reader
from rosbags.rosbag2 import Reader as Rosbag2Reader

from benchmarks.core.bag_cases import METADATA, Case

Message = tuple[str, int, bytes]
"""Topic, log time in nanoseconds, and the serialised message."""

_STORAGES = {"mcap": (".mcap", ".mcap.zstd"), "sqlite3": (".db3",)}
_NO_BAG = """
    SELECT 1 FROM sqlite_master, pragma_table_xinfo(sqlite_master.name) WHERE hidden
    UNION ALL SELECT 1 FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE '%WITHOUT ROWID%'
    UNION ALL SELECT 1 FROM pragma_table_info('messages') WHERE name = 'rowid'
"""
_NO_BAG_WORDS = (b"WITHOUT ROWID", b"GENERATED", b"VIEW", b"rowid")
_MOST_SQL_STEPS = 20_000_000


@dataclass
class Reading:
    """What a reader delivered before it ended or failed.

    Attributes
    ----------
    error
        Why it failed, else empty.
    declared
        How many messages the bag says it holds, as this reader understands it.
    unusable
        How many rows are there that are no messages.
    """

    reader: str
    messages: list[Message] = field(default_factory=list)
    error: str = ""
    declared: int | None = None
    unusable: int = 0


class _ExactFile(io.BytesIO):
    """Bytes that can be read only where they are."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if size is None or size < 0 or len(data) != size:
            raise EOFError(f"{size} bytes wanted, {len(data)} there")
        return data


def _strict_chunk(chunk: McapChunk, validate_crc: bool = False) -> list[McapRecord]:
    """`breakup_chunk` that keeps to the lengths of records."""
    stream, size = mcap.stream_reader.get_chunk_data_stream(chunk, validate_crc=validate_crc)
    if size != chunk.uncompressed_size:
        raise ValueError(f"chunk of {size} bytes in place of {chunk.uncompressed_size}")
    exact, records = _ExactFile(stream.read(size)), []
    while exact.tell() < size:
        opcode, length = struct.unpack("<BQ", exact.read(9))
        record = ReadDataStream(_ExactFile(exact.read(length)))
        if opcode == Opcode.MESSAGE:
            records.append(McapMessage.read(record, length))
        elif opcode in (Opcode.CHANNEL, Opcode.SCHEMA):
            records.append((Channel if opcode == Opcode.CHANNEL else Schema).read(record))
    return records


class _StrictStreamReader(mcap.stream_reader.StreamReader):
    """Keeps to the lengths of records."""

    def _read_record(self, opcode: int, length: int) -> McapRecord | None:
        if not opcode and not length:
            raise ValueError("no record, but zeros")
        outer = self._stream
        self._stream = ReadDataStream(_ExactFile(outer.read(length)))
        try:
            return super()._read_record(opcode, length) if length else None
        finally:
            self._stream = outer


mcap.stream_reader.breakup_chunk = _strict_chunk
mcap.reader.breakup_chunk = _strict_chunk
mcap.reader.StreamReader = _StrictStreamReader


def read_references(case: Case, folder: Path, scratch: Path) -> list[Reading]:
    """The bag, as every reader of its format reads it; the first one reads it from its start to its end.

    `folder` holds the files as they are, `scratch` is an empty folder.
    """
    files, entry, bag_format = case.files, case.seed.entry, case.bag_format
    if bag_format == "ros1":
        return [_read("rosbags", _messages(Ros1Reader, folder / entry if entry else folder))]
    names = [entry] if entry else sorted(name for name in files if name.lower().endswith(_STORAGES[bag_format]))
    names = [name for name in names if name in files]
    if bag_format == "mcap":
        contents = [_unpacked(name, files[name]) for name in names]
        readings = [
            _joined(name, [_read(name, _mcap_messages(content, reader)) for content in contents])
            for name, reader in (("mcap, from its start", NonSeekingReader), ("mcap, by its index", SeekingReader))
        ]
    else:
        found = [_read_database("sqlite3", _copied(folder, scratch, name)) for name in names]
        readings = [_joined("sqlite3", found)]
    # rosbags takes longest: every time where it reads what the others do not, else every fourth time.
    described = METADATA in files and not entry
    if described and (case.number % 4 == 0 or files[METADATA] != case.seed.files[METADATA]):
        readings.append(_read("rosbags", _messages(Rosbag2Reader, folder)))
    if case.seed.name == "messages-zstd":  # also where the metadata does not say so any more
        for one in readings:
            one.messages = [(topic, stamp, _unpacked_message(data)) for topic, stamp, data in one.messages]
    return readings


def _read(name: str, messages: Iterable[Message | int]) -> Reading:
    """Collect messages, and the declared number of them, until the end or the first failure."""
    reading = Reading(name)
    try:
        for item in messages:
            if isinstance(item, tuple):
                reading.messages.append(item)
            elif isinstance(item, int):  # metadata can say anything
                reading.declared = item
    except Exception as error:  # whatever a reader makes of a damaged file
        reading.error = f"{type(error).__name__}: {error}"[:200]
    return reading


def _joined(name: str, parts: list[Reading]) -> Reading:
    declared = [part.declared for part in parts if part.declared is not None]
    return Reading(
        name,
        [message for part in parts for message in part.messages],
        "; ".join(part.error for part in parts if part.error) or ("" if parts else "no file"),
        sum(declared) if len(declared) == len(parts) else None,
        sum(part.unusable for part in parts),
    )


def _unpacked(name: str, content: bytes) -> bytes:
    if not name.lower().endswith(".zstd"):
        return content
    try:
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True).read(2**24)
    except zstandard.ZstdError:
        return b""


def _mcap_messages(content: bytes, reader: Any) -> Iterator[Message | int]:
    opened: McapReader = reader(_ExactFile(content), validate_crcs=True)
    if isinstance(opened, SeekingReader):
        summary = opened.get_summary()
        if summary is not None and summary.statistics is not None:
            yield summary.statistics.message_count
        if summary is None or not summary.chunk_indexes:
            opened = NonSeekingReader(_ExactFile(content), validate_crcs=True)
    for _, channel, message in opened.iter_messages(log_time_order=False):
        yield channel.topic, message.log_time, message.data


def _copied(folder: Path, scratch: Path, name: str) -> Path:
    """The database, or a copy of it with its log or journal, for sqlite3 to change."""
    logs = [source for source in (folder / f"{name}-{kind}" for kind in ("wal", "journal")) if source.is_file()]
    if not logs:
        return folder / name
    for source in (folder / name, *logs):
        shutil.copyfile(source, scratch / source.name)
    return scratch / name


def _read_database(name: str, path: Path) -> Reading:
    reading = Reading(name)
    steps = 0

    def count_steps() -> int:
        nonlocal steps
        steps += 100_000
        return int(steps > _MOST_SQL_STEPS)

    content = path.read_bytes()
    if not content.startswith(b"SQLite format 3"):
        return Reading(name, error="no database, whatever a journal can make of it")
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.text_factory = bytes
            database.set_progress_handler(count_steps, 100_000)
            # Damaged in any column, or without one.
            database.execute("SELECT *, type, serialization_format FROM topics LIMIT 1000").fetchall()
            topics = dict(database.execute("SELECT id, name FROM topics LIMIT 1000"))
            for topic, stamp, data in database.execute("SELECT topic_id, timestamp, data FROM messages LIMIT 100000"):
                known = type(topic) is int and type(topics.get(topic)) is bytes
                blob = data is None or type(data) is bytes  # text_factory makes bytes of text too
                if known and blob and type(stamp) is int and stamp >= 0 and data is not None:
                    reading.messages.append((topics[topic].decode("utf-8", "replace"), stamp, data))
                else:
                    reading.unusable += 1
            if any(word in content for word in _NO_BAG_WORDS) and database.execute(_NO_BAG).fetchone():
                reading.error = "tables that no recorder makes"
            texts = "SELECT count(*) FROM messages WHERE typeof(data) <> 'blob' AND data IS NOT NULL"
            (count,) = database.execute(texts).fetchone()
            if count:
                reading.error = f"{count} rows hold data that is no blob"
    except (sqlite3.Error, UnicodeDecodeError, OverflowError, MemoryError, OSError, TypeError) as error:
        reading.error = f"{type(error).__name__}: {error}"[:200]
    return reading


def _unpacked_message(data: bytes) -> bytes:
    if not data.startswith(b"\x28\xb5\x2f\xfd"):
        return data
    one = zstandard.ZstdDecompressor().decompressobj()
    try:
        found = one.decompress(data)
    except zstandard.ZstdError:
        return b""
    return found if one.eof and not one.unused_data else b""


def _messages(reader: Any, path: Path) -> Iterator[Message | int]:
    with reader(path) as opened:
        yield opened.message_count
        for connection, stamp, data in opened.messages():
            yield connection.topic, stamp, bytes(data)
