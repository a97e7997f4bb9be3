"""The paper's dense equations of a free chain of rods, one state at a time, in NumPy: slow, and easy to check by eye.

Equations (2) to (16) of `multilink_inertial_parameters`: pins at plus and minus the half-length, centres of mass
halfway between them, forces at the centres of mass. What runs is `dynamics.accelerate`; this is what it is checked
against, and what a user of other filters would write. The paper's m is the reciprocal of the masses; here masses are in
kg.
"""

from __future__ import annotations

import numpy as np

from onboard_estimation.measurement import Matrix, Vector


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
    return angular_accelerations_by(*couplings(half_length, mass), half_length, heading, rate, inertia, force)


def couplings(half_length: Vector, mass: Vector) -> tuple[Matrix, Matrix]:
    """L V L and K M of equations (7) and (8), (N, N) each: what masses and lengths alone determine."""
    added, differenced = _sums(len(mass)), _differences(len(mass))
    reciprocal = 1.0 / mass
    spread = np.linalg.solve((differenced * reciprocal) @ differenced.T, np.hstack([added, differenced]))
    v, k = np.split(added.T @ spread, 2, axis=1)
    return half_length[:, None] * v * half_length, k * reciprocal


def angular_accelerations_by(
    lvl: Matrix, km: Matrix, half_length: Vector, heading: Vector, rate: Vector, inertia: Vector, force: Matrix
) -> Vector:
    """`angular_accelerations` of masses whose `couplings` are known already."""
    cosine, sine = np.cos(heading), np.sin(heading)
    generalised = lvl * (np.outer(sine, sine) + np.outer(cosine, cosine))  # eq. (9)
    generalised[np.diag_indices_from(generalised)] += inertia
    w = lvl * (np.outer(sine, cosine) - np.outer(cosine, sine))  # eq. (10)
    pushed = km @ force
    right = -w @ rate**2 + half_length * (sine * pushed[:, 0] - cosine * pushed[:, 1])
    solved: Vector = np.linalg.solve(generalised, right)
    return solved


def centre_acceleration(mass: Vector, force: Matrix) -> Vector:
    """(2,) acceleration of the chain's centre of mass, last row of equation (11), m/s^2."""
    acceleration: Vector = force.sum(axis=0) / mass.sum()
    return acceleration


def link_positions(half_length: Vector, heading: Vector, mass: Vector, centre: Vector) -> Matrix:
    """(N, 2) centres of mass of the links from that of the chain (2,), equations (13) to (16)."""
    along = half_length[:, None] * np.column_stack([np.cos(heading), np.sin(heading)])
    return _placed(mass, -_sums(len(mass)) @ along, centre)


def link_velocities(half_length: Vector, heading: Vector, rate: Vector, mass: Vector, centre: Vector) -> Matrix:
    """(N, 2) velocities of the links' centres of mass from that of the chain (2,), equations (15) and (16)."""
    along = (half_length * rate)[:, None] * np.column_stack([-np.sin(heading), np.cos(heading)])
    return _placed(mass, -_sums(len(mass)) @ along, centre)


def _placed(mass: Vector, apart: Matrix, centre: Vector) -> Matrix:
    """T^-1, equation (14), of how far neighbours are apart (N - 1, 2), and of the centre of mass."""
    t = np.vstack([_differences(len(mass)), mass / mass.sum()])
    placed: Matrix = np.linalg.solve(t, np.vstack([apart, centre]))
    return placed


def _sums(count: int) -> Matrix:
    """A of equation (2), (N - 1, N)."""
    return np.eye(count - 1, count) + np.eye(count - 1, count, k=1)


def _differences(count: int) -> Matrix:
    """D of equation (3), (N - 1, N)."""
    return np.eye(count - 1, count) - np.eye(count - 1, count, k=1)
