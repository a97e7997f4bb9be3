"""Compiled response of a chain to its thrusters, with all that a real one has: what the parameter filter predicts.

The predicted quantities are the angular acceleration of each link and the specific force in the middle of the first
one, along and across it: N + 2 numbers, as many as the chain has degrees of freedom. Gravity is in neither.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.manifold_kernels import sine_cosine
from thruster_chain_estimation.model import dynamics as d
from thruster_chain_estimation.model import parameter_layout as parts
from thruster_chain_estimation.model.dynamics import LANES, LINK

FORWARD, BACKWARD, FORWARD_BY_LAG, BACKWARD_BY_LAG, FORWARD_RATE, BACKWARD_RATE = range(6)
"""Of a thruster: response to its forward and to its backward commands, derivatives by the log of its time constant, and
in time; all for a thrust equal to the command."""
MIDDLE = 0.6  # of the limit: where a curved thrust equals a straight one

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
STRIPS, SHARES = _NODES.copy(), 0.5 * _WEIGHTS
"""Drag across a link, which turns as it moves, is summed over strips (Gauss-Legendre)."""


@njit(cache=True)
def advance_thrust(thrust: Matrix, commands: Vector, lag_s: Vector, step_s: float) -> None:
    """Move the thrusters (N, 6) on by a step with constant commands (N,): first-order lags and their derivatives."""
    for i in range(commands.shape[0]):
        decay = np.exp(-step_s / lag_s[i])
        for way in range(2):
            asked = max(commands[i], 0.0) if way == 0 else min(commands[i], 0.0)
            lacking = thrust[i, way] - asked
            thrust[i, 2 + way] = decay * (thrust[i, 2 + way] + lacking * step_s / lag_s[i])
            thrust[i, way] = asked + decay * lacking
            thrust[i, 4 + way] = (asked - thrust[i, way]) / lag_s[i]


class Given(NamedTuple):
    """What the parameters explain, over a window of K ticks.

    Attributes
    ----------
    headings, rates, velocities
        (K, N), (K, N), (K, N, 2) of the links and their middles, as the navigation has them.
    thrust, bristles
        (K, N, 6) as `advance_thrust` has them; (K, N - 1) turn of each joint's bristles, rad.
    design
        (N, 6) of each link: mass, inertia, half length, thruster x y and angle.
    reference
        (N + 1,) logs of the time constants and the delay that `thrust` was made with.
    """

    headings: Matrix
    rates: Matrix
    velocities: Matrix
    thrust: Matrix
    bristles: Matrix
    design: Matrix
    reference: Vector
    limit_n: float


@njit(cache=True, error_model="numpy")
def respond(given: Given, tick: int, parameters: Matrix, extra: Matrix, blocks: Vector, out: Matrix) -> None:
    """Into `out` (N + 2, LANES) specific force in the middle of the first link, and the angular accelerations.

    Parameters
    ----------
    parameters
        (n, LANES) see `parameter_layout`.
    extra
        (3N, LANES) torques, and forces along and across each link, beside all others: disturbances.
    blocks
        (N + 2) LINK zeros, scratch of `dynamics`.
    """
    count, rate = len(given.design), given.rates[tick, 0]
    for i in range(count):
        block = blocks[(i + 1) * LINK : (i + 2) * LINK]
        _weigh(given, tick, i, parameters, block)
        _thrust(given, tick, i, parameters, block)
        _resist(given, tick, i, parameters, block)
        _free(given, tick, i, parameters, extra, block)
    for j in range(count - 1):
        behind, ahead = blocks[(j + 1) * LINK : (j + 2) * LINK], blocks[(j + 2) * LINK : (j + 3) * LINK]
        _pass_torque(given, tick, j, parameters, behind, ahead)
    d.join(count, LANES, blocks)
    block, c, s = blocks[LINK : 2 * LINK], np.cos(given.headings[tick, 0]), np.sin(given.headings[tick, 0])
    for k in range(LANES):
        cx, cy = parameters[parts.CENTRE_X, k], parameters[parts.CENTRE_Y, k]
        ax, ay, turn = block[d.AX + k], block[d.AY + k], block[d.TURN + k]
        out[0, k] = c * ax + s * ay + turn * cy + rate * rate * cx
        out[1, k] = c * ay - s * ax - turn * cx + rate * rate * cy
    for i in range(count):
        turns = blocks[(i + 1) * LINK + d.TURN : (i + 1) * LINK + d.TURN + LANES]
        for k in range(LANES):
            out[2 + i, k] = turns[k]


@njit(cache=True, error_model="numpy")
def _weigh(given: Given, tick: int, i: int, parameters: Matrix, block: Vector) -> None:
    """Mass, inertia, and pins as seen from the centre of mass, turned by a right angle, in the room's frame."""
    base, half = parts.LINK * i, given.design[i, 2]
    c, s = np.cos(given.headings[tick, i]), np.sin(given.headings[tick, i])
    for k in range(LANES):
        cx, cy = parameters[base + parts.CENTRE_X, k], parameters[base + parts.CENTRE_Y, k]
        block[d.RECIPROCAL + k] = np.exp(-parameters[base + parts.LOG_MASS, k]) / given.design[i, 0]
        block[d.TURNED_BY + k] = np.exp(-parameters[base + parts.LOG_INERTIA, k]) / given.design[i, 1]
        block[d.RATE + k] = given.rates[tick, i]
        block[d.BX + k], block[d.BY + k] = s * (half + cx) + c * cy, -c * (half + cx) + s * cy
        block[d.HX + k], block[d.HY + k] = -s * (half - cx) + c * cy, c * (half - cx) + s * cy


@njit(cache=True, error_model="numpy")
def _thrust(given: Given, tick: int, i: int, parameters: Matrix, block: Vector) -> None:
    """Its force along and across the link, and its torque about the middle, into the rows of the free acceleration."""
    base, chain = parts.LINK * i, parts.chain_part(len(given.design))
    thrust, design, reference, limit_n = given.thrust[tick, i], given.design[i], given.reference, given.limit_n
    for k in range(LANES):
        lag = parameters[base + parts.LOG_LAG, k] - reference[i]
        later = parameters[chain + parts.DELAY, k] - reference[-1]
        forward = thrust[FORWARD] + lag * thrust[FORWARD_BY_LAG] - later * thrust[FORWARD_RATE]
        backward = thrust[BACKWARD] + lag * thrust[BACKWARD_BY_LAG] - later * thrust[BACKWARD_RATE]
        both = forward + (1.0 + parameters[base + parts.REVERSE, k]) * backward
        push = (1.0 + parameters[base + parts.GAIN, k]) * both
        push *= 1.0 + parameters[chain + parts.CURVATURE, k] * (abs(push) / limit_n - MIDDLE)
        sine, cosine = sine_cosine(design[5] + parameters[base + parts.DIRECTION, k])
        px, py = design[3] + parameters[base + parts.THRUSTER_X, k], design[4] + parameters[base + parts.THRUSTER_Y, k]
        block[d.FREE_X + k], block[d.FREE_Y + k] = push * cosine, push * sine
        block[d.FREE_TURN + k] = push * (px * sine - py * cosine)


@njit(cache=True, error_model="numpy")
def _resist(given: Given, tick: int, i: int, parameters: Matrix, block: Vector) -> None:
    """Less the drag, by the velocity against the air; across the link summed over strips."""
    chain, half, rate = parts.chain_part(len(given.design)), given.design[i, 2], given.rates[tick, i]
    c, s = np.cos(given.headings[tick, i]), np.sin(given.headings[tick, i])
    for k in range(LANES):
        vx = given.velocities[tick, i, 0] + parameters[chain + parts.VELOCITY_X, k] - parameters[chain + parts.AIR_X, k]
        vy = given.velocities[tick, i, 1] + parameters[chain + parts.VELOCITY_Y, k] - parameters[chain + parts.AIR_Y, k]
        along, across = c * vx + s * vy, c * vy - s * vx
        block[d.FREE_X + k] -= (
            parameters[chain + parts.ALONG_LINEAR, k] + parameters[chain + parts.ALONG_QUADRATIC, k] * abs(along)
        ) * along
        linear, quadratic = parameters[chain + parts.ACROSS_LINEAR, k], parameters[chain + parts.ACROSS_QUADRATIC, k]
        for strip in range(4):
            arm = half * STRIPS[strip]
            speed = across + rate * arm
            drag = SHARES[strip] * (linear + quadratic * abs(speed)) * speed
            block[d.FREE_Y + k] -= drag
            block[d.FREE_TURN + k] -= arm * drag


@njit(cache=True, error_model="numpy")
def _free(given: Given, tick: int, i: int, parameters: Matrix, extra: Matrix, block: Vector) -> None:
    """With disturbances: from forces and torque about the middle to accelerations of and about the centre of mass."""
    base, count = parts.LINK * i, len(given.design)
    c, s = np.cos(given.headings[tick, i]), np.sin(given.headings[tick, i])
    for k in range(LANES):
        fx, fy = block[d.FREE_X + k] + extra[count + 2 * i, k], block[d.FREE_Y + k] + extra[count + 2 * i + 1, k]
        cx, cy = parameters[base + parts.CENTRE_X, k], parameters[base + parts.CENTRE_Y, k]
        reciprocal = block[d.RECIPROCAL + k]
        torque = block[d.FREE_TURN + k] - cx * fy + cy * fx + extra[i, k]
        block[d.FREE_X + k], block[d.FREE_Y + k] = reciprocal * (c * fx - s * fy), reciprocal * (s * fx + c * fy)
        block[d.FREE_TURN + k] = block[d.TURNED_BY + k] * torque


@njit(cache=True, error_model="numpy")
def _pass_torque(given: Given, tick: int, j: int, parameters: Matrix, behind: Vector, ahead: Vector) -> None:
    """Cable and friction of a joint turn both of its links."""
    base = parts.LINK * len(given.design) + parts.JOINT * j
    bent = given.headings[tick, j + 1] - given.headings[tick, j]
    bending = given.rates[tick, j + 1] - given.rates[tick, j]
    for k in range(LANES):
        dry = parameters[base + parts.DRY, k] * given.bristles[tick, j] / parts.BRISTLE_RAD
        passed = parameters[base + parts.REST_TORQUE, k] + dry
        passed += parameters[base + parts.STIFFNESS, k] * bent + parameters[base + parts.VISCOUS, k] * bending
        behind[d.FREE_TURN + k] += behind[d.TURNED_BY + k] * passed
        ahead[d.FREE_TURN + k] -= ahead[d.TURNED_BY + k] * passed


@njit(cache=True, error_model="numpy")
def expect(
    parameters: Vector, given: Given, steps: Vector, predicted: Vector, jacobian: Matrix, disturbed: Matrix
) -> None:
    """Means over a window: into `predicted` (N + 2,), `jacobian` (N + 2, n), `disturbed` (N + 2, 3N).

    Derivatives are differences over `steps` (n,), zero where a parameter has no effect; `disturbed` is by the torques
    and forces `extra` of `respond`, in which it is linear, in the middle of the window.
    """
    window, count, n = len(given.headings), len(given.design), len(parameters)
    blocks, out = np.zeros((count + 2) * LINK), np.empty((count + 2, LANES))
    tried, extra = np.empty((n, LANES)), np.empty((3 * count, LANES))
    asked = np.concatenate((np.flatnonzero(steps), n + np.arange(3 * count)))
    share, middle = 1.0 / window, window // 2
    predicted[:] = jacobian[:] = disturbed[:] = 0.0
    for first in range(0, len(asked), LANES - 1):
        columns = asked[first : first + LANES - 1]
        extra[:] = 0.0
        for p in range(n):
            tried[p] = parameters[p]
        for lane, column in enumerate(columns):  # the first lane has nothing moved
            if column < n:
                tried[column, 1 + lane] += steps[column]
            else:
                extra[column - n, 1 + lane] = 1.0
        for k in range(window):
            respond(given, k, tried, extra, blocks, out)
            for row in range(count + 2):
                if first == 0:
                    predicted[row] += share * out[row, 0]
                for lane, column in enumerate(columns):
                    change = out[row, 1 + lane] - out[row, 0]
                    if column < n:
                        jacobian[row, column] += share * change / steps[column]
                    elif k == middle:
                        disturbed[row, column - n] = change
