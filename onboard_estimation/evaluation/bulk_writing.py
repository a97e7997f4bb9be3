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
        A message from its stamp and its m numbers, which stand in one row, as float64, in what it serialises to.
    stamps_ns, values
        (K,) and (K, m).

    Raises
    ------
    ValueError
        The numbers do not stand in one row.
    """
    count, size = values.shape
    # Numbers that no header or name looks like, to find where they stand.
    marks: Vector = 1e100 * (1.0 + np.arange(size, dtype=np.float64))
    template = bytes(jazzy_types().serialize_cdr(make(0, marks), message_type))
    start = template.find(marks.tobytes())
    if start < 0:
        raise ValueError(f"the numbers of a {message_type} do not stand in one row")
    rows = np.tile(np.frombuffer(template, dtype=np.uint8), (count, 1))
    seconds, nanoseconds = np.divmod(stamps_ns, NANOSECONDS_PER_SECOND)
    stamps = np.column_stack([seconds, nanoseconds]).astype("<u4")
    rows[:, _STAMP] = stamps.view(np.uint8)
    rows[:, start : start + 8 * size] = np.ascontiguousarray(values, dtype="<f8").view(np.uint8)
    return rows
