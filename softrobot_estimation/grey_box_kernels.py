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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from softrobot_estimation.curvature_kernels import (
    DAMPING,
    MAXIMUM_BENDING_RAD,
    MOTION,
    acceleration,
    add_load,
    point_motion,
)

Array = NDArray[np.float64]

RATES, RELAXED, MOMENTS, PAYLOAD, REST, ROW = 3, 6, 12, 14, 15, 17

# Places in `behaviour`
(
    STIFFENING,
    PRESSURE_STIFFENING,
    ANISOTROPY,
    REST_X,
    REST_Y,
    REST_ELONGATION,
    DAMPING_GROWTH,
    FAST_SHARE,
    SLOW_SHARE,
    FAST_S,
    SLOW_S,
    AXIAL_STIFFNESS,
    BASE_STIFFNESS,
    MOMENT_TIME_S,
) = range(14)
BEHAVIOUR = 14

SATURATION_RAD2 = 0.64
"""Squared bending at which the law has gone half of its way."""
LEAST_STIFFENING = 0.2
"""Share of the base stiffness that the law leaves at least, wherever it is asked."""


@njit(cache=True, error_model="numpy")
def law(behaviour: Array, squared_bending: float, total_pressure: float) -> float:
    """Factor on the stiffness at that bending (rad^2) and sum of pressures (100 kPa)."""
    return max(
        LEAST_STIFFENING,
        1.0
        + behaviour[STIFFENING] * squared_bending / (1.0 + squared_bending / SATURATION_RAD2)
        + behaviour[PRESSURE_STIFFENING] * total_pressure,
    )


@njit(cache=True, error_model="numpy")
def _rates(
    behaviour: Array,
    segment: Array,
    points: Array,
    row: Array,
    stiffness: float,
    actuation: Array,
    total_pressure: float,
    forces: Array,
    stiff: Array,
    damped: Array,
    motions: Array,
    out: Array,
) -> None:
    """Rates of a row's first MOMENTS columns into `out`; `forces`, `stiff` (3,) and `damped` (8,) are scratch.

    Leaves the motion of the points in `motions` (n, MOTION).
    """
    squared = row[0] * row[0] + row[1] * row[1]
    now = stiffness * law(behaviour, squared, total_pressure)
    axial, base = behaviour[AXIAL_STIFFNESS], stiffness
    forces[0] = actuation[0] + row[MOMENTS] + row[REST] + behaviour[BASE_STIFFNESS] * behaviour[REST_X]
    forces[1] = actuation[1] + row[MOMENTS + 1] + row[REST + 1] + behaviour[BASE_STIFFNESS] * behaviour[REST_Y]
    forces[2] = actuation[2] + axial * behaviour[REST_ELONGATION]
    for element in range(2):
        share, time_s = behaviour[FAST_SHARE + element], behaviour[FAST_S + element]
        for i in range(3):
            place = RELAXED + 3 * element + i
            behind = row[i] - row[place]
            forces[i] -= share * (axial if i == 2 else base) * behind
            out[place] = behind / time_s
    stiff[0] = now * (1.0 + behaviour[ANISOTROPY])
    stiff[1] = now * (1.0 - behaviour[ANISOTROPY])
    stiff[2] = axial
    growth = 1.0 + behaviour[DAMPING_GROWTH] * squared
    for i in range(2):
        damped[DAMPING + i] = segment[DAMPING + i] * growth
    a0, a1, a2 = acceleration(damped, points, row, forces, stiff, motions)
    for i in range(3):
        out[i] = row[RATES + i]
    out[RATES], out[RATES + 1], out[RATES + 2] = a0, a1, a2


@njit(cache=True, error_model="numpy")
def propagate(
    behaviour: Array,
    segment: Array,
    points: Array,
    rows: Array,
    stiffness: Array,
    actuation: Array,
    total_pressure: float,
    step_s: float,
    count: int,
    out: Array,
) -> None:
    """Rows (K, n) after `step_s` in `count` steps of the classical Runge-Kutta rule, into `out` (K, n).

    Row 0 of `points` is the tip's mass, which the payload adds to. Actuation (3,) is held.
    """
    keep = math.exp(-step_s / behaviour[MOMENT_TIME_S])
    h = step_s / count
    forces, stiff, damped, loaded = np.empty(3), np.empty(3), segment.copy(), points.copy()
    stage, slope, total = np.empty(rows.shape[1]), np.empty(MOMENTS), np.empty(MOMENTS)
    motions = np.empty((points.shape[0], MOTION))
    for k in range(rows.shape[0]):
        row = out[k]
        row[:] = rows[k]
        loaded[0, 2] = points[0, 2] + max(row[PAYLOAD], 0.0)
        for _ in range(count):
            stage[:] = row
            for order in range(4):
                _rates(
                    behaviour, segment, loaded, stage, stiffness[k], actuation, total_pressure,
                    forces, stiff, damped, motions, slope,
                )  # fmt: skip
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
def loads(
    behaviour: Array,
    segment: Array,
    points: Array,
    load_masses: Array,
    origin: Array,
    rows: Array,
    stiffness: Array,
    actuation: Array,
    total_pressure: float,
    out: Array,
) -> None:
    """Force and torque about `origin` that each moving row puts on its base, in the base's frame, into `out` (K, 6).

    Accelerations are those of `points` (row 0 the tip); `load_masses` are what the base feels of each of them.
    """
    forces, stiff, damped, loaded = np.empty(3), np.empty(3), segment.copy(), points.copy()
    slope, motions = np.empty(MOMENTS), np.empty((points.shape[0], MOTION))
    for k in range(rows.shape[0]):
        row, load = rows[k], out[k]
        payload = max(row[PAYLOAD], 0.0)
        loaded[0, 2] = points[0, 2] + payload
        _rates(
            behaviour, segment, loaded, row, stiffness[k], actuation, total_pressure,
            forces, stiff, damped, motions, slope,
        )  # fmt: skip
        accelerations = (slope[RATES], slope[RATES + 1], slope[RATES + 2])
        load[:] = 0.0
        for i in range(points.shape[0]):
            mass = load_masses[i] + (payload if i == 0 else 0.0)
            add_load(segment, mass, origin, motions[i], accelerations, load)


@njit(cache=True, error_model="numpy")
def tips(
    behaviour: Array, segment: Array, beyond: float, rows: Array, stiffness: Array, total_pressure: float, out: Array
) -> None:
    """Place and velocity of the tip, `beyond` the segment's end, and stiffness now, into `out` (K, 7)."""
    for k in range(rows.shape[0]):
        row = rows[k]
        position, (jx, jy, jz), _ = point_motion(segment, 1.0, beyond, row)
        out[k, 0], out[k, 1], out[k, 2] = position
        out[k, 3] = jx[0] * row[3] + jx[1] * row[4] + jx[2] * row[5]
        out[k, 4] = jy[0] * row[3] + jy[1] * row[4] + jy[2] * row[5]
        out[k, 5] = jz[0] * row[3] + jz[1] * row[4] + jz[2] * row[5]
        out[k, 6] = stiffness[k] * law(behaviour, row[0] * row[0] + row[1] * row[1], total_pressure)


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
    behaviour: Array,
    segment: Array,
    points: Array,
    beyond: float,
    gains: Array,
    lag_s: float,
    stamps_s: Array,
    readings: Array,
    start: Array,
    stiffness: float,
    longest_s: float,
    rows: Array,
    places: Array,
) -> None:
    """A run on pressures alone: rows (N, ROW) at the stamps (N,), and where the tip is, (N, 3).

    Readings (N, C) are gauge pressures without offsets, each held until the next stamp; `gains` (3, C) makes
    generalised forces of pressures. No sub-step is longer than `longest_s`.
    """
    one, moved, base, tip = np.empty((1, ROW)), np.empty((1, ROW)), np.array([stiffness]), np.empty((1, 7))
    chambers, mean, actuation = readings[0].copy(), np.empty(readings.shape[1]), np.empty(3)
    one[0] = start
    for n in range(len(stamps_s)):
        step_s = stamps_s[n] - stamps_s[n - 1] if n > 0 else 0.0
        if step_s > 0.0:
            chamber_pressures(readings[n - 1], lag_s, step_s, chambers, mean)
            total = 0.0
            actuation[:] = 0.0
            for c in range(len(mean)):
                total += 1e-5 * mean[c]
                for i in range(3):
                    actuation[i] += gains[i, c] * mean[c]
            parts = max(1, math.ceil(step_s / longest_s - 1e-6))
            propagate(behaviour, segment, points, one, base, actuation, total, step_s, parts, moved)
            one[:] = moved
            squared = one[0, 0] * one[0, 0] + one[0, 1] * one[0, 1]
            alive = squared + one[0, RATES] + one[0, RATES + 1] + one[0, RATES + 2]  # no number where it bent too far
            if not (squared < MAXIMUM_BENDING_RAD * MAXIMUM_BENDING_RAD and math.isfinite(alive)):
                rows[n:] = np.nan
                places[n:] = np.nan
                return
        tips(behaviour, segment, beyond, one, base, 0.0, tip)
        rows[n] = one[0]
        places[n] = tip[0, :3]
