"""Compiled interpolation of a body's poses, for an hour of estimates at 840 Hz."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Integers = NDArray[np.int64]


@njit(cache=True, nogil=True)
def interpolate(
    stamps_ns: Integers, values: Rows, at_ns: Integers, longest_gap_ns: int
) -> tuple[Rows, NDArray[np.bool_]]:
    """Values (K, d) at the instants (K,) and where they are valid (K,); NaN where not.

    Parameters
    ----------
    stamps_ns
        (M,) strictly increasing, M >= 1.
    values
        (M, d): positions (d = 3), or positions and quaternions x, y, z, w (d = 7). Positions are interpolated linearly,
        quaternions along the shorter arc at a constant rate (Shoemake, "Animating rotation with quaternion curves",
        1985), the angle taken from sum and difference, which is exact for small ones.
    longest_gap_ns
        Between two messages that are interpolated. One at the very instant is taken as it is.
    """
    count, size = len(at_ns), values.shape[1]
    last = len(stamps_ns) - 1
    out = np.full((count, size), np.nan)
    valid = np.zeros(count, dtype=np.bool_)
    after = 0
    for k in range(count):
        instant = at_ns[k]
        if instant < stamps_ns[0] or instant > stamps_ns[last]:
            continue
        if after > 0 and stamps_ns[after - 1] >= instant:
            after = np.searchsorted(stamps_ns, instant)  # instants that are not in order
        while stamps_ns[after] < instant:
            after += 1
        before = max(after - 1, 0)
        gap = stamps_ns[after] - stamps_ns[before]
        exact = stamps_ns[after] == instant
        if not exact and gap > longest_gap_ns:
            continue
        valid[k] = True
        share = (instant - stamps_ns[before]) / gap if gap > 0 else 0.0
        for i in range(3):
            out[k, i] = (1.0 - share) * values[before, i] + share * values[after, i]
            if exact:
                out[k, i] = values[after, i]
        if size == 7:
            _rotate_between(values[before], values[after], share, out[k])
    return out, valid


@njit(cache=True, nogil=True)
def _rotate_between(first: Rows, second: Rows, share: float, out: Rows) -> None:
    """The quaternion in elements 3 to 6 at a share of the way from the one to the other."""
    dot, first_square, second_square = 0.0, 0.0, 0.0
    for i in range(3, 7):
        dot += first[i] * second[i]
        first_square += first[i] ** 2
        second_square += second[i] ** 2
    a, b = 1.0 / np.sqrt(first_square), np.copysign(1.0 / np.sqrt(second_square), dot)
    plus, minus = 0.0, 0.0
    for i in range(3, 7):
        plus += (a * first[i] + b * second[i]) ** 2
        minus += (a * first[i] - b * second[i]) ** 2
    angle = 2.0 * np.arctan2(np.sqrt(minus), np.sqrt(plus))
    sine = np.sin(angle)
    if sine > 0.0:
        a *= np.sin((1.0 - share) * angle) / sine
        b *= np.sin(share * angle) / sine
    else:
        b = 0.0
    square = 0.0
    for i in range(3, 7):
        out[i] = a * first[i] + b * second[i]
        square += out[i] ** 2
    for i in range(3, 7):
        out[i] /= np.sqrt(square)
