"""Ground truth at the instants of the estimates: interpolation, matching, mirror images."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.clock_parts import clock_parts
from onboard_estimation.evaluation.truth_kernels import interpolate
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class BodyTrack:
    """Poses of one body over time, cleaned.

    Attributes
    ----------
    stamps_ns
        (M,) int64, strictly increasing.
    values
        (M, 7) position and unit quaternion x, y, z, w, or (M, 3) position alone.
    left_out
        Messages left out: not finite, no rotation, a stamp that repeats, or before or after the clock jumped back.
    """

    body: str
    stamps_ns: NDArray[np.int64]
    values: Rows
    left_out: int = 0

    @classmethod
    def clean(cls, body: str, stamps_ns: NDArray[np.int64], values: Rows) -> BodyTrack:
        """Track from messages in the order of their arrival, which may differ a little from that of their stamps.

        Where the clock jumps back, the longest part is kept.
        """
        usable = np.isfinite(values).all(axis=1)
        if values.shape[1] == 7:
            norm = np.sqrt(np.einsum("ij,ij->i", values[:, 3:], values[:, 3:]))
            usable &= np.abs(np.where(usable, norm, 0.0) - 1.0) < 1e-2
        good_ns, good = (stamps_ns, values) if usable.all() else (stamps_ns[usable], values[usable])
        # Parts of a clock that jumps back overlap in time: mixed, they would be no motion at all.
        start, stop = clock_parts(good_ns, np.zeros(len(good_ns), dtype=np.int64), longest_gap_s=math.inf).longest()
        stamps, good = good_ns[start:stop], good[start:stop]
        if np.any(stamps[1:] <= stamps[:-1]):
            stamps, first = np.unique(stamps, return_index=True)
            good = good[first]
        return cls(body, stamps, good, len(stamps_ns) - len(stamps))

    def at(self, stamps_ns: NDArray[np.int64], longest_gap_s: float) -> tuple[Rows, NDArray[np.bool_]]:
        """Values (K, 7) or (K, 3) at the stamps, and where they are valid (K,).

        Positions are interpolated linearly, rotations along the shortest arc. A stamp is valid between two messages at
        most `longest_gap_s` apart, or on one; nothing is extrapolated.
        """
        if len(self.stamps_ns) == 0:
            return np.full((len(stamps_ns), self.values.shape[1]), np.nan), np.zeros(len(stamps_ns), dtype=np.bool_)
        longest_ns = min(longest_gap_s * NANOSECONDS_PER_SECOND, float(2**62))
        stamps = np.ascontiguousarray(stamps_ns, dtype=np.int64)
        return interpolate(self.stamps_ns, np.ascontiguousarray(self.values), stamps, round(longest_ns))


@dataclass(frozen=True)
class HeldValues:
    """Numbers that are known otherwise than by motion capture, each from its stamp on until the next.

    Attributes
    ----------
    stamps_ns
        (M,) int64, increasing.
    values
        (M, d).
    """

    stamps_ns: NDArray[np.int64]
    values: Rows

    @classmethod
    def clean(cls, stamps_ns: NDArray[np.int64], values: Rows) -> HeldValues:
        """Values from messages in any order; those that are not finite are left out."""
        order = np.argsort(stamps_ns, kind="stable")
        order = order[np.isfinite(values[order]).all(axis=1)]
        return cls(stamps_ns[order], values[order])

    def at(self, stamps_ns: NDArray[np.int64]) -> Rows:
        """(K, d) at the stamps; NaN before the first message."""
        with_none = np.vstack([np.full(self.values.shape[1], np.nan), self.values])
        found: Rows = with_none[np.searchsorted(self.stamps_ns, stamps_ns, side="right")]
        return found


def mirror(values: Rows, axes: str) -> Rows:
    """Positions (K, 3) or poses (K, 7) with axes turned round: one, and a left-handed recording is right-handed.

    Two of them are a half turn about the third: `yz` takes z down (NED) to z up.
    """
    out = values.copy()
    for axis in axes:
        index = "xyz".index(axis)
        out[:, index] *= -1.0
        if out.shape[1] == 7:
            # Mirrored in a plane, a rotation keeps the axis component normal to it and turns the others round.
            others = [3 + i for i in range(3) if i != index]
            out[:, others] *= -1.0
    return out
