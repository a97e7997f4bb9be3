"""Compiled: what holds the pins of a chain together over a tick of its inertial navigation, and what that makes known.

See `inertial_kernels` for the state and its motion.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering.moments import Seen, correction, see, spread_by
from thruster_chain_estimation.estimators import inertial_kernels as kernels
from thruster_chain_estimation.estimators.inertial_kernels import Chain, Did, Stood
from thruster_chain_estimation.model import inertial_layout as parts

PIN_STDDEV_M = 2e-5
"""Play of a pin, and what a straight line between two readings leaves out of a tick."""
STILL_STDDEV_M_S = 1e-4
NOTHING = 1e-7
"""Share of a variance that is too small to be told of."""


class NavigationErrors(NamedTuple):
    """Of a tick; errors are truth minus estimate.

    Attributes
    ----------
    drift
        (2, 2) by how much the covariance of the velocity grew, (m/s)^2.
    told, by, variances
        (k,), (k, 2), (k,) what the pins told of the velocity: measured, how it depends on it, its noise.
    change
        (4,) by which estimates of velocity and position were moved then.
    """

    drift: Matrix
    told: Vector
    by: Matrix
    variances: Vector
    change: Vector


class Moved(NamedTuple):
    """What the links did over a tick, for whoever explains it by forces.

    Attributes
    ----------
    lasted_s
        Length of the tick.
    headings, rates
        (N,) at its middle, rad, and mean over it, rad/s.
    angular
        (N,) mean angular accelerations, rad/s^2.
    velocities
        (N, 2) of the links' middles in the room, m/s.
    force
        (2,) mean specific force in the middle of the first link, along and across it, m/s^2.
    heard
        All links were, and no heading is lost.
    errors
        What the navigation knows of its own.
    """

    lasted_s: float
    headings: Vector
    rates: Vector
    angular: Vector
    velocities: Matrix
    force: Vector
    heard: bool
    errors: NavigationErrors


@njit(cache=True)
def look(
    state: Stood, covariance: Matrix, did: Did, chain: Chain, tight: NDArray[np.bool_], at_rest: bool, noise: Vector
) -> tuple[Matrix, Vector, Matrix, Seen]:
    """The covariance before the pins of `tight` links (N,) correct it, toward what, their slopes, and what is seen.

    Turn and scale are taken as unobserved as they are in truth, where gaps, and at rest velocities, are nothing: else
    what an estimate has of those, turned by an error of the heading, would pass for a measurement of it.
    """
    mean, count = state.mean, len(tight)
    gaps, joints, first = 2 * (count - 1), parts.LINK * count, parts.LINK * count + parts.JOINT * (count - 1)
    size = gaps + (count + gaps + 2 if at_rest else 0)
    residual, slopes = np.zeros(size), np.zeros((size, len(mean)))
    variances, toward = np.full(size, PIN_STDDEV_M**2), np.zeros(len(mean))
    kernels.expect_pins(mean, state.rates, chain, state.labels_s - state.tick_s, residual[:gaps], slopes[:gaps])
    for row in range(gaps):
        joint = row // 2
        gap = joints + parts.JOINT * joint + 2 + row % 2
        toward[gap] = -mean[gap]
        if not (tight[joint] and tight[joint + 1]):
            residual[row] = slopes[row] = 0.0
    if at_rest:  # no gyro turns, no IMU moves
        for link in range(count):
            row, base, lasted = gaps + link, parts.LINK * link, max(did.lasted_s[link], 1e-6)
            residual[row] = -did.moved[link, 0] / lasted
            slopes[row, base + parts.GYRO_BIAS] = -(1.0 - mean[base + parts.GYRO_SCALE])
            variances[row] = noise[kernels.GYRO_NOISE] / lasted
        for k in range(gaps + 2):
            row, at = gaps + count + k, first + k if k < 2 else joints + parts.JOINT * ((k - 2) // 2) + k % 2
            toward[at] = residual[row] = -mean[at]
            slopes[row, at], variances[row] = 1.0, STILL_STDDEV_M_S**2
    held = kernels.keep_unobservable(covariance, toward, tight)
    return held, toward, slopes, see(held, residual, slopes, np.diag(variances))


@njit(cache=True)
def hold(
    mean: Vector, held: Matrix, toward: Vector, seen: Seen, tight: NDArray[np.bool_]
) -> tuple[Vector, Matrix, Vector]:
    """Mean and covariance corrected by what was seen, and (n,) what the covariance was carried over by thereafter."""
    change, covariance = correction(held, seen)
    onward = change - toward
    return mean + change, kernels.keep_unobservable(covariance, onward, tight), onward


@njit(cache=True)
def movement(
    before: Stood,
    state: Stood,
    did: Did,
    after: tuple[Vector, Matrix],
    chain: Chain,
    tight: NDArray[np.bool_],
    heard: bool,
    jumped: tuple[Vector, Matrix],
) -> Moved:
    """What the links did over a tick: from `before` it to before the pins, and mean and covariance after them."""
    count, lasted, lasted_s = len(tight), np.maximum(did.lasted_s, 1e-6), state.tick_s - before.tick_s
    turning, headings, velocities = did.moved[:, 0] / lasted, np.empty(count), np.empty((count, 2))
    for i in range(count):
        headings[i] = before.mean[parts.LINK * i + parts.HEADING] + 0.5 * did.moved[i, 0]
    angular = (state.rates - before.rates) / max(lasted_s, 1e-6)
    arm = -(chain.place[0] + state.mean[parts.PLACE_X : parts.PLACE_X + 2])
    force = np.array(kernels.turned(-headings[0], did.moved[0, 1] / lasted[0], did.moved[0, 2] / lasted[0]))
    force += angular[0] * np.array([-arm[1], arm[0]]) - turning[0] ** 2 * arm
    velocities[0] = first_middle(state.mean, state.rates, chain)[1]
    # From each middle over the pin to the next one: what half a link turns, and half of the next.
    for i in range(count - 1):
        for axis in range(2):
            velocities[i + 1, axis] = velocities[i, axis]
        for k in (i, i + 1):
            speed = chain.half[k] * turning[k]
            velocities[i + 1, 0] -= speed * np.sin(headings[k])
            velocities[i + 1, 1] += speed * np.cos(headings[k])
    predicted = errors_of(state.covariance, tight)
    change = of_first_tight(tight) @ (after[0] - state.mean)
    values, axes = np.linalg.eigh(predicted - errors_of(before.covariance, tight) + jumped[1])
    drift = np.ascontiguousarray(axes * np.maximum(values, 0.0)) @ np.ascontiguousarray(axes.T)
    told, by, variances = told_of(predicted, errors_of(after[1], tight), change[:2])
    errors = NavigationErrors(drift, told, by, variances, change + jumped[0])
    return Moved(lasted_s, headings, turning, angular, velocities, force, heard, errors)


@njit(cache=True)
def first_middle(mean: Vector, rates: Vector, chain: Chain) -> tuple[Vector, Vector]:
    """Position and velocity (2,) of the middle of the first link, m and m/s, in a state's mean and rates."""
    first = parts.LINK * len(rates) + parts.JOINT * (len(rates) - 1)
    x, y = -(chain.place[0] + mean[parts.PLACE_X : parts.PLACE_X + 2])
    x, y = kernels.turned(mean[parts.HEADING], x, y)
    velocity = mean[first : first + 2] + rates[0] * np.array([-y, x])
    return mean[first + 2 : first + 4] + np.array([x, y]), velocity


@njit(cache=True)
def errors_of(covariance: Matrix, tight: NDArray[np.bool_]) -> Matrix:
    """(2, 2) of the errors of the velocity of the first link that is, but for what a turn of all (N,) that are does."""
    velocity, held, turn, by_turn = of_first_tight(tight)[:2], np.flatnonzero(tight), 0.0, np.zeros(2)
    spread = spread_by(velocity, covariance)
    for i in held:
        by_turn += spread[:, parts.LINK * i + parts.HEADING] / len(held)
        for k in held:
            turn += covariance[parts.LINK * i + parts.HEADING, parts.LINK * k + parts.HEADING] / len(held) ** 2
    errors = spread_by(velocity, np.ascontiguousarray(spread.T)) - np.outer(by_turn, by_turn) / max(turn, 1e-12)
    return 0.5 * (errors + errors.T)


@njit(cache=True)
def of_first_tight(tight: NDArray[np.bool_]) -> Matrix:
    """(4, n) of velocity and position of the IMU of the first tight link: those of the chain, less the joints between.

    A loose link's own are of no use, and where it hangs on, in the mean, is where the pins say.
    """
    count, first = len(tight), np.argmax(tight)
    chain = parts.LINK * count + parts.JOINT * (count - 1)
    out = np.zeros((4, chain + parts.CHAIN))
    for row in range(4):
        out[row, chain + row] = 1.0
        for joint in range(first):
            out[row, parts.LINK * count + parts.JOINT * joint + row] = -1.0
    return out


@njit(cache=True)
def told_of(before: Matrix, after: Matrix, change: Vector) -> tuple[Vector, Matrix, Vector]:
    """The measurement that moves zero to `change`, and makes `after` of the covariance `before`.

    Along the axes in which both covariances are diagonal, the first all ones, the second's entries m are 1 / (1 + 1/r)
    for a measurement with the variance r, whose value is the change by its gain, 1 - m.
    """
    deviations = np.sqrt(np.maximum(np.diag(before), 1e-20))
    root = np.linalg.cholesky(before / np.outer(deviations, deviations) + 1e-12 * np.eye(2))
    whitener = np.ascontiguousarray(np.linalg.inv(root)) / deviations
    left, axes = np.linalg.eigh(whitener @ after @ np.ascontiguousarray(whitener.T))
    left = np.maximum(left, 1e-9)
    seen = np.flatnonzero(left < 1.0 - NOTHING)
    by = np.ascontiguousarray(axes.T)[seen] @ whitener
    return by @ change / (1.0 - left[seen]), by, left[seen] / (1.0 - left[seen])
