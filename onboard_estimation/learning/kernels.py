"""Compiled squared-exponential covariances: k(a, b) = s^2 exp(-1/2 sum_i (a_i - b_i)^2 / l_i^2).

Rasmussen & Williams, "Gaussian processes for machine learning", 2006, eq. (5.1) with one length scale per input. All
functions here take inputs divided by their length scales and transposed, (d, n): a row per input dimension, so that the
innermost loops run along points and become vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def decaying_exponential(x: float) -> float:
    """exp(-x) for x >= 0, to 1e-14 relative; exp(-700) beyond 700, NaN of NaN.

    A loop that calls the library's exp is not turned into vector instructions; a loop of this is, and is five times
    as fast. exp(-x) = 2^k exp(r) with |r| <= ln(2) / 2 and Taylor's polynomial of exp(r); the two constants are ln(2)
    split in two, as in FreeBSD's msun library (e_exp.c).
    """
    x = 700.0 if x > 700.0 else x
    k = np.rint(-1.4426950408889634 * x)
    r = -x - k * 6.93147180369123816490e-01 - k * 1.90821492927058770002e-10
    p = 1.0 / 39916800.0
    p = 1.0 / 3628800.0 + r * p
    p = 1.0 / 362880.0 + r * p
    p = 1.0 / 40320.0 + r * p
    p = 1.0 / 5040.0 + r * p
    p = 1.0 / 720.0 + r * p
    p = 1.0 / 120.0 + r * p
    p = 1.0 / 24.0 + r * p
    p = 1.0 / 6.0 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    p = 1.0 + r * p
    return p * np.int64((np.int64(k) + 1023) << 52).view(np.float64)


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def covariance_row(point: Array, points: Array, first: int, out: Array) -> None:
    """Into `out` (n,), from `first` on, the unit covariances of `point` (d,) with the columns of `points` (d, n)."""
    n = points.shape[1]
    for j in range(first, n):
        out[j] = 0.0
    for i in range(points.shape[0]):
        coordinate = point[i]
        row = points[i]
        for j in range(first, n):
            difference = row[j] - coordinate
            out[j] += difference * difference
    for j in range(first, n):
        out[j] = decaying_exponential(0.5 * out[j])


@njit(cache=True, error_model="numpy")
def cross_covariance(left: Array, right: Array) -> Array:
    """Unit covariances (k, n) of the columns of `left` (d, k) with those of `right` (d, n)."""
    out = np.empty((left.shape[1], right.shape[1]))
    for i in range(left.shape[1]):
        covariance_row(left[:, i].copy(), right, 0, out[i])
    return out


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def fill_covariance(points: Array, signal_variance: float, noise_variance: float, out: Array) -> None:
    """Into the upper triangle of `out` (n, n) the covariance of the targets at the columns of `points` (d, n)."""
    n = points.shape[1]
    for i in range(n):
        row = out[i]
        covariance_row(points[:, i].copy(), points, i, row)
        for j in range(i, n):
            row[j] *= signal_variance
        row[i] += noise_variance


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def likelihood_gradient_sums(points: Array, inverse: Array, weights: Array) -> tuple[Array, float, float]:
    """The three sums that eq. (5.9) needs, in one pass over the upper triangle of `inverse`.

    With P = a a^T - K^-1, a = K^-1 y (`weights`, (n,)), and C the unit covariance of the columns of `points` (d, n):

    Returns
    -------
    1/2 sum_jk P_jk C_jk (x_ij - x_ik)^2 for each input i, (d,); 1/2 sum_jk P_jk C_jk; 1/2 trace P.

    The squared differences are cheaper to compute anew than to fetch from memory: this pass takes a hundredth of the
    time that the inverse does.
    """
    d, n = points.shape
    sums = np.zeros(d)
    covariance = trace = 0.0
    row = np.empty(n)
    for j in range(n):
        covariance_row(points[:, j].copy(), points, j, row)
        above, weight = inverse[j], weights[j]
        diagonal = weight * weight - above[j]
        trace += 0.5 * diagonal
        covariance += 0.5 * diagonal
        for k in range(j + 1, n):
            row[k] *= weight * weights[k] - above[k]
            covariance += row[k]
        for i in range(d):
            coordinates, coordinate, total = points[i], points[i, j], 0.0
            for k in range(j + 1, n):
                difference = coordinates[k] - coordinate
                total += row[k] * difference * difference
            sums[i] += total
    return sums, covariance, trace
