"""Compiled motion of a simulated soft segment: a chain of stiff pieces, each with an elastic joint in its middle.

A joint bends in two directions and stretches its piece. Coordinates are (a_i, b_i, s_i) for each joint: turns about
the y axis of the piece before (rad, towards x), then about the turned minus x axis (towards y), and elongation (m). The
mass of a piece sits at its joint, that of plate and payload beyond the end. Nothing here is shared with the filters'
constant-curvature model: it may bend in any shape, and has

- elasticity that changes with the angle, along the chain and with the direction;
- relaxation: springs in series with dampers beside the elastic one (generalised Maxwell), slow ones are creep, fast
  ones most of the damping;
- friction: springs that slip (Jenkin elements), which is hysteresis that does not depend on the rate;
- chambers whose area changes with their elongation.

Integrated by the classical Runge-Kutta rule; relaxing and slipping forces follow each stage from where they were at the
start of the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Three = tuple[float, float, float]


class Chain(NamedTuple):
    """A chain of n pieces with C chambers, as it is.

    Attributes
    ----------
    length
        (n,) of the pieces, m.
    mass, beyond
        (n + m,) of the pieces and of what is beyond the end, kg; (m,) distances of these along its tangent, m.
    plate
        From the end to the tip's outer face, m.
    gravity, origin
        (3,) acceleration (m/s^2), and the point that torques are about (m), in the base's frame.
    bending, stretching
        (n,) stiffness of each joint: at small angles (N m/rad), and in elongation (N/m).
    change
        (2,) factor of the bending stiffness at large angles, angle of a joint at half of the change (rad).
    direction
        (2, 2) symmetric: moment for an angle in any direction, as a share of the stiffness.
    relaxing
        (J, 2) springs behind dampers: stiffness as a share of the joint's, relaxation time (s).
    slipping
        (F, 3) springs that slip: stiffness as a share of the joint's, angle (rad) and elongation (m) where they do.
    viscosity_s
        Viscous force of a rate, as a share of the stiffness.
    chambers
        (C, 4) area (m^2), distance from the axis (m), cosine and sine of the angle.
    area_change
        Relative change of a chamber's area with its relative elongation.
    """

    length: Array
    mass: Array
    beyond: Array
    plate: float
    gravity: Array
    origin: Array
    bending: Array
    stretching: Array
    change: Array
    direction: Array
    relaxing: Array
    slipping: Array
    viscosity_s: float
    chambers: Array
    area_change: float


class ChainState(NamedTuple):
    """What changes, written in place: coordinates (3n,), rates (3n,), forces that relax (J, 3n) and slip (F, 3n)."""

    coordinates: Array
    rates: Array
    relaxing: Array
    slipping: Array


class Points(NamedTuple):
    """Room for P = n + m masses: places (P, 3), Jacobians (P, 3, 3n), Jdot qdot (P, 3); end (4, 3): its axes, place."""

    places: Array
    jacobians: Array
    convective: Array
    end: Array


_NEWTON_STEPS, _SHORT, _AT_REST = 50, 1e-6, 1e-11

OUTPUTS = 14
"""Load on the base (force, torque about the origin), pose of the tip's outer face (7), bending stiffness of all."""


@njit(cache=True)
def straight(chain: Chain) -> ChainState:
    """Without any force, and at rest."""
    n = 3 * len(chain.length)
    return ChainState(np.zeros(n), np.zeros(n), np.zeros((len(chain.relaxing), n)), np.zeros((len(chain.slipping), n)))


def hanging(chain: Chain) -> ChainState:
    """At rest without pressure, by Newton's method; creep and friction have come to an end.

    Raises
    ------
    ArithmeticError
        There is no such place: it falls over.
    """
    state, size = straight(chain), 3 * len(chain.length)
    at = state.coordinates
    for _ in range(_NEWTON_STEPS):
        left = static_forces(chain, at)
        columns = [static_forces(chain, at + one) - static_forces(chain, at - one) for one in _SHORT * np.eye(size)]
        step = np.linalg.solve(np.array(columns).T / (2.0 * _SHORT), -left)
        at += step
        if np.abs(step).max() < _AT_REST:
            return state
    raise ArithmeticError(f"the chain finds no place to rest: its last step was {np.abs(step).max():.3g} rad or m")


@njit(cache=True)
def room(chain: Chain) -> Points:
    """Arrays that `locate` writes into."""
    count, n = len(chain.mass), 3 * len(chain.length)
    return Points(np.zeros((count, 3)), np.zeros((count, 3, n)), np.zeros((count, 3)), np.zeros((4, 3)))


@njit(cache=True)
def _cross(a: Three, b: Three) -> Three:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(cache=True)
def _sum(a: Three, p: float, b: Three, q: float) -> Three:
    """P a + q b."""
    return p * a[0] + q * b[0], p * a[1] + q * b[1], p * a[2] + q * b[2]


@njit(cache=True)
def _along(
    place: Three,
    velocity: Three,
    acceleration: Three,
    spin: Three,
    spinning: Three,
    axis: Three,
    u: float,
    u_rate: float,
) -> tuple[Three, Three, Three]:
    """Place, velocity and acceleration of a point `u` further along an axis of a turning body."""
    turning = _cross(spin, axis)
    swinging = _sum(_cross(spinning, axis), 1.0, _cross(spin, turning), 1.0)
    return (
        _sum(place, 1.0, axis, u),
        _sum(velocity, 1.0, _sum(axis, u_rate, turning, u), 1.0),
        _sum(acceleration, 1.0, _sum(turning, 2.0 * u_rate, swinging, u), 1.0),
    )


@njit(cache=True)
def locate(chain: Chain, coordinates: Array, rates: Array, points: Points) -> None:
    """Where the masses are, how they move with the coordinates, and what they are accelerated without their rates'."""
    n = len(chain.length)
    x, y, z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
    zero = (0.0, 0.0, 0.0)
    place, velocity, acceleration, spin, spinning = zero, zero, zero, zero, zero
    joints, axes, pushes = np.empty((n, 3)), np.empty((2 * n, 3)), np.empty((n, 3))
    for i in range(n):
        half, half_rate = 0.5 * (chain.length[i] + coordinates[3 * i + 2]), 0.5 * rates[3 * i + 2]
        place, velocity, acceleration = _along(place, velocity, acceleration, spin, spinning, z, half, half_rate)
        _point(points, i, i, place, acceleration, joints, axes, pushes)
        for row in range(3):
            joints[i, row] = points.places[i, row] = place[row]
            points.jacobians[i, row, 3 * i + 2] = 0.5 * z[row]
        before = z
        a, b, a_rate, b_rate = coordinates[3 * i], coordinates[3 * i + 1], rates[3 * i], rates[3 * i + 1]
        first = y
        spinning = _sum(spinning, 1.0, _cross(spin, first), a_rate)
        spin = _sum(spin, 1.0, first, a_rate)
        x, z = _sum(x, np.cos(a), z, -np.sin(a)), _sum(x, np.sin(a), z, np.cos(a))
        second = (-x[0], -x[1], -x[2])
        spinning = _sum(spinning, 1.0, _cross(spin, second), b_rate)
        spin = _sum(spin, 1.0, second, b_rate)
        y, z = _sum(y, np.cos(b), z, -np.sin(b)), _sum(y, np.sin(b), z, np.cos(b))
        for row in range(3):
            axes[2 * i, row], axes[2 * i + 1, row] = first[row], second[row]
            pushes[i, row] = 0.5 * (before[row] + z[row])
        place, velocity, acceleration = _along(place, velocity, acceleration, spin, spinning, z, half, half_rate)
    for row in range(3):
        points.end[0, row], points.end[1, row], points.end[2, row] = x[row], y[row], z[row]
        points.end[3, row] = place[row]
    for k in range(len(chain.beyond)):
        there, _, swung = _along(place, velocity, acceleration, spin, spinning, z, chain.beyond[k], 0.0)
        _point(points, n + k, n, there, swung, joints, axes, pushes)


@njit(cache=True)
def _point(
    points: Points,
    number: int,
    joints_before: int,
    place: Three,
    acceleration: Three,
    joints: Array,
    axes: Array,
    pushes: Array,
) -> None:
    """A mass behind some joints: each turns it about its axes, and pushes it along."""
    for row in range(3):
        points.places[number, row], points.convective[number, row] = place[row], acceleration[row]
    for i in range(joints_before):
        arm = (place[0] - joints[i, 0], place[1] - joints[i, 1], place[2] - joints[i, 2])
        for turn in range(2):
            axis = axes[2 * i + turn]
            swept = _cross((axis[0], axis[1], axis[2]), arm)
            for row in range(3):
                points.jacobians[number, row, 3 * i + turn] = swept[row]
        for row in range(3):
            points.jacobians[number, row, 3 * i + 2] = pushes[i, row]


@njit(cache=True)
def stiffening(chain: Chain, a: float, b: float) -> float:
    """Bending stiffness of a joint at an angle, as a share of that at small angles."""
    s = chain.direction
    square = s[0, 0] * a * a + (s[0, 1] + s[1, 0]) * a * b + s[1, 1] * b * b
    return 1.0 + (chain.change[0] - 1.0) * square / (square + chain.change[1] ** 2)


@njit(cache=True)
def stage_forces(
    chain: Chain,
    start: ChainState,
    coordinates: Array,
    rates: Array,
    pressures: Array,
    keep: Array,
    gain: Array,
    relaxing: Array,
    slipping: Array,
    out: Array,
) -> None:
    """Generalised forces at a stage, and what relaxing and slipping springs hold there."""
    s = chain.direction
    for i in range(len(chain.length)):
        a, b, e = coordinates[3 * i], coordinates[3 * i + 1], coordinates[3 * i + 2]
        moment = chain.bending[i] * stiffening(chain, a, b)
        out[3 * i] = -moment * (s[0, 0] * a + s[0, 1] * b)
        out[3 * i + 1] = -moment * (s[1, 0] * a + s[1, 1] * b)
        out[3 * i + 2] = -chain.stretching[i] * e
        for kind in range(3):
            column = 3 * i + kind
            stiffness = chain.stretching[i] if kind == 2 else chain.bending[i]
            moved = coordinates[column] - start.coordinates[column]
            out[column] -= chain.viscosity_s * stiffness * rates[column]
            for j in range(len(chain.relaxing)):
                held = keep[j] * start.relaxing[j, column] + gain[j] * chain.relaxing[j, 0] * stiffness * moved
                relaxing[j, column] = held
                out[column] -= held
            for j in range(len(chain.slipping)):
                slipping[j, column] = start.slipping[j, column] + chain.slipping[j, 0] * stiffness * moved
        for j in range(len(chain.slipping)):
            share, angle, elongation = chain.slipping[j, 0], chain.slipping[j, 1], chain.slipping[j, 2]
            most = share * chain.bending[i] * angle
            size = np.hypot(slipping[j, 3 * i], slipping[j, 3 * i + 1])
            if size > most:
                slipping[j, 3 * i] *= most / size
                slipping[j, 3 * i + 1] *= most / size
            most = share * chain.stretching[i] * elongation
            slipping[j, 3 * i + 2] = min(max(slipping[j, 3 * i + 2], -most), most)
            for column in range(3 * i, 3 * i + 3):
                out[column] -= slipping[j, column]
        for c in range(len(chain.chambers)):
            area, radius, cosine, sine = chain.chambers[c]
            stretch = (e - radius * (cosine * a + sine * b)) / chain.length[i]
            push = pressures[c] * area * (1.0 + chain.area_change * stretch)
            out[3 * i] -= push * radius * cosine
            out[3 * i + 1] -= push * radius * sine
            out[3 * i + 2] += push


@njit(cache=True)
def static_forces(chain: Chain, coordinates: Array) -> Array:
    """(3n,) generalised forces of gravity and elasticity; zero where it rests without pressure."""
    points, still, out = room(chain), straight(chain), np.zeros(len(coordinates))
    still.coordinates[:] = coordinates
    keep, pressures = np.ones(len(chain.relaxing)), np.zeros(len(chain.chambers))
    stage_forces(chain, still, coordinates, still.rates, pressures, keep, keep, still.relaxing, still.slipping, out)
    locate(chain, coordinates, still.rates, points)
    for k in range(len(chain.mass)):
        for row in range(3):
            for i in range(len(out)):
                out[i] += chain.mass[k] * points.jacobians[k, row, i] * chain.gravity[row]
    return out


@njit(cache=True)
def accelerations(chain: Chain, points: Points, forces: Array, out: Array) -> None:
    """Second rates of the coordinates into `out`, of masses that were located; by elimination."""
    size = len(out)
    matrix = np.zeros((size, size))
    out[:] = forces
    for k in range(len(chain.mass)):
        for row in range(3):
            column = points.jacobians[k, row]
            pull = chain.mass[k] * (chain.gravity[row] - points.convective[k, row])
            for i in range(min(3 * (k + 1), size)):
                out[i] += column[i] * pull
                for j in range(i + 1):
                    matrix[i, j] += chain.mass[k] * column[i] * column[j]
    for j in range(size):
        for i in range(j + 1, size):
            share = matrix[i, j] / matrix[j, j]
            out[i] -= share * out[j]
            for k in range(j + 1, i + 1):
                matrix[i, k] -= share * matrix[k, j]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            out[i] -= matrix[k, i] * out[k]
        out[i] /= matrix[i, i]


@njit(cache=True)
def _tell(chain: Chain, points: Points, coordinates: Array, acceleration: Array, out: Array) -> None:
    """A row of OUTPUTS, see there."""
    n = len(chain.length)
    out[:] = 0.0
    for k in range(len(chain.mass)):
        force = np.empty(3)
        for row in range(3):
            moved = points.convective[k, row]
            for i in range(len(acceleration)):
                moved += points.jacobians[k, row, i] * acceleration[i]
            force[row] = chain.mass[k] * (chain.gravity[row] - moved)
            out[row] += force[row]
        x, y, z = points.places[k] - chain.origin
        out[3] += y * force[2] - z * force[1]
        out[4] += z * force[0] - x * force[2]
        out[5] += x * force[1] - y * force[0]
    for row in range(3):
        out[6 + row] = points.end[3, row] + chain.plate * points.end[2, row]
    _quaternion(points.end, out[9:13])
    for i in range(n):
        out[13] += chain.bending[i] * stiffening(chain, coordinates[3 * i], coordinates[3 * i + 1]) / n**2


@njit(cache=True)
def _quaternion(axes: Array, out: Array) -> None:
    """X, y, z, w of the turn that takes the base's axes to these, the rows of `axes`; of less than 180 degrees."""
    w = 0.5 * np.sqrt(max(1.0 + axes[0, 0] + axes[1, 1] + axes[2, 2], 1e-12))
    out[0] = (axes[1, 2] - axes[2, 1]) / (4.0 * w)
    out[1] = (axes[2, 0] - axes[0, 2]) / (4.0 * w)
    out[2] = (axes[0, 1] - axes[1, 0]) / (4.0 * w)
    out[3] = w


@njit(cache=True)
def drive(chain: Chain, state: ChainState, pressures: Array, step_s: float, out: Array) -> None:
    """Move a chain, in place, by K steps with a row of gauge pressures (K, C) held through each.

    Into `out` (K, OUTPUTS) goes what there is at the start of each step.
    """
    size = len(state.coordinates)
    points = room(chain)
    relaxing, slipping = state.relaxing.copy(), state.slipping.copy()
    forces, acceleration = np.empty(size), np.empty(size)
    keep, gain = np.ones((3, len(relaxing))), np.ones((3, len(relaxing)))
    for half in range(1, 3):
        for j in range(len(relaxing)):
            passed = 0.5 * half * step_s / chain.relaxing[j, 1]
            keep[half, j] = np.exp(-passed)
            gain[half, j] = -np.expm1(-passed) / passed
    for step in range(len(pressures)):
        place, rate = state.coordinates.copy(), state.rates.copy()
        moved, sped = state.coordinates.copy(), state.rates.copy()
        for stage in range(4):
            half = (stage + 1) // 2
            stage_forces(chain, state, place, rate, pressures[step], keep[half], gain[half], relaxing, slipping, forces)
            locate(chain, place, rate, points)
            accelerations(chain, points, forces, acceleration)
            if stage == 0:
                _tell(chain, points, place, acceleration, out[step])
            weight = step_s / 6.0 if stage == 0 or stage == 3 else step_s / 3.0
            ahead = 0.5 * step_s if stage < 2 else step_s
            for i in range(size):
                moved[i] += weight * rate[i]
                sped[i] += weight * acceleration[i]
                if stage < 3:
                    place[i] = state.coordinates[i] + ahead * rate[i]
                    rate[i] = state.rates[i] + ahead * acceleration[i]
        stage_forces(chain, state, moved, sped, pressures[step], keep[2], gain[2], relaxing, slipping, forces)
        state.relaxing[:] = relaxing
        state.slipping[:] = slipping
        state.coordinates[:] = moved
        state.rates[:] = sped
