"""Compiled motion of a chain with dry friction and a harness: what the quasi-static model leaves out.

At every instant the rates q' = (forward, left and turning speed of link 1 at its centre, along its axes; joint rates)
balance drag, thrust, Coulomb friction of wheels and joints, harness and disturbing forces:

    sum_i J_i^T [d_i v_i - d_xx u_i e_x + F_i tanh(v_i / v_s) - w_i] + joint torques = 0,   v_i = J_i q'.

It is the gradient of a convex function of q', so that a damped Newton iteration finds its only solution. Dense algebra:
a simulator of tens of links needs no other.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import wrap
from salp_estimation import chain_kernels as chain

Array = NDArray[np.float64]

_ITERATIONS = 60


@njit(cache=True, error_model="numpy")
def wheel_jacobians(links: Array, joint_angles: Array) -> Array:
    """(N, 3, N + 2): twist of each wheel along its own axes from the rates q'."""
    n = links.shape[0]
    headings, joints, wheels = chain.geometry(links, joint_angles)
    out = np.zeros((n, 3, n + 2))
    for i in range(n):
        c, s = np.cos(headings[i] + links[i, chain.WHEEL_ANGLE]), np.sin(headings[i] + links[i, chain.WHEEL_ANGLE])
        out[i, 0, 0], out[i, 0, 1] = c, s
        out[i, 1, 0], out[i, 1, 1] = -s, c
        for column in range(2, 3 + i):
            x, y = wheels[i, 0], wheels[i, 1]
            if column > 2:
                x -= joints[column - 3, 0]
                y -= joints[column - 3, 1]
            out[i, 0, column] = s * x - c * y
            out[i, 1, column] = c * x + s * y
            out[i, 2, column] = 1.0
    return out


@njit(cache=True, error_model="numpy")
def _residual(
    jacobians: Array,
    rates: Array,
    drag: Array,
    push: Array,
    friction: Array,
    slip: Array,
    joint_drag: Array,
    joint_friction: Array,
    joint_slip: float,
    torque: Array,
    gradient: Array,
    hessian: Array,
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
                total += drag[i, a, b] * twist[b]
                stiffness[a, b] = drag[i, a, b]
            potential += 0.5 * twist[a] * total - push[i, a] * twist[a]
            ratio = twist[a] / slip[a]
            hold = np.tanh(ratio)
            # log cosh, without overflow
            potential += friction[i, a] * slip[a] * (abs(ratio) + np.log1p(np.exp(-2.0 * abs(ratio))))
            force[a] = total - push[i, a] + friction[i, a] * hold
            stiffness[a, a] += friction[i, a] / slip[a] * (1.0 - hold * hold)
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
        rate = rates[3 + j]
        ratio = rate / joint_slip
        hold = np.tanh(ratio)
        potential += 0.5 * joint_drag[j] * rate * rate - torque[j] * rate
        potential += joint_friction[j] * joint_slip * (abs(ratio) + np.log1p(np.exp(-2.0 * abs(ratio))))
        gradient[3 + j] += joint_drag[j] * rate - torque[j] + joint_friction[j] * hold
        hessian[3 + j, 3 + j] += joint_drag[j] + joint_friction[j] / joint_slip * (1.0 - hold * hold)
    return potential


@njit(cache=True, error_model="numpy")
def balance(
    jacobians: Array,
    start: Array,
    drag: Array,
    push: Array,
    friction: Array,
    slip: Array,
    joint_drag: Array,
    joint_friction: Array,
    joint_slip: float,
    torque: Array,
) -> Array:
    """Rates (N + 2,) at which all forces balance, found from `start`.

    Parameters
    ----------
    drag, push, friction
        (N, 3, 3), (N, 3), (N, 3): drag matrices, thrust and disturbing wrenches, Coulomb friction of the wheels, each
        along the wheel's axes.
    slip, joint_slip
        (3,) and scalar: speeds at which friction has reached tanh 1 of its whole size.
    joint_drag, joint_friction, torque
        (N - 1,): of the joints; the torque is the harness's.
    """
    m = start.shape[0]
    rates = start.copy()
    gradient, hessian = np.empty(m), np.empty((m, m))
    trial_gradient, trial_hessian = np.empty(m), np.empty((m, m))
    value = _residual(
        jacobians, rates, drag, push, friction, slip, joint_drag, joint_friction, joint_slip, torque, gradient, hessian
    )
    for _ in range(_ITERATIONS):
        step = np.linalg.solve(hessian, gradient)
        decrease = np.dot(step, gradient)
        if decrease < 1e-16:
            break
        share = 1.0
        while True:
            trial = rates - share * step
            ahead = _residual(
                jacobians,
                trial,
                drag,
                push,
                friction,
                slip,
                joint_drag,
                joint_friction,
                joint_slip,
                torque,
                trial_gradient,
                trial_hessian,
            )
            if ahead <= value - 0.1 * share * decrease + 1e-15 or share < 1e-3:
                break
            share *= 0.5
        rates, value = trial, ahead
        gradient[:] = trial_gradient
        hessian[:] = trial_hessian
    return rates


@njit(cache=True, error_model="numpy")
def drive(
    links: Array,
    state: Array,
    rates: Array,
    speeds: Array,
    disturbance: Array,
    step: float,
    drag: Array,
    thrust: Array,
    friction: Array,
    slip: Array,
    joint_friction: Array,
    joint_slip: float,
    stiffness: Array,
    rest_angles: Array,
) -> tuple[Array, Array]:
    """States (K + 1, N + 2) of link 1 (x, y, heading) and joints, and their rates, over K steps (midpoint rule).

    Parameters
    ----------
    state, rates
        (N + 2,) at the start.
    speeds, disturbance
        (K + 1, N) rim speeds and (K + 1, N, 3) disturbing wrenches of the wheels at the ends of the steps.
    thrust
        (N,) N per m/s of rim speed.
    stiffness, rest_angles
        (N - 1,) of the harness, N m/rad and rad.
    """
    count, m = speeds.shape[0], state.shape[0]
    n = m - 2
    states, out = np.empty((count, m)), np.empty((count, m))
    joint_drag = links[: n - 1, chain.JOINT_DRAG].copy()
    push, torque = np.empty((n, 3)), np.empty(n - 1)
    point, middle = state.copy(), np.empty(m)
    current = rates.copy()
    for k in range(count):
        for half in range(2):
            place = point if half == 0 else middle
            after = k if half == 0 else min(k + 1, count - 1)
            for i in range(n):
                for a in range(3):
                    push[i, a] = 0.5 * (disturbance[k, i, a] + disturbance[after, i, a])
                push[i, 0] += thrust[i] * 0.5 * (speeds[k, i] + speeds[after, i])
            for j in range(n - 1):
                torque[j] = -stiffness[j] * (place[3 + j] - rest_angles[j])
            jacobians = wheel_jacobians(links, place[3:].copy())
            current = balance(
                jacobians, current, drag, push, friction, slip, joint_drag, joint_friction, joint_slip, torque
            )
            if half == 0:
                states[k] = point
                out[k] = current
                if k == count - 1:
                    break
            ahead = 0.5 * step if half == 0 else step
            heading = point[2] if half == 0 else middle[2]
            c, s = np.cos(heading), np.sin(heading)
            target = middle if half == 0 else point
            x, y = c * current[0] - s * current[1], s * current[0] + c * current[1]
            base_x, base_y, base_heading = point[0], point[1], point[2]
            for j in range(n - 1):
                reached = point[3 + j] + ahead * current[3 + j]
                target[3 + j] = min(max(reached, links[j, chain.LOWER]), links[j, chain.UPPER])
            target[0], target[1] = base_x + ahead * x, base_y + ahead * y
            target[2] = wrap(base_heading + ahead * current[2])
    return states, out
