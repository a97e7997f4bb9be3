"""Compiled predictions of a sparse model: their cost depends on the number of inducing points, not of training points.

Outputs are sorted into groups that share length scales and inducing points. g groups, M inducing points each, d inputs,
m outputs:

    inducing (g, d, M)              inducing points over the group's length scales
    inverse_length_scales (g, d)    1 over the inputs' units
    groups (m,) int64               the group of each output
    weights (m, M)                  mean = c^T weights, c the unit covariances with the inducing points
    projections (g, M, M)           variance = signal_variance (1 - sum shrinkages (projection c)^2)
    shrinkages (m, M)               in [0, 1)
    signal_variances (m,)

All arrays are contiguous float64 but for `groups`. The functions can be called from other kernels and from Python; they
check nothing.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.learning.kernels import covariance_row

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@njit(cache=True, error_model="numpy", fastmath={"contract", "reassoc"})
def _dot(left: Array, right: Array) -> float:
    """Sum of products, in an order that suits the processor's vectors."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


@njit(cache=True, error_model="numpy")
def predict_means(
    inducing: Array,
    inverse_length_scales: Array,
    groups: Indices,
    weights: Array,
    inputs: Array,
    first: int,
    stop: int,
) -> Array:
    """Means (k, stop - first) of outputs `first` to `stop` (left out) at inputs (k, d), in the targets' units."""
    count, d = inputs.shape
    means = np.empty((count, stop - first))
    covariances, scaled = np.empty(weights.shape[1]), np.empty(d)
    for k in range(count):
        group = -1
        for output in range(first, stop):
            if groups[output] != group:
                group = groups[output]
                for i in range(d):
                    scaled[i] = inputs[k, i] * inverse_length_scales[group, i]
                covariance_row(scaled, inducing[group], 0, covariances)
            means[k, output - first] = _dot(weights[output], covariances)
    return means


@njit(cache=True, error_model="numpy")
def predict_variances(
    inducing: Array,
    inverse_length_scales: Array,
    groups: Indices,
    projections: Array,
    shrinkages: Array,
    signal_variances: Array,
    inputs: Array,
    first: int,
    stop: int,
) -> Array:
    """Latent variances (k, stop - first), without noise, of outputs `first` to `stop` (left out) at inputs (k, d)."""
    count, d = inputs.shape
    size = shrinkages.shape[1]
    variances = np.empty((count, stop - first))
    covariances, scaled, squares = np.empty(size), np.empty(d), np.empty(size)
    for k in range(count):
        group = -1
        for output in range(first, stop):
            if groups[output] != group:
                group = groups[output]
                for i in range(d):
                    scaled[i] = inputs[k, i] * inverse_length_scales[group, i]
                covariance_row(scaled, inducing[group], 0, covariances)
                for j in range(size):
                    projected = _dot(projections[group, j], covariances)
                    squares[j] = projected * projected
            share = 1.0 - _dot(shrinkages[output], squares)
            variances[k, output - first] = signal_variances[output] * max(share, 0.0)
    return variances
