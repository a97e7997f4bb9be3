"""sqlite3 files of rosbag2: whole, cut off, damaged, or left behind by a recorder that was killed.

Tables: `topics` and `messages`; from schema version 4 on `message_definitions` too (rosbag2_storage_sqlite3).
"""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import ExitStack
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    BlockError,
    Connection,
    FileBytes,
    Storage,
    ros2_type_name,
)
from onboard_estimation.evaluation.bag_sqlite_log import without_log
from onboard_estimation.evaluation.bag_sqlite_pages import SalvagedMessages, page_bytes

MAGIC = b"SQLite format 3\x00"

_BLOCK_BYTES = 16 * 2**20
_MAX_TOPICS = 100_000
_MAX_DESCRIPTIONS_BYTES = 64 * 2**20
_HEADER_BYTES = 100
_FIRST_ROW, _LAST_ROW = -(2**63), 2**63 - 1
_PLAIN_SCHEMA = re.compile(rb"\s*create\s+(table|(unique\s+)?index)\s", re.IGNORECASE)


class SqliteStorage(Storage):
    """The messages of one .db3 file. `stack` closes the database, and removes the copy that a log made necessary.

    Attributes
    ----------
    places
        Of each block: number of its first row, and how many rows it has.

    Raises
    ------
    BlockError
        No database, or one without the tables of a bag.
    """

    def __init__(self, file: FileBytes, stack: ExitStack) -> None:
        super().__init__(file)
        self._salvaged: SalvagedMessages | None = None
        try:
            self.file, self.faults = without_log(file, stack)
            self.size_bytes = self.readable_bytes = self.file.size
            self._database = self._open(stack)
            self._read_descriptions()
            self._read_messages()
        except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
            raise BlockError(f"it cannot be read as a bag's database ({str(error) or 'no memory'})") from error

    def load(self, block: int) -> bytes:
        """The messages of the block, one after the other."""
        first, count = self.places[block]
        if self._salvaged is not None:
            return self._salvaged.data(first, count)
        try:
            pieces = [row[0] for row in self._database.execute(_DATA, (first, count)).fetchall()]
        except sqlite3.Error as error:
            raise BlockError(f"it changed while it was read ({error})") from error
        self.file.check()
        if [len(piece) for piece in pieces] != self.blocks[block].lengths.tolist():
            raise BlockError("it changed while it was read")
        return b"".join(pieces)

    def _is_cut(self) -> bool:
        """Whether the file is shorter than its header announces."""
        header = self.file.window(0, _HEADER_BYTES)
        announced = int.from_bytes(header[28:32], "big") * page_bytes(header)
        # The number of pages holds if it was written by the last change.
        if announced <= self.file.size or header[24:28] != header[92:96]:
            return False
        self.faults.append(f"{self.name} is cut off")
        self.size_bytes = announced
        return True

    def _open(self, stack: ExitStack) -> sqlite3.Connection:
        # Without locks, which would stop a recorder. A player reads ahead in a thread of its own; the rest of this
        # module keeps to one thread at a time.
        address = f"{self.file.path.absolute().as_uri()}?mode=ro&immutable=1"
        database = sqlite3.connect(address, uri=True, check_same_thread=False)
        stack.callback(database.close)
        database.text_factory = bytes
        if sys.version_info >= (3, 11):  # no value is longer than the file, whatever a length in it says
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(self.file.size, 2**31 - 1))
        database.execute("PRAGMA trusted_schema = OFF")
        # Without this, sqlite3 refuses a file that is shorter than its header says.
        database.execute("PRAGMA writable_schema = ON")
        return database

    def _read_descriptions(self) -> None:
        """Topics, the definitions of their types, and the distribution."""
        # Tables and their indices only: a view, a virtual table or a generated column could compute anything.
        found = self._database.execute(f"SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL LIMIT {_MAX_TOPICS}")
        schema = [(_text(name), sql if isinstance(sql, bytes) else b"") for name, sql in found]
        names = {name.lower() for name, sql in schema if _PLAIN_SCHEMA.match(sql)}
        if not {"topics", "messages"} <= names:
            raise BlockError("it is a database without the tables 'topics' and 'messages' of a bag")
        if other := next((name for name, sql in schema if not _PLAIN_SCHEMA.match(sql)), None):
            raise BlockError(f"it holds {printable(other[:40])!r} beside tables and indices, which no bag does")
        for table, needed in (("topics", {"id", "name", "type"}), ("messages", {"topic_id", "timestamp", "data"})):
            if missing := sorted(needed - {name.lower() for name in self._columns(table)}):
                raise BlockError(f"its table {table!r} has no column {', '.join(missing)}")
        definitions = {
            _text(topic_type): (_text(definition), _text(encoding))
            for topic_type, definition, encoding in self._optional(
                "message_definitions", "topic_type", "encoded_message_definition", "encoding"
            )
        }
        for number, name, kind, encoding in self._select("topics", "id", "name", "type", "serialization_format"):
            if isinstance(number, int) and isinstance(name, bytes):
                self.connections[number] = Connection(
                    _text(name), ros2_type_name(_text(kind)), _text(encoding), *definitions.get(_text(kind), ("", ""))
                )
        versions = [printable(_text(name)) for (name,) in self._optional("schema", "ros_distro")]
        self.distribution = next((name for name in versions if name and name != "rosbags"), None)

    def _columns(self, table: str) -> list[str]:
        """Names of the table's columns; BlockError where one of them is computed."""
        columns = self._database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
        if any(hidden for _, hidden in columns):
            raise BlockError(f"its table {table!r} has columns that are computed, which no bag has")
        return [_text(name) for name, _ in columns]

    def _optional(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Rows of a table that messages can be read without; empty where it is missing or damaged."""
        try:
            return self._select(table, *columns)
        except sqlite3.DatabaseError:
            self.faults.append(f"table {table!r} of {self.name} is damaged")
            return []

    def _select(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """The rows of a table with these columns, NULL for one that it has not; empty where the table is missing."""
        there = {name.lower() for name in self._columns(table)}
        if not there:
            return []
        chosen = ", ".join(name if name in there else "NULL" for name in columns)
        rows, room = [], _MAX_DESCRIPTIONS_BYTES
        for row in self._database.execute(f"SELECT {chosen} FROM {table} NOT INDEXED LIMIT {_MAX_TOPICS}"):
            room -= sum(len(value) for value in row if isinstance(value, bytes))
            if room < 0:
                raise BlockError(f"its table {table!r} holds more than the {_MAX_DESCRIPTIONS_BYTES:,} bytes allowed")
            rows.append(row)
        return rows

    def _read_messages(self) -> None:
        if self._is_cut():
            self._salvage_messages()
        else:
            try:
                self._index_rows()
            except sqlite3.DatabaseError:
                self.faults.append(f"{self.name} is damaged")
                self._salvage_messages()
        self.say_full()

    def _index_rows(self) -> None:
        """Index the messages with sqlite3.

        Raises
        ------
        sqlite3.DatabaseError
            The table is damaged.
        """
        first, room = _FIRST_ROW, self.file.size
        while not self.full and first <= _LAST_ROW and (rows := self._rows_from(first)):
            table = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=4 * len(rows)).reshape(-1, 4)
            room -= int(table[:, 3].sum())
            if room < 0 or table[0, 0] < first or np.any(table[1:, 0] <= table[:-1, 0]):
                raise sqlite3.DatabaseError("rows share their pages")
            self._add_rows(table[:, 1:], first)
            first = rows[-1][0] + 1
        count = 0 if self.full else self._database.execute(_ROWS).fetchone()[0] - self.message_count
        if count and count != self._database.execute(_NO_MESSAGES).fetchone()[0]:
            raise sqlite3.DatabaseError("rows are not where their numbers lead")
        if count:
            row = "row was" if count == 1 else "rows were"
            self.faults.append(
                f"{count:,} {row} left out of {self.name}: a time before 1970, or not of the types that a message has"
            )

    def _rows_from(self, first: int) -> list[tuple[int, int, int, int]]:
        """Number, topic, time and length of the messages of one block, from the row with the number `first` on."""
        rows, room = [], _BLOCK_BYTES
        for row in self._database.execute(_INDEX, (first, BLOCK_MESSAGES)):
            rows.append(row)
            room -= row[3]
            if room < 0:
                break
        return rows

    def _salvage_messages(self) -> None:
        """Take the messages from the pages, because the way through the tables is broken."""
        self.blocks.clear()
        self.places.clear()
        self.message_count = 0
        self._salvaged = SalvagedMessages(self.file)
        rows = self._salvaged.rows
        blocks = np.cumsum(rows[:, 2]) // _BLOCK_BYTES
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(blocks)) + 1):
            self._add_rows(rows[part], int(part[0]) if len(part) else 0)
        # What a database holds beside its messages is small.
        self.readable_bytes = sum(int(block.lengths.sum()) for block in self.blocks)

    def _add_rows(self, rows: NDArray[np.int64], first: int) -> None:
        """A block from rows (topic, time, length)."""
        topics, times, lengths = rows.T
        self.add_block(np.array([topics, times, np.cumsum(lengths) - lengths, lengths]), (first, len(rows)))


_MESSAGE = "typeof(data) = 'blob' AND typeof(topic_id) = 'integer' AND typeof(timestamp) = 'integer' AND timestamp >= 0"

# By row number and not by the index of times, which may be damaged on its own; `bags` makes the order in time itself.
# The last byte of long data is read to learn whether all its pages are there.
_INDEX = f"""
    SELECT rowid, topic_id, timestamp,
        CASE WHEN length(data) <= 400 THEN length(data) ELSE length(data) - 1 + length(substr(data, -1)) END
    FROM messages NOT INDEXED WHERE {_MESSAGE} AND rowid >= ? ORDER BY rowid LIMIT ?
"""
_DATA = f"SELECT data FROM messages NOT INDEXED WHERE {_MESSAGE} AND rowid >= ? ORDER BY rowid LIMIT ?"
_ROWS = "SELECT count(*) FROM messages NOT INDEXED"
_NO_MESSAGES = f"{_ROWS} WHERE NOT ({_MESSAGE})"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
