"""Compiled algebra of the unscented filter for many states, on vectors, by large matrix products.

`unscented` keeps roots of covariances, by Householder reflections over all 2n + 1 sigma points: 4 n^3 operations that
no library does at the speed of a matrix product, which is right for the few states of a vehicle and far too slow for
hundreds. Here covariances are full matrices; two Cholesky factors and five products a step are left to BLAS. The price
is that a correction subtracts: where a measurement shrinks a variance by more than 1e12 at once, digits are gone.

Sigma points are columns (., 2n + 1): the mean, the mean plus the spread times each column of the lower root, and minus.
With half the difference a_k and half the sum b_k of what becomes of the points of column k, both from the centre's,

    mean = centre + d with d = sum b_k / s^2,   covariance = sum (a_k a_k^T + b_k b_k^T) / s^2,

where s is the spread: the same as van der Merwe's weighted sums with s = alpha sqrt(n + kappa) and beta = alpha^2, but
a sum of squares, without the large weights of either sign that a small alpha has. The cross-covariance with the state
before, whose own b_k is zero, is L A^T / s. What is linear in the state has no b_k: the part of the covariance that
comes from them is how much the model bends within the state's uncertainty.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_BLOCK = 32


@njit(cache=True, error_model="numpy")
def lower_root(covariance: Array) -> Array:
    """Lower L (n, n) with L L^T = P; numpy.linalg.LinAlgError where P is not positive definite."""
    return np.linalg.cholesky(covariance)  # type: ignore[return-value]  # NumPy says "floating" only


@njit(cache=True, error_model="numpy")
def draw(mean: Array, root: Array, spread: float, points: Array) -> None:
    """Into `points` (r, 2n + 1) those of some elements (r,) of the mean, and the same rows (r, n) of the root."""
    n = root.shape[1]
    for j in range(mean.shape[0]):
        row, value, deviation = points[j], mean[j], root[j]
        row[0] = value
        plus, minus = row[1 : 1 + n], row[1 + n : 1 + 2 * n]
        for k in range(n):
            step = spread * deviation[k]
            plus[k] = value + step
            minus[k] = value - step


@njit(cache=True, error_model="numpy")
def deviations(points: Array, spread: float) -> tuple[Array, Array, Array]:
    """What became of the points (r, 2n + 1): its mean (r,), and a_k / s and b_k / s (r, n)."""
    r, n, share = points.shape[0], points.shape[1] // 2, 0.5 / spread
    mean, odd, even = np.empty(r), np.empty((r, n)), np.empty((r, n))
    for i in range(r):
        row = points[i]
        plus, minus, a, b = row[1 : 1 + n], row[1 + n : 1 + 2 * n], odd[i], even[i]
        centre, total = row[0], 0.0
        for k in range(n):
            up, down = plus[k] - centre, minus[k] - centre
            a[k] = share * (up - down)
            b[k] = share * (up + down)
        for k in range(n):
            total += b[k]
        mean[i] = centre + total / spread
    return mean, odd, even


@njit(cache=True, error_model="numpy")
def predicted(mean: Array, covariance: Array, root: Array, moved: Array, spread: float) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n), its lower half, once the last states have `moved` (r, 2n + 1); others rest."""
    fixed = mean.shape[0] - moved.shape[0]
    centre, odd, even = deviations(moved, spread)
    after, out, block = mean.copy(), covariance.copy(), np.zeros((moved.shape[0], moved.shape[0]))
    add_square(1.0, odd, block)
    add_square(1.0, even, block)
    if fixed > 0:
        resting = np.ascontiguousarray(root[:fixed, :fixed])
        out[fixed:, :fixed] = np.dot(np.ascontiguousarray(odd[:, :fixed]), resting.T)
    out[fixed:, fixed:], after[fixed:] = block, centre
    return after, out


@njit(cache=True, error_model="numpy")
def expected(
    mean: Array,
    covariance: Array,
    outputs: Array,
    places: Indices,
    spread: float,
    root: Array,
    at: Array,
    elsewhere: bool,
) -> tuple[Array, Array, Array, Array]:
    """Of a model's outputs (b, 2n + 1), and then of the states at `places` (l,), which are measured as they are.

    The points are those of the mean `at` (n,) and of a lower root. Where they were drawn `elsewhere` than from the
    state's own moments, by the statistical linearisation there (Garcia-Fernandez, Svensson, Morelande, Sarkka,
    "Posterior linearization filter", 2015).

    Returns
    -------
    Means (b + l,); covariance (b + l, b + l), its lower half; that with the state (b + l, n); what bending adds (b, b).
    """
    found, odd, even = deviations(outputs, spread)
    size, both = len(found), len(found) + len(places)
    means, bending = np.empty(both), np.zeros((size, size))
    total, cross = np.zeros((both, both)), np.empty((both, len(mean)))
    add_square(1.0, even, bending)
    if elsewhere:
        slope = np.ascontiguousarray(np.linalg.solve(root.T, odd.T).T)
        products = np.dot(slope, covariance)
        found += np.dot(slope, mean - at)
        cross[:size], total[:size, :size] = products, np.dot(products, slope.T)
    else:
        times_transposed_root(odd, root, cross[:size])
        add_square(1.0, odd, total)
    means[:size] = found
    total[:size, :size] += bending
    for i in range(len(places)):
        row, place = size + i, places[i]
        means[row], cross[row] = mean[place], covariance[place]
        for j in range(size):
            total[row, j] = cross[j, place]
        for j in range(i + 1):
            total[row, size + j] = covariance[place, places[j]]
    return means, total, cross, bending


@njit(cache=True, error_model="numpy")
def corrected(mean: Array, covariance: Array, innovation: Array, total: Array, cross: Array) -> tuple[Array, Array]:
    """Mean (n,) and covariance (n, n) after an innovation (m,); `total` is its covariance's lower half."""
    right = np.empty((cross.shape[0], cross.shape[1] + 1))
    right[:, :-1], right[:, -1] = cross, innovation
    mirror(total)
    solve_lower(lower_root(total), right)
    gain, out = np.ascontiguousarray(right[:, :-1].T), covariance.copy()
    add_square(-1.0, gain, out)
    mirror(out)
    return mean + np.dot(gain, np.ascontiguousarray(right[:, -1])), out


@njit(cache=True, error_model="numpy")
def add_square(sign: float, factor: Array, out: Array) -> None:
    """Add sign A A^T of A (r, n) to the lower half of `out` (>= r, >= r); what is above it is of no use afterwards."""
    r = factor.shape[0]
    if r == 0:
        return
    step = r if r <= 3 * _BLOCK else (r + 3) // 4  # by bands: half of the product would be for nothing
    for first in range(0, r, step):
        last = min(first + step, r)
        product = np.dot(factor[first:last], factor[:last].T)
        for i in range(first, last):
            row, added = out[i], product[i - first]
            for j in range(last):
                row[j] += sign * added[j]


@njit(cache=True, error_model="numpy")
def times_transposed_root(factor: Array, root: Array, out: Array) -> None:
    """Into `out` (r, n) A L^T of A (r, n) and a lower root (n, n), without the half of the root that is zero."""
    n = root.shape[0]
    if factor.shape[0] == 0:
        return
    step = n if n <= 3 * _BLOCK else (n + 3) // 4
    for first in range(0, n, step):
        last = min(first + step, n)
        left, band = np.ascontiguousarray(factor[:, :last]), np.ascontiguousarray(root[first:last, :last])
        out[:, first:last] = np.dot(left, band.T)


@njit(cache=True, error_model="numpy")
def solve_lower(root: Array, right: Array) -> None:
    """In place, X (m, c) with L X = B (m, c), forward substitution block by block."""
    m, columns = right.shape
    for first in range(0, m, _BLOCK):
        last = min(first + _BLOCK, m)
        if first > 0:
            done = np.dot(np.ascontiguousarray(root[first:last, :first]), right[:first])
            right[first:last] -= done
        for i in range(first, last):
            row = right[i]
            for j in range(first, i):
                factor, other = root[i, j], right[j]
                for c in range(columns):
                    row[c] -= factor * other[c]
            inverse = 1.0 / root[i, i]
            for c in range(columns):
                row[c] *= inverse


@njit(cache=True, error_model="numpy")
def mirror(matrix: Array) -> None:
    """The lower half of a square matrix into its upper half."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
