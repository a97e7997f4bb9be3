"""Messages of a damaged sqlite3 file, taken from its pages without the tree that leads to them.

In a file that is cut off, the inner pages of a table's tree often lie behind the cut, and with them the way to all
rows. The rows themselves are in leaf pages, which rosbag2 fills one after the other. Format: "Database File Format",
SQLite documentation, sections 1.6 (b-tree pages) and 2.1 (records).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import MAX_MESSAGES, MAX_TIME_NS, FileBytes

_LEAF_OF_TABLE = 13
_LEAF_HEADER_BYTES = 8
_FILE_HEADER_BYTES = 100
_MAX_VARINT_BYTES = 9
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
_COLUMNS = 4  # id (the row number, so NULL), topic_id, timestamp, data


class _Damaged(Exception):
    """Bytes that are no cell of the table `messages`."""


class _Row(NamedTuple):
    """A row of the table `messages`: its data lies from `start` to `stop`, and goes on in the pieces of `overflow`."""

    number: int
    topic: int
    log_time_ns: int
    start: int
    stop: int
    overflow: tuple[tuple[int, int], ...]


class SalvagedMessages:
    """The whole rows of the table `messages` that are in a file, by their number.

    Attributes
    ----------
    rows
        (K, 4) int64: place in this table, topic's number, log time (ns), bytes of data.
    """

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        columns = [array("q") for _ in range(5)]
        self._overflow: dict[int, tuple[tuple[int, int], ...]] = {}
        for row in _rows(file):
            for column, value in zip(columns, row[:5], strict=True):
                column.append(value)
            if row.overflow:
                self._overflow[row.start] = row.overflow
            if len(columns[0]) >= MAX_MESSAGES:
                break
        table = np.array(columns, dtype=np.int64)
        # A page that sqlite3 has moved may be there twice.
        _, first = np.unique(table[0], return_index=True)
        _, topics, times, self._starts, self._stops = table[:, first]
        lengths = self._stops - self._starts
        for place in np.flatnonzero(np.isin(self._starts, list(self._overflow))).tolist():
            lengths[place] += sum(stop - start for start, stop in self._overflow[int(self._starts[place])])
        self.rows: NDArray[np.int64] = np.stack([np.arange(len(first)), topics, times, lengths], axis=1)

    def data(self, first: int, last: int) -> bytes:
        """The data of the rows from place `first` to `last`, one after the other."""
        pieces: list[memoryview | bytes] = []
        for place in range(first, last + 1):
            start, stop = int(self._starts[place]), int(self._stops[place])
            pieces.append(self._file.window(start, stop - start)[: stop - start])
            pieces.extend(self._file.read(more, end) for more, end in self._overflow.get(start, ()))
        return b"".join(pieces)


def _rows(file: FileBytes) -> Iterator[_Row]:
    """Every whole row in the order of the pages."""
    pages = _Pages(file)
    if not pages.valid:
        return
    for start in range(pages.size, file.size - pages.size + 1, pages.size):
        page = bytes(file.window(start, pages.usable)[: pages.usable])
        if page[0] != _LEAF_OF_TABLE:
            continue
        count = int.from_bytes(page[3:5], "big")
        if _LEAF_HEADER_BYTES + 2 * count > pages.usable:
            continue
        for cell in range(count):
            place = _LEAF_HEADER_BYTES + 2 * cell
            try:
                yield pages.row(page, int.from_bytes(page[place : place + 2], "big"), start)
            except _Damaged:
                continue


class _Pages:
    """The file as pages."""

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        header = bytes(file.window(0, _FILE_HEADER_BYTES)[:_FILE_HEADER_BYTES])
        size = int.from_bytes(header[16:18], "big")
        self.size = 65536 if size == 1 else size
        self.usable = self.size - header[20] if len(header) == _FILE_HEADER_BYTES else 0
        self.valid = self.size >= 512 and self.usable >= 480 and self.size & (self.size - 1) == 0
        self._chained: set[int] = set()

    def row(self, page: bytes, position: int, origin: int) -> _Row:
        """The row whose cell starts at `position` of a page, whose place in the file is `origin`."""
        payload, position = _varint(page, position)
        number, position = _varint(page, position)
        local = self._local_bytes(payload)
        if position + local > len(page):
            raise _Damaged
        head, body = _varint(page, position)
        body_start = position + head
        types: list[int] = []
        while body < body_start and len(types) <= _COLUMNS:
            kind, body = _varint(page, body)
            types.append(kind)
        if len(types) != _COLUMNS or body != body_start:
            raise _Damaged
        identity, topic_type, time_type, data_type = types
        blob = data_type >= 12 and data_type % 2 == 0
        if identity != 0 or topic_type not in _INTEGER_BYTES or time_type not in _INTEGER_BYTES or not blob:
            raise _Damaged
        topic, place = _integer(page, topic_type, body_start)
        time, place = _integer(page, time_type, place)
        size = (data_type - 12) // 2
        if place - position + size != payload or not 0 <= time <= MAX_TIME_NS:
            raise _Damaged
        stop = position + local
        if place > stop or number > MAX_TIME_NS:
            raise _Damaged
        overflow = self._overflow(page[stop : stop + 4], payload - local)
        return _Row(number, topic, time, origin + place, origin + stop, overflow)

    def _local_bytes(self, payload: int) -> int:
        """How much of a payload is in the leaf itself (section 1.6, "payload size")."""
        most = self.usable - 35
        if payload <= most:
            return payload
        least = (self.usable - 12) * 32 // 255 - 23
        wanted = least + (payload - least) % (self.usable - 4)
        return wanted if wanted <= most else least

    def _overflow(self, link: bytes, left: int) -> tuple[tuple[int, int], ...]:
        """Places of the `left` bytes that are in pages chained from the page whose number is `link`."""
        pieces = []
        while left > 0:
            page = int.from_bytes(link, "big")
            start = (page - 1) * self.size + 4
            taken = min(left, self.usable - 4)
            # No page belongs to two rows; that there are so many pages at most also bounds the work.
            if page < 2 or start + taken > self._file.size or page in self._chained:
                raise _Damaged
            self._chained.add(page)
            link = self._file.read(start - 4, start)
            pieces.append((start, start + taken))
            left -= taken
        if pieces and any(link):
            raise _Damaged
        return tuple(pieces)


def _integer(page: bytes, kind: int, position: int) -> tuple[int, int]:
    """An integer column of the serial type, and the place after it."""
    if kind >= 8:
        return kind - 8, position
    stop = position + _INTEGER_BYTES[kind]
    if stop > len(page):
        raise _Damaged
    return int.from_bytes(page[position:stop], "big", signed=True), stop


def _varint(page: bytes, position: int) -> tuple[int, int]:
    value = 0
    for place in range(position, min(position + _MAX_VARINT_BYTES, len(page))):
        byte = page[place]
        if place == position + _MAX_VARINT_BYTES - 1:
            return value << 8 | byte, place + 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    raise _Damaged
