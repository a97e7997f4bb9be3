"""Compiled eigenfunctions of the Laplace operator on a box: products of sines, many places at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@njit(cache=True, error_model="numpy")
def eigenfunctions(
    places: Array, centre: Array, half_widths: Array, reach: float, indices: Indices, factors: Array, out: Array
) -> int:
    """Into `out` (K, M) the functions at `places` (K, d), times `factors` (M,); how many places were clamped.

    A place beyond the share `reach` of the half widths (d,) from the centre is taken to lie there; one that is no
    number, at the lower end. sin(j t) of all j follow from sin t and cos t: sin(j t) = 2 cos t sin((j - 1) t) - sin(
    (j - 2) t).
    """
    dimensions, highest = places.shape[1], 0
    for m in range(indices.shape[0]):
        for i in range(dimensions):
            highest = max(highest, indices[m, i])
    length, clamped = highest + 1, 0
    sines = np.zeros(dimensions * length)
    chosen = np.empty(indices.shape, np.uint64)  # unsigned: no index needs to be looked at for its sign
    for m in range(indices.shape[0]):
        for i in range(dimensions):
            chosen[m, i] = i * length + indices[m, i]
    for k in range(places.shape[0]):
        outside = False
        for i in range(dimensions):
            place = (places[k, i] - centre[i]) / half_widths[i]
            if not abs(place) <= reach:
                place = reach if place > reach else -reach
                outside = True
            angle = 0.5 * math.pi * (place + 1.0)
            row, twice_cosine = sines[i * length : (i + 1) * length], 2.0 * math.cos(angle)
            row[1] = math.sin(angle)
            for j in range(2, length):
                row[j] = twice_cosine * row[j - 1] - row[j - 2]
        clamped += outside
        result = out[k]
        for m in range(result.size):
            value = factors[m]
            for i in range(dimensions):
                value *= sines[chosen[m, i]]
            result[m] = value
    return clamped
