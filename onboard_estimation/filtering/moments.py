"""Error-state (on vectors: extended) Kalman filter as functions on moments, with Joseph's form of the update.

The state lives in a `StateSpace`: its nominal state is moved by the model and its error, a small tangent vector, by the
linearised model (Sola, "Quaternion kinematics for the error-state Kalman filter", 2017, chapters 5 and 6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.gating import OPEN, Gate, Innovation, decide
from onboard_estimation.filtering.square_root import divide_by_square, normalised_square
from onboard_estimation.filtering.state_space import StateSpace


class Moments(NamedTuple):
    """Mean (a,) in a state space and covariance (n, n) of the error in the tangent space there; values, not written."""

    mean: Vector
    covariance: Matrix


@njit(cache=True)
def predicted_covariance(
    covariance: NDArray[np.float64], transition: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """F P F^T + Q, made exactly symmetric."""
    predicted = transition @ covariance @ transition.T + noise
    return 0.5 * (predicted + predicted.T)


@njit(cache=True)
def innovation_root(
    covariance: NDArray[np.float64], observation: NDArray[np.float64], noise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Lower root of S = H P H^T + R for symmetric positive definite R."""
    s = observation @ covariance @ observation.T + noise
    symmetric: NDArray[np.float64] = 0.5 * (s + s.T)
    return np.linalg.cholesky(symmetric).astype(np.float64)


@njit(cache=True)
def joseph_update(
    covariance: NDArray[np.float64],
    observation: NDArray[np.float64],
    noise: NDArray[np.float64],
    root: NDArray[np.float64],
    innovation: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Correction K nu (n,) and (I - K H) P (I - K H)^T + K R K^T (n, n)."""
    transposed = observation @ covariance
    divide_by_square(root, transposed)
    gain = np.ascontiguousarray(transposed.T)
    reduced = np.eye(covariance.shape[0]) - gain @ observation
    updated = reduced @ covariance @ reduced.T + gain @ noise @ gain.T
    return gain @ innovation, 0.5 * (updated + updated.T)


@njit(cache=True)
def transported(
    covariance: NDArray[np.float64], step: NDArray[np.float64], layout: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Covariance in the tangent space of the corrected state (reset Jacobian of the error state)."""
    return predicted_covariance(covariance, manifold.right_jacobian(step, layout), np.zeros_like(covariance))


def predict(moments: Moments, moved: Vector, transition: Matrix, noise: Matrix) -> Moments:
    """With `moved` (a,) as the nominal state; F (n, n) and Q (n, n) move the error's covariance."""
    return Moments(moved, predicted_covariance(moments.covariance, transition, noise))


def innovate(moments: Moments, value: Vector, observation: Matrix, noise: Matrix) -> Innovation:
    """What an update by measured minus predicted (m,) sees, accepted; see `update` for the other arguments."""
    root = innovation_root(moments.covariance, observation, noise)
    return Innovation(value, root, normalised_square(root, value), True)


def update(
    space: StateSpace,
    moments: Moments,
    value: Vector,
    observation: Matrix,
    noise: Matrix,
    gate: Gate = OPEN,
    rejected_in_a_row: int = 0,
    may_recover: bool = True,
) -> tuple[Moments, Innovation, int]:
    """Correct by a measurement, where the gate lets it pass.

    Parameters
    ----------
    value
        (m,) measured minus predicted.
    observation
        (m, n) H, the derivative of the predicted measurement by the error (tangent vector at the mean).
    noise
        (m, m) R, positive definite.
    rejected_in_a_row, may_recover
        See `decide`.

    Returns
    -------
    Moments, what the update saw, and rejections in a row, with this one. ValueError for shapes that do not fit.
    """
    m, n = value.size, space.dimension
    if value.ndim != 1 or observation.shape != (m, n) or noise.shape != (m, m):
        raise ValueError(
            f"shapes do not fit a state of dimension {n}: innovation {value.shape}, "
            f"observation {observation.shape}, noise {noise.shape}"
        )
    seen = innovate(moments, value, observation, noise)
    accepted, inflation, rejected = decide(gate, seen.nis, m, rejected_in_a_row, may_recover)
    if inflation > 1.0:
        moments = Moments(moments.mean, moments.covariance * inflation)
        seen = replace(innovate(moments, value, observation, noise), inflation=inflation)
    elif not accepted:
        return moments, replace(seen, accepted=False), rejected
    step, covariance = joseph_update(moments.covariance, observation, noise, seen.root, value)
    if space.is_curved:
        covariance = transported(covariance, step, space.layout)
    return Moments(space.plus(moments.mean, step), covariance), seen, rejected


# What later measurements say of a filter's state: the Rauch-Tung-Striebel smoother without an inverse of a
# covariance.

Rows = NDArray[np.float64]


class Later(NamedTuple):
    """The `adjoint` (n,) and the `information` (n, n) of all that was measured after an instant."""

    adjoint: Vector
    information: Matrix

    @classmethod
    def nothing(cls, size: int) -> Later:
        """After the last measurement."""
        return cls(np.zeros(size), np.zeros((size, size)))

    def before_correction(self, slopes: Rows, gain: Rows, precision: Matrix, innovation: Vector) -> Later:
        """Before a correction by k numbers: `slopes` (k, n), `gain` (n, k), `precision` S^-1, `innovation` (k,)."""
        along = self.information @ gain
        half = slopes.T @ (0.5 * (gain.T @ along + precision)) - along
        change = half @ slopes
        earlier = self.adjoint - slopes.T @ (gain.T @ self.adjoint + precision @ innovation)
        return Later(earlier, self.information + change + change.T)

    def smoothed(self, filtered: Moments) -> Moments:
        """Moments of plain numbers, given what came later too."""
        mean, covariance = filtered
        told = covariance @ self.information @ covariance
        return Moments(mean - covariance @ self.adjoint, covariance - 0.5 * (told + told.T))


# Corrections of a state with far more dimensions than the measurement, most of which it does not depend on.


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


@njit(cache=True)
def spread_by(observation: NDArray[np.float64], covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """H P (m, n) of an observation (m, n), mostly zeros, and of P (n, k)."""
    m, n = observation.shape
    if 4 * np.count_nonzero(observation) > m * n:
        return observation @ covariance
    spread = np.zeros((m, covariance.shape[1]))
    for row in range(m):
        for column in range(n):
            entry = observation[row, column]
            if entry != 0.0:
                for c in range(covariance.shape[1]):
                    spread[row, c] += entry * covariance[column, c]
    return spread


@njit(cache=True)
def see(
    covariance: NDArray[np.float64],
    value: NDArray[np.float64],
    observation: NDArray[np.float64],
    noise: NDArray[np.float64],
) -> Seen:
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
    root = np.ascontiguousarray(np.linalg.cholesky(spread_by(observation, np.ascontiguousarray(spread.T)) + noise))
    whitener = np.ascontiguousarray(np.linalg.inv(root))
    return Seen(value, root, spread, whitener, whitener @ value)


@njit(cache=True)
def correction(
    covariance: NDArray[np.float64], seen: Seen, share: float = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Change of the mean (n,) and corrected covariance (n, n); `share` below 1: as of an S so many times larger."""
    columns, corrected = np.sqrt(share) * seen.whitener @ seen.spread, covariance.copy()
    less, n = columns.T @ columns, len(covariance)
    for first in range(0, n, 32):  # one half is as good as the other, but for rounding; blocks stay in the cache
        for i in range(n):
            for j in range(first, min(first + 32, i + 1)):
                corrected[i, j] -= less[i, j]
                corrected[j, i] = corrected[i, j]
    return columns.T @ (np.sqrt(share) * seen.whitened), corrected


def corrected(moments: Moments, value: Vector, observation: Matrix, noise: Matrix) -> Moments:
    """Moments of plain numbers, corrected by a measurement; see `see` for the arguments."""
    change, covariance = correction(moments.covariance, see(moments.covariance, value, observation, noise))
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
