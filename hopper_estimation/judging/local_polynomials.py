"""Height, velocity and acceleration of a track by a parabola around each sample: Savitzky and Golay with gaps.

The samples need not be evenly spaced, so that lost frames and jittering stamps are no trouble.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.contract.tracks import BodyTrack

Array = NDArray[np.float64]

HALF_WINDOW_S = 0.0125
"""Of the parabola whose slope is a velocity by motion capture."""
_FEWEST_SAMPLES = 5


def local_quadratics(time_s: Array, value: Array, half_window_s: float) -> Array:
    """(3, K) value, first and second derivative at each sample, by least squares within the window around it.

    NaN where fewer than five samples are in the window or all lie to one side.

    Parameters
    ----------
    time_s, value
        (K,) finite, times in order.
    half_window_s
        Samples up to so far away are used.
    """
    out = np.full((3, len(time_s)), np.nan)
    _fit(time_s, np.ascontiguousarray(value), half_window_s, out)
    return out


@njit(cache=True, error_model="numpy")
def _fit(time_s: Array, value: Array, half_window_s: float, out: Array) -> None:
    """Normal equations with times in half windows and values from the centre's, solved by Cramer's rule."""
    first = 0
    for k in range(len(time_s)):
        while time_s[k] - time_s[first] > half_window_s * (1.0 + 1e-9):
            first += 1
        s0 = s1 = s2 = s3 = s4 = r0 = r1 = r2 = lowest = highest = 0.0
        for j in range(first, len(time_s)):
            t, v = (time_s[j] - time_s[k]) / half_window_s, value[j] - value[k]
            if t > 1.0 + 1e-9:
                break
            s0, s1, s2, s3, s4 = s0 + 1.0, s1 + t, s2 + t * t, s3 + t * t * t, s4 + t * t * t * t
            r0, r1, r2 = r0 + v, r1 + v * t, r2 + v * t * t
            lowest, highest = min(lowest, t), max(highest, t)
        if s0 < _FEWEST_SAMPLES or lowest > -0.3 or highest < 0.3:
            continue
        # Cofactors of the symmetric matrix [[s0 s1 s2], [s1 s2 s3], [s2 s3 s4]].
        a, b, c = s2 * s4 - s3 * s3, s2 * s3 - s1 * s4, s1 * s3 - s2 * s2
        d, e, f = s0 * s4 - s2 * s2, s1 * s2 - s0 * s3, s0 * s2 - s1 * s1
        determinant = s0 * a + s1 * b + s2 * c
        out[0, k] = value[k] + (a * r0 + b * r1 + c * r2) / determinant
        out[1, k] = (b * r0 + d * r1 + e * r2) / determinant / half_window_s
        out[2, k] = 2.0 * (c * r0 + e * r1 + f * r2) / determinant / half_window_s**2


def velocity_at(track: BodyTrack, stamps_ns: NDArray[np.int64]) -> Array:
    """(K,) vertical velocity at the stamps, m/s; NaN in gaps, where no parabola has samples on both sides nearby."""
    start = int(track.stamps_ns[0])
    time = (track.stamps_ns - start) / NANOSECONDS_PER_SECOND
    at = (stamps_ns - start) / NANOSECONDS_PER_SECOND
    velocity = local_quadratics(time, track.values[:, 2], HALF_WINDOW_S)[1]
    known = np.isfinite(velocity)
    if not known.any():
        return np.full(len(at), np.nan)
    time, velocity = time[known], velocity[known]
    out = np.interp(at, time, velocity)
    right = np.clip(np.searchsorted(time, at), 0, len(time) - 1)
    nearest = np.minimum(np.abs(time[right] - at), np.abs(at - time[np.maximum(right - 1, 0)]))
    out[nearest > 2.0 * HALF_WINDOW_S] = np.nan
    return out
