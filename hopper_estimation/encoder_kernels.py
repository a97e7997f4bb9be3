"""Compiled baselines that need a leg encoder: BA1 (ballistic flight) and DR1 (dead reckoning) of the paper's table III.

    stance    the foot stands on the ground, so that z = L - s and v = -s' with the compression s of the leg
    liftoff   the stop ends the extension; body and leg share the momentum: v = -s' m_b / (m_b + m_l), at z = L
    flight    BA1  v' = -g                until the encoder sees the next touchdown
              DR1  v' = a                 a: the accelerometer's reading, chosen as by the filters; before the stop's
                                          shock has died away -g, else the momentum that is shared would count twice

s' comes from a least-squares polynomial through the last readings before the stop, extrapolated to it. Nothing corrects
the flight. The phases are the encoder's: touchdown when the leg is pressed, max squat when s' turns, liftoff when the
leg is extended again, apex when v turns.

What the encoder's users publish, and so what these do not know: the encoder's scale error, thrust and drag in flight
(BA1), tilt beyond the given attitude, drifts of the accelerometer and how the stop's damping shares the momentum.

Two forms. The published one is a straight line through the last readings, and DR1 integrates from liftoff on. But the
leg still gains speed in those readings, and the accelerometer feels the shock of the stop after the encoder saw
liftoff, so that the momentum that is shared counts twice. The best one follows the gain with a parabola and lets the
shock pass. The numbers of both had the least apex error among those tried on training robots (seeds from 900100 on,
no test seed).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from hopper_estimation import phases
from hopper_estimation.phases import (
    APEX,
    DROP,
    LIFTOFF,
    LONGEST_FLIGHT_S,
    LONGEST_STANCE_S,
    LOST_HEIGHT_M,
    LOST_SPEED_M_S,
    MAX_SQUAT,
    NO_EVENT,
    REBOUND,
    SHORTEST_FLIGHT_S,
    SHORTEST_STANCE_S,
    STANCE_DOWN,
    STANCE_UP,
    STARTUP,
    TOUCHDOWN,
    Array,
    Body,
    Record,
    Records,
    layout,
)

BA1, DR1 = 0, 1

MOST_READINGS = 32
STATE = layout(
    [
        *phases.HOP,
        *((name, np.float64) for name in ("z", "v", "zz", "zv", "vv")),
        ("count", np.int64),
        ("read", np.float64, (MOST_READINGS, 2)),
    ]
)
"""Height and velocity with their covariance; how many readings were written into a ring of times and compressions."""

PRESSED_M = 0.003
"""A leg that is pressed by more touches the ground: fifteen times the encoder's noise."""
NOISE_M = 0.0002
_SWITCH_G = 13.0
_UNMODELLED = (4.5, 0.05)
"""Growth of the velocity's variance in flight, (m/s)^2/s: BA1's thrust and drag; DR1's errors of the accelerometer."""
_FITS: dict[str, tuple[int, int, int, float]] = {
    "ba1": (BA1, 1, 3, 0.0),
    "dr1": (DR1, 1, 3, 0.0),
    "ba1_best": (BA1, 2, 24, 0.0),
    "dr1_best": (DR1, 2, 16, 0.05),
}
"""The first four of `Encoder` by estimator: the published forms and the best."""
BASELINES = tuple(_FITS)

_SLOWEST_HOP_M_S = 0.3
_STANCE_READINGS = 6
_GROUND_STDDEV_M = 0.003
_SPEED_SHARE = 0.02
"""Standard deviation of a liftoff speed, as a share: scale of the encoder, and what the stop does not share."""


class Encoder(NamedTuple):
    """What a baseline goes by.

    Attributes
    ----------
    kind
        `BA1` or `DR1`.
    degree, readings
        Polynomial of the compression before the stop, 1 or 2, and how many readings it goes through.
    settle_s
        DR1: how long the accelerometer feels the stop's shock, s; in that time the flight is taken for ballistic.
    share
        Of the momentum that the body has after the stop: its share of the masses.
    noise
        Variance of an encoder's reading, m^2.
    unmodelled
        Growth of the velocity's variance in flight, (m/s)^2/s.
    """

    kind: int
    degree: int
    readings: int
    settle_s: float
    share: float
    noise: float
    unmodelled: float


def encoder_of(name: str, body_mass_kg: float, leg_mass_kg: float) -> Encoder:
    """Of one of `BASELINES`."""
    kind, degree, readings, settle_s = _FITS[name]
    return Encoder(
        kind,
        degree,
        readings,
        settle_s,
        body_mass_kg / (body_mass_kg + leg_mass_kg),
        NOISE_M * NOISE_M,
        _UNMODELLED[kind],
    )


def start_state(height_m: float, velocity_m_s: float, covariance: Array, phase: int) -> Records:
    """(1,) of `STATE` before the first reading, see `phases.new_filter_state`."""
    state = phases.new_filter_state(STATE, height_m, velocity_m_s, covariance, phase)
    state["since"] = 0.0
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def fitted(
    read: Array, count: int, readings: int, degree: int, now: float, dt: float, slope: bool
) -> tuple[float, float]:
    """Value or slope at a time of the polynomial through the last readings; its variance for readings of variance 1.

    Parameters
    ----------
    read
        (MOST_READINGS, 2) times (s) and readings, a ring.
    count
        Readings written so far, of which the last `readings` are used, as far as there are as many.
    degree
        1 or 2; 1 while there are only two readings.
    now, dt
        Time asked for, s; usual time between readings, s, the unit in which it is solved.
    """
    used = min(readings, count)
    m0, m1, m2, m3, m4, b0, b1, b2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(count - used, count):
        t, y = (read[k % MOST_READINGS, 0] - now) / dt, read[k % MOST_READINGS, 1]
        m0 += 1.0
        m1 += t
        m2 += t * t
        m3 += t * t * t
        m4 += t * t * t * t
        b0 += y
        b1 += t * y
        b2 += t * t * y
    # Weights w solve M w = e, e choosing value or slope at t = 0: estimate w . b, variance w . e.
    if degree == 1 or used < 3:
        m2_, m3_, m4_ = m2, 0.0, 1.0
        m02 = 0.0
        b2 = 0.0
    else:
        m2_, m3_, m4_ = m2, m3, m4
        m02 = m2
    a11, a12, a22 = m2_ * m4_ - m3_ * m3_, m02 * m3_ - m1 * m4_, m0 * m4_ - m02 * m02
    a13, a23 = m1 * m3_ - m02 * m2_, m1 * m02 - m0 * m3_
    determinant = m0 * a11 + m1 * a12 + m02 * a13
    if slope:
        return (a12 * b0 + a22 * b1 + a23 * b2) / (determinant * dt), a22 / (determinant * dt * dt)
    return (a11 * b0 + a12 * b1 + a13 * b2) / determinant, a11 / determinant


@njit(cache=True, error_model="numpy", nogil=True)
def fly(e: Encoder, body: Body, x: Record, s: Record) -> int:
    """A `SIGNAL` in flight; the event that ends it, if any."""
    acceleration, doubt = -body.gravity, 0.0
    if e.kind == DR1 and (x.phase == DROP or x.since > e.settle_s):
        acceleration, doubt = phases.choose(s, 0.0, body.gravity, _SWITCH_G * body.gravity)
    x.z += s.dt * (x.v + 0.5 * s.dt * acceleration)
    x.v += s.dt * acceleration
    x.zz += s.dt * (2.0 * x.zv + s.dt * x.vv)
    x.zv += s.dt * x.vv
    x.vv += s.dt * e.unmodelled + s.dt * s.dt * doubt
    # Right after liftoff the leg bounces on its stop: no touchdown.
    if s.leg > PRESSED_M and (x.phase == DROP or x.since > SHORTEST_FLIGHT_S):
        return TOUCHDOWN
    if x.phase == REBOUND and x.v < 0.0:
        return APEX
    if x.since > LONGEST_FLIGHT_S:
        lose(x)
    return NO_EVENT


@njit(cache=True, error_model="numpy", nogil=True)
def lose(x: Record) -> None:
    """A phase that no robot stays in: it is somewhere else."""
    x.zz += LOST_HEIGHT_M**2
    x.vv += LOST_SPEED_M_S**2
    x.v, x.phase, x.since = 0.0, STARTUP, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def extend(e: Encoder, body: Body, x: Record, leg: float) -> None:
    """A reading of a leg that stands, m, tells the height."""
    x.read[x.count % MOST_READINGS, 0], x.read[x.count % MOST_READINGS, 1] = x.time, leg
    x.count += 1
    x.z, x.zz, x.zv = body.length - leg, e.noise + _GROUND_STDDEV_M**2, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def stand(e: Encoder, body: Body, x: Record, s: Record) -> int:
    """A `SIGNAL` in stance; the event that ends its phase, if any."""
    if x.since > LONGEST_STANCE_S:
        lose(x)
        return NO_EVENT
    if np.isnan(s.leg):
        x.z += s.dt * x.v
        return NO_EVENT
    if x.phase == STANCE_UP and s.leg <= PRESSED_M:
        return LIFTOFF
    extend(e, body, x, s.leg)
    if x.count > e.degree:
        readings = min(e.readings, _STANCE_READINGS)
        slope, variance = fitted(x.read, x.count, readings, e.degree, x.time, body.nominal_dt, True)
        x.v, x.vv = -slope, e.noise * variance
    if x.phase == STANCE_DOWN and x.since > SHORTEST_STANCE_S and (x.v > 0.0 or s.leg <= PRESSED_M):
        return MAX_SQUAT
    return NO_EVENT


@njit(cache=True, error_model="numpy", nogil=True)
def leave(e: Encoder, body: Body, x: Record) -> None:
    """The stop ended the extension some time since the last reading: the flight until now, or a robot that stands."""
    last = x.read[(x.count - 1) % MOST_READINGS, 0]
    stop = x.time
    if x.count > e.degree:
        value, _ = fitted(x.read, x.count, e.readings, e.degree, last, body.nominal_dt, False)
        slope, _ = fitted(x.read, x.count, e.readings, e.degree, last, body.nominal_dt, True)
        if slope < 0.0:
            stop = min(max(last - value / slope, last), x.time)
        slope, variance = fitted(x.read, x.count, e.readings, e.degree, stop, body.nominal_dt, True)
        x.v, x.vv = max(-slope, 0.0) * e.share, e.noise * variance * e.share * e.share
    x.vv += (_SPEED_SHARE * x.v) ** 2
    if x.v < _SLOWEST_HOP_M_S:
        x.z, x.v, x.phase = body.length, 0.0, STARTUP
    else:
        flown = x.time - stop
        x.z, x.v = body.length + flown * (x.v - 0.5 * body.gravity * flown), x.v - body.gravity * flown


@njit(cache=True, error_model="numpy", nogil=True)
def run(e: Encoder, body: Body, states: Records, signals: Records, out: Array, events: Records) -> int:
    """A baseline over one `SIGNAL` after another; how many events were found. As `vertical_kernels.run`.

    `states` are (1,) of `STATE`.
    """
    x, found = states[0], 0
    for n in range(len(signals)):
        s = signals[n]
        x.time += s.dt
        x.since += s.dt
        event = NO_EVENT
        if x.phase in (DROP, REBOUND):
            event = fly(e, body, x, s)
        elif x.phase == STARTUP:
            event = TOUCHDOWN if s.leg > PRESSED_M else NO_EVENT
        else:
            event = stand(e, body, x, s)
        if event >= 0:
            found = phases.add_event(events, found, event, n, x.time, x.z, x.v, x.zz)
            x.phase, x.since = (DROP if event == APEX else event + 1), 0.0
            if event == TOUCHDOWN:
                x.count = 0
                extend(e, body, x, s.leg)
            elif event == LIFTOFF:
                leave(e, body, x)
        out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4], out[n, 5] = x.z, x.v, x.zz, x.zv, x.vv, x.phase
    return found
