"""Compiled matrices of rotations and cross products."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True)
def skew(x: float, y: float, z: float) -> Array:
    """(3, 3) matrix of the cross product with the vector (x, y, z) from the left."""
    out = np.zeros((3, 3))
    out[0, 1], out[0, 2] = -z, y
    out[1, 0], out[1, 2] = z, -x
    out[2, 0], out[2, 1] = -y, x
    return out


@njit(cache=True)
def rotation_matrix(x: float, y: float, z: float, w: float) -> Array:
    """(3, 3) rotation of a unit quaternion."""
    out = np.empty((3, 3))
    out[0, 0], out[1, 1], out[2, 2] = (
        1.0 - 2.0 * (y * y + z * z),
        1.0 - 2.0 * (x * x + z * z),
        1.0 - 2.0 * (x * x + y * y),
    )
    out[0, 1], out[1, 0] = 2.0 * (x * y - z * w), 2.0 * (x * y + z * w)
    out[0, 2], out[2, 0] = 2.0 * (x * z + y * w), 2.0 * (x * z - y * w)
    out[1, 2], out[2, 1] = 2.0 * (y * z - x * w), 2.0 * (y * z + x * w)
    return out
