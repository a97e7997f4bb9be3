"""Motion of a simulated thruster chain, compiled: fourth-order Runge-Kutta on all that acts on it.

Beside its thrusters, which follow commands with a lag, a link is moved by a viscous film of air, by air drag, by the
table's tilt and by draughts; a joint by friction, by a cable and by its end stops. With all of them zero it is the
paper's chain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from onboard_estimation.base.measurement import Matrix, Vector
from thruster_chain_estimation.model import dynamics as d
from thruster_chain_estimation.model.dynamics import LINK


class Physics(NamedTuple):
    """A chain as it is, and what acts on it. N links, N - 1 joints.

    Attributes
    ----------
    mass, inertia
        (N,) kg, and kg m^2 about the centre of mass.
    behind, ahead, thruster
        (N, 2) from the centre of mass to pins and thruster, in the link's frame, m.
    angle, gain, reverse_gain, time_constant, dead_band
        (N,) of the thrusters: direction in the link's frame (rad), thrust by command forward and in reverse, lag (s; 0:
        none), least command that starts them (N).
    film, film_turning, air
        (N,) viscous drag (N s/m) and that against turning (N m s), quadratic drag (N s^2/m^2).
    slope
        (2,) acceleration by the table's tilt, m/s^2.
    friction, cable_rest
        (N - 1,) Coulomb friction (N m), angle at which the cable is without torque (rad).
    joint
        (6,) slip rate (rad/s), damping (N m s), stiffness of the cable (N m/rad), travel (rad), stiffness and damping
        of the end stops (N m/rad, N m s/rad).
    """

    mass: Vector
    inertia: Vector
    behind: Matrix
    ahead: Matrix
    thruster: Matrix
    angle: Vector
    gain: Vector
    reverse_gain: Vector
    time_constant: Vector
    dead_band: Vector
    film: Vector
    film_turning: Vector
    air: Vector
    slope: Vector
    friction: Vector
    cable_rest: Vector
    joint: Vector


@njit(cache=True)
def target_thrust(physics: Physics, command: Vector) -> Vector:
    """(N,) thrust that commands lead to in the end, N."""
    target = np.zeros(len(command))
    for i in range(len(command)):
        if abs(command[i]) >= physics.dead_band[i]:
            target[i] = command[i] * (physics.gain[i] if command[i] >= 0.0 else physics.reverse_gain[i])
    return target


@njit(cache=True)
def _turned(angle: float, vector: Vector) -> tuple[float, float]:
    c, s = np.cos(angle), np.sin(angle)
    return c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]


@njit(cache=True)
def centres(physics: Physics, state: Vector, place: Matrix, velocity: Matrix) -> None:
    """Into (N, 2) arrays where the centres of mass are and how they move, from the first's and the headings.

    `state`: headings (N), rates (N), x, y, vx, vy of the first link's centre of mass, thrusts (N).
    """
    n = len(physics.mass)
    place[0], velocity[0] = state[2 * n : 2 * n + 2], state[2 * n + 2 : 2 * n + 4]
    for i in range(1, n):
        hx, hy = _turned(state[i - 1], physics.ahead[i - 1])
        bx, by = _turned(state[i], physics.behind[i])
        w, v = state[n + i - 1], state[n + i]
        place[i, 0], place[i, 1] = place[i - 1, 0] + hx - bx, place[i - 1, 1] + hy - by
        velocity[i, 0] = velocity[i - 1, 0] - w * hy + v * by
        velocity[i, 1] = velocity[i - 1, 1] + w * hx - v * bx


@njit(cache=True)
def _forces(physics: Physics, state: Vector, velocity: Matrix, draught: Matrix, force: Matrix, torque: Vector) -> None:
    """Into (N, 2) and (N,) what acts on each link but the forces in the joints, in the room's frame."""
    n = len(physics.mass)
    slip, damping, cable, travel, stop, stop_damping = physics.joint
    for i in range(n):
        thrust, direction = state[2 * n + 4 + i], state[i] + physics.angle[i]
        fx, fy = thrust * np.cos(direction), thrust * np.sin(direction)
        px, py = _turned(state[i], physics.thruster[i])
        drag = physics.film[i] + physics.air[i] * np.sqrt(velocity[i, 0] ** 2 + velocity[i, 1] ** 2)
        force[i, 0] = fx - drag * velocity[i, 0] + physics.mass[i] * physics.slope[0] + draught[i, 0]
        force[i, 1] = fy - drag * velocity[i, 1] + physics.mass[i] * physics.slope[1] + draught[i, 1]
        torque[i] = px * fy - py * fx - physics.film_turning[i] * state[n + i]
    for k in range(n - 1):
        angle, rate = state[k + 1] - state[k], state[n + k + 1] - state[n + k]
        moment = -physics.friction[k] * np.tanh(rate / slip) - damping * rate
        moment -= cable * (angle - physics.cable_rest[k])
        if abs(angle) > travel:
            moment -= stop * (angle - np.copysign(travel, angle)) + stop_damping * rate
        torque[k + 1] += moment
        torque[k] -= moment


@njit(cache=True)
def _derivative(
    physics: Physics,
    state: Vector,
    target: Vector,
    draught: Matrix,
    out: Vector,
    own: Matrix,
    angular: Vector,
    linear: Matrix,
) -> None:
    """Into `out` the derivative of the state (3N + 4), beside it `own`, `angular` and `linear` of `Motion`."""
    n = len(physics.mass)
    place, velocity, torque, blocks = np.empty((n, 2)), np.empty((n, 2)), np.empty(n), np.zeros((n + 2) * LINK)
    centres(physics, state, place, velocity)
    _forces(physics, state, velocity, draught, own, torque)
    for i in range(n):
        block = blocks[(i + 1) * LINK : (i + 2) * LINK]
        (bx, by), (hx, hy) = _turned(state[i], physics.behind[i]), _turned(state[i], physics.ahead[i])
        own[i] /= physics.mass[i]
        block[d.RATE] = state[n + i]
        block[d.RECIPROCAL], block[d.TURNED_BY] = 1.0 / physics.mass[i], 1.0 / physics.inertia[i]
        block[d.BX], block[d.BY], block[d.HX], block[d.HY] = -by, bx, -hy, hx
        block[d.FREE_X], block[d.FREE_Y], block[d.FREE_TURN] = own[i, 0], own[i, 1], torque[i] / physics.inertia[i]
    d.join(n, 1, blocks)
    for i in range(n):
        block, lag = blocks[(i + 1) * LINK : (i + 2) * LINK], physics.time_constant[i]
        angular[i], linear[i, 0], linear[i, 1] = block[d.TURN], block[d.AX], block[d.AY]
        out[i], out[n + i] = state[n + i], angular[i]
        out[2 * n + 4 + i] = (target[i] - state[2 * n + 4 + i]) / lag if lag > 0.0 else 0.0
    out[2 * n : 2 * n + 2], out[2 * n + 2 : 2 * n + 4] = state[2 * n + 2 : 2 * n + 4], linear[0]


class Motion(NamedTuple):
    """What a chain does at K instants, a step apart.

    Attributes
    ----------
    states
        (K, 3N + 4), see `centres`.
    place, linear
        (K, N, 2) of the centres of mass: where, m, and accelerations, m/s^2.
    angular
        (K, N) angular accelerations, rad/s^2.
    own
        (K, N, 2) the forces on each link but those of the joints, over its mass: the paper's equation (32), m/s^2.
    """

    states: Matrix
    place: Matrix
    linear: Matrix
    angular: Matrix
    own: Matrix


@njit(cache=True)
def drive(physics: Physics, state: Vector, commands: Matrix, draughts: Matrix, held: int, step_s: float) -> Motion:
    """The motion from a state on, K steps by commands (K, N) and draughts (K, N, 2) that hold through a step each.

    The first `held` steps the chain stands still: the air is off. There are K + 1 instants; what is told of the last
    one belongs to the commands of the last step.
    """
    count, n = len(commands), len(physics.mass)
    states, place, angular = np.empty((count + 1, 3 * n + 4)), np.empty((count + 1, n, 2)), np.zeros((count + 1, n))
    linear, own, slopes = np.zeros((count + 1, n, 2)), np.zeros((count + 1, n, 2)), np.empty((4, 3 * n + 4))
    velocity, aside, aside_angular, aside_linear = np.empty((n, 2)), np.empty((n, 2)), np.empty(n), np.empty((n, 2))
    now = state.copy()
    for k in range(count + 1):
        last = min(k, count - 1)
        target, draught = target_thrust(physics, commands[last]), draughts[last]
        for i in range(n):
            if physics.time_constant[i] <= 0.0:
                now[2 * n + 4 + i] = target[i]
        states[k] = now
        centres(physics, now, place[k], velocity)
        if k < held:
            continue
        _derivative(physics, now, target, draught, slopes[0], own[k], angular[k], linear[k])
        if k == count:
            break
        for j, ahead in ((1, 0.5), (2, 0.5), (3, 1.0)):
            there = now + ahead * step_s * slopes[j - 1]
            _derivative(physics, there, target, draught, slopes[j], aside, aside_angular, aside_linear)
        now = now + step_s / 6.0 * (slopes[0] + 2.0 * slopes[1] + 2.0 * slopes[2] + slopes[3])
    return Motion(states, place, linear, angular, own)
