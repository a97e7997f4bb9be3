"""Height, velocity and acceleration of a track by a parabola around each sample: Savitzky and Golay with gaps.

The samples need not be evenly spaced, so that lost frames and jittering stamps are no trouble.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
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
    step = float(np.min(np.diff(time_s))) if count > 1 else half_window_s
    step = max(step, 0.2 * float(np.median(np.diff(time_s)))) if count > 1 else step
    reach = min(int(half_window_s / step + 1e-6), 200)
    padded_time = np.concatenate((np.full(reach, -np.inf), time_s, np.full(reach, np.inf)))
    padded_value = np.concatenate((np.zeros(reach), value, np.zeros(reach)))
    times, values = sliding_window_view(padded_time, 2 * reach + 1), sliding_window_view(padded_value, 2 * reach + 1)
    out = np.full((3, count), np.nan)
    for start in range(0, count, _CHUNK):
        rows = slice(start, min(start + _CHUNK, count))
        centre = time_s[rows, None]
        scaled = (times[rows] - centre) / half_window_s
        used = np.abs(scaled) <= 1.0 + 1e-9
        scaled = np.where(used, scaled, 0.0)
        level = value[rows, None]
        deviations = np.where(used, values[rows] - level, 0.0)
        powers = np.stack([used.astype(float), scaled, scaled**2])
        normal = np.einsum("ikn,jkn->kij", powers, powers)
        right = np.einsum("ikn,kn->ki", powers, deviations)
        good = (used.sum(axis=1) >= _FEWEST_SAMPLES) & (scaled.min(axis=1) < -0.3) & (scaled.max(axis=1) > 0.3)
        if good.any():
            fit = np.linalg.solve(normal[good], right[good][..., None])[..., 0]
            index = np.flatnonzero(good) + start
            out[0, index] = fit[:, 0] + value[index]
            out[1, index] = fit[:, 1] / half_window_s
            out[2, index] = 2.0 * fit[:, 2] / half_window_s**2
    return out[0], out[1], out[2]
