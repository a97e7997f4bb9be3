"""Compiled algebra of the unscented filter for many states, on vectors, by large matrix products.

`unscented` keeps roots of covariances, by Householder reflections over all 2n + 1 sigma points: 4 n^3 operations that
no library does at the speed of a matrix product, which is right for the few states of a vehicle and far too slow for
hundreds. Here covariances are full matrices; two Cholesky factors and five products a step are left to BLAS. The price
is that a correction subtracts: where a measurement shrinks a variance by more than 1e12 at once, digits are gone.

Sigma points are columns (., 2n + 1): the mean, the mean plus the spread times each column of the lower root, and minus.
With half the difference a_k and half the sum b_k of what becomes of the points of column k, both from the centre's,

    mean = centre + d with d = sum b_k / s^2,   covariance = sum (a_k a_k^T + b_k b_k^T) / s^2 + excess d d^T,

where the spread s is alpha sqrt(n + kappa), and the excess is beta - alpha^2: the same as van der Merwe's weighted
sums, without the large weights of either sign that a small alpha has. With no excess it is a sum of squares. The
cross-covariance with the state before, whose own b_k is zero, is L A^T / s. What is linear in the state has no b_k: the
part of the covariance that comes from them is how much the model bends within the state's uncertainty.
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
def draw(mean: Array, root: Array, spread: float, rows: Indices, points: Array) -> None:
    """Into the rows `rows` (n,) of `points` (., >= 2n + 1) the sigma points of a mean (n,) and a lower root (n, n)."""
    n = mean.shape[0]
    for j in range(n):
        row, value, deviation = points[rows[j]], mean[j], root[j]
        row[0] = value
        plus, minus = row[1 : 1 + n], row[1 + n : 1 + 2 * n]
        for k in range(n):
            step = spread * deviation[k]
            plus[k] = value + step
            minus[k] = value - step


@njit(cache=True, error_model="numpy")
def deviations(points: Array, rows: Indices, n: int, spread: float, odd: Array, even: Array, shift: Array) -> None:
    """Into `odd` and `even` (r, n) the a_k / s and b_k / s of some rows (r,) of moved points; d into `shift` (r,)."""
    share = 0.5 / spread
    for i in range(rows.shape[0]):
        row = points[rows[i]]
        plus, minus, a, b = row[1 : 1 + n], row[1 + n : 1 + 2 * n], odd[i], even[i]
        centre, total = row[0], 0.0
        for k in range(n):
            up, down = plus[k] - centre, minus[k] - centre
            a[k] = share * (up - down)
            b[k] = share * (up + down)
        for k in range(n):
            total += b[k]
        shift[i] = total / spread


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
