"""Motion of a chain that hangs on a pivot, with motors and friction in its joints.

With p_i the first and J_i the second moment of mass about joint i of link i and, as a point at its end, all that hangs
on it,

    p_i = m_i a_i + l_i sum_{j > i} m_j,    J_i = j_i + m_i a_i^2 + l_i^2 sum_{j > i} m_j,

the headings h_i against the vertical obey Lagrange's equations

    sum_k M_ik cos(h_i - h_k) h''_k = tau_i - tau_{i+1} - p_i g sin h_i - sum_k M_ik sin(h_i - h_k) h'_k^2,

    M_ii = J_i,    M_ik = M_ki = l_k p_i for k < i.

A joint, whose angle is its link's heading less that of the link before, has the torque u of a motor, and friction,

    tau_i = u_i - c_i q'_i - (d_i + e_i |u_i|) q'_i / sqrt(q'_i^2 + q'_0^2):

viscous, dry, and that of a gear, which takes a share of the torque that goes through it. What turns round with the rate
is smoothed over a small rate q'_0.

All kernels are analytic: with complex parameters or states they give exact derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]

MASS, CENTRE, INERTIA, VISCOUS, DRY, GEAR = range(6)
"""Rows of the parameters (6, N): kg, m from the pin to the centre of mass, kg m^2 about it, N m s, N m, a share."""


class Setting(NamedTuple):
    """What is known of a pendulum.

    Attributes
    ----------
    length
        (N,) of each link from pin to pin, m; the last one's is not used.
    gravity
        Downwards, m/s^2.
    smooth_rate
        Rate over which dry friction turns round, rad/s.
    """

    length: Array
    gravity: float
    smooth_rate: float


@njit(cache=True)
def moments(parameters: Array, length: Array) -> tuple[Array, Array]:
    """(N,) first and second moments p (kg m) and J (kg m^2), see above, of parameters (6, N)."""
    mass, centre = parameters[MASS], parameters[CENTRE]
    beyond = np.zeros_like(mass)
    for i in range(mass.shape[0] - 2, -1, -1):
        beyond[i] = beyond[i + 1] + mass[i + 1]
    return mass * centre + beyond * length, parameters[INERTIA] + mass * centre**2 + beyond * length**2


@njit(cache=True)
def joint_accelerations(angle: Array, rate: Array, parameters: Array, torque: Array, setting: Setting) -> Array:
    """(N,) accelerations of the joints, rad/s^2.

    Parameters
    ----------
    angle, rate
        (N,) of the joints, rad and rad/s; all zero: hanging straight down.
    parameters
        (6, N), see above.
    torque
        (N,) of the motors on the link behind which each stands, N m.
    """
    count, (first, second) = angle.shape[0], moments(parameters, setting.length)
    reversing = (parameters[DRY] + parameters[GEAR] * np.abs(torque)) / np.sqrt(rate**2 + setting.smooth_rate**2)
    joint = torque - (parameters[VISCOUS] + reversing) * rate
    heading, turning = np.cumsum(angle), np.cumsum(rate)
    total = joint - first * setting.gravity * np.sin(heading)
    total[:-1] -= joint[1:]
    coupling = np.empty((count, count), first.dtype)
    for i in range(count):
        coupling[i, i] = second[i]
        for k in range(i):
            coupling[i, k] = coupling[k, i] = setting.length[k] * first[i]
    for i in range(count):
        for k in range(count):
            between = heading[i] - heading[k]
            total[i] -= coupling[i, k] * np.sin(between) * turning[k] ** 2
            coupling[i, k] *= np.cos(between)
    accelerations: Array = np.linalg.solve(coupling, total)
    accelerations[1:] -= accelerations[:-1].copy()
    return accelerations


@njit(cache=True)
def advance(angle: Array, rate: Array, parameters: Array, torque: Array, setting: Setting, step_s: float) -> None:
    """Move a state in place, by a step of Runge and Kutta's fourth order, under constant torques."""
    h = step_s
    first = joint_accelerations(angle, rate, parameters, torque, setting)
    rate_2 = rate + 0.5 * h * first
    second = joint_accelerations(angle + 0.5 * h * rate, rate_2, parameters, torque, setting)
    rate_3 = rate + 0.5 * h * second
    third = joint_accelerations(angle + 0.5 * h * rate_2, rate_3, parameters, torque, setting)
    rate_4 = rate + h * third
    fourth = joint_accelerations(angle + h * rate_3, rate_4, parameters, torque, setting)
    angle += h / 6.0 * (rate + 2.0 * rate_2 + 2.0 * rate_3 + rate_4)
    rate += h / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


@njit(cache=True)
def propagate(
    points: Array, held: Array, free: NDArray[np.int64], torque: Array, setting: Setting, step_s: float
) -> Array:
    """Sigma points (P, 2N + F), moved: joint angles, joint rates, logarithms of the parameters that are not held.

    Parameters
    ----------
    held
        (6, N) parameters; where they are free, the points' own are taken.
    free
        (F, 2) row and column of each free parameter.
    """
    count, moved = held.shape[1], points.copy()
    for k in range(points.shape[0]):
        parameters = held.copy()
        for f in range(free.shape[0]):
            parameters[free[f, 0], free[f, 1]] = np.exp(points[k, 2 * count + f])
        advance(moved[k, :count], moved[k, count : 2 * count], parameters, torque, setting, step_s)
    return moved


@njit(cache=True)
def simulate(
    state: Array, parameters: Array, torques: Array, setting: Setting, steps_s: Array, longest_step_s: float
) -> Array:
    """Joint angles and rates (K, 2N) at K instants, the first of which is the state (2N,).

    Parameters
    ----------
    torques, steps_s
        (K - 1, N) and (K - 1,): torque from one instant to the next, and the time between them.
    """
    count, moved = parameters.shape[1], state.copy()
    out = np.empty((steps_s.shape[0] + 1, 2 * count), state.dtype)
    out[0] = moved
    for k in range(steps_s.shape[0]):
        steps = max(1, int(np.ceil(steps_s[k] / longest_step_s - 1e-9)))
        for _ in range(steps):
            advance(moved[:count], moved[count:], parameters, torques[k], setting, steps_s[k] / steps)
        out[k + 1] = moved
    return out
