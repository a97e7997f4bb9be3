"""Many messages that differ in their stamp and numbers only, serialised at once by NumPy.

One by one, the names in a covariance of a hundred elements cost more than the filter that made it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector

_STAMP = slice(4, 12)  # a header comes first in every message that has one: seconds, nanoseconds, 4 bytes each


def serialise_alike(
    message_type: str,
    make: Callable[[int, Vector], Any],
    stamps_ns: NDArray[np.int64],
    values: NDArray[np.float64],
) -> NDArray[np.uint8]:
    """CDR of K messages, (K, bytes).

    Parameters
    ----------
    make
        A message from its stamp and its m numbers, each of which stands once, as float64, in what it serialises to.
    stamps_ns, values
        (K,) and (K, m); a column that is NaN throughout is not measured, and `make` gets NaN for it.

    Raises
    ------
    ValueError
        A number is not in the message, or is in it more than once.
    """
    count, size = values.shape
    # Numbers that no header or name looks like, to find where they stand.
    marks: Vector = 1e100 * (1.0 + np.arange(size, dtype=np.float64))
    marks[np.isnan(values).all(axis=0) & (count > 0)] = np.nan
    template = bytes(jazzy_types().serialize_cdr(make(0, marks), message_type))
    rows = np.empty((count, len(template)), dtype=np.uint8)
    rows[:] = np.frombuffer(template, dtype=np.uint8)
    seconds, nanoseconds = np.divmod(stamps_ns, NANOSECONDS_PER_SECOND)
    stamps = np.column_stack([seconds, nanoseconds]).astype("<u4")
    rows[:, _STAMP] = stamps.view(np.uint8)
    for place, first, last in _runs(message_type, template, marks):
        numbers = np.ascontiguousarray(values[:, first:last], dtype="<f8").view(np.uint8)
        rows[:, place : place + 8 * (last - first)] = numbers
    return rows


def _runs(message_type: str, template: bytes, marks: Vector) -> list[tuple[int, int, int]]:
    """Numbers that stand in one row: (place of the first in the message, its column, the column after the last)."""
    runs: list[tuple[int, int, int]] = []
    for column, mark in enumerate(marks.astype("<f8")):
        if np.isnan(mark):
            continue
        place = template.find(mark.tobytes())
        if place < 0 or template.count(mark.tobytes()) > 1:
            raise ValueError(f"number {column} is not in a {message_type} once")
        if runs and place == runs[-1][0] + 8 * (column - runs[-1][1]):
            runs[-1] = (*runs[-1][:2], column + 1)
        else:
            runs.append((place, column, column + 1))
    return runs
