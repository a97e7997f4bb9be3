"""sqlite3 files of rosbag2: whole, cut off, damaged, or left behind by a recorder that was killed.

Tables: `topics` and `messages`; from schema version 4 on `message_definitions` too (rosbag2_storage_sqlite3).
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    MAX_MESSAGES,
    MAX_TIME_NS,
    BlockError,
    BlockIndex,
    Connection,
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
            return b"".join([row[0] for row in self._database.execute(_DATA, self._rows[block]).fetchall()])
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
        database.execute(f"PRAGMA mmap_size = {self.path.stat().st_size}")
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
        after, whole = -1, False
        while not (whole or self.full):
            rows, whole = self._next_rows(after)
            if not rows and not whole:
                after = self._past_hole(after)
                whole = after < 0
                continue
            if rows:
                after = rows[-1][0]
                flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=4 * len(rows))
                self._add_blocks(flat.reshape(-1, 4))
        if self.full:
            self.faults.append(f"{self.path.name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")
        if self._holes:
            # What a database holds beside its messages is small.
            self.readable_bytes = sum(int(block.lengths.sum()) for block in self.blocks)
            self.faults.append(f"{self.path.name} is damaged in {self._holes:,} places or more")

    def _next_rows(self, after: int) -> tuple[list[tuple[int, int, int, int]], bool]:
        """Up to a block of rows behind row `after`, and whether these are the last."""
        rows: list[tuple[int, int, int, int]] = []
        try:
            cursor = self._database.execute(_INDEX, (after, BLOCK_MESSAGES))
            rows = cursor.fetchall()
            return rows, len(rows) < BLOCK_MESSAGES
        except sqlite3.Error:
            pass
        try:
            # All at once is faster, but loses the rows before a damaged one.
            for row in self._database.execute(_INDEX, (after, BLOCK_MESSAGES)):
                rows.append(row)
        except sqlite3.Error:
            pass
        return rows, False

    def _past_hole(self, after: int) -> int:
        """Number of a row behind which there are others, past a damaged page; -1 where none are found."""
        self._holes += 1
        step = 1
        while step <= _LARGEST_STEP and after < MAX_TIME_NS - step and self._holes <= _MAX_HOLES:
            after += step
            step *= 2
            try:
                if not self._database.execute(_INDEX, (after, 1)).fetchall():
                    return -1
            except sqlite3.Error:
                continue
            return after
        return -1

    def _add_blocks(self, rows: NDArray[np.int64]) -> None:
        """Blocks from rows (number, topic, time, length), none much larger than `_BLOCK_BYTES`."""
        ends = np.cumsum(rows[:, 3])
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(ends // _BLOCK_BYTES)) + 1):
            numbers, topics, times, lengths = np.ascontiguousarray(rows[part].T)
            self._rows.append((int(numbers[0]), int(numbers[-1])))
            self.message_count += len(part)
            self.blocks.append(BlockIndex(topics, times, np.cumsum(lengths) - lengths, lengths))


_MESSAGES = """
    FROM messages NOT INDEXED
    WHERE typeof(data) = 'blob' AND typeof(topic_id) = 'integer' AND typeof(timestamp) = 'integer' AND timestamp >= 0
"""

# By row number and not by the index of times, which may be damaged on its own; `bags` makes the order in time itself.
# The last byte of long data is read to learn whether all its pages are there.
_INDEX = f"""
    SELECT rowid, topic_id, timestamp,
        CASE WHEN length(data) <= 400 THEN length(data) ELSE length(data) - 1 + length(substr(data, -1)) END
    {_MESSAGES} AND rowid > ? ORDER BY rowid LIMIT ?
"""
_DATA = f"SELECT data {_MESSAGES} AND rowid BETWEEN ? AND ? ORDER BY rowid"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
