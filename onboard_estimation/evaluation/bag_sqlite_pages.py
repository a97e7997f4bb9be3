"""Messages of a sqlite3 file where they lie in its pages: of a large table at once by NumPy, and of a damaged one.

sqlite3 takes 0.8 us for each row that it hands to Python, and each is needed twice: half a minute for an hour of fast
sensors. And in a file that is cut off, the inner pages of a table's tree often lie behind the cut, and with them the
way to all rows. The rows themselves are in leaf pages, which rosbag2 fills one after the other. Format: "Database File
Format", SQLite documentation, sections 1.6 (b-tree pages) and 2.1 (records).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import MAX_MESSAGES, FileBytes

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

NUMBER, TOPIC, TIME, LENGTH, START, STOP = range(6)
"""Of a row: its number, topic, log time (ns), bytes of data, and the part of the data that lies in its leaf."""

_LEAF, _INTERIOR = 13, 5
_LEAF_HEADER_BYTES, _INTERIOR_HEADER_BYTES = 8, 12
_FILE_HEADER_BYTES = 100
_LONGEST_VARINT = 9
_INTEGER_BYTES = np.array([-1, 1, 2, 3, 4, 6, 8, -1, 0, 0, -1])  # by a column's type; others as the last
_PIECE_BYTES = 2**24
_MARGIN_BYTES = 2**16  # an offset in a page leads no further behind it


class Pages:
    """The pages of a file, numbered from 1.

    Attributes
    ----------
    size, usable
        Bytes of a page, with those reserved at its end and without.
    count
        0 where the file's header is not sound.
    piece
        As many are read at once.
    """

    def __init__(self, file: FileBytes) -> None:
        self.file = file
        header = file.window(0, _FILE_HEADER_BYTES)[:_FILE_HEADER_BYTES]
        self.size = page_bytes(header)
        self.usable = self.size - header[20] if len(header) == _FILE_HEADER_BYTES else 0
        sound = self.size >= 512 and self.usable >= 480 and self.size & (self.size - 1) == 0
        self.count = file.size // self.size if sound else 0
        self.piece = _PIECE_BYTES // self.size if sound else 1

    def place(self, page: int) -> int:
        """Where a page starts in the file."""
        return (page - 1) * self.size

    def read(self, first: int, last: int) -> Bytes:
        """(P, size) the pages from `first` to `last`."""
        data = self.file.read(self.place(first), self.place(last + 1))
        return np.frombuffer(data, dtype=np.uint8).reshape(-1, self.size)

    def leaves(self, root: int) -> Integers | None:
        """The leaf pages of the tree with that root, in order; None where the way to them is damaged."""
        level = np.array([root])
        while len(level) <= self.count and level.min() >= 2 and level.max() <= self.count:
            kinds = [int(self.read(page, page)[0, 0]) for page in (int(level[0]), int(level[-1]))]
            if kinds == [_LEAF, _LEAF]:
                return level
            children = [self._children(page) for page in level.tolist()]
            if not all(map(len, children)):
                return None
            level = np.concatenate(children)
        return None

    def _children(self, number: int) -> Integers:
        """Of an inner page; none where it is not sound."""
        page = self.read(number, number)[0]
        count = int.from_bytes(page[3:5].tobytes(), "big")
        if page[0] != _INTERIOR or not 0 < count <= (self.usable - _INTERIOR_HEADER_BYTES) // 2:
            return np.empty(0, dtype=np.int64)
        cells = page[_INTERIOR_HEADER_BYTES:][: 2 * count].view(">u2").astype(np.int64)
        if cells.max() + 4 > self.usable:
            return np.empty(0, dtype=np.int64)
        links = np.append(cells, 8)[:, None] + np.arange(4)  # the right-most child is in the header
        return page[links].view(">u4")[:, 0].astype(np.int64)

    def rows(self, pages: Bytes, places: Integers) -> tuple[Integers, bool]:
        """(6, K) the whole rows (NULL, integer, integer >= 0, blob) of leaves (P, size), and whether all rows are such.

        `places` (P,) are where in the file the leaves start.
        """
        counts = pages[:, 3].astype(np.int64) << 8 | pages[:, 4]
        sound = (pages[:, 0] == _LEAF) & (_LEAF_HEADER_BYTES + 2 * counts <= self.usable)
        counts[~sound] = 0
        page = np.repeat(np.arange(len(pages)), counts)
        cell = np.arange(len(page)) - np.repeat(np.cumsum(counts) - counts, counts)
        data = np.concatenate([pages.reshape(-1), np.zeros(_MARGIN_BYTES + 64, dtype=np.uint8)])
        start = page * self.size
        pointer = start + _LEAF_HEADER_BYTES + 2 * cell
        payload, place = _varints(data, start + (data[pointer].astype(np.int64) << 8 | data[pointer + 1]))
        number, place = _varints(data, place)
        local = self._local_bytes(payload)
        stop = place + local
        head, body = _varints(data, place)
        content = place + head
        kinds = []
        for _ in range(4):  # id (the row number, so NULL), topic_id, timestamp, data
            kind, body = _varints(data, body)
            kinds.append(kind)
        identity, *integers, blob = kinds
        length = (blob - 12) // 2
        whole = (payload >= 0) & (number >= 0) & (stop <= start + self.usable) & (content == body) & (identity == 0)
        whole &= (blob >= 12) & (blob % 2 == 0)
        values = []
        for kind in integers:
            width = _INTEGER_BYTES[np.clip(kind, 0, 10)]
            whole &= (width >= 0) & (content + width <= stop)
            content = np.where(whole, content, 0)
            values.append(np.where(width > 0, _integers(data, content, width), kind - 8))
            content = content + np.maximum(width, 0)
        whole &= (content - place + length == payload) & (values[1] >= 0)
        shift = places[page] - start
        found = np.array([number, *values, length, content + shift, stop + shift])
        return found[:, whole], bool(sound.all() and counts.all() and whole.all())

    def _local_bytes(self, payload: Integers) -> Integers:
        """How much of a payload is in the leaf itself (section 1.6, "payload size")."""
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        wanted = least + (payload - least) % (self.usable - 4)
        return np.where(payload <= most, payload, np.where(wanted <= most, wanted, least))


class SalvagedMessages:
    """The whole rows of the table `messages` that are in a file, by their number, without the tree that leads to them.

    Attributes
    ----------
    rows
        (K, 3) int64: topic's number, log time (ns), bytes of data.
    """

    def __init__(self, file: FileBytes) -> None:
        self._pages = Pages(file)
        self._chained: set[int] = set()
        self._overflow: dict[int, list[tuple[int, int]]] = {}
        table = np.concatenate([np.empty((6, 0), dtype=np.int64), *self._find_rows()], axis=1)
        # A page that sqlite3 has moved may be there twice.
        table = table[:, np.unique(table[NUMBER], return_index=True)[1]].T
        self.rows: Integers = table[:, [TOPIC, TIME, LENGTH]]
        self._places: Integers = table[:, [START, STOP]]

    def data(self, first: int, count: int) -> bytes:
        """The data of so many rows from place `first` on, one after the other."""
        pieces: list[memoryview | bytes] = []
        file = self._pages.file
        for start, stop in self._places[first : first + count].tolist():
            pieces.append(file.window(start, stop - start)[: stop - start])
            pieces.extend(file.read(*more) for more in self._overflow.get(start, ()))
        return b"".join(pieces)

    def _find_rows(self) -> Iterator[Integers]:
        """The whole rows in the order of the pages; the file's first page is no leaf of this table."""
        count = 0
        for first in range(2, self._pages.count + 1, self._pages.piece):
            if count >= MAX_MESSAGES:
                return
            pages = self._pages.read(first, min(first + self._pages.piece - 1, self._pages.count))
            rows, _ = self._pages.rows(pages, self._pages.place(first) + np.arange(len(pages)) * self._pages.size)
            whole = rows[STOP] - rows[START] == rows[LENGTH]
            for column in np.flatnonzero(~whole).tolist():
                start, stop = int(rows[START, column]), int(rows[STOP, column])
                pieces = self._chain(stop, int(rows[LENGTH, column]) - (stop - start))
                if pieces is not None:
                    self._overflow[start] = pieces
                    whole[column] = True
            count += int(np.count_nonzero(whole))
            yield rows[:, whole]

    def _chain(self, link_place: int, left: int) -> list[tuple[int, int]] | None:
        """Places of the `left` bytes that are in pages chained from the link at that place; None where it is broken."""
        file, pages = self._pages.file, self._pages
        pieces = []
        while left > 0:
            page = int.from_bytes(file.read(link_place, link_place + 4), "big")
            link_place = pages.place(page)
            start, taken = link_place + 4, min(left, pages.usable - 4)
            # No page belongs to two rows; that there are so many pages at most also bounds the work.
            if page < 2 or start + taken > file.size or page in self._chained:
                return None
            self._chained.add(page)
            pieces.append((start, start + taken))
            left -= taken
        return pieces if not any(file.read(link_place, link_place + 4)) else None


def page_bytes(header: memoryview) -> int:
    """Bytes of a page, by the header of the file."""
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size


def _varints(data: Bytes, places: Integers) -> tuple[Integers, Integers]:
    """Numbers of seven bits a byte (a ninth byte has eight) that start at these places, and the places after them."""
    values, going = np.zeros(len(places), dtype=np.int64), np.ones(len(places), dtype=np.bool_)
    for position in range(_LONGEST_VARINT):
        byte = data[places].astype(np.int64)
        more = values << 8 | byte if position == _LONGEST_VARINT - 1 else values << 7 | byte & 0x7F
        values = np.where(going, more, values)
        places = places + going
        going = going & (byte >= 0x80)
        if not going.any():
            break
    return values, places


def _integers(data: Bytes, places: Integers, widths: Integers) -> Integers:
    """Big-endian two's complements of so many bytes at these places; 0 where there are none."""
    values = np.zeros(len(places), dtype=np.int64)
    for position in range(int(widths.max(initial=0))):
        byte = data[places + position].astype(np.int64)
        more = byte - (byte >= 0x80) * 256 if position == 0 else values << 8 | byte
        values = np.where(position < widths, more, values)
    return values
