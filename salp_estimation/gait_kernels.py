"""Compiled motion of a chain under rim speeds that are held from one instant to the next."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.chain_kernels import completed, propagate

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy")
def held(links: Array, start: Array, controls: Array, interval: float) -> Array:
    """States (K + 1, N + 2) from `start` (N + 2,) on under the rim speeds (K, N), each held for one interval, s.

    One Runge-Kutta step an interval.
    """
    links = completed(links)
    out = np.empty((controls.shape[0] + 1, start.shape[0]))
    out[0] = start
    for k in range(controls.shape[0]):
        out[k + 1] = propagate(links, out[k : k + 1], controls[k], interval, interval)[0]
    return out
