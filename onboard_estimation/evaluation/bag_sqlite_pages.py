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

from onboard_estimation.evaluation.bag_blocks import MAX_MESSAGES, MAX_TIME_NS

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

    def __init__(self, file: memoryview) -> None:
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
        pieces: list[memoryview] = []
        for place in range(first, last + 1):
            start, stop = int(self._starts[place]), int(self._stops[place])
            pieces.append(self._file[start:stop])
            pieces.extend(self._file[more:end] for more, end in self._overflow.get(start, ()))
        return b"".join(pieces)


def _rows(file: memoryview) -> Iterator[_Row]:
    """Every whole row in the order of the pages."""
    pages = _Pages(file)
    if not pages.valid:
        return
    for page in range(1, len(file) // pages.size):
        start = page * pages.size
        if file[start] != _LEAF_OF_TABLE:
            continue
        count = int.from_bytes(file[start + 3 : start + 5], "big")
        if _LEAF_HEADER_BYTES + 2 * count > pages.usable:
            continue
        for cell in range(count):
            place = start + _LEAF_HEADER_BYTES + 2 * cell
            offset = int.from_bytes(file[place : place + 2], "big")
            try:
                yield pages.row(start + offset, start + pages.usable)
            except _Damaged:
                continue


class _Pages:
    """The file as pages."""

    def __init__(self, file: memoryview) -> None:
        self._file = file
        size = int.from_bytes(file[16:18], "big")
        self.size = 65536 if size == 1 else size
        self.usable = self.size - file[20] if len(file) > _FILE_HEADER_BYTES else 0
        self.valid = self.size >= 512 and self.usable >= 480 and self.size & (self.size - 1) == 0

    def row(self, position: int, end: int) -> _Row:
        """The row whose cell starts here, in a page whose content stops at `end`."""
        payload, position = self._varint(position, end)
        number, position = self._varint(position, end)
        local = self._local_bytes(payload)
        if position + local > end:
            raise _Damaged
        head, body = self._varint(position, end)
        body_start = position + head
        types: list[int] = []
        while body < body_start and len(types) <= _COLUMNS:
            kind, body = self._varint(body, end)
            types.append(kind)
        if len(types) != _COLUMNS or body != body_start:
            raise _Damaged
        identity, topic_type, time_type, data_type = types
        blob = data_type >= 12 and data_type % 2 == 0
        if identity != 0 or topic_type not in _INTEGER_BYTES or time_type not in _INTEGER_BYTES or not blob:
            raise _Damaged
        topic, place = self._integer(topic_type, body_start, end)
        time, place = self._integer(time_type, place, end)
        size = (data_type - 12) // 2
        if place - position + size != payload or not 0 <= time <= MAX_TIME_NS:
            raise _Damaged
        if place > position + local or number > MAX_TIME_NS:
            raise _Damaged
        return _Row(number, topic, time, place, position + local, self._overflow(position + local, payload - local))

    def _local_bytes(self, payload: int) -> int:
        """How much of a payload is in the leaf itself (section 1.6, "payload size")."""
        most = self.usable - 35
        if payload <= most:
            return payload
        least = (self.usable - 12) * 32 // 255 - 23
        wanted = least + (payload - least) % (self.usable - 4)
        return wanted if wanted <= most else least

    def _overflow(self, link: int, left: int) -> tuple[tuple[int, int], ...]:
        """Places of the `left` bytes that are in pages chained from the page number at `link`."""
        pieces = []
        while left > 0:
            page = int.from_bytes(self._file[link : link + 4], "big")
            link = (page - 1) * self.size
            taken = min(left, self.usable - 4)
            if page < 2 or link + 4 + taken > len(self._file):
                raise _Damaged
            pieces.append((link + 4, link + 4 + taken))
            left -= taken
        return tuple(pieces)

    def _integer(self, kind: int, position: int, end: int) -> tuple[int, int]:
        if kind >= 8:
            return kind - 8, position
        stop = position + _INTEGER_BYTES[kind]
        if stop > end:
            raise _Damaged
        return int.from_bytes(self._file[position:stop], "big", signed=True), stop

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        value = 0
        for place in range(position, min(position + _MAX_VARINT_BYTES, end)):
            byte = self._file[place]
            if place == position + _MAX_VARINT_BYTES - 1:
                return value << 8 | byte, place + 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, place + 1
        raise _Damaged
