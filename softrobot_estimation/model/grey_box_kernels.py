"""Compiled equations of motion of the grey box: a constant-curvature segment, and what real ones do beside.

A row of `rows` (K, ROW) is one particle or sigma point; whatever stands behind its first ROW columns is left as it is:

    q, q'             bending towards x and y (rad) and elongation (m), and their rates
    relaxed           deformations that the material has yielded to, q-like: fast x, y, elongation, then slow
    moments           about y and minus x, of which no equation knows, N m: an Ornstein-Uhlenbeck process
    payload           at the tip, kg
    rest              moments like those, but for good: the segment is moulded a little bent, or the base is tilted

Stiffness in bending is the row's own k (N m/rad), as a law of bending b and the sum of pressures p has it:
k (1 + a b^2 / (1 + (b / 0.8)^2) + c p). It levels off: with b^2 alone, a robot that softens would yield the more the
further it bends than a recording tells of, and fall to one side. A share s_i of k and of the axial stiffness is held by
a Maxwell element, whose force is s_i k (q - relaxed_i), with relaxed_i' = (q - relaxed_i) / t_i.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from softrobot_estimation.model.constant_curvature import (
    COLUMNS,
    DAMPING,
    FORCES,
    GRAVITY,
    LANES,
    LENGTH,
    LOAD,
    MASSES,
    MAXIMUM_BENDING_RAD,
    accelerate,
    point_motion,
)

Array = NDArray[np.float64]

RATES, RELAXED, MOMENTS, PAYLOAD, REST, ROW = 3, 6, 12, LOAD, 15, FORCES
_STIFFNESS, _DRIVE, _SLOPE, _COLUMNS = COLUMNS, COLUMNS + 1, COLUMNS + 5, COLUMNS + 5 + MOMENTS
"""Of `lanes`, behind those of `accelerate`: k; forces, with a row's moments, and summed pressure; rates."""

SATURATION_RAD2 = 0.64
"""Squared bending at which the law has gone half of its way."""
LEAST_STIFFENING = 0.2
"""Share of the base stiffness that the law leaves at least, wherever it is asked."""


class Numbers(NamedTuple):
    """Of a robot.

    Attributes
    ----------
    segment, points
        (7,) and (n, 3), see `constant_curvature`; row 0 of `points` is the tip's mass, which a payload adds to.
    load_masses, origin
        (n,) what the base feels of each point, kg; (3,) of the force-torque sensor, m.
    beyond
        From the segment's end to the tip, m.
    gains, lag_s
        (3, C) generalised forces (N m, N m, N) of unit pressures; time constant of the hoses.
    stiffness, axial_stiffness
        In bending, straight and without pressure (N m/rad), and axial (N/m).
    stiffening, pressure_stiffening, anisotropy, damping_growth
        As in the configuration's `behaviour`: 1/rad^2, 1/(100 kPa), a share, 1/rad^2.
    rest
        (3,) q without pressure and weight.
    shares, times_s
        (2,) s_i and t_i, fast and slow.
    moment_time_s
        In which moments of which no equation knows change.
    """

    segment: Array
    points: Array
    load_masses: Array
    origin: Array
    beyond: float
    gains: Array
    lag_s: float
    stiffness: float
    axial_stiffness: float
    stiffening: float
    pressure_stiffening: float
    anisotropy: float
    damping_growth: float
    rest: Array
    shares: Array
    times_s: Array
    moment_time_s: float


@njit(cache=True, forceinline=True, error_model="numpy", fastmath={"contract"})
def law(robot: Numbers, squared_bending: float, total_pressure: float) -> float:
    """Factor on the stiffness at that bending (rad^2) and sum of pressures (100 kPa)."""
    return max(
        LEAST_STIFFENING,
        1.0
        + robot.stiffening * squared_bending / (1.0 + squared_bending / SATURATION_RAD2)
        + robot.pressure_stiffening * total_pressure,
    )


@njit(cache=True, error_model="numpy")
def _gathered(robot: Numbers, rows: Array, stiffness: Array, pressures: Array, first: int, lanes: Array) -> int:
    """Rows from `first` on side by side in `lanes`, the last again and again where they end; how many there are."""
    count = min(LANES, rows.shape[0] - first)
    for k in range(LANES):
        place = first + min(k, count - 1)
        for column in range(ROW):
            lanes[column * LANES + k] = rows[place, column]
        lanes[_STIFFNESS * LANES + k] = stiffness[place]
        for i in range(4):
            lanes[(_DRIVE + i) * LANES + k] = rows[place, MOMENTS + i] + rows[place, REST + i] if i < 2 else 0.0
        for c, pressure in enumerate(pressures[min(place, len(pressures) - 1)]):
            lanes[(_DRIVE + 3) * LANES + k] += 1e-5 * pressure
            for i in range(3):
                lanes[(_DRIVE + i) * LANES + k] += robot.gains[i, c] * pressure
    return count


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _rates(robot: Numbers, lanes: Array) -> None:
    """Rates of the rows' first MOMENTS columns, in `lanes`."""
    axial, straight, growing = robot.axial_stiffness, robot.stiffness, robot.damping_growth
    rest_x, rest_y, rest_z = straight * robot.rest[0], straight * robot.rest[1], axial * robot.rest[2]
    dx, dy, dz = robot.segment[DAMPING], robot.segment[DAMPING + 1], robot.segment[DAMPING + 2]
    stiffer, softer = 1.0 + robot.anisotropy, 1.0 - robot.anisotropy
    fast, slow, per_fast, per_slow = robot.shares[0], robot.shares[1], 1.0 / robot.times_s[0], 1.0 / robot.times_s[1]
    for k in range(LANES):
        x, y, z, base = lanes[k], lanes[LANES + k], lanes[2 * LANES + k], lanes[_STIFFNESS * LANES + k]
        squared = x * x + y * y
        now, grown = base * law(robot, squared, lanes[(_DRIVE + 3) * LANES + k]), 1.0 + growing * squared
        fast_x, slow_x = x - lanes[RELAXED * LANES + k], x - lanes[(RELAXED + 3) * LANES + k]
        fast_y, slow_y = y - lanes[(RELAXED + 1) * LANES + k], y - lanes[(RELAXED + 4) * LANES + k]
        fast_z, slow_z = z - lanes[(RELAXED + 2) * LANES + k], z - lanes[(RELAXED + 5) * LANES + k]
        lanes[FORCES * LANES + k] = (
            (lanes[_DRIVE * LANES + k] + rest_x)
            - base * (fast * fast_x + slow * slow_x)
            - (now * stiffer * x + dx * grown * lanes[RATES * LANES + k])
        )
        lanes[(FORCES + 1) * LANES + k] = (
            (lanes[(_DRIVE + 1) * LANES + k] + rest_y)
            - base * (fast * fast_y + slow * slow_y)
            - (now * softer * y + dy * grown * lanes[(RATES + 1) * LANES + k])
        )
        lanes[(FORCES + 2) * LANES + k] = (
            (lanes[(_DRIVE + 2) * LANES + k] + rest_z)
            - axial * (fast * fast_z + slow * slow_z)
            - (axial * z + dz * lanes[(RATES + 2) * LANES + k])
        )
        lanes[(_SLOPE + 6) * LANES + k], lanes[(_SLOPE + 9) * LANES + k] = fast_x * per_fast, slow_x * per_slow
        lanes[(_SLOPE + 7) * LANES + k], lanes[(_SLOPE + 10) * LANES + k] = fast_y * per_fast, slow_y * per_slow
        lanes[(_SLOPE + 8) * LANES + k], lanes[(_SLOPE + 11) * LANES + k] = fast_z * per_fast, slow_z * per_slow
    accelerate(robot.segment, robot.points, lanes)
    for k in range(3 * LANES):
        lanes[_SLOPE * LANES + k] = lanes[RATES * LANES + k]
        lanes[(_SLOPE + 3) * LANES + k] = lanes[FORCES * LANES + k]


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def propagate(
    robot: Numbers, rows: Array, stiffness: Array, pressures: Array, step_s: float, count: int, out: Array
) -> None:
    """Rows (K, n) after `step_s` in `count` steps of the classical Runge-Kutta rule, into `out` (K, n).

    `pressures` (1, C) or (K, C), which are held.
    """
    keep, h = math.exp(-step_s / robot.moment_time_s), step_s / count
    lanes, size = np.empty(_COLUMNS * LANES), MOMENTS * LANES
    before, total = np.empty(size), np.empty(size)
    slope = lanes[_SLOPE * LANES :]
    for first in range(0, rows.shape[0], LANES):
        here = _gathered(robot, rows, stiffness, pressures, first, lanes)
        for _ in range(count):
            for j in range(size):
                before[j], total[j] = lanes[j], 0.0
            for order in range(4):
                _rates(robot, lanes)
                weight = h / 3.0 if order == 1 or order == 2 else h / 6.0
                ahead = h if order == 2 else 0.5 * h
                for j in range(size):
                    total[j] += weight * slope[j]
                    lanes[j] = before[j] + ahead * slope[j]
            for j in range(size):
                lanes[j] = before[j] + total[j]
        for k in range(here):
            row = out[first + k]
            for column in range(rows.shape[1]):
                row[column] = lanes[column * LANES + k] if column < MOMENTS else rows[first + k, column]
            row[MOMENTS] *= keep
            row[MOMENTS + 1] *= keep


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def loads(robot: Numbers, rows: Array, stiffness: Array, pressures: Array, out: Array) -> None:
    """Force and torque about the origin that each moving row puts on its base, in the base's frame, into `out` (K, 6).

    Accelerations are those of `points`; the base feels the `load_masses`.
    """
    segment, points, lanes = robot.segment, robot.points, np.empty(_COLUMNS * LANES)
    length, gx, gy, gz = segment[LENGTH], segment[GRAVITY], segment[GRAVITY + 1], segment[GRAVITY + 2]
    x0, y0, z0 = robot.origin[0], robot.origin[1], robot.origin[2]
    for first in range(0, rows.shape[0], LANES):
        here = _gathered(robot, rows, stiffness, pressures, first, lanes)
        _rates(robot, lanes)
        lanes[MASSES * LANES : COLUMNS * LANES] = 0.0
        for i in range(points.shape[0]):
            fraction, offset, own_mass, hung = points[i, 0], points[i, 1], robot.load_masses[i], 1.0 if i == 0 else 0.0
            for k in range(LANES):
                q = lanes[k], lanes[LANES + k], lanes[2 * LANES + k]
                rates = lanes[3 * LANES + k], lanes[4 * LANES + k], lanes[5 * LANES + k]
                a0, a1 = lanes[FORCES * LANES + k], lanes[(FORCES + 1) * LANES + k]
                a2 = lanes[(FORCES + 2) * LANES + k]
                mass = own_mass + hung * max(lanes[PAYLOAD * LANES + k], 0.0)
                (x, y, z), (jx, jy, jz), convective = point_motion(length, fraction, offset, q, rates)
                fx = mass * (gx - (jx[0] * a0 + jx[1] * a1 + jx[2] * a2 + convective[0]))
                fy = mass * (gy - (jy[0] * a0 + jy[1] * a1 + jy[2] * a2 + convective[1]))
                fz = mass * (gz - (jz[0] * a0 + jz[1] * a1 + jz[2] * a2 + convective[2]))
                lanes[MASSES * LANES + k] += fx
                lanes[(MASSES + 1) * LANES + k] += fy
                lanes[(MASSES + 2) * LANES + k] += fz
                lanes[(MASSES + 3) * LANES + k] += (y - y0) * fz - (z - z0) * fy
                lanes[(MASSES + 4) * LANES + k] += (z - z0) * fx - (x - x0) * fz
                lanes[(MASSES + 5) * LANES + k] += (x - x0) * fy - (y - y0) * fx
        for k in range(here):
            for i in range(6):
                out[first + k, i] = lanes[(MASSES + i) * LANES + k]


@njit(cache=True, error_model="numpy")
def tips(robot: Numbers, rows: Array, stiffness: Array, total_pressure: float, out: Array) -> None:
    """Place and velocity of the tip, and stiffness now, into `out` (K, 7)."""
    for k in range(rows.shape[0]):
        row = rows[k]
        q, rates = (row[0], row[1], row[2]), (row[3], row[4], row[5])
        position, (jx, jy, jz), _ = point_motion(robot.segment[LENGTH], 1.0, robot.beyond, q, rates)
        out[k, 0], out[k, 1], out[k, 2] = position
        out[k, 3] = jx[0] * row[3] + jx[1] * row[4] + jx[2] * row[5]
        out[k, 4] = jy[0] * row[3] + jy[1] * row[4] + jy[2] * row[5]
        out[k, 5] = jz[0] * row[3] + jz[1] * row[4] + jz[2] * row[5]
        out[k, 6] = stiffness[k] * law(robot, row[0] * row[0] + row[1] * row[1], total_pressure)


@njit(cache=True, error_model="numpy")
def chamber_pressures(readings: Array, lag_s: float, step_s: float, chambers: Array, mean: Array) -> None:
    """Pressures behind their hoses (C,) moved in place by a step of held readings, and their mean over it."""
    keep = math.exp(-step_s / lag_s)
    share = lag_s / step_s * (1.0 - keep)
    for c in range(len(readings)):
        behind = chambers[c] - readings[c]
        mean[c] = readings[c] + share * behind
        chambers[c] = readings[c] + keep * behind


@njit(cache=True, error_model="numpy")
def simulate(
    robot: Numbers, stamps_s: Array, readings: Array, start: Array, longest_s: float, rows: Array, places: Array
) -> None:
    """A run on pressures alone: rows (N, ROW) at the stamps (N,), and where the tip is, (N, 3).

    Readings (N, C) are gauge pressures without offsets, each held until the next stamp. No sub-step is longer than
    `longest_s`.
    """
    one, moved, base, tip = np.empty((1, ROW)), np.empty((1, ROW)), np.array([robot.stiffness]), np.empty((1, 7))
    chambers, mean = readings[0].copy(), np.empty((1, readings.shape[1]))
    one[0] = start
    for n in range(len(stamps_s)):
        step_s = stamps_s[n] - stamps_s[n - 1] if n > 0 else 0.0
        if step_s > 0.0:
            chamber_pressures(readings[n - 1], robot.lag_s, step_s, chambers, mean[0])
            parts = max(1, math.ceil(step_s / longest_s - 1e-6))
            propagate(robot, one, base, mean, step_s, parts, moved)
            one[:] = moved
            squared = one[0, 0] * one[0, 0] + one[0, 1] * one[0, 1]
            alive = squared + one[0, RATES] + one[0, RATES + 1] + one[0, RATES + 2]  # no number where it bent too far
            if not (squared < MAXIMUM_BENDING_RAD * MAXIMUM_BENDING_RAD and math.isfinite(alive)):
                rows[n:] = np.nan
                places[n:] = np.nan
                return
        tips(robot, one, base, 0.0, tip)
        rows[n] = one[0]
        places[n] = tip[0, :3]
