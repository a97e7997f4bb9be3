"""How long a step of an integrator may be before the segment's fastest vibration grows in it, and how many it takes.

For one undamped mode of angular frequency w the limit of the classical Runge-Kutta rule is known: w h = 2 sqrt 2. The
three modes of a bent segment are coupled, so the limit is found from its linearised model.

The segment is taken to be held at rest where it is linearised, by whatever pressures that takes: then stiffness and
mass are symmetric, and a mode vibrates, creeps, or falls (an upright segment that is too soft), but never swings up by
itself. What falls does so at any step, and sets no limit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from softrobot_estimation import curvature_kernels as kernels
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment

Array = NDArray[np.float64]

SAFETY = 0.7
"""Share of the limit that a step may take: pressures and states change the modes after they were linearised."""

_ROUNDING = 1e-6


def linearised(
    segment: ConstantCurvatureSegment, coordinates: ArrayLike, stiffness_n_m: ArrayLike | None = None
) -> Array:
    """(6, 6) derivative of a state's rates with respect to it, where the segment is held at rest at q (3,)."""
    at = np.concatenate([np.asarray(coordinates, dtype=np.float64), np.zeros(3)])
    stiffness = np.atleast_2d(segment.stiffness() if stiffness_n_m is None else stiffness_n_m).astype(np.float64)
    holding = stiffness * at[:3]
    for fraction, offset, mass in segment.arrays[1]:
        holding = holding - mass * np.array(segment.gravity_m_s2) @ segment.jacobian(at, fraction, offset)[0]
    # Accelerations are quadratic in rates, so that only the differences in q need to be short.
    lengths = np.repeat([1e-5 * segment.bending_radius_m, segment.bending_radius_m], 3)
    both, values = np.vstack([at + np.diag(lengths), at - np.diag(lengths)]), np.empty((12, 3))
    kernels.accelerations(*segment.arrays, both, holding, stiffness, values)
    out = np.zeros((6, 6))
    out[:3, 3:] = np.eye(3)
    out[3:] = ((values[:6] - values[6:]) / (2.0 * lengths[:, None])).T
    return out


def largest_stable_step_s(
    segment: ConstantCurvatureSegment, coordinates: ArrayLike, stiffness_n_m: ArrayLike | None = None
) -> float:
    """Longest step at which no vibration grows, at any of the places given.

    Parameters
    ----------
    coordinates
        q, (3,) or (K, 3): the corners of where the segment will be. A shorter or more bent one vibrates faster.
    stiffness_n_m
        (3,), one for all: take the highest.

    Raises
    ------
    UserError
        For a place outside the model's domain.
    """
    systems = [linearised(segment, place, stiffness_n_m) for place in np.atleast_2d(coordinates)]
    return min(_limit_s(system) for system in systems)


def sub_steps(step_s: float, largest_step_s: float) -> int:
    """Into how many equal parts a step has to be divided, each at most SAFETY of the largest stable step."""
    if not (math.isfinite(step_s) and step_s > 0.0 and largest_step_s > 0.0):
        raise UserError(f"a step of {step_s} s with a limit of {largest_step_s} s; both must be above zero")
    return max(1, math.ceil(step_s / (SAFETY * largest_step_s) - _ROUNDING))


def _limit_s(system: Array) -> float:
    """Where a step of the linear system begins to grow, by bisection."""
    if not np.isfinite(system).all():
        raise UserError(
            "no stable step for a segment outside the model's domain: bent by a full circle or more, or without length"
        )
    eigenvalues = np.linalg.eigvals(system)
    fastest = float(np.abs(eigenvalues).max())
    if fastest == 0.0:
        return math.inf
    # A mode has its limit at 4 or less in these units, whatever its damping.
    stable, unstable = 0.0, 4.0 / fastest
    while unstable - stable > 1e-6 * unstable:
        middle = 0.5 * (stable + unstable)
        if _grows(eigenvalues * middle):
            unstable = middle
        else:
            stable = middle
    return stable


def _grows(z: NDArray[Any]) -> bool:
    """Of the modes' eigenvalues, each times the step."""
    z = z[z.real <= _ROUNDING]
    return bool((np.abs(1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0)))) > 1.0 + _ROUNDING).any())
