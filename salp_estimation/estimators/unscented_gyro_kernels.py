"""Compiled steps of the filter without a residual model, see `estimator`: readings in, estimates out.

What is no number is to be an error, as in `unscented_kernels`: these inherit the error model of what they are compiled
for first, and keep it in numba's cache, so that it is the default here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.filtering import unscented_kernels as unscented
from onboard_estimation.pipeline.sensor_trust import LONGEST_GAP_S
from salp_estimation.estimators.gyro_kernels import (
    NEVER,
    Estimates,
    GateSettings,
    Readings,
    Records,
    inflation_for,
    is_news,
)
from salp_estimation.model import chain_kernels as chain

STANDING_M_S = 1e-6
"""Slower commands count as none: the robot rests."""
COASTING_S = 0.5
"""A robot whose wheels are told to stand does so after this."""
BIAS_TIME_S = 10.0
"""So long a bias counts as one and the same error: it cannot be averaged over."""
WITHIN_S = 0.2
"""Joints slow down so long before their limits: longer than sigma points are apart, a fraction of a gait's stroke."""
LEAST_PERIOD_S = 1e-3
"""Readings of one gyro are taken to be at least so far apart."""
PLAUSIBLE = 3.0
"""A robot that is told to stand and turns by more than so many standard deviations of its gyro is being moved."""


class Settings(NamedTuple):
    """Of the filter.

    Attributes
    ----------
    links, radii_m
        (N, .) as `chain_kernels.completed` gives them, and (N,) signed radii of the wheels.
    layout, scalar
        Of the state's space and of one number, see `manifold_kernels`.
    element, sign
        Where a reading has the turning rate of its link, and its sign.
    gate
        Of the gyros.
    wheel_noise, error_root
        Density of the noise of rim speeds, m/s/sqrt(Hz); (N + 2, .) factor of that of the model's errors.
    moved
        (N, N + 2) density, (rad/s)^2/Hz, of what the error of a link's turning rate moves.
    white, model, scale
        Variances of a gyro's reading about what the model says, (rad/s)^2; the last times the square of the rate.
    lasts_s
        Twice how long the model's error lasts.
    creep, bias_walk
        (rad/s)^2, and (rad/s)^2/s.
    longest_step_s
        Of integration.
    """

    links: Matrix
    radii_m: Vector
    layout: NDArray[np.int64]
    scalar: NDArray[np.int64]
    element: int
    sign: float
    gate: GateSettings
    wheel_noise: float
    error_root: Matrix
    moved: Matrix
    white: float
    model: float
    scale: float
    lasts_s: float
    creep: float
    bias_walk: float
    longest_step_s: float


class Filtered(NamedTuple):
    """What the filter knows.

    Attributes
    ----------
    points
        (3n + 1, n) of pose and joint angles, see `SigmaPoints.packed`.
    wheels
        (N + 1,) rim speeds as they were last told, m/s, and how long they have been told to stand, s; infinite before
        the first command.
    biases
        (N, 2) of each gyro: mean, rad/s, and variance.
    """

    points: Matrix
    wheels: Vector
    biases: Matrix


@njit(cache=True)
def _stands(rim_speeds: Vector) -> bool:
    """Whether no wheel is told to turn; NumPy's own reductions would have a node load SciPy's linear algebra."""
    largest = 0.0
    for speed in rim_speeds:
        largest = max(largest, abs(speed))
    return largest < STANDING_M_S


@njit(cache=True)
def _process_noise_root(salp: Settings, joint_angles: Vector, moves: bool, duration_s: float) -> Matrix:
    """(N + 2, .) factor: noise of the wheels through B(r) at the joint angles; errors of a robot that moves."""
    through_wheels = chain.control_matrix(salp.links, joint_angles)
    n, wheels = through_wheels.shape
    out = np.empty((n, wheels + (salp.error_root.shape[1] if moves else 0)))
    scale = np.sqrt(duration_s)
    for i in range(n):
        for j in range(wheels):
            out[i, j] = scale * salp.wheel_noise * through_wheels[i, j]
        for j in range(out.shape[1] - wheels):
            out[i, wheels + j] = scale * salp.error_root[i, j]
    return out


@njit(cache=True)
def _gyro_rate(
    salp: Settings, state: Matrix, controls: Vector, link: int, density: float, period_s: float
) -> tuple[Matrix, float]:
    """Rates (k, 1) that a link's gyro reads at the sigma points, and the variance of the model's error in them.

    Given the state, the error that has moved it along is no longer zero in the mean: where its covariance with the
    state is c, it is c^T P^-1 (x - mean). At the mean plus and minus `spread` times the columns of the lower root L of
    P that is plus and minus `spread` times the elements of L^-1 c. What this explains is no noise any more; it is all
    the variance that there is at most, for a state that was given anew may hold less of the error than c says.

    Parameters
    ----------
    state
        (3n + 1, n) sigma points, then L.
    density
        Of the error, (rad/s)^2/Hz; 0 of a robot at rest.
    """
    n = state.shape[1]
    count, spread, largest = 2 * n + 1, np.sqrt(float(n)), density / period_s
    of_links = chain.gyro_rates(salp.links, state[:count], controls, WITHIN_S)
    rates = np.empty((count, 1))
    for k in range(count):
        rates[k, 0] = of_links[k, link]
    if density == 0.0:
        return rates, 0.0
    parts, explained = np.empty(n), 0.0
    for i in range(n):
        rest = salp.moved[link, i]
        for j in range(i):
            rest -= state[count + i, j] * parts[j]
        diagonal = state[count + i, i]
        parts[i] = rest / diagonal if diagonal > 0.0 else 0.0  # an exact part of the state tells of no error
        explained += parts[i] * parts[i]
    share = spread
    if explained > largest:
        share = spread * np.sqrt(largest / explained)
        explained = largest
    for i in range(n):
        rates[1 + i, 0] += share * parts[i]
        rates[1 + n + i, 0] -= share * parts[i]
    return rates, explained


@njit(cache=True)
def _learn(salp: Settings, bias: Vector, rate_rad_s: float) -> None:
    """A gyro's bias, from a reading of a robot that stands, but for how its harness may turn the link all the while."""
    creep = min(salp.creep, bias[1])
    known = bias[1] - creep
    error = rate_rad_s - bias[0]
    if error * error <= PLAUSIBLE**2 * (bias[1] + salp.white):
        gain = known / (known + salp.white)
        bias[0], bias[1] = bias[0] + gain * error, (1.0 - gain) * known + creep


@njit(cache=True)
def predict(salp: Settings, now: Filtered, duration_s: float) -> None:
    """In place, by the last command."""
    if duration_s <= 0.0:
        return
    n, state, wheels = len(salp.links), now.points, now.wheels
    steps = max(1, int(np.ceil(duration_s / salp.longest_step_s - 1e-9)))
    step_s, controls, points = duration_s / steps, wheels[:n], state[: 2 * state.shape[1] + 1]
    for _ in range(steps):
        noise_root = _process_noise_root(salp, state[0, 3:], wheels[n] <= COASTING_S, step_s)
        moved = chain.propagate(salp.links, points, controls, step_s, salp.longest_step_s)
        unscented.predict_moments(moved, noise_root, salp.layout, state)
    if _stands(controls):
        wheels[n] += duration_s


@njit(cache=True)
def _correct(
    salp: Settings, now: Filtered, gyros: Records, link: int, stamp_ns: int, reading: float, seen: Vector
) -> bool:
    """In place, by the turning rate of a link, less the gyro's bias; whether there is something to be told.

    The gate goes by the variance of this one reading. Neighbouring ones share their errors, and each alone tells
    less: the correction is made with a noise that counts as one those that follow each other within an error's
    duration.
    """
    n, last_ns, (state, wheels, bias) = len(salp.links), gyros[link].last_ns, (now.points, now.wheels, now.biases[link])
    since_s = np.inf if last_ns == NEVER else (stamp_ns - last_ns) / NANOSECONDS_PER_SECOND
    period_s = max(since_s, LEAST_PERIOD_S)
    if COASTING_S < wheels[n] < np.inf:  # it was told to rest: what was before the first command is not known
        _learn(salp, bias, reading)
    rate = reading - bias[0]
    scaled = salp.scale * rate**2
    single = salp.white + salp.model + scaled + bias[1]
    # White noise in the place of errors that last, so long after that gyro's last reading.
    repeated = max(1.0, salp.lasts_s / period_s) * (salp.model + scaled)
    lasting = salp.white + repeated + max(1.0, 2.0 * BIAS_TIME_S / period_s) * bias[1]
    density = 0.0 if wheels[n] > COASTING_S else salp.lasts_s * salp.model
    after, measured, left = np.empty_like(state), np.empty(1), np.empty((1, 1))
    innovation, root, inflation, measured[0] = np.empty(1), np.empty((1, 1)), 1.0, rate
    while True:
        rates, explained = _gyro_rate(salp, state, wheels[:n], link, density, period_s)
        left[0, 0] = np.sqrt(lasting - explained)
        unscented.correct_moments(
            state, rates, measured, left, salp.layout, salp.scalar, np.inf, after, innovation, root
        )
        spread = single + max(0.0, root[0, 0] ** 2 - lasting)
        nis = innovation[0] ** 2 / spread
        if inflation > 1.0:
            break
        inflation = inflation_for(salp.gate, gyros, link, stamp_ns, nis)
        if inflation == 1.0:
            break
        unscented.inflate(salp.layout, state, inflation)  # and again, for the gate asks for a wider covariance
    accepted = nis <= salp.gate.threshold or inflation > 1.0
    if accepted:
        for i in range(state.shape[0]):  # a slice that is assigned takes numba seconds to compile
            for j in range(state.shape[1]):
                state[i, j] = after[i, j]
    if since_s < np.inf:
        bias[1] += salp.bias_walk * period_s
    seen[0], seen[1], seen[2], seen[3], seen[4] = innovation[0], np.sqrt(spread), nis, accepted, inflation
    return is_news(salp.gate, gyros, link, stamp_ns, accepted, inflation)


@njit(cache=True)
def publish(_: Settings, now: Filtered, mean: Vector, covariance: Matrix) -> None:
    """Into `mean` (n,) and `covariance` (n, n) those of the sigma points."""
    n = len(mean)
    root = now.points[2 * n + 1 :]
    for i in range(n):
        mean[i] = now.points[0, i]
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += root[i, k] * root[j, k]
            covariance[i, j] = covariance[j, i] = total


@njit(cache=True)
def filter_readings(
    salp: Settings, now: Filtered, gyros: Records, stamp_ns: int, readings: Readings, alone: bool, room: Estimates
) -> tuple[Filtered, int, int, bool]:
    """Take readings of gyros and commands, in order.

    It ends before a gap that cannot be bridged and, unless the first of them is to be taken `alone`, at one of which
    something is to be told, where all that is written counts for nothing.

    Parameters
    ----------
    gyros
        (N,) written, see `gyro_kernels`.
    stamp_ns
        Of the last reading before.
    room
        Written.

    Returns
    -------
    State, how many readings, how many estimates of them, and whether there is something to be told.
    """
    n, found, told, wheels = len(salp.links), 0, False, now.wheels.copy()
    now = Filtered(now.points.copy(), wheels, now.biases.copy())
    for k in range(len(readings.kinds)):
        duration_s = 0.0 if stamp_ns == NEVER else (readings.stamps_ns[k] - stamp_ns) / NANOSECONDS_PER_SECOND
        stamp_ns, link = readings.stamps_ns[k], readings.kinds[k]
        if duration_s > LONGEST_GAP_S:
            return now, k, found, False
        predict(salp, now, duration_s)
        if link < 0:
            for i in range(n):
                wheels[i] = salp.radii_m[i] * readings.values[k, i]
            if wheels[n] == np.inf or not _stands(wheels[:n]):
                wheels[n] = 0.0
            continue
        reading = salp.sign * readings.values[k, salp.element]
        told = _correct(salp, now, gyros, link, stamp_ns, reading, room.seen[found])
        if told and not alone:
            return now, k, found, True
        publish(salp, now, room.means[found], room.covariances[found])
        room.made_of[found] = k
        found += 1
    return now, len(readings.kinds), found, told
