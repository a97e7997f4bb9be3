"""Compiled eigenfunctions of the Laplace operator on a box: products of sines, many places at once."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Taylor's polynomials of cos(pi p / 2) and sin(pi p / 2) / p in p^2, highest power first: for |p| <= 1 they hold to
# rounding, and a processor works at both at once, which it does not at calls of the library.
_TERMS = 12
_COSINE = np.array([(-1) ** k * (0.5 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(_TERMS)][::-1])
_SINE = np.array([(-1) ** k * (0.5 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(_TERMS)][::-1])


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def eigenfunctions(
    places: Array, centre: Array, half_widths: Array, reach: float, indices: Indices, factors: Array, out: Array
) -> int:
    """Into `out` (K, M) the functions at `places` (K, d), times `factors` (M,); how many places were clamped.

    A place beyond the share `reach` of the half widths (d,) from the centre is taken to lie there; one that is no
    number, at the lower end. With t = pi (p + 1) / 2, p the place in half widths, the factors are sin(j t) for whole
    numbers j, which all follow from the first: sin(j t) = 2 cos t sin((j - 1) t) - sin((j - 2) t).
    """
    dimensions, count, highest, clamped = places.shape[1], factors.size, 0, 0
    chosen = np.empty((dimensions, count), np.uint64)  # unsigned: no index needs to be looked at for its sign
    for m in range(count):
        for i in range(dimensions):
            chosen[i, m] = indices[m, i]
            highest = max(highest, indices[m, i])
    sines = np.empty(highest + 1)
    for k in range(places.shape[0]):
        result, outside = out[k], False
        for m in range(count):
            result[m] = factors[m]
        for i in range(dimensions):
            place = (places[k, i] - centre[i]) / half_widths[i]
            if not abs(place) <= reach:
                place = reach if place > reach else -reach
                outside = True
            square, cosine, sine = place * place, _COSINE[0], _SINE[0]
            for term in range(1, _TERMS):
                cosine = cosine * square + _COSINE[term]
                sine = sine * square + _SINE[term]
            twice_cosine = -2.0 * place * sine
            sines[1], last, before = cosine, cosine, 0.0
            for j in range(2, highest + 1):
                last, before = twice_cosine * last - before, last
                sines[j] = last
            wanted = chosen[i]
            for m in range(count):
                result[m] *= sines[wanted[m]]
        clamped += outside
    return clamped
