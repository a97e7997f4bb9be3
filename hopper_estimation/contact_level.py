"""The height at which a body lands and leaves, from the kinks of its track: for ground whose height is not known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]

_COARSE_M = 0.008
_FINE_M = 0.002
_FEWEST_SAMPLES = 16
_STANCE_POWERS = (2, 3, 4, 5)


class ContactLevel(NamedTuple):
    """Height of a body at touchdown and liftoff, m, with its standard deviation."""

    height_m: float
    stddev_m: float


def contact_level(time_s: Array, height_m: Array, lowest_s: float, lands: bool, leaves: bool) -> ContactLevel | None:
    """The level at which a track through one stance has its kinks; None with too few samples or none that fits best.

    For a level, t_d and t_l are when the track crosses it. With t' = min(t, t_l) the model is

        z(t) = c_0 + c_1 t' + c_2 t'^2 + sum over k = 2 .. 5 of b_k max(t' - t_d, 0)^k         flight, then stance
             + d_1 max(t - t_l, 0) + d_2 max(t - t_l, 0)^2                                     flight again

    Height and velocity go on at touchdown, the acceleration jumps. At liftoff the velocity jumps too, since the body
    pulls the leg along. The model is linear for a given level, which is the one with the least squared residuals; its
    standard deviation follows from their size and curvature.

    Parameters
    ----------
    time_s, height_m
        (K,) samples of the stance with some 40 ms of flight before and after it.
    lowest_s
        Time of the lowest point.
    lands, leaves
        Whether the track has a touchdown and a liftoff. Without one, the samples on its side of the lowest point are
        not used.
    """
    used = np.ones(len(time_s), bool)
    used &= (time_s <= lowest_s) | leaves
    used &= (time_s >= lowest_s) | lands
    times, heights = time_s[used], height_m[used]
    if len(times) < _FEWEST_SAMPLES or not (lands or leaves):
        return None
    scale = max(times[-1] - times[0], 1e-3)
    x, lowest = (times - times[0]) / scale, (lowest_s - times[0]) / scale
    before, after = x <= lowest, x >= lowest

    def columns(level: float) -> Array:
        landing = _last_crossing(x[before], heights[before], level) if lands else 0.0
        leaving = -_last_crossing(-x[after][::-1], heights[after][::-1], level) if leaves else x[-1]
        held = np.minimum(x, leaving)
        flight = [np.ones_like(x), held, held**2]
        stance = [np.maximum(held - landing, 0.0) ** power for power in _STANCE_POWERS if lands or power > 2]
        rest = [np.maximum(x - leaving, 0.0), np.maximum(x - leaving, 0.0) ** 2] if leaves else []
        return np.column_stack([*flight, *stance, *rest])

    def cost(level: float) -> float:
        # What is left of the heights once the columns are taken out of them: the last element of the triangle.
        triangle = np.asarray(np.linalg.qr(np.column_stack([columns(level), heights]), mode="r"))
        return float(triangle[-1, -1] ** 2)

    bottom = float(heights.min())
    tops = [heights[before].max()] * lands + [heights[after].max()] * leaves
    grid = np.arange(bottom + 0.01, min(tops) - 0.01, _COARSE_M)
    if len(grid) < 3:
        return None
    costs = np.array([cost(level) for level in grid])
    best = int(np.argmin(costs))
    if best in (0, len(grid) - 1):
        return None
    bounds = (grid[best - 1], grid[best + 1])
    level = float(minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-5}).x)
    least = cost(level)
    curvature = (cost(level + _FINE_M) - 2.0 * least + cost(level - _FINE_M)) / _FINE_M**2
    variance = least / max(len(times) - columns(level).shape[1] - 1, 1)
    spread = float(np.sqrt(2.0 * variance / curvature)) if curvature > 0.0 else float(grid[-1] - grid[0])
    return ContactLevel(level, max(spread, 1e-6))


def _last_crossing(x: Array, height: Array, level: float) -> float:
    """Where a track that comes down crosses a level for the last time; its end if it does not."""
    above = np.flatnonzero(height > level)
    if not len(above) or above[-1] + 1 >= len(x):
        return float(x[-1])
    k = above[-1]
    return float(x[k] + (x[k + 1] - x[k]) * (height[k] - level) / (height[k] - height[k + 1]))
