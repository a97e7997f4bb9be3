"""Compiled jointed inertial navigation: each link's IMU is integrated, and pins do not come apart.

Between two ticks of the laboratory's clock each link's gyro and accelerometer are integrated over the same stretch of
its own clock. What is carried is relative: for each joint the velocity of the IMU before it against the one behind it,
and the gap between its two pins, which is zero in truth. So the tangential accelerations of lever arms, which would
need derivatives of the gyros, appear as turned lever arms, and the drift of the whole chain stays out of what is
observed.

The measurement is: no gap. Four directions of the state cannot be observed by it, and a linearisation that moves with
the estimates would let noise into them: a turn of the whole, a shift of all clocks, a velocity of the whole, and a
common scale of lengths and accelerometers. Clocks enter as differences only; for turn and scale the covariance is
carried over to each new estimate such that they stay what they were (the idea of observability-constrained filters:
Huang, Mourikis and Roumeliotis, "Observability-based rules for designing consistent EKF SLAM estimators", 2010).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from salp_estimation.thruster_chain.inertial_layout import (
    ACCELEROMETER_SCALE,
    BIAS_X,
    CHAIN,
    CLOCK,
    GYRO_BIAS,
    GYRO_SCALE,
    HALF_LENGTH,
    HEADING,
    JOINT,
    LINK,
    MOUNTING,
    PLACE_X,
    PLACE_Y,
    SCALE_APART,
    SCALED,
)

Vector = NDArray[np.float64]
Rows = NDArray[np.float64]
Stack = NDArray[np.float64]

MOVED = 7  # of a link over a tick: turn, velocity x y, way x y of its IMU; variances of turn and velocity by sampling
TURN_VARIANCE, VELOCITY_VARIANCE = 5, 6
STEP = 1.0 / np.sqrt(12.0)  # of a step that lies anywhere between two readings, against a straight line between them
CAUSES = 8  # that they depend on
CAUSE = np.array([HEADING, GYRO_BIAS, GYRO_SCALE, BIAS_X, BIAS_X + 1, MOUNTING, ACCELEROMETER_SCALE, SCALE_APART])
GYRO_NOISE, ACCELEROMETER_NOISE, GYRO_WALK, ACCELEROMETER_WALK = range(4)  # densities, squared
CLOCK_WALK = 3e-5  # s/sqrt(s): a crystal that is 20 ppm off goes 0.1 ms in five seconds
BLIND_TURN = 1.0  # rad^2/s: a link that nothing is heard of turns by 0.1 rad in 10 ms
BLIND_FORCE = 1.0  # (m/s^2)^2/Hz: and is pushed by a newton


@njit(cache=True)
def integrate(
    state: Vector,
    link: int,
    readings: Rows,
    first: int,
    end: int,
    begin_s: float,
    target_s: float,
    moved: Rows,
    by: Rows,
) -> float:
    """Into `moved` (7,) the motion of a link's IMU from `begin_s` to `target_s` of its own clock.

    `readings` (K, 4) are stamps (s), rate, and specific force x y; those of the link are `first` to `end`. Between them
    they are taken as straight lines; what that leaves out where a force sets in, or a rate bends, is a variance. `by`
    (5, 8) gets the derivatives. Returns the stamp that it came to: that of the last reading, where they end before.
    """
    base = LINK * link
    heading, mounting = state[base + HEADING], state[base + MOUNTING]
    rate_gain, both, apart = (
        1.0 - state[base + GYRO_SCALE],
        state[base + ACCELEROMETER_SCALE],
        state[base + SCALE_APART],
    )
    gain_x, gain_y = 1.0 - both - apart, 1.0 - both + apart
    rate_bias, bias_x, bias_y = state[base + GYRO_BIAS], state[base + BIAS_X], state[base + BIAS_X + 1]
    moved[:] = 0.0
    by[:] = 0.0
    turn_by = np.zeros(CAUSES)
    turn_by[0] = 1.0
    at, k = begin_s, first
    while target_s > at + 1e-7:
        while k + 1 < end and readings[k + 1, 0] <= at + 1e-9:
            k += 1
        if k + 1 >= end or readings[k, 0] > at + 1e-6:
            break
        until = min(readings[k + 1, 0], target_s)
        step = until - at
        share = (0.5 * (at + until) - readings[k, 0]) / (readings[k + 1, 0] - readings[k, 0])
        raw_rate = readings[k, 1] + share * (readings[k + 1, 1] - readings[k, 1]) - rate_bias
        raw_x = readings[k, 2] + share * (readings[k + 1, 2] - readings[k, 2]) - bias_x
        raw_y = readings[k, 3] + share * (readings[k + 1, 3] - readings[k, 3]) - bias_y
        rate = rate_gain * raw_rate
        angle = heading + moved[0] + 0.5 * rate * step + mounting
        c, s = np.cos(angle), np.sin(angle)
        ax, ay = c * gain_x * raw_x - s * gain_y * raw_y, s * gain_x * raw_x + c * gain_y * raw_y
        for j in range(CAUSES):
            angle_by = turn_by[j]
            if j == 1:
                angle_by -= 0.5 * step * rate_gain
            elif j == 2:
                angle_by -= 0.5 * step * raw_rate
            elif j == 5:
                angle_by += 1.0
            x_by, y_by = -ay * angle_by, ax * angle_by
            if j == 3:
                x_by -= gain_x * c
                y_by -= gain_x * s
            elif j == 4:
                x_by += gain_y * s
                y_by -= gain_y * c
            elif j == 6:
                x_by -= c * raw_x - s * raw_y
                y_by -= s * raw_x + c * raw_y
            elif j == 7:
                x_by -= c * raw_x + s * raw_y
                y_by -= s * raw_x - c * raw_y
            by[3, j] += step * by[1, j] + 0.5 * step * step * x_by
            by[4, j] += step * by[2, j] + 0.5 * step * step * y_by
            by[1, j] += step * x_by
            by[2, j] += step * y_by
        turn_by[1] -= step * rate_gain
        turn_by[2] -= step * raw_rate
        moved[3] += step * moved[1] + 0.5 * step * step * ax
        moved[4] += step * moved[2] + 0.5 * step * step * ay
        moved[1] += step * ax
        moved[2] += step * ay
        moved[0] += rate * step
        if until == readings[k + 1, 0]:
            whole = readings[k + 1, 0] - readings[k, 0]
            jump_x, jump_y = readings[k + 1, 2] - readings[k, 2], readings[k + 1, 3] - readings[k, 3]
            moved[VELOCITY_VARIANCE] += 0.5 * (STEP * whole) ** 2 * (jump_x * jump_x + jump_y * jump_y)
            if k > first:
                bend = readings[k + 1, 1] - 2.0 * readings[k, 1] + readings[k - 1, 1]
                moved[TURN_VARIANCE] += (0.125 * whole * bend) ** 2
        at = until
    by[0] = turn_by
    by[0, 0] = 0.0
    return at


@njit(cache=True)
def reading_at(readings: Rows, first: int, end: int, at_s: float) -> float:
    """Rate between the readings around a stamp; that of the last where they end."""
    k = first
    while k + 1 < end and readings[k + 1, 0] <= at_s:
        k += 1
    if k + 1 >= end:
        return readings[end - 1, 1]
    share = max(0.0, (at_s - readings[k, 0]) / (readings[k + 1, 0] - readings[k, 0]))
    return readings[k, 1] + share * (readings[k + 1, 1] - readings[k, 1])


@njit(cache=True)
def lever(state: Vector, half: Vector, place: Rows, link: int, side: float) -> tuple[float, float]:
    """From the IMU of a link to its pin ahead (`side` 1) or behind (-1), in the link's frame, m."""
    base = LINK * link
    along = side * (half[link] + state[base + HALF_LENGTH]) - place[link, 0] - state[base + PLACE_X]
    return along, -place[link, 1] - state[base + PLACE_Y]


@njit(cache=True)
def _turned(angle: float, x: float, y: float) -> tuple[float, float]:
    c, s = np.cos(angle), np.sin(angle)
    return c * x - s * y, s * x + c * y


@njit(cache=True)
def predict(
    state: Vector,
    covariance: Rows,
    half: Vector,
    place: Rows,
    moved: Rows,
    by: Stack,
    lasted_s: Vector,
    noise: Vector,
    blind: Vector,
) -> Rows:
    """Move state and covariance on by what each link's IMU did, `moved` (N, 7) and `by` (N, 5, 8).

    `lasted_s` (N,) on each link's clock; `noise` the densities; `blind` (N,) 1 where nothing was heard of a link.
    Returns the transition F of the errors, as `transform` takes it.
    """
    count = half.shape[0]
    joints, chain = LINK * count, LINK * count + JOINT * (count - 1)
    transition = np.empty((104 * count + 68 + 2 * count * (count + 1), 3))  # row, column, entry of F - I
    entries = 0
    velocity_x, velocity_y = state[chain], state[chain + 1]
    for j in range(count - 1):
        u = joints + JOINT * j
        d = u + 2
        lasted = 0.5 * (lasted_s[j] + lasted_s[j + 1])
        longer = 0.5 * (lasted_s[j] - lasted_s[j + 1])
        next_x, next_y = velocity_x - state[u], velocity_y - state[u + 1]
        state[d] += state[u] * lasted + moved[j, 3] - moved[j + 1, 3] + longer * (velocity_x + next_x)
        state[d + 1] += state[u + 1] * lasted + moved[j, 4] - moved[j + 1, 4] + longer * (velocity_y + next_y)
        velocity_x, velocity_y = next_x, next_y
        state[u] += moved[j, 1] - moved[j + 1, 1]
        state[u + 1] += moved[j, 2] - moved[j + 1, 2]
        for e in range(2):
            transition[entries, 0], transition[entries, 1], transition[entries, 2] = d + e, u + e, lasted - longer
            entries += 1
            if longer != 0.0:  # clocks are being found
                for k in range(-1, j):
                    column = chain + e if k < 0 else joints + JOINT * k + e
                    transition[entries, 0], transition[entries, 1] = d + e, column
                    transition[entries, 2] = 2.0 * longer if k < 0 else -2.0 * longer
                    entries += 1
        for side in range(2):
            i, sign = j + side, 1.0 - 2.0 * side
            base = LINK * i
            hx, hy = lever(state, half, place, i, sign)
            before = state[base + HEADING]
            ox, oy = _turned(before, hx, hy)
            nx, ny = _turned(before + moved[i, 0], hx, hy)
            state[d] += sign * (nx - ox)
            state[d + 1] += sign * (ny - oy)
            for m in range(CAUSES):
                gap_x = by[i, 3, m] - ny * by[i, 0, m]
                gap_y = by[i, 4, m] + nx * by[i, 0, m]
                if m == 0:
                    gap_x -= ny - oy
                    gap_y += nx - ox
                column = base + CAUSE[m]
                for row, entry in ((u, by[i, 1, m]), (u + 1, by[i, 2, m]), (d, gap_x), (d + 1, gap_y)):
                    transition[entries, 0], transition[entries, 1], transition[entries, 2] = row, column, sign * entry
                    entries += 1
            dc = np.cos(before + moved[i, 0]) - np.cos(before)
            ds = np.sin(before + moved[i, 0]) - np.sin(before)
            for row, column, entry in (
                (d, PLACE_X, -sign * dc),
                (d, PLACE_Y, sign * ds),
                (d + 1, PLACE_X, -sign * ds),
                (d + 1, PLACE_Y, -sign * dc),
                (d, HALF_LENGTH, dc),
                (d + 1, HALF_LENGTH, ds),
            ):
                transition[entries, 0], transition[entries, 1] = row, base + column
                transition[entries, 2] = entry
                entries += 1
    lasted = lasted_s[0]
    for e in range(2):
        v, p, g = chain + e, chain + 2 + e, chain + 4 + e
        state[p] += state[v] * lasted + moved[0, 3 + e] + 0.5 * lasted * lasted * state[g]
        state[v] += moved[0, 1 + e] + lasted * state[g]
        for row, column, entry in ((p, v, lasted), (p, g, 0.5 * lasted * lasted), (v, g, lasted)):
            transition[entries, 0], transition[entries, 1], transition[entries, 2] = row, column, entry
            entries += 1
        for m in range(CAUSES):
            for row, entry in ((p, by[0, 3 + e, m]), (v, by[0, 1 + e, m])):
                transition[entries, 0], transition[entries, 1], transition[entries, 2] = row, CAUSE[m], entry
                entries += 1
    for i in range(count):
        for m in range(1, CAUSES):
            base = LINK * i
            transition[entries, 0], transition[entries, 1] = base + HEADING, base + CAUSE[m]
            transition[entries, 2] = by[i, 0, m]
            entries += 1
        state[LINK * i + HEADING] += moved[i, 0]
    transition = transition[:entries]
    transform(covariance, transition)
    _add_noise(state, covariance, half, place, moved, lasted_s, noise, blind)
    return transition


@njit(cache=True)
def transform(covariance: Rows, transition: Rows) -> None:
    """F P F^T for F = I + entries, (E, 3) rows of row, column and entry: O(E n)."""
    n, entries = covariance.shape[0], transition.shape[0]
    half_way = covariance.copy()
    for e in range(entries):
        row, column, entry = int(transition[e, 0]), int(transition[e, 1]), transition[e, 2]
        if entry != 0.0:
            for c in range(n):
                half_way[row, c] += entry * covariance[column, c]
    covariance[:] = half_way
    turned = half_way.T.copy()  # rows are quicker to walk through than columns
    result = turned.copy()
    for e in range(entries):
        row, column, entry = int(transition[e, 0]), int(transition[e, 1]), transition[e, 2]
        if entry != 0.0:
            for c in range(n):
                result[row, c] += entry * turned[column, c]
    covariance[:] = 0.5 * (result + result.T)


@njit(cache=True)
def _add_noise(
    state: Vector,
    covariance: Rows,
    half: Vector,
    place: Rows,
    moved: Rows,
    lasted_s: Vector,
    noise: Vector,
    blind: Vector,
) -> None:
    count = half.shape[0]
    joints, chain = LINK * count, LINK * count + JOINT * (count - 1)
    at, gain = np.empty(5, np.int64), np.empty(5)
    for i in range(count):
        base, lasted = LINK * i, lasted_s[i]
        turn = lasted * (noise[GYRO_NOISE] + blind[i] * BLIND_TURN) + moved[i, TURN_VARIANCE]
        push = lasted * (noise[ACCELEROMETER_NOISE] + blind[i] * BLIND_FORCE) + moved[i, VELOCITY_VARIANCE]
        at[0], gain[0], used = base + HEADING, 1.0, 1
        for side in range(2):
            j = i - side
            if 0 <= j < count - 1:
                sign = 1.0 - 2.0 * side
                hx, hy = lever(state, half, place, i, sign)
                nx, ny = _turned(state[base + HEADING], hx, hy)
                d = joints + JOINT * j + 2
                at[used], gain[used], at[used + 1], gain[used + 1] = d, -sign * ny, d + 1, sign * nx
                used += 2
        for a in range(used):
            for b in range(used):
                covariance[at[a], at[b]] += turn * gain[a] * gain[b]
        for e in range(2):
            used = 0
            for side in range(2):
                j = i - side
                if 0 <= j < count - 1:
                    sign = 1.0 - 2.0 * side
                    u = joints + JOINT * j + e
                    at[used], gain[used], at[used + 1], gain[used + 1] = u, sign, u + 2, 0.5 * sign * lasted
                    used += 2
            for a in range(used):
                for b in range(used):
                    covariance[at[a], at[b]] += push * gain[a] * gain[b]
            if i == 0:
                v = chain + e
                covariance[v, v] += push
                covariance[v, v + 2] += 0.5 * lasted * push
                covariance[v + 2, v] += 0.5 * lasted * push
                covariance[v + 2, v + 2] += 0.25 * lasted * lasted * push
                for a in range(used):  # the first joint shares this link's noise
                    covariance[v, at[a]] += push * gain[a]
                    covariance[at[a], v] += push * gain[a]
                    covariance[v + 2, at[a]] += 0.5 * lasted * push * gain[a]
                    covariance[at[a], v + 2] += 0.5 * lasted * push * gain[a]
            covariance[base + BIAS_X + e, base + BIAS_X + e] += lasted * noise[ACCELEROMETER_WALK]
        covariance[base + GYRO_BIAS, base + GYRO_BIAS] += lasted * noise[GYRO_WALK]
        covariance[base + CLOCK, base + CLOCK] += lasted * CLOCK_WALK**2


@njit(cache=True)
def expect_pins(
    state: Vector, rates: Vector, half: Vector, place: Rows, labels_s: Vector, residual: Vector, jacobian: Rows
) -> None:
    """Into `residual` (2N - 2,) what the gaps lack to nothing, and the Jacobian of the gaps.

    A clock's error moves a pin by its velocity: the same pin's from either side, so that only differences of clocks
    count. `labels_s` (N,): where each link's own clock stands against the tick.
    """
    count = half.shape[0]
    joints, chain = LINK * count, LINK * count + JOINT * (count - 1)
    jacobian[:] = 0.0
    velocity_x, velocity_y = state[chain], state[chain + 1]
    for j in range(count - 1):
        u = joints + JOINT * j
        d, before, behind = u + 2, LINK * j, LINK * (j + 1)
        hx, hy = lever(state, half, place, j, 1.0)
        nx, ny = _turned(state[before + HEADING], hx, hy)
        pin_x, pin_y = velocity_x - rates[j] * ny, velocity_y + rates[j] * nx
        late = (state[before + CLOCK] - labels_s[j]) - (state[behind + CLOCK] - labels_s[j + 1])
        residual[2 * j] = -(state[d] + pin_x * late)
        residual[2 * j + 1] = -(state[d + 1] + pin_y * late)
        jacobian[2 * j, d] = jacobian[2 * j + 1, d + 1] = 1.0
        jacobian[2 * j, before + CLOCK], jacobian[2 * j, behind + CLOCK] = pin_x, -pin_x
        jacobian[2 * j + 1, before + CLOCK], jacobian[2 * j + 1, behind + CLOCK] = pin_y, -pin_y
        velocity_x -= state[u]
        velocity_y -= state[u + 1]


@njit(cache=True)
def keep_unobservable(covariance: Rows, change: Vector, count: int) -> None:
    """Carry the covariance over to the estimate that `change` (n,) led to: turn and scale stay unobserved.

    Both directions depend on the estimate (a turned velocity, a scaled lever arm): what the correction changed of them
    is moved from the linearisation before to the one after.
    """
    n = covariance.shape[0]
    joints = LINK * count
    for _ in range(2):  # rows, then columns
        turn, scale = np.zeros(n), np.zeros(n)
        for i in range(count):
            turn += covariance[LINK * i + HEADING] / count
            scale -= covariance[LINK * i + ACCELEROMETER_SCALE] / count
        for k in range(joints, joints + JOINT * (count - 1) + CHAIN, 2):
            covariance[k] += -change[k + 1] * turn + change[k] * scale
            covariance[k + 1] += change[k] * turn + change[k + 1] * scale
        for i in range(count):
            for part in SCALED:
                covariance[LINK * i + part] += change[LINK * i + part] * scale
        covariance[:] = covariance.T.copy()
