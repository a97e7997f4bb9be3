"""Changes of sqlite3 files for `fuzz_bags`: of pages and cells, and by SQL, which leaves sound files that are odd."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random

from benchmarks.fuzz_bags_bytes import change_bytes, set_number

_HEADER_FIELDS = ((16, 2), (18, 1), (19, 1), (20, 1), (24, 4), (28, 4), (32, 4), (36, 4), (44, 4), (56, 4), (92, 4))
_PAGE_FIELDS = ((0, 1), (1, 2), (3, 2), (5, 2), (7, 1), (8, 4))
_TABLE_PAGES = {2, 5, 10, 13}


def change_sqlite(data: bytes, rng: Random, scratch: Path) -> bytes:
    """Change an undamaged database; `scratch` is a file to do it in."""
    kind = rng.random()
    if kind < 0.3:
        return change_by_sql(data, rng, scratch)
    if kind < 0.6:
        return change_bytes(data, rng, _places(data))
    if kind < 0.7:
        changed = bytearray(data)
        place, size = rng.choice(_HEADER_FIELDS)
        set_number(changed, place, size, rng, big_endian=True)
        return bytes(changed)
    if kind < 0.85:
        return _change_page_header(data, rng)
    return _change_pages(data, rng)


def _page_bytes(data: bytes) -> int:
    size = int.from_bytes(data[16:18], "big")
    return 65536 if size == 1 else max(size, 512)


def _places(data: bytes) -> list[int]:
    """Where headers of pages, pointers to cells and cells are."""
    size = _page_bytes(data)
    found = []
    for start in range(0, len(data), size):
        head = start + 100 if start == 0 else start
        if head >= len(data) or data[head] not in _TABLE_PAGES:
            continue
        found.append(head)
        cells = int.from_bytes(data[head + 3 : head + 5], "big")
        pointers = head + (8 if data[head] > 5 else 12)
        for place in range(pointers, min(pointers + 2 * cells, start + size), 2):
            cell = start + int.from_bytes(data[place : place + 2], "big")
            found += [place, cell, min(cell + 4, len(data) - 1)]
    return found


def _change_page_header(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    size = _page_bytes(data)
    page = rng.randrange(max(len(data) // size, 1))
    place, width = rng.choice(_PAGE_FIELDS)
    start = page * size + (100 if page == 0 else 0) + place
    if start + width <= len(changed):
        set_number(changed, start, width, rng, big_endian=True)
    return bytes(changed)


def _change_pages(data: bytes, rng: Random) -> bytes:
    """Whole pages swapped, doubled, emptied, removed, or cut off."""
    size = _page_bytes(data)
    pages = [data[start : start + size] for start in range(0, len(data), size)]
    first, second = rng.randrange(len(pages)), rng.randrange(len(pages))
    kind = rng.randrange(6)
    if kind == 0:
        pages[first], pages[second] = pages[second], pages[first]
    elif kind == 1:
        pages[first] = pages[second]
    elif kind == 2:
        pages[first] = bytes(size)
    elif kind == 3:
        del pages[first]
    elif kind == 4:
        pages.append(pages[first])
    else:
        del pages[max(first, 1) :]
    return b"".join(pages)


_VALUES = (
    "NULL",
    "0",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "1e300",
    "'text'",
    "''",
    "'17'",
    "x''",
    "x'00ff'",
    "CAST(x'ff80' AS TEXT)",
    "char(27) || '[31m' || char(10)",
    "zeroblob(100)",
    "zeroblob(70000)",
    "printf('%.300c', 'x')",
    "rowid",
    "-rowid",
)
_COLUMNS = (
    ("messages", "id"),
    ("messages", "topic_id"),
    ("messages", "timestamp"),
    ("messages", "timestamp"),
    ("messages", "data"),
    ("messages", "data"),
    ("topics", "id"),
    ("topics", "name"),
    ("topics", "type"),
    ("topics", "serialization_format"),
    ("schema", "schema_version"),
    ("schema", "ros_distro"),
    ("message_definitions", "topic_type"),
    ("message_definitions", "encoding"),
    ("message_definitions", "encoded_message_definition"),
)
_STATEMENTS = (
    "DELETE FROM {table}",
    "DELETE FROM {table} WHERE rowid % 3 = 1",
    "DROP TABLE {table}",
    "DROP INDEX timestamp_idx",
    "CREATE INDEX more ON messages (topic_id, data)",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} ADD COLUMN more INTEGER DEFAULT 3",
    "ALTER TABLE {table} ADD COLUMN rowid INTEGER DEFAULT 3",
    "ALTER TABLE messages ADD COLUMN wide BLOB GENERATED ALWAYS AS (zeroblob(500000)) VIRTUAL",
    "ALTER TABLE topics ADD COLUMN wide BLOB GENERATED ALWAYS AS (zeroblob(500000)) VIRTUAL",
    "INSERT INTO messages SELECT NULL, topic_id, timestamp, data FROM messages",
    "INSERT INTO topics SELECT id + 10, name, 'other/msg/Type', serialization_format, '', '' FROM topics",
    "INSERT INTO topics SELECT id + 10, name, type, serialization_format, '', '' FROM topics",
    "UPDATE messages SET id = id + 9223372036854775000",
    "UPDATE messages SET timestamp = timestamp * -1 WHERE id % 4 = 0",
    "UPDATE messages SET data = data || data",
    "PRAGMA user_version = -1",
    "PRAGMA auto_vacuum = FULL; VACUUM",
    "PRAGMA page_size = 4096; VACUUM",
    "PRAGMA page_size = 1024; VACUUM",
    "CREATE TABLE rest AS SELECT * FROM messages; DROP TABLE messages; CREATE VIEW messages AS SELECT * FROM rest",
    "CREATE TABLE rest AS SELECT * FROM messages; DROP TABLE messages; ALTER TABLE rest RENAME TO messages",
    "CREATE TABLE m(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB) WITHOUT ROWID;"
    "INSERT INTO m SELECT * FROM messages; DROP TABLE messages; ALTER TABLE m RENAME TO messages",
    "CREATE TABLE m(data BLOB, timestamp INTEGER, topic_id INTEGER, id INTEGER PRIMARY KEY);"
    "INSERT INTO m SELECT data, timestamp, topic_id, id FROM messages; DROP TABLE messages;"
    "ALTER TABLE m RENAME TO messages",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = sql || char(10) || '-- ' || char(27)",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT) WHERE rowid = 1",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 2 WHERE name = 'messages'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET type = 'view' WHERE name = 'messages'",
)


def change_by_sql(data: bytes, rng: Random, scratch: Path) -> bytes:
    """Statements that a program with another idea of the tables could have made; what fails changes nothing."""
    scratch.write_bytes(data)
    database = sqlite3.connect(scratch, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA legacy_alter_table = ON")
        for _ in range(rng.choice((1, 1, 2))):
            for statement in _statement(rng).split(";"):
                database.execute(statement)
    except (sqlite3.Error, OverflowError):
        pass
    finally:
        database.close()
    return scratch.read_bytes()


def _statement(rng: Random) -> str:
    if rng.random() < 0.4:
        table = rng.choice(("messages", "topics", "schema", "message_definitions", "metadata"))
        return rng.choice(_STATEMENTS).format(table=table)
    table, column = rng.choice(_COLUMNS)
    where = rng.choice((f"rowid = {rng.randint(1, 24)}", "rowid % 3 = 0", f"rowid > {rng.randint(1, 24)}", "1"))
    return f"UPDATE OR IGNORE {table} SET {column} = {rng.choice(_VALUES)} WHERE {where}"
