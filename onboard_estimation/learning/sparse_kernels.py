"""Compiled covariances and predictions of a sparse model, whose cost grows with its inducing points alone.

Squared exponential, k(a, b) = s^2 exp(-1/2 sum_i (a_i - b_i)^2 / l_i^2): Rasmussen & Williams, "Gaussian processes for
machine learning", 2006, eq. (5.1) with one length scale per input. Points are divided by their length scales and
transposed, (d, n): a row per input dimension, so that the innermost loops run along points and become vector
instructions. M inducing points, d inputs, m outputs:

    inducing (d, M)                 inducing points over the length scales
    inverse_length_scales (d,)      1 over the inputs' units
    weights (m, M)                  mean = c^T weights, c the unit covariances with the inducing points
    projections (M, M)              variance = signal_variance (1 - sum shrinkages (projection c)^2)
    shrinkages (m, M)               in [0, 1)
    signal_variances (m,)

All arrays are contiguous float64. The functions can be called from other kernels and from Python; they check nothing.
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
def covariance_row(point: Array, points: Array, out: Array) -> None:
    """Into `out` (n,) the unit covariances of `point` (d,) with the columns of `points` (d, n)."""
    n = points.shape[1]
    for j in range(n):
        out[j] = 0.0
    for i in range(points.shape[0]):
        coordinate = point[i]
        row = points[i]
        for j in range(n):
            difference = row[j] - coordinate
            out[j] += difference * difference
    for j in range(n):
        out[j] = decaying_exponential(0.5 * out[j])


@njit(cache=True, error_model="numpy")
def cross_covariance(left: Array, right: Array) -> Array:
    """Unit covariances (k, n) of the columns of `left` (d, k) with those of `right` (d, n)."""
    out = np.empty((left.shape[1], right.shape[1]))
    for i in range(left.shape[1]):
        covariance_row(left[:, i].copy(), right, out[i])
    return out


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _dot(left: Array, right: Array) -> float:
    """Sum of products, in an order that suits the processor's vectors."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(cache=True, error_model="numpy")
def predict_means(inducing: Array, inverse_length_scales: Array, weights: Array, inputs: Array) -> Array:
    """Means (k, m) at inputs (k, d), in the targets' units."""
    means, covariances = np.empty((inputs.shape[0], weights.shape[0])), np.empty(weights.shape[1])
    for k in range(inputs.shape[0]):
        covariance_row(inputs[k] * inverse_length_scales, inducing, covariances)
        for output in range(weights.shape[0]):
            means[k, output] = _dot(weights[output], covariances)
    return means


@njit(cache=True, error_model="numpy")
def predict_variances(
    inducing: Array,
    inverse_length_scales: Array,
    projections: Array,
    shrinkages: Array,
    signal_variances: Array,
    inputs: Array,
) -> Array:
    """Latent variances (k, m), without noise, at inputs (k, d)."""
    count, size = inputs.shape[0], shrinkages.shape[1]
    variances = np.empty((count, shrinkages.shape[0]))
    covariances, squares = np.empty(size), np.empty(size)
    for k in range(count):
        covariance_row(inputs[k] * inverse_length_scales, inducing, covariances)
        for j in range(size):
            projected = _dot(projections[j], covariances)
            squares[j] = projected * projected
        for output in range(shrinkages.shape[0]):
            share = 1.0 - _dot(shrinkages[output], squares)
            variances[k, output] = signal_variances[output] * max(share, 0.0)
    return variances
