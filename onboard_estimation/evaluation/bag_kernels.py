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
