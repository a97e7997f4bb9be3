"""Height, velocity and acceleration of a track by a parabola around each sample: Savitzky and Golay with gaps.

The samples need not be evenly spaced, so that lost frames and jittering stamps are no trouble.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CHUNK = 16384
_FEWEST_SAMPLES = 5


def local_quadratics(time_s: Array, value: Array, half_window_s: float) -> tuple[Array, Array, Array]:
    """Value, first and second derivative at each sample, by least squares within the window around it.

    Parameters
    ----------
    time_s, value
        (K,) finite, times in order.
    half_window_s
        Samples up to so far away are used.

    Returns
    -------
    Three (K,) arrays; NaN where fewer than five samples are in the window or all lie to one side.
    """
    count = len(time_s)
    out = np.full((3, count), np.nan)
    if count < _FEWEST_SAMPLES:
        return out[0], out[1], out[2]
    steps = np.diff(time_s)
    reach = min(int(half_window_s / max(float(steps.min()), 0.2 * float(np.median(steps))) + 1e-6), count - 1)
    for start in range(0, count, _CHUNK):
        stop = min(start + _CHUNK, count)
        sums, right, lowest, highest = _moments(time_s, value, start, stop, reach, half_window_s)
        good = (sums[0] >= _FEWEST_SAMPLES) & (lowest < -0.3) & (highest > 0.3)
        fit = _solve(sums[:, good], right[:, good])
        index = start + np.flatnonzero(good)
        out[0, index] = fit[0] + value[index]
        out[1, index] = fit[1] / half_window_s
        out[2, index] = 2.0 * fit[2] / half_window_s**2
    return out[0], out[1], out[2]


def _moments(
    time_s: Array, value: Array, start: int, stop: int, reach: int, half_window_s: float
) -> tuple[Array, Array, Array, Array]:
    """Sums over the windows of some samples, with times in half windows and values from the centre's.

    Of powers 0 to 4 of the time, (5, K); of powers 0 to 2 times the value, (3, K); the first and last time, (K,).
    """
    sums, right = np.zeros((5, stop - start)), np.zeros((3, stop - start))
    lowest, highest = np.zeros(stop - start), np.zeros(stop - start)
    for offset in range(-reach, reach + 1):
        first, last = max(start, -offset), min(stop, len(time_s) - offset)
        if last <= first:
            continue
        rows, others, own = slice(first - start, last - start), slice(first + offset, last + offset), slice(first, last)
        scaled = (time_s[others] - time_s[own]) / half_window_s
        inside = (np.abs(scaled) <= 1.0 + 1e-9).astype(float)
        scaled *= inside
        moved = (value[others] - value[own]) * inside
        square = scaled * scaled
        sums[0, rows] += inside
        sums[1, rows] += scaled
        sums[2, rows] += square
        sums[3, rows] += square * scaled
        sums[4, rows] += square * square
        right[0, rows] += moved
        right[1, rows] += moved * scaled
        right[2, rows] += moved * square
        np.minimum(lowest[rows], scaled, out=lowest[rows])
        np.maximum(highest[rows], scaled, out=highest[rows])
    return sums, right, lowest, highest


def _solve(sums: Array, right: Array) -> Array:
    """(3, K) coefficients from the normal equations, by Cramer's rule."""
    s0, s1, s2, s3, s4 = sums
    # Cofactors of the symmetric matrix [[s0 s1 s2], [s1 s2 s3], [s2 s3 s4]].
    a, b, c = s2 * s4 - s3 * s3, s2 * s3 - s1 * s4, s1 * s3 - s2 * s2
    d, e, f = s0 * s4 - s2 * s2, s1 * s2 - s0 * s3, s0 * s2 - s1 * s1
    determinant = s0 * a + s1 * b + s2 * c
    r0, r1, r2 = right
    numerators = np.stack([a * r0 + b * r1 + c * r2, b * r0 + d * r1 + e * r2, c * r0 + e * r1 + f * r2])
    return np.asarray(numerators / determinant)
