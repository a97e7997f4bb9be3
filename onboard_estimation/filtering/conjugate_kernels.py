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
def _multiply_shared(matrices: Array, lineage: Indices, scale: float, vectors: Array, out: Array) -> None:
    """Into `out` (N, M) scale times matrix lineage[i] of (B, M, M) times row i; four at once where they share it."""
    count, m = vectors.shape
    i = 0
    while i < count:
        matrix = matrices[lineage[i]]
        if i + 3 < count and lineage[i] == lineage[i + 1] == lineage[i + 2] == lineage[i + 3]:
            v0, v1, v2, v3 = vectors[i], vectors[i + 1], vectors[i + 2], vectors[i + 3]
            for row in range(m):
                entries = matrix[row]
                s0 = s1 = s2 = s3 = 0.0
                for j in range(m):
                    s0 += entries[j] * v0[j]
                    s1 += entries[j] * v1[j]
                    s2 += entries[j] * v2[j]
                    s3 += entries[j] * v3[j]
                out[i, row], out[i + 1, row] = scale * s0, scale * s1
                out[i + 2, row], out[i + 3, row] = scale * s2, scale * s3
            i += 4
        else:
            vector = vectors[i]
            for row in range(m):
                entries = matrix[row]
                s0 = 0.0
                for j in range(m):
                    s0 += entries[j] * vector[j]
                out[i, row] = scale * s0
            i += 1


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def multiply(
    matrices: Array, losses: tuple[Array, ...], lineages: Indices, scales: Array, vectors: Array, out: Array
) -> None:
    """Into `out` (N, M) each particle's C times its row of `vectors` (N, M).

    C is scales[0] times the matrix lineages[0, i] of `matrices` (B, M, M), less scales[k] u u^T for k from 1 on, u the
    row lineages[k, i] of the (k - 1)-th loss. Losses go four at once: a vector is then read and written once for four.
    Of the tuple, whose length numba compiles for, only as many are looked at as `scales` (1 + K,) has.
    """
    _multiply_shared(matrices, lineages[0], scales[0], vectors, out)
    count, m = vectors.shape
    fours = (scales.size - 1) // 4 * 4
    for k in range(0, fours, 4):
        l0, l1, l2, l3 = losses[k], losses[k + 1], losses[k + 2], losses[k + 3]
        for i in range(count):
            u0, u1, u2, u3 = (
                l0[lineages[k + 1, i]],
                l1[lineages[k + 2, i]],
                l2[lineages[k + 3, i]],
                l3[lineages[k + 4, i]],
            )
            vector, line = vectors[i], out[i]
            s0 = s1 = s2 = s3 = 0.0
            for j in range(m):
                s0 += u0[j] * vector[j]
                s1 += u1[j] * vector[j]
                s2 += u2[j] * vector[j]
                s3 += u3[j] * vector[j]
            s0, s1, s2, s3 = scales[k + 1] * s0, scales[k + 2] * s1, scales[k + 3] * s2, scales[k + 4] * s3
            for j in range(m):
                line[j] -= s0 * u0[j] + s1 * u1[j] + s2 * u2[j] + s3 * u3[j]
    for k in range(fours, scales.size - 1):
        loss = losses[k]
        for i in range(count):
            u0, vector, line = loss[lineages[k + 1, i]], vectors[i], out[i]
            s0 = 0.0
            for j in range(m):
                s0 += u0[j] * vector[j]
            s0 *= scales[k + 1]
            for j in range(m):
                line[j] -= s0 * u0[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def write_out(
    matrices: Array, losses: tuple[Array, ...], lineages: Indices, scales: Array, count: int, out: Array
) -> None:
    """Into `out` (K, M, M) what C is, see `multiply`, of the K particles of `lineages`, of `count` losses."""
    m = out.shape[1]
    for i in range(out.shape[0]):
        matrix, written = matrices[lineages[0, i]], out[i]
        for row in range(m):
            for j in range(m):
                written[row, j] = scales[0] * matrix[row, j]
        for k in range(count):
            vector = losses[k][lineages[k + 1, i]]
            for row in range(m):
                share = scales[k + 1] * vector[row]
                for j in range(m):
                    written[row, j] -= share * vector[j]
        # Forgetting would let what is not symmetric by rounding grow without end.
        for row in range(m):
            for j in range(row):
                written[row, j] = written[j, row] = 0.5 * (written[row, j] + written[j, row])


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
def predict(weights: Array, gains: Array, functions: Array, means: Array, widths: Array) -> None:
    """Into `means` (N, p) weights . phi, and into `widths` (N,) 1 + gains . phi; `gains` (N, M) are C phi."""
    row_products(weights, functions, means)
    m = functions.shape[1]
    for i in range(functions.shape[0]):
        gain, phi = gains[i], functions[i]
        total = 0.0
        for j in range(m):
            total += gain[j] * phi[j]
        widths[i] = 1.0 + max(total, 0.0)


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def observe(gains: Array, widths: Array, errors: Array, means: Array, scatters: Array, factors: Array) -> None:
    """One sample of each output: in place in `means` (N, p, M) and `scatters` (N, p), and into `factors`
    (N, M) the root of what C loses.

    `gains` (N, M) are C phi, `widths` (N,) 1 / weight + phi^T C phi, `errors` (N, p) samples less predictions.
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
