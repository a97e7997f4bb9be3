"""sqlite3 files of rosbag2: whole, cut off, damaged, or left behind by a recorder that was killed.

Tables: `topics` and `messages`; from schema version 4 on `message_definitions` too (rosbag2_storage_sqlite3).
"""

from __future__ import annotations

import mmap
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation import bag_mapping
from onboard_estimation.evaluation.bag_blocks import (
    BLOCK_MESSAGES,
    MAX_MESSAGES,
    BlockError,
    BlockIndex,
    Connection,
    Storage,
    printable,
    ros2_type_name,
)
from onboard_estimation.evaluation.bag_mapping import MappedFile
from onboard_estimation.evaluation.bag_sqlite_pages import SalvagedMessages

MAGIC = b"SQLite format 3\x00"

_BLOCK_BYTES = 16 * 2**20
_MAX_TOPICS = 100_000
_HEADER_BYTES = 100
_MESSAGE_COLUMNS = ["id", "topic_id", "timestamp", "data"]


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
        self._file = path
        self._rows: list[tuple[int, int]] = []
        self._salvaged: SalvagedMessages | None = None
        self._mapped: MappedFile | None = None
        try:
            cut = self._read_size()
            self._database = self._open()
            self._read_descriptions()
            self._read_messages(cut)
        except sqlite3.Error as error:
            self._stack.close()
            raise BlockError(f"it cannot be read as a bag's database ({error})") from error

    def load(self, block: int) -> bytes | memoryview:
        """The messages of the block, one after the other, or the whole file where they were found in its pages."""
        if self._mapped is not None:
            self._mapped.forget(int(self.blocks[block].starts[0]))
            return self._mapped.view
        if self._salvaged is not None:
            return self._salvaged.data(*self._rows[block])
        try:
            return b"".join([row[0] for row in self._database.execute(_DATA, self._rows[block]).fetchall()])
        except sqlite3.Error as error:
            raise BlockError(f"it changed while it was read ({error})") from error

    def close(self) -> None:
        """Close the database, and remove the copy that a write-ahead log made necessary."""
        self._stack.close()

    def _read_size(self) -> bool:
        """Whether the file is shorter than its header announces."""
        with self.path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        self.size_bytes = self.readable_bytes = self.path.stat().st_size
        page_bytes = int.from_bytes(header[16:18], "big")
        announced = int.from_bytes(header[28:32], "big") * (65536 if page_bytes == 1 else page_bytes)
        # The number of pages holds if it was written by the last change.
        if announced <= self.size_bytes or header[24:28] != header[92:96]:
            return False
        self.faults.append(f"{self.path.name} is cut off")
        self.size_bytes = announced
        return True

    def _open(self) -> sqlite3.Connection:
        log = self.path.with_name(self.path.name + "-wal")
        if log.is_file() and log.stat().st_size > 0:
            # The recorder was killed with messages in the write-ahead log. sqlite3 takes them over into the database
            # when it opens the two; a user's recording is left as it is, so that happens to a copy.
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-")))
            for source in (self.path, log):
                shutil.copyfile(source, folder / source.name)
            self._file = folder / self.path.name
            database = sqlite3.connect(self._file, check_same_thread=False)
            self.faults.append(f"{self.path.name} was not closed (its last messages were taken from {log.name})")
        else:
            # A player reads ahead in a thread of its own; the rest of this module keeps to one thread at a time.
            address = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            database = sqlite3.connect(address, uri=True, check_same_thread=False)
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
        definitions = {
            _text(row.get("topic_type")): (_text(row.get("encoded_message_definition")), _text(row.get("encoding")))
            for row in self._optional("message_definitions", names)
        }
        for row in self._select("SELECT * FROM topics"):
            number, name = row.get("id"), _text(row.get("type"))
            if isinstance(number, int):
                self.connections[number] = Connection(
                    _text(row.get("name")),
                    ros2_type_name(name),
                    _text(row.get("serialization_format")),
                    *definitions.get(name, ("", "")),
                )
        found = [printable(_text(row.get("ros_distro"))) for row in self._optional("schema", names)]
        self.distribution = next((name for name in found if name and name != "rosbags"), None)

    def _optional(self, table: str, names: set[str]) -> list[dict[str, Any]]:
        """Rows of a table that messages can be read without; empty where it is missing or damaged."""
        try:
            return self._select(f"SELECT * FROM {table}") if table in names else []
        except sqlite3.DatabaseError:
            self.faults.append(f"table {table!r} of {self.path.name} is damaged")
            return []

    def _select(self, query: str) -> list[dict[str, Any]]:
        cursor = self._database.execute(f"{query} LIMIT {_MAX_TOPICS}")
        columns = [column[0] for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor]

    def _read_messages(self, cut: bool) -> None:
        if not cut and self.size_bytes >= bag_mapping.COMPILED_FROM_BYTES and self._index_pages():
            return
        try:
            after = -1
            while not (cut or self.full):
                rows = self._database.execute(_INDEX, (after, BLOCK_MESSAGES)).fetchall()
                if not rows:
                    break
                flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=4 * len(rows))
                self._add_blocks(flat.reshape(-1, 4))
                after = rows[-1][0]
        except sqlite3.DatabaseError:
            self.faults.append(f"{self.path.name} is damaged")
            cut = True
        if cut:
            self._salvage_messages()
        if self.full:
            self.faults.append(_too_many(self.path))

    def _index_pages(self) -> bool:
        """Index the messages of a large file where they lie in its pages; false where sqlite3 has to read them itself.

        That takes a third of the time, and the messages need not be fetched from the database later.
        """
        from onboard_estimation.evaluation import bag_kernels

        columns = [_text(row["name"]) for row in self._select("SELECT name FROM pragma_table_info('messages')")]
        root = self._select("SELECT rootpage, sql FROM sqlite_master WHERE name = 'messages'")[0]
        ordinary = columns == _MESSAGE_COLUMNS and b"without" not in bytes(root["sql"]).lower()
        if self._file != self.path or not ordinary:
            return False  # a write-ahead log holds pages too
        mapped = MappedFile(self.path)
        page_bytes = int.from_bytes(mapped.view[16:18], "big")
        page_bytes = 65536 if page_bytes == 1 else page_bytes
        data = np.frombuffer(mapped.view, dtype=np.uint8)
        state = np.zeros(bag_kernels.TREE_STATE_SIZE, dtype=np.int64)
        state[:4] = 1, -1, 0, root["rootpage"]
        while not self.full:
            index = np.empty((4, BLOCK_MESSAGES), dtype=np.int64)
            count = bag_kernels.walk_sqlite_rows(data, page_bytes, page_bytes - mapped.view[20], state, index)
            if count < 0:
                self.blocks.clear()
                self.message_count = 0
                del data
                mapped.close()
                return False
            if count:
                self.message_count += count
                self.blocks.append(BlockIndex(*index[:, :count]))
                mapped.forget(int(index[2, 0]))
            if count < BLOCK_MESSAGES:
                break
        if self.full:
            self.faults.append(_too_many(self.path))
        self._stack.callback(mapped.close)
        self._mapped = mapped
        return True

    def _salvage_messages(self) -> None:
        """Take the messages from the pages, because the way through the tables is broken."""
        self.blocks.clear()
        self._rows.clear()
        self.message_count = 0
        with self._file.open("rb") as file:
            pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self._salvaged = SalvagedMessages(pages)
        if len(self._salvaged.rows):
            self._add_blocks(self._salvaged.rows)
        # What a database holds beside its messages is small.
        self.readable_bytes = sum(int(block.lengths.sum()) for block in self.blocks)

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


def _too_many(path: Path) -> str:
    return f"{path.name} holds more than {MAX_MESSAGES:,} messages, the rest was left out"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
