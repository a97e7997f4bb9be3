"""Messages of a damaged sqlite3 file, taken from its pages without the tree that leads to them.

In a file that is cut off, the inner pages of a table's tree often lie behind the cut, and with them the way to all
rows. The rows themselves are in leaf pages, which rosbag2 fills one after the other. Format: "Database File Format",
SQLite documentation, sections 1.6 (b-tree pages) and 2.1 (records).
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import MAX_MESSAGES, MAX_TIME_NS, FileBytes

_LEAF_OF_TABLE = 13
_LEAF_HEADER_BYTES = 8
_FILE_HEADER_BYTES = 100
_LONGEST_VARINT = 9
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 8: 0, 9: 0}
_COLUMNS = 4  # id (the row number, so NULL), topic_id, timestamp, data


class _Damaged(LookupError):
    """Bytes that are no cell of the table `messages`."""


class SalvagedMessages:
    """The whole rows of the table `messages` that are in a file, by their number.

    Attributes
    ----------
    rows
        (K, 3) int64: topic's number, log time (ns), bytes of data.
    """

    def __init__(self, file: FileBytes) -> None:
        self._file = file
        header = file.window(0, _FILE_HEADER_BYTES)[:_FILE_HEADER_BYTES]
        self._size = page_bytes(header)
        self._usable = self._size - header[20] if len(header) == _FILE_HEADER_BYTES else 0
        self._chained: set[int] = set()
        self._overflow: dict[int, list[tuple[int, int]]] = {}
        found = array("q")
        if self._size >= 512 and self._usable >= 480 and self._size & (self._size - 1) == 0:
            self._find_rows(found)
        table = np.frombuffer(found, dtype=np.int64).reshape(-1, 6)
        # A page that sqlite3 has moved may be there twice.
        table = table[np.unique(table[:, 0], return_index=True)[1]]
        self.rows: NDArray[np.int64] = table[:, 1:4]
        self._places: NDArray[np.int64] = table[:, 4:]

    def data(self, first: int, count: int) -> bytes:
        """The data of so many rows from place `first` on, one after the other."""
        pieces: list[memoryview | bytes] = []
        for start, stop in self._places[first : first + count].tolist():
            pieces.append(self._file.window(start, stop - start)[: stop - start])
            pieces.extend(self._file.read(*more) for more in self._overflow.get(start, ()))
        return b"".join(pieces)

    def _find_rows(self, found: array[int]) -> None:
        """Append every whole row in the order of the pages, six numbers each: see `_row`."""
        for start in range(self._size, self._file.size - self._size + 1, self._size):
            page = bytes(self._file.window(start, self._usable)[: self._usable])
            pointers_end = _LEAF_HEADER_BYTES + 2 * int.from_bytes(page[3:5], "big")
            if page[0] != _LEAF_OF_TABLE or pointers_end > self._usable:
                continue
            for pointer in range(_LEAF_HEADER_BYTES, pointers_end, 2):
                try:
                    found.extend(self._row(page, int.from_bytes(page[pointer : pointer + 2], "big"), start))
                except LookupError:
                    continue
                if len(found) >= 6 * MAX_MESSAGES:
                    return

    def _row(self, page: bytes, position: int, origin: int) -> tuple[int, int, int, int, int, int]:
        """Number, topic, log time and length of the row whose cell starts here, and where its data lies in this page.

        `origin` is the page's place in the file. LookupError where it is no such row.
        """
        payload, position = _varint(page, position)
        number, position = _varint(page, position)
        stop = position + self._local_bytes(payload)
        head, body = _varint(page, position)
        place = position + head
        types: list[int] = []
        while body < place and len(types) <= _COLUMNS:
            kind, body = _varint(page, body)
            types.append(kind)
        if stop > len(page) or len(types) != _COLUMNS or body != place or types[0] or types[3] < 12 or types[3] % 2:
            raise _Damaged
        numbers = []
        for kind in types[1:3]:
            end = place + _INTEGER_BYTES[kind]
            numbers.append(int.from_bytes(page[place:end], "big", signed=True) if end > place else kind - 8)
            place = end
        topic, time = numbers
        length = (types[3] - 12) // 2
        if place > stop or place - position + length != payload or not (time >= 0 and number <= MAX_TIME_NS):
            raise _Damaged
        if pieces := self._chain(page[stop : stop + 4], position + payload - stop):
            self._overflow[origin + place] = pieces
        return number, topic, time, length, origin + place, origin + stop

    def _local_bytes(self, payload: int) -> int:
        """How much of a payload is in the leaf itself (section 1.6, "payload size")."""
        most = self._usable - 35
        if payload <= most:
            return payload
        least = (self._usable - 12) * 32 // 255 - 23
        wanted = least + (payload - least) % (self._usable - 4)
        return wanted if wanted <= most else least

    def _chain(self, link: bytes, left: int) -> list[tuple[int, int]]:
        """Places of the `left` bytes that are in pages chained from the page whose number is `link`."""
        pieces = []
        while left > 0:
            page = int.from_bytes(link, "big")
            start = (page - 1) * self._size + 4
            taken = min(left, self._usable - 4)
            # No page belongs to two rows; that there are so many pages at most also bounds the work.
            if page < 2 or start + taken > self._file.size or page in self._chained:
                raise _Damaged
            self._chained.add(page)
            link = self._file.read(start - 4, start)
            pieces.append((start, start + taken))
            left -= taken
        if pieces and any(link):
            raise _Damaged
        return pieces


def page_bytes(header: memoryview) -> int:
    """Bytes of a page, by the header of the file."""
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size


def _varint(page: bytes, position: int) -> tuple[int, int]:
    """A number of seven bits a byte (the ninth has eight), and the place after it; IndexError where it is cut."""
    value = 0
    for place in range(position, position + _LONGEST_VARINT - 1):
        byte = page[place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + 1
    return value << 8 | page[position + 8], position + 9
