"""Compiled sums of the normal-inverse-gamma statistics of many particles; what they mean is said where they are called.

Shapes: N particles, M weights, p outputs, B matrices shared by particles. Sums run in an order that suits vector
instructions (`reassoc`): results are the same in every run on a machine, and differ by rounding from one to another.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
_SUMS = {"contract", "reassoc"}


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def multiply(matrices: Array, chosen: Indices, scale: float, vectors: Array, out: Array) -> None:
    """Into `out` (N, M) scale times matrix chosen[i] of (B, M, M) times row i of `vectors` (N, M)."""
    m = vectors.shape[1]
    for i in range(vectors.shape[0]):
        matrix, vector = matrices[chosen[i]], vectors[i]
        for row in range(m):
            line = matrix[row]
            total = 0.0
            for j in range(m):
                total += line[j] * vector[j]
            out[i, row] = scale * total


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def take_columns(matrices: Array, chosen: Indices, scale: float, column: int, out: Array) -> None:
    """Into `out` (N, M) scale times the column of matrix chosen[i] of (B, M, M), which are symmetric."""
    m = out.shape[1]
    for i in range(out.shape[0]):
        line = matrices[chosen[i], column]
        for j in range(m):
            out[i, j] = scale * line[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def subtract_outer(factors: Array, chosen: Indices, scale: float, vectors: Array, out: Array) -> None:
    """From `out` (N, M) subtract scale u (u . vector), u row chosen[i] of `factors`, vector of `vectors` (N, M)."""
    m = vectors.shape[1]
    for i in range(vectors.shape[0]):
        u, vector, line = factors[chosen[i]], vectors[i], out[i]
        total = 0.0
        for j in range(m):
            total += u[j] * vector[j]
        total *= scale
        for j in range(m):
            line[j] -= total * u[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def subtract_outer_column(factors: Array, chosen: Indices, scale: float, column: int, out: Array) -> None:
    """The same for the unit vector along `column`."""
    m = out.shape[1]
    for i in range(out.shape[0]):
        u, line = factors[chosen[i]], out[i]
        weight = scale * u[column]
        for j in range(m):
            line[j] -= weight * u[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def fold(matrices: Array, chosen: Indices, scale: float, factors: Array, scales: Array, out: Array) -> None:
    """Into `out` (B, M, M) scale times matrix chosen[b] less sum_r scales[r] u_r u_r^T, u_r in `factors` (B, R, M)."""
    m, ranks = out.shape[1], factors.shape[1]
    for b in range(out.shape[0]):
        matrix, vectors, result = matrices[chosen[b]], factors[b], out[b]
        for i in range(m):
            line, row = matrix[i], result[i]
            for j in range(m):
                row[j] = scale * line[j]
        for r in range(0, ranks - 3, 4):  # four at once: a row is then read and written once for four
            u0, u1, u2, u3 = vectors[r], vectors[r + 1], vectors[r + 2], vectors[r + 3]
            for i in range(m):
                a0, a1, a2, a3 = scales[r] * u0[i], scales[r + 1] * u1[i], scales[r + 2] * u2[i], scales[r + 3] * u3[i]
                row = result[i]
                for j in range(m):
                    row[j] -= a0 * u0[j] + a1 * u1[j] + a2 * u2[j] + a3 * u3[j]
        for r in range(ranks - ranks % 4, ranks):
            u = vectors[r]
            for i in range(m):
                weight, row = scales[r] * u[i], result[i]
                for j in range(m):
                    row[j] -= weight * u[j]
        for i in range(m):  # forgetting would let what is not symmetric by rounding grow without end
            row = result[i]
            for j in range(i):
                result[j, i] = row[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def observe_zero(
    columns: Array, coordinate: int, precision: float, means: Array, scatters: Array, factors: Array
) -> None:
    """Observe that weight `coordinate` is zero: in place in `means` (N, p, M) and `scatters` (N, p), and into `factors`
    (N, M) the root of what C loses.

    `columns` (N, M) are those of the covariances at the coordinate, `precision` is what it is observed with.
    """
    m = columns.shape[1]
    for i in range(columns.shape[0]):
        column = columns[i]
        gain = precision / (1.0 + precision * column[coordinate])
        root = np.sqrt(gain)
        for j in range(m):
            factors[i, j] = root * column[j]
        for q in range(means.shape[1]):
            mean = means[i, q]
            value = mean[coordinate]
            scatters[i, q] += gain * value * value
            for j in range(m):
                mean[j] -= gain * value * column[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def row_products(rows: Array, vectors: Array, out: Array) -> None:
    """Into `out` (N, p) the products of `rows` (N, p, M) with `vectors` (N, M)."""
    m = vectors.shape[1]
    for i in range(vectors.shape[0]):
        vector = vectors[i]
        for q in range(rows.shape[1]):
            row = rows[i, q]
            total = 0.0
            for j in range(m):
                total += row[j] * vector[j]
            out[i, q] = total


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def observe(gains: Array, widths: Array, errors: Array, means: Array, scatters: Array, factors: Array) -> None:
    """One sample of each output: in place in `means` (N, p, M) and `scatters` (N, p), and into `factors`
    (N, M) the root of what C loses.

    `gains` (N, M) are C phi, `widths` (N,) 1 + phi^T C phi, `errors` (N, p) the samples less their predictions.
    """
    m = gains.shape[1]
    for i in range(gains.shape[0]):
        gain, inverse = gains[i], 1.0 / widths[i]
        root = np.sqrt(inverse)
        for j in range(m):
            factors[i, j] = root * gain[j]
        for q in range(means.shape[1]):
            mean = means[i, q]
            share = errors[i, q] * inverse
            scatters[i, q] += errors[i, q] * share
            for j in range(m):
                mean[j] += share * gain[j]
