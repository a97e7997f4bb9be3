"""Compiled motion of a chain with dry friction and a harness: what the quasi-static model leaves out.

At every instant the rates q' = (forward, left and turning speed of link 1 at its centre, along its axes; joint rates)
balance drag, thrust, Coulomb friction of wheels and joints, harness and disturbing forces:

    sum_i J_i^T [d_i v_i - d_xx u_i e_x + F_i tanh(v_i / v_s) - w_i] + joint torques = 0,   v_i = J_i q'.

It is the gradient of a convex function of q', so that a damped Newton iteration finds its only solution. Dense algebra:
a simulator of tens of links needs no other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import wrap
from salp_estimation import chain_kernels as chain

Array = NDArray[np.float64]

_ITERATIONS = 60


class Mechanics(NamedTuple):
    """What resists and moves a chain of N links; all along the wheels' own axes.

    Attributes
    ----------
    links
        (N, .) as `chain_kernels` reads them: geometry, drag of the joints, and their limits.
    drag, friction
        (N, 3, 3) drag matrices and (N, 3) Coulomb friction of the wheels.
    slip, joint_slip
        (3,) and scalar: speeds at which friction has reached tanh 1 of its whole size.
    thrust
        (N,) N per m/s of rim speed.
    joint_friction
        (N - 1,) N m.
    stiffness, rest_angles
        (N - 1,) of the harness, N m/rad and rad.
    """

    links: Array
    drag: Array
    friction: Array
    slip: Array
    joint_slip: float
    thrust: Array
    joint_friction: Array
    stiffness: Array
    rest_angles: Array


@njit(cache=True, error_model="numpy")
def _dry(speed: float, friction: float, slip: float) -> tuple[float, float, float]:
    """Potential, force and stiffness of Coulomb friction at a speed."""
    ratio = speed / slip
    hold = np.tanh(ratio)
    # log cosh, without overflow
    potential = friction * slip * (abs(ratio) + np.log1p(np.exp(-2.0 * abs(ratio))))
    return potential, friction * hold, friction / slip * (1.0 - hold * hold)


@njit(cache=True, error_model="numpy")
def _residual(
    robot: Mechanics, jacobians: Array, rates: Array, push: Array, torque: Array, gradient: Array, hessian: Array
) -> float:
    """Into `gradient` and `hessian` those of the potential at the rates; returns the potential."""
    n, m = jacobians.shape[0], rates.shape[0]
    gradient[:] = 0.0
    hessian[:] = 0.0
    potential = 0.0
    force, stiffness, twist = np.empty(3), np.empty((3, 3)), np.empty(3)
    for i in range(n):
        for a in range(3):
            total = 0.0
            for c in range(m):
                total += jacobians[i, a, c] * rates[c]
            twist[a] = total
        for a in range(3):
            total = 0.0
            for b in range(3):
                total += robot.drag[i, a, b] * twist[b]
                stiffness[a, b] = robot.drag[i, a, b]
            potential += 0.5 * twist[a] * total - push[i, a] * twist[a]
            energy, held, stiff = _dry(twist[a], robot.friction[i, a], robot.slip[a])
            potential += energy
            force[a] = total - push[i, a] + held
            stiffness[a, a] += stiff
        for c in range(m):
            for a in range(3):
                along = jacobians[i, a, c]
                gradient[c] += along * force[a]
                for b in range(3):
                    share = along * stiffness[a, b]
                    if share != 0.0:
                        for d in range(m):
                            hessian[c, d] += share * jacobians[i, b, d]
    for j in range(n - 1):
        rate, drag = rates[3 + j], robot.links[j, chain.JOINT_DRAG]
        energy, held, stiff = _dry(rate, robot.joint_friction[j], robot.joint_slip)
        potential += 0.5 * drag * rate * rate - torque[j] * rate
        potential += energy
        gradient[3 + j] += drag * rate - torque[j] + held
        hessian[3 + j, 3 + j] += drag + stiff
    return potential


@njit(cache=True, error_model="numpy")
def balance(robot: Mechanics, jacobians: Array, start: Array, push: Array, torque: Array) -> Array:
    """Rates (N + 2,) at which all forces balance, found from `start`.

    Parameters
    ----------
    push
        (N, 3) thrust and disturbing wrenches of the wheels.
    torque
        (N - 1,) of the harness.
    """
    m = start.shape[0]
    rates = start.copy()
    gradient, hessian = np.empty(m), np.empty((m, m))
    trial_gradient, trial_hessian = np.empty(m), np.empty((m, m))
    value = _residual(robot, jacobians, rates, push, torque, gradient, hessian)
    for _ in range(_ITERATIONS):
        step = np.linalg.solve(hessian, gradient)
        decrease = np.dot(step, gradient)
        if decrease < 1e-16:
            break
        share = 1.0
        while True:
            trial = rates - share * step
            ahead = _residual(robot, jacobians, trial, push, torque, trial_gradient, trial_hessian)
            if ahead <= value - 0.1 * share * decrease + 1e-15 or share < 1e-3:
                break
            share *= 0.5
        rates, value = trial, ahead
        gradient, trial_gradient = trial_gradient, gradient
        hessian, trial_hessian = trial_hessian, hessian
    return rates


@njit(cache=True, error_model="numpy")
def _moved(robot: Mechanics, point: Array, place: Array, rates: Array, duration: float) -> Array:
    """The state `point` (N + 2,) after a time at `rates` (N + 2,), which are along the axes of link 1 at `place`."""
    out = np.empty(point.shape[0])
    c, s = np.cos(place[2]), np.sin(place[2])
    x, y = c * rates[0] - s * rates[1], s * rates[0] + c * rates[1]
    out[0], out[1] = point[0] + duration * x, point[1] + duration * y
    out[2] = wrap(point[2] + duration * rates[2])
    for j in range(point.shape[0] - 3):
        reached = point[3 + j] + duration * rates[3 + j]
        out[3 + j] = min(max(reached, robot.links[j, chain.LOWER]), robot.links[j, chain.UPPER])
    return out


@njit(cache=True, error_model="numpy")
def drive(
    robot: Mechanics, state: Array, rates: Array, speeds: Array, disturbance: Array, step: float
) -> tuple[Array, Array]:
    """States (K + 1, N + 2) of link 1 (x, y, heading) and joints, and their rates, over K steps (midpoint rule).

    Parameters
    ----------
    state, rates
        (N + 2,) at the start.
    speeds, disturbance
        (K + 1, N) rim speeds and (K + 1, N, 3) disturbing wrenches of the wheels at the ends of the steps.
    """
    count, m = speeds.shape[0], state.shape[0]
    n = m - 2
    states, out = np.empty((count, m)), np.empty((count, m))
    push, torque, unturned = np.empty((n, 3)), np.empty(n - 1), np.zeros(n)
    point, current = state.copy(), rates.copy()
    for k in range(count):
        place = point
        for half in range(2):
            after = k if half == 0 else min(k + 1, count - 1)
            for i in range(n):
                for a in range(3):
                    push[i, a] = 0.5 * (disturbance[k, i, a] + disturbance[after, i, a])
                push[i, 0] += robot.thrust[i] * 0.5 * (speeds[k, i] + speeds[after, i])
            for j in range(n - 1):
                torque[j] = -robot.stiffness[j] * (place[3 + j] - robot.rest_angles[j])
            jacobians, _ = chain.wheel_jacobians(robot.links, place[3:].copy(), unturned)
            current = balance(robot, jacobians, current, push, torque)
            if half == 0:
                for i in range(m):
                    states[k, i], out[k, i] = point[i], current[i]
                if k == count - 1:
                    break
                place = _moved(robot, point, point, current, 0.5 * step)
            else:
                point = _moved(robot, point, place, current, step)
    return states, out
