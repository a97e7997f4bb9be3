"""Motion of a chain that hangs on a pivot, with motors and friction in its joints.

Links hang one from the other, each turned against the one before by its joint angle; all zero: hanging straight down.
Weight acts on the centres of mass, which lie on the lines between the pins. A joint has the torque u of a motor, and
friction,

    tau_i = u_i - c_i q'_i - (d_i + e_i |u_i|) q'_i / sqrt(q'_i^2 + q'_0^2):

viscous, dry, and that of a gear, which takes a share of the torque that goes through it. What turns round with the rate
is smoothed over a small rate q'_0. The rest is `dynamics.accelerate`.

All kernels are analytic: with complex parameters or states they give exact derivatives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.thruster_chain.dynamics import accelerate

Array = NDArray[Any]
Indices = NDArray[np.int64]

MASS, CENTRE, INERTIA, VISCOUS, DRY, GEAR = range(6)
"""Rows of the parameters (6, N): kg, m from the pin to the centre of mass, kg m^2 about it, N m s, N m, a share."""


@njit(cache=True)
def joint_accelerations(
    angle: Array,
    rate: Array,
    parameters: Array,
    length: Array,
    gravity: float,
    torque: Array,
    smooth_rate: float,
    out: Array,
) -> None:
    """Into `out` (N,) the joints' accelerations, rad/s^2.

    Parameters
    ----------
    angle, rate
        (N,) of the joints, rad and rad/s.
    parameters
        (6, N), see above.
    length
        (N,) between the pins of each link, m; the last one's is not used.
    gravity
        m/s^2, downwards.
    torque
        (N,) of the motors on the link behind which each stands, N m.
    smooth_rate
        Rate over which dry friction turns round, rad/s.
    """
    count, kind = angle.shape[0], out.dtype
    heading, turning, joint_torque = np.empty(count, kind), np.empty(count, kind), np.empty(count, kind)
    behind, ahead = np.zeros((count, 2), kind), np.zeros((count, 2), kind)
    force, total = np.zeros((count, 2), kind), np.empty(count, kind)
    for i in range(count):
        heading[i] = angle[i] + (heading[i - 1] if i else -0.5 * np.pi)
        turning[i] = rate[i] + (turning[i - 1] if i else 0.0)
        behind[i, 0], ahead[i, 0] = -parameters[CENTRE, i], length[i] - parameters[CENTRE, i]
        force[i, 1] = -parameters[MASS, i] * gravity
        turning_round = parameters[DRY, i] + parameters[GEAR, i] * abs(torque[i])
        speed = np.sqrt(rate[i] * rate[i] + smooth_rate * smooth_rate)
        friction = (parameters[VISCOUS, i] + turning_round / speed) * rate[i]
        joint_torque[i] = torque[i] - friction
    for i in range(count):
        total[i] = joint_torque[i] - (joint_torque[i + 1] if i < count - 1 else 0.0)
    linear, joint = np.empty((count, 2), kind), np.empty((count + 1, 2), kind)
    mass, inertia = parameters[MASS], parameters[INERTIA]
    accelerate(heading, turning, mass, inertia, behind, ahead, force, total, True, out, linear, joint)
    for i in range(count - 1, 0, -1):
        out[i] -= out[i - 1]


@njit(cache=True)
def advance(
    angle: Array,
    rate: Array,
    parameters: Array,
    length: Array,
    gravity: float,
    torque: Array,
    smooth_rate: float,
    step_s: float,
) -> None:
    """Move a state in place, by a step of Runge and Kutta's fourth order, under constant torques."""
    h, slopes = step_s, np.empty((4, angle.shape[0]), rate.dtype)
    # The slope of the angles at each stage is the rate of that stage.
    joint_accelerations(angle, rate, parameters, length, gravity, torque, smooth_rate, slopes[0])
    half = rate + 0.5 * h * slopes[0]
    joint_accelerations(angle + 0.5 * h * rate, half, parameters, length, gravity, torque, smooth_rate, slopes[1])
    other_half = rate + 0.5 * h * slopes[1]
    joint_accelerations(angle + 0.5 * h * half, other_half, parameters, length, gravity, torque, smooth_rate, slopes[2])
    last = rate + h * slopes[2]
    joint_accelerations(angle + h * other_half, last, parameters, length, gravity, torque, smooth_rate, slopes[3])
    angle += h * rate + h * h / 6.0 * (slopes[0] + slopes[1] + slopes[2])
    rate += h / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])


@njit(cache=True)
def propagate(
    points: Array,
    held: Array,
    free: Indices,
    length: Array,
    gravity: float,
    torque: Array,
    smooth_rate: float,
    step_s: float,
) -> Array:
    """Sigma points (P, 2N + F), moved: joint angles, joint rates, logarithms of the parameters that are not held.

    Parameters
    ----------
    held
        (6, N) parameters; where they are free, the points' own are taken.
    free
        (F, 2) row and column of each free parameter.
    """
    count, moved = length.shape[0], points.copy()
    for k in range(points.shape[0]):
        parameters = held.copy()
        for f in range(free.shape[0]):
            parameters[free[f, 0], free[f, 1]] = np.exp(points[k, 2 * count + f])
        angle, rate = moved[k, :count], moved[k, count : 2 * count]
        advance(angle, rate, parameters, length, gravity, torque, smooth_rate, step_s)
    return moved


@njit(cache=True)
def simulate(
    angle: Array,
    rate: Array,
    parameters: Array,
    length: Array,
    gravity: float,
    torques: Array,
    smooth_rate: float,
    steps_s: Array,
    longest_step_s: float,
) -> Array:
    """Joint angles and rates (K, 2N) at K instants, the first of which is the state given.

    Parameters
    ----------
    torques, steps_s
        (K - 1, N) and (K - 1,): torque from one instant to the next, and the time between them.
    """
    count = angle.shape[0]
    out = np.empty((steps_s.shape[0] + 1, 2 * count), rate.dtype)
    angle, rate = angle.copy(), rate.copy()
    out[0, :count], out[0, count:] = angle, rate
    for k in range(steps_s.shape[0]):
        steps = max(1, int(np.ceil(steps_s[k] / longest_step_s - 1e-9)))
        for _ in range(steps):
            advance(angle, rate, parameters, length, gravity, torques[k], smooth_rate, steps_s[k] / steps)
        out[k + 1, :count], out[k + 1, count:] = angle, rate
    return out
