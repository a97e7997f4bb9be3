"""Messages of a sqlite3 file that is cut off or damaged, taken from the pages that are there.

The inner pages of a table's tree often lie behind the cut, and with them the way to all rows. The rows themselves are
in leaf pages, which rosbag2 fills one after the other. Format: "Database File Format", SQLite documentation, sections
1.6 (b-tree pages) and 2.1 (records).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import MAX_MESSAGES, FileBytes

_LEAF = 13
_LEAF_HEADER_BYTES = 8
_FILE_HEADER_BYTES = 100
_LONGEST_VARINT = 9
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
"""By a column's type; 8 and 9 are the numbers 0 and 1."""

_Pieces = list[tuple[int, int]]
"""(start, stop) in the file."""


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
        header = file.window(0, _FILE_HEADER_BYTES)[:_FILE_HEADER_BYTES]
        self._size = page_bytes(header)
        self._usable = self._size - header[20] if len(header) == _FILE_HEADER_BYTES else 0
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
