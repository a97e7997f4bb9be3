"""sqlite3 files of rosbag2: whole, cut off, damaged, or left behind by a recorder that was killed.

Tables: `topics` and `messages`; from schema version 4 on `message_definitions` too (rosbag2_storage_sqlite3).
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    MAX_MESSAGES,
    MAX_TIME_NS,
    BlockError,
    Connection,
    IndexBuilder,
    Storage,
    ros2_type_name,
)

MAGIC = b"SQLite format 3\x00"

_BLOCK_BYTES = 16 * 2**20
_MAX_TOPICS = 100_000
_LARGEST_STEP = 2**24
_MAX_HOLES = 1000


class SqliteStorage(Storage):
    """The messages of one .db3 file.

    Raises
    ------
    BlockError
        No database, or one without the tables of a bag.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._stack = ExitStack()
        self._rows: list[tuple[int, int]] = []
        self._holes = 0
        try:
            self._read_size()
            self._database = self._open()
            self._read_descriptions()
            self._read_messages()
        except sqlite3.Error as error:
            self._stack.close()
            raise BlockError(f"it cannot be read as a bag's database ({error})") from error

    def load(self, block: int) -> bytes | memoryview:
        """The messages of the block, one after the other."""
        try:
            rows = self._database.execute(f"{_SELECT} rowid BETWEEN ? AND ? ORDER BY rowid", self._rows[block])
            return b"".join(row[3] for row in rows if _is_message(row))
        except sqlite3.Error as error:
            raise BlockError(f"it changed while it was read ({error})") from error

    def close(self) -> None:
        """Close the database, and remove the copy that a write-ahead log made necessary."""
        self._stack.close()

    def _read_size(self) -> None:
        with self.path.open("rb") as file:
            header = file.read(32)
        self.size_bytes = self.readable_bytes = self.path.stat().st_size
        page_bytes = int.from_bytes(header[16:18], "big")
        announced = int.from_bytes(header[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)
        if announced > self.size_bytes:
            self.faults.append(f"{self.path.name} is cut off")
            self.size_bytes = announced

    def _open(self) -> sqlite3.Connection:
        log = self.path.with_name(self.path.name + "-wal")
        if log.is_file() and log.stat().st_size > 0:
            # The recorder was killed with messages in the write-ahead log. sqlite3 takes them over into the database
            # when it opens the two; a user's recording is left as it is, so that happens to a copy.
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-")))
            for source in (self.path, log):
                shutil.copyfile(source, folder / source.name)
            database = sqlite3.connect(folder / self.path.name)
            self.faults.append(f"{self.path.name} was not closed (its last messages were taken from {log.name})")
        else:
            database = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        self._stack.callback(database.close)
        database.text_factory = bytes
        database.execute("PRAGMA trusted_schema = OFF")
        # Without this, sqlite3 refuses a file that is shorter than its header says.
        database.execute("PRAGMA writable_schema = ON")
        return database

    def _read_descriptions(self) -> None:
        """Topics, the definitions of their types, and the distribution."""
        # Real tables only: a view or a virtual table could compute anything.
        tables = self._select(
            "SELECT name AS name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        )
        names = {_text(table["name"]) for table in tables}
        if not {"topics", "messages"} <= names:
            raise BlockError("it is a database without the tables 'topics' and 'messages' of a bag")
        definitions = {}
        if "message_definitions" in names:
            for row in self._select("SELECT * FROM message_definitions"):
                text, kind = _text(row.get("encoded_message_definition")), _text(row.get("encoding"))
                definitions[_text(row.get("topic_type"))] = (text, kind)
        for row in self._select("SELECT * FROM topics"):
            number, name = row.get("id"), _text(row.get("type"))
            if isinstance(number, int):
                self.connections[number] = Connection(
                    _text(row.get("name")),
                    ros2_type_name(name),
                    _text(row.get("serialization_format")),
                    *definitions.get(name, ("", "")),
                )
        if "schema" in names:
            found = [_text(row.get("ros_distro")) for row in self._select("SELECT * FROM schema")]
            self.distribution = next((name for name in found if name and name != "rosbags"), None)

    def _select(self, query: str) -> list[dict[str, Any]]:
        cursor = self._database.execute(f"{query} LIMIT {_MAX_TOPICS}")
        columns = [column[0] for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor]

    def _read_messages(self) -> None:
        builder = IndexBuilder()
        first = last = start = unusable = 0
        for row in self._messages():
            if row is not None and not _is_message(row):
                unusable += 1
                continue
            if len(builder) and (row is None or len(builder) >= BLOCK_MESSAGES or start >= _BLOCK_BYTES):
                self._rows.append((first, last))
                self.add_block(builder)
                builder, start = IndexBuilder(), 0
            if row is None:
                continue
            if self.full:
                self.faults.append(f"{self.path.name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")
                break
            last, connection, time, data = row
            first = first if len(builder) else last
            builder.connections.append(connection)
            builder.log_times_ns.append(time)
            builder.starts.append(start)
            builder.lengths.append(len(data))
            start += len(data)
        if unusable:
            self.faults.append(f"{unusable:,} rows of {self.path.name} are no messages")
        if self._holes:
            # What a database holds beside its messages is small.
            self.readable_bytes = sum(int(block.lengths.sum()) for block in self.blocks)
            self.faults.append(f"{self.path.name} is damaged in {self._holes:,} places or more")

    def _messages(self) -> Iterator[tuple[int, Any, Any, Any] | None]:
        """Rows in the order they were recorded; None at the end and where rows may be missing."""
        after, step = -1, 1
        while self._holes < _MAX_HOLES:
            try:
                for row in self._database.execute(f"{_SELECT} rowid > ? ORDER BY rowid", (after,)):
                    after, step = max(after, row[0]), 1
                    yield row
                break
            except sqlite3.Error:
                # A page is missing or makes no sense: go on with the rows behind it, in growing steps.
                self._holes += step == 1
                after, step = after + step, step * 2
                if step > _LARGEST_STEP or after > MAX_TIME_NS - step:
                    break
                yield None
        yield None


# By row number and not by the index of times, which may be damaged on its own and whose order `bags` makes itself.
_SELECT = "SELECT rowid, topic_id, timestamp, data FROM messages NOT INDEXED WHERE"


def _is_message(row: tuple[int, Any, Any, Any]) -> bool:
    _, topic, time, data = row
    return isinstance(data, bytes) and isinstance(topic, int) and isinstance(time, int) and 0 <= time <= MAX_TIME_NS


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
