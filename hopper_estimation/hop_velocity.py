"""Vertical velocity from motion capture: the slope of a parabola through 25 ms around each sample."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.local_polynomials import local_quadratics
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Array = NDArray[np.float64]

HALF_WINDOW_S = 0.0125


class Track(Protocol):
    """A body's poses over time, as the evaluation has them."""

    @property
    def stamps_ns(self) -> NDArray[np.int64]:
        """(M,) int64, strictly increasing."""

    @property
    def values(self) -> Array:
        """(M, 7) or (M, 3), position first."""


def velocity_at(track: Track, stamps_ns: NDArray[np.int64]) -> Array:
    """(K,) vertical velocity at the stamps, m/s; NaN in gaps, where no parabola has samples on both sides nearby."""
    start = int(track.stamps_ns[0])
    time = (track.stamps_ns - start) / NANOSECONDS_PER_SECOND
    at = (stamps_ns - start) / NANOSECONDS_PER_SECOND
    _, velocity, _ = local_quadratics(time, np.ascontiguousarray(track.values[:, 2]), HALF_WINDOW_S)
    known = np.isfinite(velocity)
    if not known.any():
        return np.full(len(at), np.nan)
    time, velocity = time[known], velocity[known]
    out = np.interp(at, time, velocity)
    right = np.clip(np.searchsorted(time, at), 0, len(time) - 1)
    nearest = np.minimum(np.abs(time[right] - at), np.abs(at - time[np.maximum(right - 1, 0)]))
    out[nearest > 2.0 * HALF_WINDOW_S] = np.nan
    return out
