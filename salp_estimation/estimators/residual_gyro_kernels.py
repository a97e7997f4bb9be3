"""Compiled filter of a chain with a trained residual model: readings in, estimates out, see `residual_estimator`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.learning.sparse_kernels import predict_means, predict_variances
from onboard_estimation.pipeline.sensor_trust import LONGEST_GAP_S
from salp_estimation.estimators import residual_filter_kernels as kernels
from salp_estimation.estimators.chain_estimator import COMMAND_LAG_S, STANDING_M_S
from salp_estimation.estimators.gaussian_sum_start import log_density
from salp_estimation.estimators.gyro_kernels import (
    NEVER,
    Estimates,
    GateSettings,
    Readings,
    Records,
    inflation_for,
    is_news,
)
from salp_estimation.estimators.residual_filter_kernels import ERROR_TIME_S, Linearised
from salp_estimation.estimators.residual_model import REST_S, SLIP
from salp_estimation.model import friction_kernels as friction

NOVEL_FROM, NOVEL_TO = 6.0, 4.0
"""Unlikeness of a robot to those in training from which on it is told, and below which it is over: none of twenty
robots as in training got there in a minute (`salp_surprises`)."""
_LINEARISATION_NS = 5_000_000
"""A linearisation serves so long: over this time a gait's controls change by half a per cent."""
ANGLE_NOISE = 1e-5
ROBOT_TIME_S = 200.0
"""A robot may change while it runs, by wear, load or floor: within minutes it may be any of its population."""


class Settings(NamedTuple):
    """Of the filter.

    Attributes
    ----------
    links, radii_m
        (N, .) as `chain_kernels` reads them, and (N,) signed radii of the wheels.
    public
        (2 N + 2,) where pose, joint angles and biases, in this order, stand in the state.
    element, sign
        Where a reading has the turning rate of its link, and its sign.
    gate
        Of the gyros.
    means, variances, gyro_means
        Arrays of the sparse residual model as `sparse_kernels` takes them; without weights there is none.
    residual_stddevs, correlation_times_s, rest_stddevs, force_stddevs, gyro_noise
        Of the model and its population.
    inflation
        (2,) of pose and joint angles where they are published, see `ResidualModel`; 0: they are published as stated.
    bias_walk, longest_step_s
        rad/s/sqrt(s), and of a prediction.
    least_period_ns
        A gyro's reading that comes sooner after the last one is left out.
    """

    links: Matrix
    radii_m: Vector
    public: NDArray[np.int64]
    element: int
    sign: float
    gate: GateSettings
    means: tuple[Matrix, Vector, Matrix]
    variances: tuple[Matrix, Vector, Matrix, Matrix, Vector]
    gyro_means: tuple[Matrix, Vector, Matrix]
    residual_stddevs: Vector
    correlation_times_s: Vector
    rest_stddevs: Vector
    force_stddevs: Vector
    gyro_noise: Matrix
    inflation: Vector
    bias_walk: float
    longest_step_s: float
    least_period_ns: int


class LaggedCommand(NamedTuple):
    """What the wheels were asked for and what they do, at the stamp of the last measurement.

    Attributes
    ----------
    asked, lagged
        (N,) the command in force and its lag, m/s at the rim.
    pending_ns, area
        How long the filter has not been predicted over, and the integral (N,) of the lag over that time, m.
    """

    asked: Vector
    lagged: Vector
    pending_ns: int
    area: Vector


class Robots(NamedTuple):
    """Parameters of a robot before any reading: mean (p,), covariance (p, p) and its diagonal."""

    mean: Vector
    covariance: Matrix
    variances: Vector


class FilterState(NamedTuple):
    """State and covariance in the order of `residual_filter_kernels`; arrays are values, never written.

    Attributes
    ----------
    near, start
        The last linearisation, and where the next one's iteration starts.
    wheels
        What they do.
    robots
        What is known of the robot beforehand.
    given
        (3,) variances of the pose where it was last given, at the start or from outside.
    evidence
        Sum of the `log_density` of all readings of the gyros.
    is_novel
        Whether it has been told that the robot is unlike those in training.
    """

    state: Vector
    covariance: Matrix
    near: Linearised
    start: Vector
    wheels: LaggedCommand
    robots: Robots
    given: Vector
    evidence: float
    is_novel: bool


@njit(cache=True, error_model="numpy")
def advanced(wheels: LaggedCommand, elapsed_ns: int) -> LaggedCommand:
    """Later, under the same command."""
    if elapsed_ns <= 0:
        return wheels
    duration_s = elapsed_ns / NANOSECONDS_PER_SECOND
    keep = math.exp(-duration_s / COMMAND_LAG_S)
    missing = wheels.lagged - wheels.asked
    area = wheels.area + duration_s * wheels.asked + COMMAND_LAG_S * (1.0 - keep) * missing
    return LaggedCommand(wheels.asked, wheels.asked + keep * missing, wheels.pending_ns + elapsed_ns, area)


@njit(cache=True, error_model="numpy")
def _linearised(salp: Settings, now: FilterState, at_ns: int, controls: Vector) -> tuple[Linearised, Vector]:
    """The last linearisation and start if they are of about that time, else new ones.

    `controls` (N,) are lagged rim speeds, m/s.
    """
    if abs(at_ns - now.near.at_ns) <= _LINEARISATION_NS:
        return now.near, now.start
    n, state = len(salp.links), now.state
    m, p, offsets = n + 2, friction.parameter_count(n), np.zeros(n)
    if not np.abs(controls).max() > STANDING_M_S:  # harness and floor make it creep
        zeros = np.zeros((m, n - 1)), np.zeros((m, p)), np.zeros((m, m))
        still = Linearised(at_ns, state, np.zeros(m), *zeros, salp.rest_stddevs, offsets, np.full(m, REST_S))
        return still, np.zeros(m)
    slopes = (now.wheels.asked - controls) / COMMAND_LAG_S
    mean, by_angles, by_parameters, left_over, start = kernels.linearise(
        salp.links, state, now.covariance, controls, slopes, SLIP, now.start, *salp.means
    )
    inputs, first = np.empty((1, 2 * n - 1)), 3 * n - 1
    inputs[0, : n - 1], inputs[0, n - 1 :] = state[: n - 1], controls
    parameters = state[first : first + p].copy()
    place = friction.Place(salp.links, inputs[0, : n - 1].copy(), state[-1], controls, slopes, parameters, SLIP)
    stddevs = np.sqrt(salp.residual_stddevs**2 + friction.force_effects(place, start) @ salp.force_stddevs**2)
    if salp.means[2].shape[0] > 0:
        stddevs = np.sqrt(stddevs**2 + predict_variances(*salp.variances, inputs)[0])
        offsets = predict_means(*salp.gyro_means, inputs)[0]
    near = Linearised(
        at_ns, state, mean, by_angles, by_parameters, left_over, stddevs, offsets, salp.correlation_times_s
    )
    return near, start


@njit(cache=True, error_model="numpy")
def step_count(salp: Settings, wheels: LaggedCommand) -> int:
    """Steps of a prediction over the time that it has not been made for."""
    if wheels.pending_ns <= 0:
        return 0
    return max(1, math.ceil(wheels.pending_ns / NANOSECONDS_PER_SECOND / salp.longest_step_s - 1e-9))


@njit(cache=True, error_model="numpy")
def moved(salp: Settings, now: FilterState, stamp_ns: int, step: int, steps: int) -> FilterState:
    """The next step of so many, up to a stamp, by the mean command; after the last nothing is pending."""
    wheels, n = now.wheels, len(salp.links)
    duration_s = wheels.pending_ns / NANOSECONDS_PER_SECOND
    at_ns = stamp_ns - wheels.pending_ns + round((step + 0.5) / steps * wheels.pending_ns)
    near, start = _linearised(salp, now, at_ns, wheels.area / duration_s)
    step_s = duration_s / steps
    state, covariance = kernels.predict(now.state, now.covariance, near, step_s, salp.bias_walk, ANGLE_NOISE)
    keep = np.exp(-step_s / ROBOT_TIME_S)
    kernels.drift(state, covariance, 3 * n - 1, now.robots.mean, now.robots.covariance, keep)
    if step == steps - 1:
        wheels = LaggedCommand(wheels.asked, wheels.lagged, 0, np.zeros(n))
    return FilterState(state, covariance, near, start, wheels, now.robots, now.given, now.evidence, now.is_novel)


@njit(cache=True, error_model="numpy")
def inflated(now: FilterState, factor: float) -> Matrix:
    """Covariance with all less known, but no parameter less than before any reading."""
    size, p, most = len(now.state), len(now.robots.variances), np.sqrt(factor)
    first, scales = size - 3 - len(now.start) - p, np.full(size, np.sqrt(factor))
    for i in range(p):
        variance = now.covariance[first + i, first + i]
        if variance > 0.0:
            scales[first + i] = min(max(np.sqrt(now.robots.variances[i] / variance), 1.0), most)
    return now.covariance * np.outer(scales, scales)


@njit(cache=True, error_model="numpy")
def _corrected(
    salp: Settings, now: FilterState, gyros: Records, link: int, stamp_ns: int, reading: float, seen: Vector
) -> tuple[FilterState, bool]:
    """By one gyro, whose noise grows with the speed of its own wheel; whether there is something to be told."""
    wheels, last_ns = now.wheels, gyros[link].last_ns
    near, start = _linearised(salp, now, stamp_ns, wheels.lagged)
    period_s = np.inf if last_ns == NEVER else (stamp_ns - last_ns) / NANOSECONDS_PER_SECOND
    rest, growth = salp.gyro_noise[link]
    variance = rest**2 + (growth * wheels.lagged[link]) ** 2
    share, threshold = max(1.0, 2.0 * ERROR_TIME_S / max(period_s, 1e-3)), salp.gate.threshold
    by = near, link, reading, variance, share
    innovation, spread, repeated, state, covariance = kernels.update(now.state, now.covariance, *by, threshold)
    nis = innovation * innovation / spread
    inflation = inflation_for(salp.gate, gyros, link, stamp_ns, nis)
    evidence = now.evidence + log_density(innovation, spread, variance, repeated, share, threshold)
    accepted = nis <= threshold
    if inflation > 1.0:
        wider = inflated(now, inflation)
        innovation, spread, repeated, state, covariance = kernels.update(now.state, wider, *by, np.inf)
        nis, accepted = innovation * innovation / spread, True
    seen[0], seen[1], seen[2], seen[3], seen[4] = innovation, np.sqrt(spread), nis, accepted, inflation
    after = FilterState(state, covariance, near, start, wheels, now.robots, now.given, evidence, now.is_novel)
    return after, is_news(salp.gate, gyros, link, stamp_ns, accepted, inflation)


@njit(cache=True, error_model="numpy")
def unlikeness(now: FilterState) -> float:
    """Of the robot to those in training, see `residual_filter_kernels.novelty`."""
    p = len(now.robots.mean)
    first = len(now.state) - 3 - len(now.start) - p
    deviations = now.state[first : first + p] - now.robots.mean
    return kernels.novelty(deviations, now.covariance[first : first + p, first : first + p], now.robots.variances)


@njit(cache=True, error_model="numpy")
def is_unlike(now: FilterState) -> bool:
    """Whether the robot counts as unlike those in training."""
    return unlikeness(now) > (NOVEL_TO if now.is_novel else NOVEL_FROM)


@njit(cache=True, error_model="numpy")
def less_sure(salp: Settings, now: FilterState) -> Vector:
    """(2 N + 2,) by how much all is less sure where it is published: as held-out runs or this robot ask for.

    Of the pose, what it has drifted since it was given.
    """
    scales, n = np.ones(len(salp.public)), len(salp.links)
    if salp.inflation[0] > 0.0:
        least = np.sqrt(unlikeness(now))
        pose, joints = max(salp.inflation[0], least), max(salp.inflation[1], least)
        for i in range(3):
            variance = now.covariance[salp.public[i], salp.public[i]]
            drifted = 1.0 - (now.given[i] / variance if variance > now.given[i] else 1.0)
            scales[i] = np.sqrt(1.0 + (pose**2 - 1.0) * drifted)
        scales[3 : n + 2] = joints
    return scales


@njit(cache=True, error_model="numpy")
def publish(salp: Settings, now: FilterState, mean: Vector, covariance: Matrix) -> None:
    """Into `mean` (2 N + 2,) and `covariance` those of pose, joint angles and biases, as sure as they may be taken."""
    scales = less_sure(salp, now)
    for i in range(len(mean)):
        mean[i] = now.state[salp.public[i]]
        for j in range(len(mean)):
            covariance[i, j] = now.covariance[salp.public[i], salp.public[j]] * (scales[i] * scales[j])


@njit(cache=True, error_model="numpy")
def filter_readings(
    salp: Settings, now: FilterState, gyros: Records, stamp_ns: int, readings: Readings, alone: bool, room: Estimates
) -> tuple[FilterState, int, int, bool]:
    """Take readings of gyros and commands, in order, as `unscented_gyro_kernels.filter_readings` does."""
    found, n, told = 0, len(salp.links), False
    for k in range(len(readings.kinds)):
        link = readings.kinds[k]
        if link >= 0 and readings.stamps_ns[k] - gyros[link].last_ns < salp.least_period_ns:
            room.left_out[k] = True
            continue
        wheels = advanced(now.wheels, 0 if stamp_ns == NEVER else readings.stamps_ns[k] - stamp_ns)
        stamp_ns = readings.stamps_ns[k]
        if link < 0:
            asked = salp.radii_m * readings.values[k, :n]
            wheels = LaggedCommand(asked, wheels.lagged, wheels.pending_ns, wheels.area)
        elif wheels.pending_ns > LONGEST_GAP_S * NANOSECONDS_PER_SECOND:
            return now, k, found, False
        now = FilterState(
            now.state, now.covariance, now.near, now.start, wheels, now.robots, now.given, now.evidence, now.is_novel
        )
        if link < 0:
            continue
        steps = step_count(salp, wheels)
        for step in range(steps):
            now = moved(salp, now, stamp_ns, step, steps)
        reading = salp.sign * readings.values[k, salp.element]
        now, told = _corrected(salp, now, gyros, link, stamp_ns, reading, room.seen[found])
        told |= is_unlike(now) != now.is_novel
        if told and not alone:
            return now, k, found, True
        publish(salp, now, room.means[found], room.covariances[found])
        room.made_of[found] = k
        found += 1
    return now, len(readings.kinds), found, told
