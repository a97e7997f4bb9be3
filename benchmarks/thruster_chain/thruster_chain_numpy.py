"""The paper's filter as users of FilterPy write it: its printed equations in NumPy, one state at a time.

States have the order of `salp_estimation.thruster_chain.paper_filter`: both filters draw the same sigma points.
"""

from __future__ import annotations

import numpy as np
from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter
from numpy.typing import NDArray

from benchmarks.thruster_chain import paper_equations

Array = NDArray[np.float64]


class PrintedModel:
    """Equations (11), (12) and (33) of a chain of rods under constant thrust.

    Parameters
    ----------
    half_length, thruster_angles
        (N,) m and rad.
    thrifty
        What masses and lengths alone determine is computed once a step, not once for each of its four slopes.
    """

    def __init__(self, half_length: Array, thruster_angles: Array, thrifty: bool = False) -> None:
        self.half_length, self.thruster_angles, self.thrifty = half_length, thruster_angles, thrifty
        self.thrust = np.zeros_like(half_length)

    def forces(self, heading: Array) -> Array:
        """(N, 2) of the thrusters, in the room's frame."""
        angle = heading + self.thruster_angles
        return self.thrust[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

    def move(self, state: Array, duration: float) -> Array:
        """The state (4N,) after a step of Runge and Kutta."""
        mass, inertia = np.split(np.exp(state[: len(state) // 2]), 2)
        known = paper_equations.couplings(self.half_length, mass) if self.thrifty else None

        def slope(motion: Array) -> Array:
            heading, rate = np.split(motion, 2)
            force = self.forces(heading)
            couplings = paper_equations.couplings(self.half_length, mass) if known is None else known
            turn = paper_equations.angular_accelerations_by(*couplings, self.half_length, heading, rate, inertia, force)
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
