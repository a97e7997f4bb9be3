"""sqlite3 files of rosbag2: whole, cut off, damaged, or left behind by a recorder that was killed.

Tables: `topics` and `messages`; from schema version 4 on `message_definitions` too (rosbag2_storage_sqlite3). They are
read with Python's sqlite3.

A recorder that was killed leaves a journal of changes to take back, or a log of messages, which have to be worked into
the file before it is read: with a rollback journal (`-journal`) there, the file holds rows that were never committed,
and lacks others; a write-ahead log (`-wal`) holds the last messages. sqlite3 does that when it opens them; a user's
recording is left as it is, so it happens to a copy.

Of a file that is cut off or damaged, messages are taken from the pages that are there: the inner pages of a table's
tree often lie behind the cut, and with them the way to all rows. The rows themselves are in leaf pages, which rosbag2
fills one after the other. Format: "Database File Format", SQLite documentation, sections 1.6 (b-tree pages) and 2.1
(records).
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import ExitStack, closing
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.blocks import (
    BLOCK_MESSAGES,
    MAX_MESSAGES,
    BlockError,
    BlockIndex,
    Connection,
    FileBytes,
    Storage,
    is_regular,
    ros2_type_name,
)
from onboard_estimation.base.errors import printable

MAGIC = b"SQLite format 3\x00"

_BLOCK_BYTES = 16 * 2**20
_MAX_TOPICS = 100_000
_MAX_DESCRIPTIONS_BYTES = 64 * 2**20
_HEADER_BYTES = 100
_FIRST_ROW, _LAST_ROW = -(2**63), 2**63 - 1
_PLAIN_SCHEMA = re.compile(rb"\s*create\s+(table|(unique\s+)?index)\s", re.IGNORECASE)

_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_FREE_SHARE = 0.5
_TRIES = 3

_LEAF = 13
_LEAF_HEADER_BYTES = 8
_LONGEST_VARINT = 9
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""By a column's type; 8 and 9 are the numbers 0 and 1."""

_Pieces = list[tuple[int, int]]
"""(start, stop) in the file."""


class SqliteStorage(Storage):
    """The messages of one .db3 file. `stack` closes the database, and removes the copy that a log made necessary.

    Attributes
    ----------
    blocks
        With the number of the first row, and how many rows it has, as place.

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

    def load(self, block: BlockIndex) -> bytes:
        """The messages of the block, one after the other."""
        first, count = block.place
        if self._salvaged is not None:
            return self._salvaged.data(first, count)
        try:
            pieces = [row[0] for row in self._database.execute(_DATA, (first, count)).fetchall()]
        except sqlite3.Error as error:
            raise BlockError(f"it changed while it was read ({error})") from error
        self.file.check()
        if block.columns is None or [len(piece) for piece in pieces] != block.columns[3].tolist():
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
        """Topics, and the definitions of their types."""
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
        definitions: dict[str, tuple[str, str]] = {}
        try:
            rows = self._select("message_definitions", "topic_type", "encoded_message_definition", "encoding")
            definitions = {_text(kind): (_text(definition), _text(encoding)) for kind, definition, encoding in rows}
        except sqlite3.DatabaseError:  # messages can be read without
            self.faults.append(f"table 'message_definitions' of {self.name} is damaged")
        columns = ("id", "name", "type", "serialization_format", "offered_qos_profiles")
        for number, name, kind, encoding, offers in self._select("topics", *columns):
            if isinstance(number, int) and isinstance(name, bytes):
                message_type, definition = ros2_type_name(_text(kind)), definitions.get(_text(kind), ("", ""))
                self.connections[number] = Connection(
                    _text(name), message_type, _text(encoding), *definition, _text(offers)
                )

    def _columns(self, table: str) -> list[str]:
        """Names of the table's columns; BlockError where one of them is computed."""
        columns = self._database.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (table,)).fetchall()
        if any(hidden for _, hidden in columns):
            raise BlockError(f"its table {table!r} has columns that are computed, which no bag has")
        return [_text(name) for name, _ in columns]

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
        self.message_count = 0
        self._salvaged = SalvagedMessages(self.file)
        rows = self._salvaged.rows
        blocks = np.cumsum(rows[:, 2]) // _BLOCK_BYTES
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(blocks)) + 1):
            self._add_rows(rows[part], int(part[0]) if len(part) else 0)
        # What a database holds beside its messages is small.
        self.readable_bytes = int(rows[:, 2].sum())

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


def without_log(file: FileBytes, stack: ExitStack) -> tuple[FileBytes, list[str]]:
    """The file itself where nothing is beside it, else a copy that holds what was committed; and what is to be said.

    `stack` removes the copy.

    Raises
    ------
    BlockError
        There is no room for a copy, or the recorder is still writing.
    """
    journal, log = (file.path.with_name(file.path.name + suffix) for suffix in ("-journal", "-wal"))
    beside = [path for path in (journal, log) if _is_open(path)]
    if not beside:
        return file, []
    names = " and ".join(printable(path.name) for path in beside)
    copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-"))) / "bag.db3"
    most = _copy(file.path, beside, copy)
    try:
        _take_over(copy, most)
    except sqlite3.Error as error:
        lost = (
            "messages that were never committed may be among those read"
            if journal in beside
            else "messages are missing"
        )
        return file, [f"{names} cannot be used ({error}): {lost}"]
    taken = "what was not committed was taken back with" if journal in beside else "its last messages were taken from"
    found = FileBytes(copy, file.path.name)
    stack.callback(found.close)
    return found, [f"{file.name} was not closed ({taken} {names})"]


def _is_open(path: Path) -> bool:
    """Whether a journal or log holds something: a journal that is over has its header overwritten, or no length."""
    if not is_regular(path):
        return False
    with path.open("rb") as file:
        start = file.read(len(_JOURNAL_MAGIC))
    return start == _JOURNAL_MAGIC if path.name.endswith("-journal") else bool(start)


def _copy(path: Path, beside: list[Path], copy: Path) -> int:
    """Copy a database and what is beside it, as they were at one moment; gives how many bytes they have."""
    sources = {path: copy} | {
        source: copy.with_name(copy.name + source.name.removeprefix(path.name)) for source in beside
    }
    for _ in range(_TRIES):
        before = [source.stat() for source in sources]
        size = sum(state.st_size for state in before)
        if size > shutil.disk_usage(copy.parent).free * _FREE_SHARE:
            raise BlockError(f"its copy needs more than half of the space that is left in {copy.parent.parent}")
        for source, target in sources.items():
            shutil.copyfile(source, target)
        if [(state.st_size, state.st_mtime_ns) for state in before] == [
            (state.st_size, state.st_mtime_ns) for state in map(Path.stat, sources)
        ]:
            return size
    raise BlockError("it is being written to; stop the recorder first")


def _take_over(copy: Path, most: int) -> None:
    """Let sqlite3 work the journal or log into the copy; sqlite3.Error where it cannot."""
    journal = copy.with_name(copy.name + "-journal")
    if journal.exists():
        # A journal may end in the name of a further file, which sqlite3 removes, whatever that is. With one byte more,
        # it does not look there; rosbag2 writes no such name.
        with journal.open("ab") as file:
            file.write(b"\0")
    with closing(sqlite3.connect(copy)) as database:
        # Without this, sqlite3 refuses a file that is shorter than its header says.
        database.execute("PRAGMA writable_schema = ON")
        database.execute("PRAGMA schema_version").fetchone()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if copy.stat().st_size > most:
        raise sqlite3.DatabaseError("it makes the file larger than the two were")


class SalvagedMessages:
    """The whole rows (NULL, integer, integer >= 0, blob) that are in a file, by their number, found without the tree.

    Attributes
    ----------
    rows
        (K, 3) int64: topic's number, log time (ns), bytes of data.
    """

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        self._chained: set[int] = set()
        header = file.window(0, _HEADER_BYTES)[:_HEADER_BYTES]
        self._size = page_bytes(header)
        self._usable = self._size - header[20] if len(header) == _HEADER_BYTES else 0
        found: dict[int, tuple[int, int, int, _Pieces]] = {}
        if self._size >= 512 and self._usable >= 480 and self._size & (self._size - 1) == 0:
            # The file's first page is no leaf of this table.
            for place in range(self._size, file.size - self._size + 1, self._size):
                if len(found) >= MAX_MESSAGES:
                    break
                page = file.window(place, self._size)[: self._size]
                if page[0] == _LEAF:
                    self._take_rows(page, place, found)
        rows = [found[number] for number in sorted(found)]
        self.rows: NDArray[np.int64] = np.array([row[:3] for row in rows], dtype=np.int64).reshape(-1, 3)
        self._places = [row[3] for row in rows]

    def data(self, first: int, count: int) -> bytes:
        """The data of so many rows from place `first` on, one after the other."""
        pieces = [piece for places in self._places[first : first + count] for piece in places]
        return b"".join(bytes(self._file.window(start, stop - start)[: stop - start]) for start, stop in pieces)

    def _take_rows(self, page: memoryview, place: int, found: dict[int, tuple[int, int, int, _Pieces]]) -> None:
        """Add the whole rows of a leaf; of a page that sqlite3 has moved, which may be there twice, the first ones."""
        count = int.from_bytes(page[3:5], "big")
        if _LEAF_HEADER_BYTES + 2 * count > self._usable:
            return
        for cell in range(_LEAF_HEADER_BYTES, _LEAF_HEADER_BYTES + 2 * count, 2):
            try:
                number, row = self._row(page, place, int.from_bytes(page[cell : cell + 2], "big"))
            except (IndexError, ValueError):
                continue
            found.setdefault(number, row)

    def _row(self, page: memoryview, place: int, start: int) -> tuple[int, tuple[int, int, int, _Pieces]]:
        """Number; topic, time, bytes and places of data. IndexError or ValueError where it is no whole message."""
        payload, start = _varint(page, start)
        number, start = _varint(page, start)
        stop = start + self._local_bytes(payload)
        head, at = _varint(page, start)
        content, kinds = start + head, []
        for _ in range(4):  # id (the row number, so NULL), topic_id, timestamp, data
            kind, at = _varint(page, at)
            kinds.append(kind)
        if at != content or kinds[0] or kinds[3] < 12 or kinds[3] % 2 or not {*kinds[1:3]} <= _INTEGER_BYTES.keys():
            raise ValueError
        ends = np.cumsum([content, *(_INTEGER_BYTES[kind] for kind in kinds[1:3])]).tolist()
        topic, time_ns = (
            int.from_bytes(page[first:last], "big", signed=True) if last > first else kind - 8
            for kind, (first, last) in zip(kinds[1:3], pairwise(ends), strict=True)
        )
        length, content = (kinds[3] - 12) // 2, ends[-1]
        if number < 0 or content > stop or stop > self._usable or content - start + length != payload or time_ns < 0:
            raise ValueError
        pieces = [(place + content, place + stop)]
        if (left := length - (stop - content)) > 0:
            pieces += self._chain(place + stop, left)
        return number, (topic, time_ns, length, pieces)

    def _local_bytes(self, payload: int) -> int:
        """How much of a payload is in the leaf itself (section 1.6, "payload size")."""
        most, least = self._usable - 35, (self._usable - 12) * 32 // 255 - 23
        wanted = least + (payload - least) % (self._usable - 4)
        return payload if payload <= most else wanted if wanted <= most else least

    def _chain(self, link_place: int, left: int) -> _Pieces:
        """Places of the `left` bytes in pages chained from the link at that place; ValueError where it is broken."""
        pieces = []
        while left > 0:
            page = int.from_bytes(self._file.read(link_place, link_place + 4), "big")
            link_place = (page - 1) * self._size
            start, taken = link_place + 4, min(left, self._usable - 4)
            # No page belongs to two rows; that there are so many pages at most also bounds the work.
            if page < 2 or start + taken > self._file.size or page in self._chained:
                raise ValueError
            self._chained.add(page)
            pieces.append((start, start + taken))
            left -= taken
        if any(self._file.read(link_place, link_place + 4)):
            raise ValueError
        return pieces


def page_bytes(header: memoryview) -> int:
    """Bytes of a page, by the header of the file."""
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number of seven bits a byte (a ninth byte has eight) at that place, 64 bits with a sign; the place after."""
    value = 0
    for position in range(_LONGEST_VARINT):
        byte = data[place + position]
        if position == _LONGEST_VARINT - 1:
            value = value << 8 | byte
            return value - (value >> 63 << 64), place + _LONGEST_VARINT
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, place + position + 1
