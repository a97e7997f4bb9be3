"""How long a step of an integrator may be before the segment's fastest vibration grows in it, and how many it takes.

For one undamped mode of angular frequency w the limits are known: w h = 2 sqrt 2 for the classical Runge-Kutta rule,
w h = 2 for semi-implicit Euler; with damping ratio z the latter falls to 2 (sqrt(1 + z^2) - z). The three modes of a
bent segment are coupled, so the limit is found from the growth of its linearised model in one step.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError
from softrobot_estimation.constant_curvature import ConstantCurvatureSegment, Integrator

Array = NDArray[np.float64]

SAFETY = 0.7
"""Share of the limit that a step may take: pressures and states change the modes after they were linearised."""

_ROUNDING = 1e-9


def linearised(
    segment: ConstantCurvatureSegment,
    state: ArrayLike,
    pressures_pa: ArrayLike | None = None,
    stiffness_n_m: ArrayLike | None = None,
) -> Array:
    """(6, 6) derivative of the rates of a state with respect to it."""
    at = np.asarray(state, dtype=np.float64)
    # Accelerations are quadratic in rates, so that only the differences in q are short.
    lengths = np.repeat([1e-5 * segment.bending_radius_m, segment.bending_radius_m], 3)
    both = np.vstack([at + np.diag(lengths), at - np.diag(lengths)])
    values = segment.acceleration(both, pressures_pa, stiffness_n_m)
    out = np.zeros((6, 6))
    out[:3, 3:] = np.eye(3)
    out[3:] = ((values[:6] - values[6:]) / (2.0 * lengths[:, None])).T
    return out


def largest_stable_step_s(
    segment: ConstantCurvatureSegment,
    states: ArrayLike,
    pressures_pa: ArrayLike | None = None,
    stiffness_n_m: ArrayLike | None = None,
    *,
    integrator: Integrator = "runge_kutta",
) -> float:
    """Longest step at which no mode grows that does not grow by itself, over the states given.

    Parameters
    ----------
    states
        (6,) or (K, 6): the corners of where the segment will be. A shorter or more bent one vibrates faster.
    pressures_pa, stiffness_n_m
        One for all states: (C,), (3,). Take the highest stiffness.
    integrator
        `runge_kutta` or `semi_implicit`.

    Raises
    ------
    UserError
        For a state outside the model's domain.
    """
    return min(
        _limit_s(linearised(segment, state, pressures_pa, stiffness_n_m), integrator) for state in np.atleast_2d(states)
    )


def sub_steps(step_s: float, largest_step_s: float) -> int:
    """Into how many equal parts a step has to be divided, each at most SAFETY of the largest stable step."""
    if not (math.isfinite(step_s) and step_s > 0.0 and largest_step_s > 0.0):
        raise UserError(f"a step of {step_s} s with a limit of {largest_step_s} s; both must be above zero")
    return max(1, math.ceil(step_s / (SAFETY * largest_step_s) - _ROUNDING))


def _limit_s(system: Array, integrator: Integrator) -> float:
    """Where the growth of one step passes the growth of the system itself, by bisection."""
    if not np.isfinite(system).all():
        raise UserError(
            "no stable step for a state outside the model's domain: bent by a full circle or more, or without length"
        )
    poles = np.linalg.eigvals(system)
    if not np.abs(poles).max() > 0.0:
        return math.inf
    # A single mode has its limit at 4 or less in these units, whatever its damping.
    stable, unstable = 0.0, 4.0 / np.abs(poles).max()
    while unstable - stable > 1e-6 * unstable:
        middle = 0.5 * (stable + unstable)
        own_growth = max(1.0, math.exp(middle * poles.real.max()))
        if _growth(system, poles, middle, integrator) <= own_growth * (1.0 + _ROUNDING):
            stable = middle
        else:
            unstable = middle
    return stable


def _growth(system: Array, poles: NDArray[np.complex128], step_s: float, integrator: Integrator) -> float:
    """Spectral radius of one step."""
    if integrator == "runge_kutta":
        z = poles * step_s
        return float(np.abs(1.0 + z * (1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0)))).max())
    rates = np.hstack([step_s * system[3:, :3], np.eye(3) + step_s * system[3:, 3:]])
    step = np.vstack([np.hstack([np.eye(3), np.zeros((3, 3))]) + step_s * rates, rates])
    return float(np.abs(np.linalg.eigvals(step)).max())
