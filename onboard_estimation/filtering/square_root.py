"""Compiled square-root algebra: covariances are kept as lower triangular factors, so that they stay positive."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix


class NotPositiveDefinite(ValueError):
    """A covariance that is not finite, or has a negative eigenvalue."""


@njit(cache=True)
def triangularise_into(a: NDArray[np.float64], lower: NDArray[np.float64], first: int | np.int64) -> None:
    """Into the rows of `lower` from `first` on the triangular L (n, n), diagonal >= 0, with L L^T = A A^T.

    `a` (n, m) is used up. Householder reflections on the rows of A. For the small matrices of filters this is faster
    than LAPACK's QR, whose set-up costs more than the work.
    """
    n, m = a.shape
    for k in range(n):
        square = 0.0
        for j in range(k, m):
            square += a[k, j] * a[k, j]
        norm = np.sqrt(square)
        for i in range(k):
            lower[first + i, k] = 0.0
        lower[first + k, k] = 0.0
        if norm > 0.0:
            lower[first + k, k] = norm
            alpha = -norm if a[k, k] >= 0.0 else norm
            pivot = a[k, k] - alpha
            a[k, k] = pivot
            # v = (pivot, a[k, k+1:]), H = I - 2 v v^T / |v|^2, |v|^2 = -2 alpha pivot
            scale = 1.0 / (-alpha * pivot)
            sign = -1.0 if alpha < 0.0 else 1.0
            for i in range(k + 1, n):
                dot = 0.0
                for j in range(k, m):
                    dot += a[i, j] * a[k, j]
                dot *= scale
                for j in range(k, m):
                    a[i, j] -= dot * a[k, j]
                lower[first + i, k] = sign * a[i, k]
        else:
            for i in range(k + 1, n):
                lower[first + i, k] = a[i, k] if k < m else 0.0


@njit(cache=True, inline="always")
def is_positive_definite(matrix: NDArray[np.float64]) -> bool:
    """Whether a symmetric matrix (n, n), of which the lower half is read, has a Cholesky factor."""
    n = matrix.shape[0]
    lower = np.empty((n, n))
    for j in range(n):
        for i in range(j, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= lower[i, k] * lower[j, k]
            if i == j:
                if not rest > 0.0:
                    return False
                lower[j, j] = np.sqrt(rest)
            else:
                lower[i, j] = rest / lower[j, j]
    return True


SOUND, NOT_FINITE, NOT_DEFINITE = 0, 1, 2


@njit(cache=True)
def soundness(mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> int:
    """Of a state (a,) and its covariance (n, n): `SOUND`, `NOT_FINITE` or `NOT_DEFINITE`, which exact parts are too."""
    for value in mean:
        if not np.isfinite(value):
            return NOT_FINITE
    for row in range(covariance.shape[0]):
        for column in range(covariance.shape[1]):
            if not np.isfinite(covariance[row, column]):
                return NOT_FINITE
    return SOUND if is_positive_definite(covariance) else NOT_DEFINITE


@njit(cache=True)
def all_sound(means: NDArray[np.float64], covariances: NDArray[np.float64]) -> bool:
    """Whether all of N states (N, a) and their covariances (N, n, n) are `SOUND`."""
    for k in range(means.shape[0]):
        if soundness(means[k], covariances[k]) != SOUND:
            return False
    return True


@njit(cache=True)
def normalised_square(root: NDArray[np.float64], innovation: NDArray[np.float64]) -> float:
    """Innovation^T S^-1 innovation with S = L L^T, L = `root`."""
    nis = 0.0
    whitened = np.empty(innovation.shape[0])
    for i in range(innovation.shape[0]):
        rest = innovation[i]
        for j in range(i):
            rest -= root[i, j] * whitened[j]
        whitened[i] = rest / root[i, i]
        nis += whitened[i] * whitened[i]
    return nis


@njit(cache=True)
def divide_by_square(root: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """In place, B (m, n) becomes S^-1 B with S = L L^T, L = `root`, by substitution there and back.

    Of a covariance of innovation and state that is the gain, transposed.
    """
    m, n = right.shape
    for i in range(m):
        inverse = 1.0 / root[i, i]
        for c in range(n):
            rest = right[i, c]
            for j in range(i):
                rest -= root[i, j] * right[j, c]
            right[i, c] = rest * inverse
    for i in range(m - 1, -1, -1):
        inverse = 1.0 / root[i, i]
        for c in range(n):
            rest = right[i, c]
            for j in range(i + 1, m):
                rest -= root[j, i] * right[j, c]
            right[i, c] = rest * inverse


def covariance_root(covariance: Matrix) -> Matrix:
    """Lower triangular L (n, n) with L L^T = P for a positive semi-definite P (n, n).

    Raises
    ------
    NotPositiveDefinite
        P is not finite, or with its variances scaled to one an eigenvalue is negative beyond rounding (1e-9 of the
        largest).
    """
    covariance = np.asarray(covariance, dtype=np.float64)
    if not np.isfinite(covariance).all():
        raise NotPositiveDefinite("covariance is not finite")
    symmetric = 0.5 * (covariance + covariance.T)
    # Unscaled, small variances would lose their digits, and their sign, beside large ones.
    scale = np.sqrt(np.abs(np.diag(symmetric)))
    scale[scale == 0.0] = 1.0
    values, vectors = np.linalg.eigh(symmetric / np.outer(scale, scale))
    if values[0] < -1e-9 * values[-1]:
        worst = np.linalg.eigvalsh(symmetric)[0]
        raise NotPositiveDefinite(f"covariance is not positive semi-definite: smallest eigenvalue {worst:.3g}")
    factor = np.ascontiguousarray(scale[:, None] * vectors * np.sqrt(np.clip(values, 0.0, None)))
    lower = np.empty_like(factor)
    triangularise_into(factor, lower, np.int64(0))
    return lower
