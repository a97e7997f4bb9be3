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
    DAMPING,
    MAXIMUM_BENDING_RAD,
    MOTION,
    acceleration,
    add_load,
    point_motion,
)

Array = NDArray[np.float64]

RATES, RELAXED, MOMENTS, PAYLOAD, REST, ROW = 3, 6, 12, 14, 15, 17

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


class _Scratch(NamedTuple):
    """Room for a row's forces, stiffness, segment and points with what the row changes, their motion, and rates."""

    forces: Array
    stiff: Array
    damped: Array
    loaded: Array
    motions: Array
    rates: Array


@njit(cache=True, error_model="numpy")
def _scratch(robot: Numbers) -> _Scratch:
    motions = np.empty((robot.points.shape[0], MOTION))
    return _Scratch(np.empty(3), np.empty(3), robot.segment.copy(), robot.points.copy(), motions, np.empty(MOMENTS))


@njit(cache=True, error_model="numpy")
def law(robot: Numbers, squared_bending: float, total_pressure: float) -> float:
    """Factor on the stiffness at that bending (rad^2) and sum of pressures (100 kPa)."""
    return max(
        LEAST_STIFFENING,
        1.0
        + robot.stiffening * squared_bending / (1.0 + squared_bending / SATURATION_RAD2)
        + robot.pressure_stiffening * total_pressure,
    )


@njit(cache=True, error_model="numpy")
def _rates(robot: Numbers, row: Array, stiffness: float, drive: Array, scratch: _Scratch) -> None:
    """Rates of a row's first MOMENTS columns into `scratch.rates`, and the points' motion into `scratch.motions`."""
    forces, stiff, damped, out = scratch.forces, scratch.stiff, scratch.damped, scratch.rates
    squared = row[0] * row[0] + row[1] * row[1]
    now = stiffness * law(robot, squared, drive[3])
    axial, base = robot.axial_stiffness, stiffness
    forces[0] = drive[0] + row[MOMENTS] + row[REST] + robot.stiffness * robot.rest[0]
    forces[1] = drive[1] + row[MOMENTS + 1] + row[REST + 1] + robot.stiffness * robot.rest[1]
    forces[2] = drive[2] + axial * robot.rest[2]
    for element in range(2):
        for i in range(3):
            place = RELAXED + 3 * element + i
            behind = row[i] - row[place]
            forces[i] -= robot.shares[element] * (axial if i == 2 else base) * behind
            out[place] = behind / robot.times_s[element]
    stiff[0] = now * (1.0 + robot.anisotropy)
    stiff[1] = now * (1.0 - robot.anisotropy)
    stiff[2] = axial
    growth = 1.0 + robot.damping_growth * squared
    for i in range(2):
        damped[DAMPING + i] = robot.segment[DAMPING + i] * growth
    a0, a1, a2 = acceleration(damped, scratch.loaded, row, forces, stiff, scratch.motions)
    for i in range(3):
        out[i] = row[RATES + i]
    out[RATES], out[RATES + 1], out[RATES + 2] = a0, a1, a2


@njit(cache=True, error_model="numpy")
def propagate(
    robot: Numbers, rows: Array, stiffness: Array, drive: Array, step_s: float, count: int, out: Array
) -> None:
    """Rows (K, n) after `step_s` in `count` steps of the classical Runge-Kutta rule, into `out` (K, n).

    `drive` (1, 4) or (K, 4), which is held: generalised forces of the pressures, and their sum in 100 kPa.
    """
    keep = math.exp(-step_s / robot.moment_time_s)
    h = step_s / count
    scratch = _scratch(robot)
    stage, slope, total = np.empty(rows.shape[1]), scratch.rates, np.empty(MOMENTS)
    for k in range(rows.shape[0]):
        row = out[k]
        row[:] = rows[k]
        scratch.loaded[0, 2] = robot.points[0, 2] + max(row[PAYLOAD], 0.0)
        for _ in range(count):
            stage[:] = row
            for order in range(4):
                _rates(robot, stage, stiffness[k], drive[min(k, len(drive) - 1)], scratch)
                if order == 0:
                    total[:] = slope
                else:
                    weight = 1.0 if order == 3 else 2.0
                    for i in range(MOMENTS):
                        total[i] += weight * slope[i]
                if order < 3:
                    ahead = h if order == 2 else 0.5 * h
                    for i in range(MOMENTS):
                        stage[i] = row[i] + ahead * slope[i]
            for i in range(MOMENTS):
                row[i] += h / 6.0 * total[i]
        row[MOMENTS] *= keep
        row[MOMENTS + 1] *= keep


@njit(cache=True, error_model="numpy")
def loads(robot: Numbers, rows: Array, stiffness: Array, drive: Array, out: Array) -> None:
    """Force and torque about the origin that each moving row puts on its base, in the base's frame, into `out` (K, 6).

    Accelerations are those of `points`; the base feels the `load_masses`.
    """
    scratch = _scratch(robot)
    for k in range(rows.shape[0]):
        load, payload = out[k], max(rows[k, PAYLOAD], 0.0)
        scratch.loaded[0, 2] = robot.points[0, 2] + payload
        _rates(robot, rows[k], stiffness[k], drive[min(k, len(drive) - 1)], scratch)
        accelerations = (scratch.rates[RATES], scratch.rates[RATES + 1], scratch.rates[RATES + 2])
        load[:] = 0.0
        for i in range(robot.points.shape[0]):
            mass = robot.load_masses[i] + (payload if i == 0 else 0.0)
            add_load(robot.segment, mass, robot.origin, scratch.motions[i], accelerations, load)


@njit(cache=True, error_model="numpy")
def tips(robot: Numbers, rows: Array, stiffness: Array, total_pressure: float, out: Array) -> None:
    """Place and velocity of the tip, and stiffness now, into `out` (K, 7)."""
    for k in range(rows.shape[0]):
        row = rows[k]
        position, (jx, jy, jz), _ = point_motion(robot.segment, 1.0, robot.beyond, row)
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
    chambers, mean, drive = readings[0].copy(), np.empty(readings.shape[1]), np.empty((1, 4))
    one[0] = start
    for n in range(len(stamps_s)):
        step_s = stamps_s[n] - stamps_s[n - 1] if n > 0 else 0.0
        if step_s > 0.0:
            chamber_pressures(readings[n - 1], robot.lag_s, step_s, chambers, mean)
            drive[:] = 0.0
            for c in range(len(mean)):
                drive[0, 3] += 1e-5 * mean[c]
                for i in range(3):
                    drive[0, i] += robot.gains[i, c] * mean[c]
            parts = max(1, math.ceil(step_s / longest_s - 1e-6))
            propagate(robot, one, base, drive, step_s, parts, moved)
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
