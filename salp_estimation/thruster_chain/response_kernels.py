"""Compiled response of a chain to its thrusters, with all that a real one has: what the parameter filter predicts.

The predicted quantities are the angular acceleration of each link and the specific force in the middle of the first
one, along and across it: N + 2 numbers, as many as the chain has degrees of freedom. Gravity is in neither.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.thruster_chain.dynamics import accelerate
from salp_estimation.thruster_chain.parameter_layout import (
    ACROSS_LINEAR,
    ACROSS_QUADRATIC,
    AIR_X,
    AIR_Y,
    ALONG_LINEAR,
    ALONG_QUADRATIC,
    BRISTLE_RAD,
    CENTRE_X,
    CENTRE_Y,
    CURVATURE,
    DELAY,
    DIRECTION,
    DRY,
    GAIN,
    JOINT,
    LINK,
    LOG_INERTIA,
    LOG_LAG,
    LOG_MASS,
    REST_TORQUE,
    REVERSE,
    STIFFNESS,
    THRUSTER_X,
    THRUSTER_Y,
    VELOCITY_X,
    VELOCITY_Y,
    VISCOUS,
)

Vector = NDArray[np.float64]
Rows = NDArray[np.float64]

FORWARD, BACKWARD, FORWARD_BY_LAG, BACKWARD_BY_LAG, FORWARD_RATE, BACKWARD_RATE = range(6)
"""Of a thruster: response to its forward and to its backward commands, derivatives by the log of its time constant, and
in time; all for a thrust equal to the command."""
MIDDLE = 0.6  # of the limit: where a curved thrust equals a straight one

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
STRIPS, SHARES = _NODES.copy(), 0.5 * _WEIGHTS
"""Drag across a link, which turns as it moves, is summed over strips (Gauss-Legendre)."""


@njit(cache=True)
def advance_thrust(thrust: Rows, commands: Vector, lag_s: Vector, step_s: float) -> None:
    """Move the thrusters (N, 6) on by a step with constant commands (N,): first-order lags and their derivatives."""
    for i in range(commands.shape[0]):
        decay = np.exp(-step_s / lag_s[i])
        for way in range(2):
            asked = max(commands[i], 0.0) if way == 0 else min(commands[i], 0.0)
            lacking = thrust[i, way] - asked
            thrust[i, 2 + way] = decay * (thrust[i, 2 + way] + lacking * step_s / lag_s[i])
            thrust[i, way] = asked + decay * lacking
            thrust[i, 4 + way] = (asked - thrust[i, way]) / lag_s[i]


@njit(cache=True)
def respond(
    parameters: Vector,
    headings: Vector,
    rates: Vector,
    velocities: Rows,
    thrust: Rows,
    bristles: Vector,
    design: Rows,
    reference: Vector,
    limit_n: float,
    extra: Vector,
    out: Vector,
) -> None:
    """Into `out` (N + 2,) the angular accelerations, and the specific force in the middle of the first link.

    Parameters
    ----------
    parameters
        (n,) see `parameter_layout`.
    headings, rates, velocities
        (N,), (N,), (N, 2) of the links and their middles, as the navigation has them.
    thrust, bristles
        (N, 6) as `advance_thrust` has them; (N - 1,) turn of each joint's bristles, rad.
    design
        (N, 6) of each link: mass, inertia, half length, thruster x y and angle.
    reference
        (N + 1,) logs of the time constants and the delay that `thrust` was made with.
    extra
        (3N,) torques, and forces along and across each link, beside all others: disturbances.
    """
    count = headings.shape[0]
    joints, chain = LINK * count, LINK * count + JOINT * (count - 1)
    along1, along2 = parameters[chain + ALONG_LINEAR], parameters[chain + ALONG_QUADRATIC]
    across1, across2 = parameters[chain + ACROSS_LINEAR], parameters[chain + ACROSS_QUADRATIC]
    later = parameters[chain + DELAY] - reference[count]
    mass, inertia, torque = np.empty(count), np.empty(count), np.empty(count)
    behind, ahead, force = np.empty((count, 2)), np.empty((count, 2)), np.empty((count, 2))
    for i in range(count):
        base = LINK * i
        cx, cy, half = parameters[base + CENTRE_X], parameters[base + CENTRE_Y], design[i, 2]
        mass[i] = design[i, 0] * np.exp(parameters[base + LOG_MASS])
        inertia[i] = design[i, 1] * np.exp(parameters[base + LOG_INERTIA])
        behind[i, 0], behind[i, 1], ahead[i, 0], ahead[i, 1] = -half - cx, -cy, half - cx, -cy
        lag = parameters[base + LOG_LAG] - reference[i]
        forward = thrust[i, FORWARD] + lag * thrust[i, FORWARD_BY_LAG] - later * thrust[i, FORWARD_RATE]
        backward = thrust[i, BACKWARD] + lag * thrust[i, BACKWARD_BY_LAG] - later * thrust[i, BACKWARD_RATE]
        push = (1.0 + parameters[base + GAIN]) * (forward + (1.0 + parameters[base + REVERSE]) * backward)
        push *= 1.0 + parameters[chain + CURVATURE] * (abs(push) / limit_n - MIDDLE)
        angle = design[i, 5] + parameters[base + DIRECTION]
        fx, fy = push * np.cos(angle), push * np.sin(angle)
        px, py = design[i, 3] + parameters[base + THRUSTER_X], design[i, 4] + parameters[base + THRUSTER_Y]
        turning = px * fy - py * fx
        c, s = np.cos(headings[i]), np.sin(headings[i])
        vx = velocities[i, 0] + parameters[chain + VELOCITY_X] - parameters[chain + AIR_X]
        vy = velocities[i, 1] + parameters[chain + VELOCITY_Y] - parameters[chain + AIR_Y]
        along, across = c * vx + s * vy, -s * vx + c * vy
        fx -= (along1 + along2 * abs(along)) * along
        for k in range(STRIPS.shape[0]):
            arm = half * STRIPS[k]
            speed = across + rates[i] * arm
            drag = SHARES[k] * (across1 + across2 * abs(speed)) * speed
            fy -= drag
            turning -= arm * drag
        fx += extra[count + 2 * i]
        fy += extra[count + 2 * i + 1]
        torque[i] = turning - cx * fy + cy * fx + extra[i]
        force[i, 0], force[i, 1] = c * fx - s * fy, s * fx + c * fy
    for j in range(count - 1):
        base = joints + JOINT * j
        passed = parameters[base + REST_TORQUE] + parameters[base + DRY] * bristles[j] / BRISTLE_RAD
        passed += parameters[base + STIFFNESS] * (headings[j + 1] - headings[j])
        passed += parameters[base + VISCOUS] * (rates[j + 1] - rates[j])
        torque[j] += passed
        torque[j + 1] -= passed
    linear, joint, angular = np.empty((count, 2)), np.empty((count + 1, 2)), np.empty(count)
    accelerate(headings, rates, mass, inertia, behind, ahead, force, torque, False, angular, linear, joint)
    cx, cy = parameters[CENTRE_X], parameters[CENTRE_Y]
    c, s = np.cos(headings[0]), np.sin(headings[0])
    out[0] = c * linear[0, 0] + s * linear[0, 1] + angular[0] * cy + rates[0] ** 2 * cx
    out[1] = -s * linear[0, 0] + c * linear[0, 1] - angular[0] * cx + rates[0] ** 2 * cy
    out[2:] = angular


@njit(cache=True)
def expect(
    parameters: Vector,
    headings: Rows,
    rates: Rows,
    velocities: Rows,
    thrust: Rows,
    bristles: Rows,
    design: Rows,
    reference: Vector,
    limit_n: float,
    steps: Vector,
    predicted: Vector,
    jacobian: Rows,
    disturbed: Rows,
) -> None:
    """Means over the K ticks of a window: into `predicted` (N + 2,), `jacobian` (N + 2, n), `disturbed` (N + 2, 3N).

    All but the parameters have K as first axis. Derivatives are differences over `steps` (n,), zero where a parameter
    has no effect; `disturbed` is by the torques and forces `extra` of `respond`, in which it is linear.
    """
    window, count = headings.shape
    extra, out, other = np.zeros(3 * count), np.empty(count + 2), np.empty(count + 2)
    predicted[:] = 0.0
    jacobian[:] = 0.0
    disturbed[:] = 0.0
    tried = parameters.copy()
    share = 1.0 / window
    for k in range(window):
        given = headings[k], rates[k], velocities[k], thrust[k], bristles[k], design, reference, limit_n
        respond(parameters, *given, extra, out)
        predicted += share * out
        if k == window // 2:
            for e in range(3 * count):
                extra[e] = 1.0
                respond(parameters, *given, extra, other)
                disturbed[:, e] = other - out
                extra[e] = 0.0
        for p in range(parameters.shape[0]):
            if steps[p] > 0.0:
                tried[p] = parameters[p] + steps[p]
                respond(tried, *given, extra, other)
                tried[p] = parameters[p]
                jacobian[:, p] += share * (other - out) / steps[p]
