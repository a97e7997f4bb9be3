"""Linear Kalman filter and error-state Kalman filter, with Joseph's form of the covariance update.

Both share the covariance's algebra. The linear filter's state is a vector; the error-state filter's state lives in a
`StateSpace`, its nominal state is moved by the model and its error, a small tangent vector, by the linearised model
(Sola, "Quaternion kinematics for the error-state Kalman filter", 2017, chapters 5 and 6).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.gating import Gate, Innovation
from onboard_estimation.filtering.square_root import (
    covariance_root,
    solve_lower,
    solve_lower_transposed,
)
from onboard_estimation.filtering.state_space import StateSpace, vector
from onboard_estimation.measurement import Matrix, Vector


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
def normalised_square(root: NDArray[np.float64], innovation: NDArray[np.float64]) -> float:
    """Innovation^T S^-1 innovation with S = L L^T."""
    return np.sum(solve_lower(root, innovation.reshape(-1, 1)) ** 2)


@njit(cache=True)
def joseph_update(
    covariance: NDArray[np.float64],
    observation: NDArray[np.float64],
    noise: NDArray[np.float64],
    root: NDArray[np.float64],
    innovation: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Correction K nu (n,) and (I - K H) P (I - K H)^T + K R K^T (n, n)."""
    gain = solve_lower_transposed(root, solve_lower(root, observation @ covariance)).T
    gain = np.ascontiguousarray(gain)
    reduced = np.eye(covariance.shape[0]) - gain @ observation
    updated = reduced @ covariance @ reduced.T + gain @ noise @ gain.T
    return gain @ innovation, 0.5 * (updated + updated.T)


@njit(cache=True)
def transported(
    covariance: NDArray[np.float64], step: NDArray[np.float64], layout: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Covariance in the tangent space of the corrected state (reset Jacobian of the error state)."""
    jacobian = manifold.right_jacobian(step, layout)
    moved = jacobian @ covariance @ jacobian.T
    return 0.5 * (moved + moved.T)


class ErrorStateFilter:
    """Error-state (on vectors: extended) Kalman filter.

    Parameters
    ----------
    space
        State space of dimension n.
    mean, covariance
        (a,) and (n, n): the initial state. NotPositiveDefinite where the covariance has a negative eigenvalue.
    """

    def __init__(self, space: StateSpace, mean: Vector, covariance: Matrix) -> None:
        self.space = space
        self.mean, self.covariance = space.moments(mean, covariance)
        covariance_root(self.covariance)
        self.cross_covariance = np.zeros_like(self.covariance)
        self._curved = manifold.is_curved(space.layout)

    def predict(self, mean: Vector, transition: Matrix, noise: Matrix) -> None:
        """Take `mean` (a,) as the moved nominal state; F (n, n) and Q (n, n) move the error's covariance."""
        self.cross_covariance = self.covariance @ transition.T
        self.mean = np.array(mean, dtype=np.float64)
        self.covariance = predicted_covariance(self.covariance, transition, noise)

    def update(self, innovation: Vector, observation: Matrix, noise: Matrix, gate: Gate | None = None) -> Innovation:
        """Correct by an innovation (m,), with its Jacobian H (m, n) and noise covariance R (m, m).

        H is the derivative of the predicted measurement by the error (tangent vector at the mean). ValueError for
        shapes that do not fit.
        """
        innovation = np.asarray(innovation, dtype=np.float64)
        m, n = innovation.size, self.space.dimension
        if innovation.ndim != 1 or observation.shape != (m, n) or noise.shape != (m, m):
            raise ValueError(
                f"shapes do not fit a state of dimension {n}: innovation {innovation.shape}, "
                f"observation {observation.shape}, noise {noise.shape}"
            )
        seen = self._innovation(innovation, observation, noise, gate)
        if gate is not None and gate.count(seen.accepted):
            inflation = gate.inflation(seen)
            self.covariance = self.covariance * inflation
            seen = replace(self._innovation(innovation, observation, noise, None), inflation=inflation)
        if not seen.accepted:
            return seen
        step, self.covariance = joseph_update(self.covariance, observation, noise, seen.root, innovation)
        self.mean = self.space.plus(self.mean, step)
        if self._curved:
            self.covariance = transported(self.covariance, step, self.space.layout)
        return seen

    def _innovation(self, innovation: Vector, observation: Matrix, noise: Matrix, gate: Gate | None) -> Innovation:
        root = innovation_root(self.covariance, observation, noise)
        nis = normalised_square(root, innovation)
        return Innovation(innovation, root, nis, gate is None or nis <= gate.threshold(len(innovation)))


class KalmanFilter(ErrorStateFilter):
    """Linear Kalman filter: x' = F x + b + w, z = H x + v.

    Parameters
    ----------
    mean, covariance
        (n,) and (n, n): the initial state.
    """

    def __init__(self, mean: Vector, covariance: Matrix) -> None:
        super().__init__(StateSpace(vector("x", tuple(map(str, range(len(mean)))), "")), mean, covariance)

    def predict_linear(self, transition: Matrix, noise: Matrix, offset: Vector | float = 0.0) -> None:
        """Move the state by x' = F x + b with process noise Q."""
        self.predict(transition @ self.mean + offset, transition, noise)

    def update_linear(
        self, measured: Vector, observation: Matrix, noise: Matrix, gate: Gate | None = None
    ) -> Innovation:
        """Correct by z = H x + v with noise covariance R."""
        return self.update(np.asarray(measured) - observation @ self.mean, observation, noise, gate)
