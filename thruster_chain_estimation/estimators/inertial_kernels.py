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

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.moments import spread_by
from thruster_chain_estimation.model import inertial_layout as parts

Number = Any
Numbers = NDArray[Any]
"""Real or complex."""

MOVED = 7  # of a link over a tick: turn, velocity x y, way x y of its IMU; variances of turn and velocity by sampling
TURN_VARIANCE, VELOCITY_VARIANCE = 5, 6
STEP = 1.0 / np.sqrt(12.0)  # of a step that lies anywhere between two readings, against a straight line between them
ASIDE = 1e-30  # of the complex step: derivatives are exact to rounding
CAUSE = np.array([*range(parts.MOUNTING + 1), parts.ACCELEROMETER_SCALE, parts.SCALE_APART])  # that they depend on
GYRO_NOISE, ACCELEROMETER_NOISE, GYRO_WALK, ACCELEROMETER_WALK = range(4)  # densities, squared
CLOCK_WALK = 3e-5  # s/sqrt(s): a crystal that is 20 ppm off goes 0.1 ms in five seconds
TURNS_ON_S = 0.1  # a link that nothing is heard of turns on as at its last reading
UNSEEN_RAD_S = 3.0  # at which it may
BLIND_TURN = 1.0  # rad^2/s: a link that nothing is heard of turns on, give or take 0.1 rad in 10 ms
BLIND_FORCE = 100.0  # (m/s^2)^2/Hz: and goes where its pins go, by 1 m/s in 10 ms


class Chain(NamedTuple):
    """Half lengths (N,) of the links and places (N, 2) of their IMUs, by design, m."""

    half: Vector
    place: Matrix


class Did(NamedTuple):
    """What each link's IMU did over a tick.

    Attributes
    ----------
    moved, by
        (N, 7), (N, 5, 12), see `integrate`.
    lasted_s
        (N,) on each link's clock.
    blind
        (N,) 1 where nothing was heard of a link.
    """

    moved: Matrix
    by: Matrix
    lasted_s: Vector
    blind: Vector


class Stood(NamedTuple):
    """Where a navigation stands, see `jointed_navigation.NavigationState`, which begins with these."""

    mean: Vector
    covariance: Matrix
    tick_s: float
    labels_s: Vector
    rates: Vector


@njit(cache=True)
def advance(
    before: Stood, tick_s: float, readings: Matrix, counts: NDArray[np.int64], chain: Chain, noise: Vector
) -> tuple[Stood, Did, Matrix, NDArray[np.int64]]:
    """Up to an instant, by `readings` of the links one after the other, so many of each as `counts` (N,) says.

    Returns where it stands, what each link's IMU did, the transition, and the first reading (N,) that is still needed.
    """
    count, first = len(counts), 0
    did = Did(np.zeros((count, MOVED)), np.zeros((count, 5, parts.LINK)), np.empty(count), np.zeros(count))
    mean, covariance = before.mean.copy(), before.covariance.copy()
    labels_s, rates, needed = np.empty(count), np.empty(count), np.empty(count, np.int64)
    for i in range(count):
        own, heard = mean[parts.LINK * i : parts.LINK * (i + 1)], readings[first : first + counts[i]]
        first += counts[i]
        target, begin, reached = tick_s + own[parts.CLOCK], before.labels_s[i], -np.inf
        if len(heard) > 1 and target > begin:
            reached = integrate(own, heard, begin, target, did.moved[i], did.by[i])
        if np.isnan(begin) or (reached < target - 1e-6 and (not len(heard) or heard[-1, 0] < target)):
            begin = before.tick_s + own[parts.CLOCK] if np.isnan(begin) else begin
            did.blind[i], labels_s[i] = 1.0, target
            rates[i] = before.rates[i] * np.exp(-max(target - begin, 0.0) / TURNS_ON_S)
            did.moved[i, 0] = rates[i] * (target - begin)
        else:
            labels_s[i] = max(reached, begin)
            raw = np.interp(labels_s[i : i + 1], heard[:, 0], heard[:, 1])[0]
            rates[i] = (raw - own[parts.GYRO_BIAS]) * (1.0 - own[parts.GYRO_SCALE])
        did.lasted_s[i] = max(labels_s[i] - begin, 0.0)
        needed[i] = max(0, np.searchsorted(heard[:, 0], labels_s[i], side="right") - 2)
    transition = predict(mean, covariance, chain, did, noise)
    return Stood(mean, covariance, tick_s, labels_s, rates), did, transition, needed


@njit(cache=True)
def integrate(own: Vector, readings: Matrix, begin_s: float, target_s: float, moved: Vector, by: Matrix) -> float:
    """Into `moved` (7,) the motion of a link's IMU from `begin_s` to `target_s` of its own clock.

    `own` (12,) is the link's part of the state; `readings` (K, 4) are stamps (s), rate, and specific force x y. Between
    them they are taken as straight lines; what that leaves out where a force sets in, or a rate bends, is a variance.
    `by` (5, 12) gets the derivatives. Returns the stamp that it came to: that of the last reading, where they end
    before.
    """
    motions = np.zeros((len(CAUSE), 5), np.complex128)
    moved[:], by[:] = 0.0, 0.0
    at, k, count = begin_s, 0, len(readings)
    while target_s > at + 1e-7:
        while k + 1 < count and readings[k + 1, 0] <= at + 1e-9:
            k += 1
        if k + 1 >= count or readings[k, 0] > at + 1e-6:
            break
        until, whole = min(readings[k + 1, 0], target_s), readings[k + 1, 0] - readings[k, 0]
        share = (0.5 * (at + until) - readings[k, 0]) / whole
        raw = readings[k, 1:] + share * (readings[k + 1, 1:] - readings[k, 1:])
        for j in range(len(CAUSE)):
            aside = own.astype(np.complex128)
            aside[CAUSE[j]] += 1j * ASIDE
            _strap_down(aside, raw, until - at, motions[j])
        if until == readings[k + 1, 0]:
            jump_x, jump_y = readings[k + 1, 2] - readings[k, 2], readings[k + 1, 3] - readings[k, 3]
            moved[VELOCITY_VARIANCE] += 0.5 * (STEP * whole) ** 2 * (jump_x * jump_x + jump_y * jump_y)
            if k > 0:
                bend = readings[k + 1, 1] - 2.0 * readings[k, 1] + readings[k - 1, 1]
                moved[TURN_VARIANCE] += (0.125 * whole * bend) ** 2
        at = until
    for row in range(5):
        moved[row] = motions[0, row].real
        for j in range(len(CAUSE)):
            by[row, CAUSE[j]] = motions[j, row].imag / ASIDE
    return at


@njit(cache=True)
def _strap_down(own: Numbers, raw: Vector, step: float, motion: Numbers) -> None:
    """Turn, velocity and way of an IMU (5,) a step on, as its readings (3,) in the step's middle say."""
    rate = (1.0 - own[parts.GYRO_SCALE]) * (raw[0] - own[parts.GYRO_BIAS])
    along = (1.0 - own[parts.ACCELEROMETER_SCALE] - own[parts.SCALE_APART]) * (raw[1] - own[parts.BIAS_X])
    across = (1.0 - own[parts.ACCELEROMETER_SCALE] + own[parts.SCALE_APART]) * (raw[2] - own[parts.BIAS_Y])
    ax, ay = turned(own[parts.HEADING] + motion[0] + 0.5 * rate * step + own[parts.MOUNTING], along, across)
    motion[3] += step * motion[1] + 0.5 * step * step * ax
    motion[4] += step * motion[2] + 0.5 * step * step * ay
    motion[1] += step * ax
    motion[2] += step * ay
    motion[0] += rate * step


@njit(cache=True)
def lever(own: Numbers, chain: Chain, link: int, side: float) -> tuple[Number, Number]:
    """From the IMU of a link to its pin ahead (`side` 1) or behind (-1), in the link's frame, m."""
    along = side * (chain.half[link] + own[parts.HALF_LENGTH]) - chain.place[link, 0] - own[parts.PLACE_X]
    return along, -chain.place[link, 1] - own[parts.PLACE_Y]


@njit(cache=True)
def turned(angle: Number, x: Number, y: Number) -> tuple[Number, Number]:
    """A vector, turned by an angle, rad."""
    c, s = np.cos(angle), np.sin(angle)
    return c * x - s * y, s * x + c * y


@njit(cache=True)
def predict(state: Vector, covariance: Matrix, chain: Chain, did: Did, noise: Vector) -> Matrix:
    """Move state and covariance on by what each link's IMU did; `noise` the densities.

    Returns the transition F of the errors, as `transform` takes it.
    """
    transition, gains = _transition(state, chain, did), _gains(state, chain, did)
    _advance(state, chain, did)
    transform(covariance, transition)
    _add_noise(covariance, gains, did, noise)
    return transition


@njit(cache=True)
def _parted(
    own: Numbers, moved: Numbers, chain: Chain, link: int, side: float
) -> tuple[Number, Number, Number, Number]:
    """By how much a link's motion parts its joint ahead (`side` 1) or behind (-1): velocity x y, gap x y."""
    hx, hy = lever(own, chain, link, side)
    ox, oy = turned(own[parts.HEADING], hx, hy)
    nx, ny = turned(own[parts.HEADING] + moved[0], hx, hy)
    return side * moved[1], side * moved[2], side * (moved[3] + nx - ox), side * (moved[4] + ny - oy)


@njit(cache=True)
def _advance(state: Vector, chain: Chain, did: Did) -> None:
    """The state a tick on: joints by their own velocity and the motion of both links, the chain, the headings."""
    count, lasted_s = len(chain.half), did.lasted_s
    joints, first = parts.LINK * count, parts.LINK * count + parts.JOINT * (count - 1)
    for e in range(2):
        velocity = state[first + e]
        for j in range(count - 1):
            u = joints + parts.JOINT * j + e
            following = velocity - state[u]
            state[u + 2] += 0.5 * (lasted_s[j] + lasted_s[j + 1]) * state[u]
            state[u + 2] += 0.5 * (lasted_s[j] - lasted_s[j + 1]) * (velocity + following)
            velocity = following
        v, p, g = first + e, first + 2 + e, first + 4 + e
        state[p] += lasted_s[0] * state[v] + did.moved[0, 3 + e] + 0.5 * lasted_s[0] ** 2 * state[g]
        state[v] += did.moved[0, 1 + e] + lasted_s[0] * state[g]
    for j in range(count - 1):
        for i, side in ((j, 1.0), (j + 1, -1.0)):
            parted = _parted(state[parts.LINK * i : parts.LINK * (i + 1)], did.moved[i], chain, i, side)
            for row in range(4):
                state[joints + parts.JOINT * j + row] += parted[row]
    for i in range(count):
        state[parts.LINK * i + parts.HEADING] += did.moved[i, 0]


@njit(cache=True)
def _transition(state: Vector, chain: Chain, did: Did) -> Matrix:
    """What is not zero of F - I, (E, 3) rows of row, column and entry; by links by the complex step."""
    count = len(chain.half)
    joints, first = parts.LINK * count, parts.LINK * count + parts.JOINT * (count - 1)
    transition, e = np.empty((count * (10 * parts.LINK + 2 * count + 6) + 4 * parts.LINK + 6, 3)), 0
    for i in range(count):
        for column in range(parts.LINK):
            own = state[parts.LINK * i : parts.LINK * (i + 1)].astype(np.complex128)
            moved = did.moved[i].astype(np.complex128)
            own[column] += 1j * ASIDE
            for row in range(5):
                moved[row] += 1j * ASIDE * did.by[i, row, column]
            for j, side in ((i, 1.0), (i - 1, -1.0)):
                if 0 <= j < count - 1:
                    parted = _parted(own, moved, chain, i, side)
                    for row in range(4):
                        at = joints + parts.JOINT * j + row
                        e = _put(transition, e, at, parts.LINK * i + column, parted[row].imag / ASIDE)
            e = _put(transition, e, parts.LINK * i + parts.HEADING, parts.LINK * i + column, did.by[i, 0, column])
            for row in range(4 if i == 0 else 0):
                e = _put(transition, e, first + row, column, did.by[0, 1 + row, column])
    for j in range(count - 1):
        lasted = 0.5 * (did.lasted_s[j] + did.lasted_s[j + 1])
        longer = 0.5 * (did.lasted_s[j] - did.lasted_s[j + 1])  # not zero while clocks are being found
        for axis in range(2):
            u = joints + parts.JOINT * j + axis
            e = _put(transition, e, u + 2, u, lasted - longer)
            e = _put(transition, e, u + 2, first + axis, 2.0 * longer)
            for k in range(j):
                e = _put(transition, e, u + 2, joints + parts.JOINT * k + axis, -2.0 * longer)
    lasted = did.lasted_s[0]
    for axis in range(2):
        v, p, g = first + axis, first + 2 + axis, first + 4 + axis
        for row, column, entry in ((p, v, lasted), (p, g, 0.5 * lasted * lasted), (v, g, lasted)):
            e = _put(transition, e, row, column, entry)
    return transition[:e]


@njit(cache=True)
def _put(transition: Matrix, e: int, row: int, column: int, entry: float) -> int:
    """One more entry, unless it is zero; how many there are."""
    transition[e, 0], transition[e, 1], transition[e, 2] = row, column, entry
    return e + (entry != 0.0)


@njit(cache=True)
def transform(covariance: Matrix, transition: Matrix) -> None:
    """F P F^T for F = I + A with the entries of A, (E, 3) rows of row, column and entry: O(E n)."""
    rows = np.unique(transition[:, 0]).astype(np.int64)
    place = np.zeros(len(covariance), np.int64)
    place[rows] = np.arange(len(rows))
    moved, twice = np.zeros((len(rows), len(covariance))), np.zeros((len(rows), len(rows)))  # A P, A P A^T
    for e in range(len(transition)):
        target, source, entry = moved[place[int(transition[e, 0])]], covariance[int(transition[e, 1])], transition[e, 2]
        for c in range(len(covariance)):
            target[c] += entry * source[c]
    for r in range(len(rows)):
        for e in range(len(transition)):
            twice[r, place[int(transition[e, 0])]] += transition[e, 2] * moved[r, int(transition[e, 1])]
    for r in range(len(rows)):
        covariance[rows[r]] += moved[r]
        covariance[:, rows[r]] += moved[r]
    for r in range(len(rows)):
        for s in range(len(rows)):
            covariance[rows[r], rows[s]] += 0.5 * (twice[r, s] + twice[s, r])


@njit(cache=True)
def _gains(state: Vector, chain: Chain, did: Did) -> Matrix:
    """(n, 3N) what an error of a link's turn, and of its velocity x y, does to the state; by the complex step.

    What is added to a velocity at any time of the tick is on its way for half of it.
    """
    count = len(chain.half)
    joints, first = parts.LINK * count, parts.LINK * count + parts.JOINT * (count - 1)
    gains = np.zeros((len(state), 3 * count))
    for i in range(count):
        own = state[parts.LINK * i : parts.LINK * (i + 1)].astype(np.complex128)
        gains[parts.LINK * i + parts.HEADING, 3 * i] = 1.0
        for cause in range(3):
            gain, moved = gains[:, 3 * i + cause], did.moved[i].astype(np.complex128)
            moved[cause] += 1j * ASIDE
            if cause > 0:
                moved[2 + cause] += 0.5j * ASIDE * did.lasted_s[i]
            if cause > 0 and i == 0:
                gain[first + cause - 1], gain[first + cause + 1] = 1.0, 0.5 * did.lasted_s[0]
            for j, side in ((i, 1.0), (i - 1, -1.0)):
                if 0 <= j < count - 1:
                    parted = _parted(own, moved, chain, i, side)
                    for row in range(4):
                        gain[joints + parts.JOINT * j + row] = parted[row].imag / ASIDE
    return gains


@njit(cache=True)
def _add_noise(covariance: Matrix, gains: Matrix, did: Did, noise: Vector) -> None:
    for i in range(len(did.lasted_s)):
        base, lasted, blind, moved = parts.LINK * i, did.lasted_s[i], did.blind[i], did.moved[i]
        turn = lasted * (noise[GYRO_NOISE] + blind * BLIND_TURN) + moved[TURN_VARIANCE]
        push = lasted * (noise[ACCELEROMETER_NOISE] + blind * BLIND_FORCE) + moved[VELOCITY_VARIANCE]
        for cause in range(3):
            gain, variance = gains[:, 3 * i + cause], push if cause > 0 else turn
            touched = np.flatnonzero(gain)
            for a in touched:
                for b in touched:
                    covariance[a, b] += variance * gain[a] * gain[b]
        for part, walk in (
            (parts.GYRO_BIAS, noise[GYRO_WALK]),
            (parts.BIAS_X, noise[ACCELEROMETER_WALK]),
            (parts.BIAS_Y, noise[ACCELEROMETER_WALK]),
            (parts.CLOCK, CLOCK_WALK**2),
        ):
            covariance[base + part, base + part] += lasted * walk


@njit(cache=True)
def expect_pins(
    state: Vector, rates: Vector, chain: Chain, labels_s: Vector, residual: Vector, jacobian: Matrix
) -> None:
    """Into `residual` (2N - 2,) what the gaps lack to nothing, and the Jacobian of the gaps.

    A clock's error moves a pin by its velocity: the same pin's from either side, so that only differences of clocks
    count. `labels_s` (N,): where each link's own clock stands against the tick.
    """
    count = len(chain.half)
    joints, first = parts.LINK * count, parts.LINK * count + parts.JOINT * (count - 1)
    jacobian[:] = 0.0
    velocity_x, velocity_y = state[first], state[first + 1]
    for j in range(count - 1):
        u = joints + parts.JOINT * j
        d, before, behind = u + 2, parts.LINK * j, parts.LINK * (j + 1)
        hx, hy = lever(state[before : before + parts.LINK], chain, j, 1.0)
        nx, ny = turned(state[before + parts.HEADING], hx, hy)
        pin_x, pin_y = velocity_x - rates[j] * ny, velocity_y + rates[j] * nx
        late = (state[before + parts.CLOCK] - labels_s[j]) - (state[behind + parts.CLOCK] - labels_s[j + 1])
        residual[2 * j] = -(state[d] + pin_x * late)
        residual[2 * j + 1] = -(state[d + 1] + pin_y * late)
        jacobian[2 * j, d] = jacobian[2 * j + 1, d + 1] = 1.0
        jacobian[2 * j, before + parts.CLOCK], jacobian[2 * j, behind + parts.CLOCK] = pin_x, -pin_x
        jacobian[2 * j + 1, before + parts.CLOCK], jacobian[2 * j + 1, behind + parts.CLOCK] = pin_y, -pin_y
        velocity_x -= state[u]
        velocity_y -= state[u + 1]


@njit(cache=True)
def unobservable(change: Vector, tight: NDArray[np.bool_]) -> tuple[Matrix, Matrix]:
    """How turn and scale differ between two estimates that are `change` (n,) apart, and where they are seen: (2, n).

    The turn is that of the links (N,) that the pins hold `tight`.
    """
    n, count, held = len(change), len(tight), max(np.count_nonzero(tight), 1)
    directions, means = np.zeros((2, n)), np.zeros((2, n))
    for at in range(parts.LINK * count, n, 2):
        directions[0, at], directions[0, at + 1] = -change[at + 1], change[at]
        directions[1, at : at + 2] = change[at : at + 2]
    for link in range(count):
        base = parts.LINK * link
        for part in parts.SCALED:
            directions[1, base + part] = change[base + part]
        means[0, base + parts.HEADING] = tight[link] / held
        means[1, base + parts.ACCELEROMETER_SCALE] = -1.0 / count
    return directions, means


@njit(cache=True)
def keep_unobservable(covariance: Matrix, change: Vector, tight: NDArray[np.bool_]) -> Matrix:
    """The covariance carried over to the estimate that `change` (n,) led to: turn and scale stay unobserved.

    Both directions depend on the estimate (a turned velocity, a scaled lever arm): what the correction changed of them
    is moved from the linearisation before to the one after, by the transition I + directions^T means.
    """
    directions, means = unobservable(change, tight)
    seen = spread_by(means, covariance)
    half, carried = seen + 0.5 * (seen @ means.T).T @ directions, covariance.copy()
    for k in range(2):
        for i in range(len(change)):
            for j in range(len(change)):
                carried[i, j] += directions[k, i] * half[k, j] + half[k, i] * directions[k, j]
    return carried
