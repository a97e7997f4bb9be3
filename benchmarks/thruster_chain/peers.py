"""The paper's equations of a free chain of rods in NumPy, and its filter as users of FilterPy write it."""

from __future__ import annotations

import numpy as np
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector


def angular_accelerations(
    half_length: Vector, heading: Vector, rate: Vector, mass: Vector, inertia: Vector, force: Matrix
) -> Vector:
    """(N,) angular accelerations, third row of equation (11), rad/s^2.

    Parameters
    ----------
    half_length
        (N,) m.
    heading, rate
        (N,) rad, rad/s.
    mass, inertia
        (N,) kg, kg m^2.
    force
        (N, 2) net forces in the room's frame, thrust included, N; the joints' are not part of it.
    """
    lvl, km = _couplings(half_length, mass)
    cosine, sine = np.cos(heading), np.sin(heading)
    generalised = lvl * (np.outer(sine, sine) + np.outer(cosine, cosine))  # eq. (9)
    generalised[np.diag_indices_from(generalised)] += inertia
    w = lvl * (np.outer(sine, cosine) - np.outer(cosine, sine))  # eq. (10)
    pushed = km @ force
    right = -w @ rate**2 + half_length * (sine * pushed[:, 0] - cosine * pushed[:, 1])
    solved: Vector = np.linalg.solve(generalised, right)
    return solved


def _couplings(half_length: Vector, mass: Vector) -> tuple[Matrix, Matrix]:
    """L V L and K M of equations (7) and (8), (N, N) each: what masses and lengths alone determine."""
    added, differenced = _sums(len(mass)), _differences(len(mass))
    reciprocal = 1.0 / mass
    spread = np.linalg.solve((differenced * reciprocal) @ differenced.T, np.hstack([added, differenced]))
    v, k = np.split(added.T @ spread, 2, axis=1)
    return half_length[:, None] * v * half_length, k * reciprocal


def _sums(count: int) -> Matrix:
    """A of equation (2), (N - 1, N)."""
    return np.eye(count - 1, count) + np.eye(count - 1, count, k=1)


def _differences(count: int) -> Matrix:
    """D of equation (3), (N - 1, N)."""
    return np.eye(count - 1, count) - np.eye(count - 1, count, k=1)


Array = NDArray[np.float64]


class PrintedModel:
    """Equations (11), (12) and (33) of a chain of rods under constant thrust.

    Parameters
    ----------
    half_length, thruster_angles
        (N,) m and rad.
    """

    def __init__(self, half_length: Array, thruster_angles: Array) -> None:
        self.half_length, self.thruster_angles = half_length, thruster_angles
        self.thrust = np.zeros_like(half_length)

    def forces(self, heading: Array) -> Array:
        """(N, 2) of the thrusters, in the room's frame."""
        angle = heading + self.thruster_angles
        return self.thrust[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def move(self, state: Array, duration: float) -> Array:
        """The state (4N,) after a step of Runge and Kutta."""
        mass, inertia = np.split(np.exp(state[: len(state) // 2]), 2)

        def slope(motion: Array) -> Array:
            heading, rate = np.split(motion, 2)
            force = self.forces(heading)
            turn = angular_accelerations(self.half_length, heading, rate, mass, inertia, force)
            return np.concatenate([rate, turn])

        motion = state[len(state) // 2 :]
        k1 = slope(motion)
        k2 = slope(motion + 0.5 * duration * k1)
        k3 = slope(motion + 0.5 * duration * k2)
        k4 = slope(motion + duration * k3)
        moved = motion + duration / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return np.concatenate([state[: len(state) // 2], moved])

    def read(self, state: Array) -> Array:
        """(3N,) what the IMUs in the centres of mass read: equation (33)."""
        mass, _, heading, rate = np.split(state, 4)
        return np.column_stack([self.forces(heading) / np.exp(mass)[:, None], rate]).ravel()


def filterpy_filter(
    model: PrintedModel,
    period: float,
    mean: Array,
    covariance: Array,
    process: Array,
    noise: Array,
    alpha: float,
    beta: float,
    kappa: float = 0.0,
) -> UnscentedKalmanFilter:
    """FilterPy's unscented filter of that model; `process` (4N, 4N) and `noise` (3N, 3N) are covariances."""
    points = MerweScaledSigmaPoints(len(mean), alpha, beta, kappa)
    tracker = UnscentedKalmanFilter(len(mean), len(noise), period, model.read, model.move, points)
    tracker.x, tracker.P, tracker.Q, tracker.R = mean.copy(), covariance.copy(), process, noise
    return tracker
