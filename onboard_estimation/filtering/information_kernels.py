"""Compiled solves with an information matrix for each particle; of these the upper triangles: (N, M (M + 1) / 2)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
_SUMS = {"contract", "reassoc"}


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _eliminate(system: Array, first: int, last: int) -> None:
    """The rows `first` to `first` + 4 (or to `last`), and what they take off the rows below, up to `last`.

    Four at once: a row below is then read and written once for four. All loops run over slices, which begin at their
    first element: indices that might be negative are not turned into vector instructions.
    """
    end = min(first + 4, last)
    for k in range(first, end):
        row = system[k, k:]
        inverse = 1.0 / np.sqrt(row[0])
        for j in range(row.size):
            row[j] *= inverse
        row[0] = inverse
        for i in range(1, end - k):
            weight, part, target = row[i], row[i:], system[k + i, k + i :]
            for j in range(target.size):
                target[j] -= weight * part[j]
    if end < first + 4:
        return
    for i in range(end, last):
        r0, r1, r2, r3 = system[first, i:], system[first + 1, i:], system[first + 2, i:], system[first + 3, i:]
        a0, a1, a2, a3 = r0[0], r1[0], r2[0], r3[0]
        target = system[i, i:]
        for j in range(target.size):
            target[j] -= a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def solve(system: Array, solutions: Array) -> None:
    """Into `solutions` (q, M) A^-1 b for the q columns b that follow those of A in the rows of `system` (M, M + q).

    Only A's upper triangle is read. A = U^T U; the columns on the right turn into U^-T b as the rows are eliminated.
    `system` is used up: its upper triangle holds U, and the inverses of U's diagonal.
    """
    m = system.shape[0]
    for first in range(0, m, 4):
        _eliminate(system, first, m)
    for k in range(m - 1, -1, -1):
        row = system[k, k + 1 : m]
        for q in range(solutions.shape[0]):
            known, total = solutions[q, k + 1 :], system[k, m + q]
            for j in range(row.size):
                total -= row[j] * known[j]
            solutions[q, k] = total * system[k, k]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def _scaled_precision(triangle: Array, kept: float, roots: Array, system: Array) -> None:
    """Into the left of `system` I + D kept R D, D the roots of the prior variances: none is too small for that."""
    m, start = roots.size, 0
    for k in range(m):
        row, weight, others, part = system[k, k:m], kept * roots[k], roots[k:], triangle[start : start + m - k]
        for j in range(row.size):
            row[j] = weight * others[j] * part[j]
        row[0] += 1.0
        start += m - k


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def posteriors(
    information: Array,
    moments: Array,
    ancestors: Indices,
    kept: float,
    roots: Array,
    functions: Array,
    gains: Array,
    means: Array,
) -> None:
    """Into `gains` (N, M) C phi and into `means` (N, p, M) C s1 of the children of `ancestors`.

    C^-1 is the inverse of the prior's variances, `roots` (N, M) squared, plus `kept` of the ancestor's `information`;
    s1 is `kept` of its `moments` (N, p, M); `functions` (N, M) are the children's phi.
    """
    m, outputs = functions.shape[1], means.shape[1]
    system, solutions = np.empty((m, m + 1 + outputs)), np.empty((1 + outputs, m))
    for i in range(functions.shape[0]):
        ancestor, root = ancestors[i], roots[i]
        _scaled_precision(information[ancestor], kept, root, system)
        for j in range(m):
            system[j, m] = root[j] * functions[i, j]
            for q in range(outputs):
                system[j, m + 1 + q] = root[j] * kept * moments[ancestor, q, j]
        solve(system, solutions)
        for j in range(m):
            gains[i, j] = root[j] * solutions[0, j]
            for q in range(outputs):
                means[i, q, j] = root[j] * solutions[1 + q, j]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def add_samples(
    information: Array,
    moments: Array,
    ancestors: Indices,
    kept: float,
    functions: Array,
    samples: Array,
    weight: float,
    new_information: Array,
    new_moments: Array,
) -> None:
    """Into the new arrays `kept` of the ancestors' sums, and `weight` times phi phi^T and phi k of `samples` (N, p)."""
    m = functions.shape[1]
    for i in range(functions.shape[0]):
        ancestor, phi, start = ancestors[i], functions[i], 0
        for k in range(m):
            old, new = information[ancestor, start : start + m - k], new_information[i, start : start + m - k]
            value, others = weight * phi[k], phi[k:]
            for j in range(new.size):
                new[j] = kept * old[j] + value * others[j]
            start += m - k
        for q in range(samples.shape[1]):
            for j in range(m):
                new_moments[i, q, j] = kept * moments[ancestor, q, j] + weight * phi[j] * samples[i, q]


@njit(cache=True, error_model="numpy", fastmath=_SUMS)
def covariances(information: Array, roots: Array, out: Array) -> None:
    """Into `out` (N, M, M) C of every particle."""
    m = roots.shape[1]
    system = np.empty((m, 2 * m))
    for i in range(out.shape[0]):
        _scaled_precision(information[i], 1.0, roots[i], system)
        for k in range(m):
            for j in range(m):
                system[k, m + j] = roots[i, k] if k == j else 0.0
        solve(system, out[i])
        for k in range(m):
            for j in range(m):
                out[i, k, j] *= roots[i, j]
