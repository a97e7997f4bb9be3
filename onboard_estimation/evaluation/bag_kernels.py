"""Compiled loops over the bytes of large bags: where messages lie, and the numbers of those that are alike.

Python takes half a second for each million messages that it looks at one by one, which is nothing for a walk of a
minute, and ten seconds for an hour of two fast sensors. Small files are read without these kernels, and without numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_MESSAGE_OPCODE = 5
_RECORD_BYTES = 9
_MESSAGE_HEADER_BYTES = 22


@njit(cache=True)
def _unsigned(data: Bytes, place: int, count: int) -> int:
    """Little-endian number of `count` bytes, below 2^63; -1 where it is not."""
    value = 0
    for i in range(count):
        byte = int(data[place + i])
        if i == 7 and byte >= 128:
            return -1
        value |= byte << (8 * i)
    return value


@njit(cache=True, nogil=True)
def walk_mcap_messages(data: Bytes, position: int, end: int, index: Integers) -> tuple[int, int]:
    """Index whole MCAP message records that follow each other from `position` on.

    Parameters
    ----------
    index
        (4, most) int64: filled with channel, log time (ns), start and length of each message's content.

    Returns
    -------
    How many were found, and the place after the last of them.
    """
    count, most = 0, index.shape[1]
    last = end - _RECORD_BYTES - _MESSAGE_HEADER_BYTES
    while position <= last and count < most:
        if data[position] != _MESSAGE_OPCODE:
            break
        size = _unsigned(data, position + 1, 8)
        if size < _MESSAGE_HEADER_BYTES or size > end - position - _RECORD_BYTES:
            break
        log_time = _unsigned(data, position + 15, 8)
        if log_time < 0:
            break
        index[0, count] = _unsigned(data, position + 9, 2)
        index[1, count] = log_time
        index[2, count] = position + _RECORD_BYTES + _MESSAGE_HEADER_BYTES
        index[3, count] = size - _MESSAGE_HEADER_BYTES
        position += _RECORD_BYTES + size
        count += 1
    return count, position


@njit(cache=True, nogil=True)
def read_alike(
    data: Bytes,
    starts: Integers,
    lengths: Integers,
    length: int,
    fixed_places: Integers,
    fixed: Bytes,
    stamp: int,
    number_places: Integers,
    fits: NDArray[np.bool_],
    stamps_ns: Integers,
    values: NDArray[np.uint8],
) -> int:
    """Stamps and numbers of the messages that have a layout, packed; gives how many have it.

    Parameters
    ----------
    starts, lengths
        (M,) where the messages lie in `data`.
    length
        Of a message with the layout.
    fixed_places, fixed
        (F,) places of bytes that are the same in all of them, from the message's start, and what they are.
    stamp
        Place of seconds (int32) and nanoseconds (uint32).
    number_places
        (d,) places of the float64 numbers.
    fits, stamps_ns, values
        (M,), (M,) and (M, 8 d): which have the layout, stamps in nanoseconds and the bytes of their numbers.
    """
    count = 0
    for row in range(len(starts)):
        fits[row] = False
        if lengths[row] != length:
            continue
        start = starts[row]
        same = True
        for i in range(len(fixed_places)):
            if data[start + fixed_places[i]] != fixed[i]:
                same = False
                break
        if not same:
            continue
        fits[row] = True
        seconds = _unsigned(data, start + stamp, 4)
        if seconds >= 2**31:
            seconds -= 2**32
        stamps_ns[count] = seconds * 1_000_000_000 + _unsigned(data, start + stamp + 4, 4)
        for i in range(len(number_places)):
            place = start + number_places[i]
            for j in range(8):
                values[count, 8 * i + j] = data[place + j]
        count += 1
    return count


LEAF, _INTERIOR = 13, 5
DEEPEST = 30
DEPTH, LAST_ROW, PAGES, NEEDED, TREE = 0, 1, 2, 3, 4
TREE_STATE_SIZE = TREE + 2 * DEEPEST


@njit(cache=True)
def _big_endian(data: Bytes, place: int, count: int) -> int:
    """Signed number of `count` bytes, two's complement."""
    value = int(data[place])
    if value >= 128:
        value -= 256
    for i in range(1, count):
        value = (value << 8) | int(data[place + i])
    return value


@njit(cache=True)
def _varint(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """Number of up to eight bytes, seven bits each, and the place after it; -1 where it is none, or longer."""
    value = 0
    for i in range(8):
        if place + i >= end:
            return -1, place
        byte = int(data[place + i])
        value = (value << 7) | (byte & 0x7F)
        if byte < 128:
            return value, place + i + 1
    return -1, place


@njit(cache=True)
def _integer_bytes(kind: int) -> int:
    """Bytes of an integer column of that serial type; -1 where it is another type."""
    if 1 <= kind <= 4:
        return kind
    if kind == 5:
        return 6
    if kind == 6:
        return 8
    return 0 if kind == 8 or kind == 9 else -1


@njit(cache=True)
def _message_row(data: Bytes, place: int, end: int, most: int, index: Integers, count: int) -> int:
    """Index the row of the table `messages` whose cell starts here; its number, or -1 where it is no ordinary one.

    Ordinary: (NULL, integer, integer >= 0, blob), whole in this page. Format: "Database File Format", section 2.1.
    """
    payload, place = _varint(data, place, end)
    number, place = _varint(data, place, end)
    if payload < 0 or payload > most or number < 0 or place + payload > end:
        return -1
    stop = place + payload
    head, body = _varint(data, place, stop)
    types_end = place + head
    if head < 0 or types_end > stop:
        return -1
    identity, body = _varint(data, body, types_end)
    topic_type, body = _varint(data, body, types_end)
    time_type, body = _varint(data, body, types_end)
    data_type, body = _varint(data, body, types_end)
    if identity != 0 or body != types_end or data_type < 12 or data_type % 2 == 1:
        return -1
    topic_bytes, time_bytes = _integer_bytes(topic_type), _integer_bytes(time_type)
    length = (data_type - 12) // 2
    if topic_bytes < 0 or time_bytes < 0 or types_end + topic_bytes + time_bytes + length != stop:
        return -1
    topic = _big_endian(data, types_end, topic_bytes) if topic_bytes > 0 else topic_type - 8
    start = types_end + topic_bytes
    time = _big_endian(data, start, time_bytes) if time_bytes > 0 else time_type - 8
    if time < 0:
        return -1
    index[0, count] = topic
    index[1, count] = time
    index[2, count] = start + time_bytes
    index[3, count] = length
    return number


@njit(cache=True, nogil=True)
def walk_sqlite_rows(
    data: Bytes, first: int, pages: int, usable: int, inner: NDArray[np.uint8], state: Integers, index: Integers
) -> int:
    """Index the next rows of the table `messages` by their number, as far as `data` and the room in `index` go.

    Parameters
    ----------
    data, first
        Whole pages of the file that follow each other, and the number of the first of them.
    pages
        In the file.
    usable
        Bytes of a page without those reserved at its end.
    inner
        (DEEPEST, bytes of a page), kept between calls: the inner pages on the way to the current leaf.
    state
        (TREE_STATE_SIZE,) int64, kept between calls: how deep in the tree of pages (0: done), number of the last row,
        pages seen, the page that is needed to go on (0: none), then page and next cell at each depth. At first one page
        deep: the table's root.
    index
        (4, most) as `walk_mcap_messages` fills it.

    Returns
    -------
    How many rows; -1 where a row or page is not as rosbag2 writes them (overflow pages, other types, damage): for
    sqlite3 itself.
    """
    count, most = 0, index.shape[1]
    page_bytes = inner.shape[1]
    while state[DEPTH] > 0 and count < most:
        depth = state[DEPTH] - 1
        place = TREE + 2 * depth
        page, cell = state[place], state[place + 1]
        start = (page - first) * page_bytes
        if cell == 0 or inner[depth, 0] == LEAF:
            if page < 2 or page > pages:
                return -1
            if start < 0 or start + page_bytes > len(data):
                state[NEEDED] = page
                return count
        if cell == 0:
            state[PAGES] += 1
            if state[PAGES] > pages:
                return -1
            inner[depth] = data[start : start + page_bytes]
        kind, cells = int(inner[depth, 0]), _big_endian(inner[depth], 3, 2) & 0xFFFF
        pointers = 8 if kind == LEAF else 12
        if (
            kind not in (LEAF, _INTERIOR)
            or pointers + 2 * cells > usable
            or (cells == 0 and (kind == _INTERIOR or depth))
        ):
            return -1
        if kind == _INTERIOR:
            if cell > cells:
                state[DEPTH] -= 1
                continue
            link = 8
            if cell < cells:
                link = _big_endian(inner[depth], pointers + 2 * cell, 2) & 0xFFFF
            if depth + 1 >= DEEPEST or link + 4 > usable:
                return -1
            state[place + 1] = cell + 1
            state[place + 2] = _big_endian(inner[depth], link, 4)
            state[place + 3] = 0
            state[DEPTH] += 1
            continue
        while cell < cells and count < most:
            offset = _big_endian(data, start + pointers + 2 * cell, 2) & 0xFFFF
            number = _message_row(data, start + offset, start + usable, usable - 35, index, count)
            if number <= state[LAST_ROW]:
                return -1
            state[LAST_ROW] = number
            cell += 1
            count += 1
        state[place + 1] = cell
        if cell == cells:
            state[DEPTH] -= 1
    return count
