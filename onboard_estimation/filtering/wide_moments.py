"""Corrections of a state with far more dimensions than the measurement, most of which it does not depend on.

`moments` has Joseph's form, of the order of n^3 for n dimensions; here it is n^2 m for a measurement of m numbers, with
loops instead of a library's products: a matrix of a hundred rows is too small for threads, and asking for them costs
more than the sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.moments import Moments
from onboard_estimation.measurement import Matrix, Vector


class Seen(NamedTuple):
    """An innovation, before it is used.

    Attributes
    ----------
    value, root
        (m,) measured minus predicted, and the lower root (m, m) of its covariance S.
    spread, whitener
        (m, n) H P, and (m, m) inverse of the root.
    whitened
        (m,) innovation in its own standard deviations.
    """

    value: Vector
    root: Matrix
    spread: Matrix
    whitener: Matrix
    whitened: Vector

    @property
    def nis(self) -> float:
        """Normalised innovation squared."""
        return float(self.whitened @ self.whitened)


def innovate(covariance: Matrix, value: Vector, observation: Matrix, noise: Matrix) -> Seen:
    """What a correction would see.

    Parameters
    ----------
    covariance
        (n, n) P.
    value
        (m,) measured minus predicted.
    observation
        (m, n) H, mostly zeros.
    noise
        (m, m) R.

    Raises
    ------
    numpy.linalg.LinAlgError
        H P H^T + R is not positive definite.
    """
    spread = spread_by(observation, covariance)
    root = np.asarray(np.linalg.cholesky(spread @ observation.T + noise), dtype=np.float64)
    whitener = np.asarray(np.linalg.inv(root), dtype=np.float64)
    return Seen(value, root, spread, whitener, whitener @ value)


def correction(covariance: Matrix, seen: Seen, share: float = 1.0) -> tuple[Vector, Matrix]:
    """Change of the mean (n,) and corrected covariance (n, n); `share` below 1: as of an S so many times larger."""
    whitener = seen.whitener if share == 1.0 else seen.whitener * np.sqrt(share)
    columns = whitener @ seen.spread
    return columns.T @ (whitener @ seen.value), reduced(covariance, columns)


def corrected(moments: Moments, value: Vector, observation: Matrix, noise: Matrix) -> Moments:
    """Moments of plain numbers, corrected by a measurement; see `innovate` for the arguments."""
    change, covariance = correction(moments.covariance, innovate(moments.covariance, value, observation, noise))
    return Moments(moments.mean + change, covariance)


def part(moments: Moments, places: NDArray[np.intp]) -> Moments:
    """Those of some of the dimensions."""
    return Moments(moments.mean[places], moments.covariance[np.ix_(places, places)])


def put(moments: Moments, places: NDArray[np.intp], known: Moments) -> None:
    """Write what is known of some dimensions into arrays that are still one's own; nothing ties them to the others."""
    moments.mean[places] = known.mean
    moments.covariance[places] = 0.0
    moments.covariance[:, places] = 0.0
    moments.covariance[np.ix_(places, places)] = known.covariance


@njit(cache=True)
def spread_by(observation: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """H P (m, n) of an observation (m, n) that is mostly zeros."""
    m, n = observation.shape
    spread = np.zeros((m, n))
    for row in range(m):
        for column in range(n):
            entry = observation[row, column]
            if entry != 0.0:
                for c in range(n):
                    spread[row, c] += entry * covariance[column, c]
    return spread


@njit(cache=True)
def reduced(covariance: NDArray[np.float64], columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """P - C^T C (n, n) for C (m, n)."""
    m, n = columns.shape
    result = covariance.copy()
    for row in range(n):
        for k in range(m):
            entry = columns[k, row]
            for c in range(row + 1):
                result[row, c] -= entry * columns[k, c]
        for c in range(row):
            result[c, row] = result[row, c]
    return result
