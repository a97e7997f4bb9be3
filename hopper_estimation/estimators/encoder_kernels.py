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

**Beside the bounce.** Which of the two, the filter that goes by the bounce or DR1, foretells a flight better is not
known before: springs that give back what they get are good for one, masses and scales that are known for the other.
What both foretold is seen at the touchdown, where the robot is a leg's length high; the mean squares m of these errors,
of the last few hops, weigh them:

    w = m_bounce^2 / (m_bounce^2 + m_leg^2)     of DR1; its covariance grows by m over what it foretold, if more

What is told is the mean, with the moments of both. While the leg is pressed, its encoder tells the height. Phases and
events are the bounce's, and where it knows of no hops, or the leg is not read, it goes alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from hopper_estimation.estimators import bounce_kernels
from hopper_estimation.model import phases
from hopper_estimation.model.phases import Array, Body, Record, Records, layout

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
    share = body_mass_kg / (body_mass_kg + leg_mass_kg)
    return Encoder(*_FITS[name], share, NOISE_M * NOISE_M, _UNMODELLED[_FITS[name][0]])


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
    m0 = m1 = m2 = m3 = m4 = b0 = b1 = b2 = 0.0
    for k in range(count - used, count):
        t, y = (read[k % MOST_READINGS, 0] - now) / dt, read[k % MOST_READINGS, 1]
        m0, m1, m2, m3, m4 = m0 + 1.0, m1 + t, m2 + t * t, m3 + t * t * t, m4 + t * t * t * t
        b0, b1, b2 = b0 + y, b1 + t * y, b2 + t * t * y
    # Weights w solve M w = e, e choosing value or slope at t = 0: estimate w . b, variance w . e.
    m02 = m2
    if degree == 1 or used < 3:
        m02, m3, m4, b2 = 0.0, 0.0, 1.0, 0.0
    a11, a12, a22 = m2 * m4 - m3 * m3, m02 * m3 - m1 * m4, m0 * m4 - m02 * m02
    a13, a23 = m1 * m3 - m02 * m2, m1 * m02 - m0 * m3
    determinant = m0 * a11 + m1 * a12 + m02 * a13
    if slope:
        return (a12 * b0 + a22 * b1 + a23 * b2) / (determinant * dt), a22 / (determinant * dt * dt)
    return (a11 * b0 + a12 * b1 + a13 * b2) / determinant, a11 / determinant


@njit(cache=True, error_model="numpy", nogil=True)
def fly(e: Encoder, body: Body, x: Record, s: Record) -> int:
    """A `SIGNAL` in flight; the event that ends it, if any."""
    acceleration, doubt = -body.gravity, 0.0
    if e.kind == DR1 and (x.phase == phases.DROP or x.since > e.settle_s):
        acceleration, doubt = phases.choose(s, 0.0, body.gravity, _SWITCH_G * body.gravity)
    x.z += s.dt * (x.v + 0.5 * s.dt * acceleration)
    x.v += s.dt * acceleration
    x.zz += s.dt * (2.0 * x.zv + s.dt * x.vv)
    x.zv += s.dt * x.vv
    x.vv += s.dt * e.unmodelled + s.dt * s.dt * doubt
    # Right after liftoff the leg bounces on its stop: no touchdown.
    if s.leg > PRESSED_M and (x.phase == phases.DROP or x.since > phases.SHORTEST_FLIGHT_S):
        return phases.TOUCHDOWN
    if x.phase == phases.REBOUND and x.v < 0.0:
        return phases.APEX
    if x.since > phases.LONGEST_FLIGHT_S:
        lose(x)
    return phases.NO_EVENT


@njit(cache=True, error_model="numpy", nogil=True)
def lose(x: Record) -> None:
    """A phase that no robot stays in: it is somewhere else."""
    x.zz += phases.LOST_HEIGHT_M**2
    x.vv += phases.LOST_SPEED_M_S**2
    x.v, x.phase, x.since = 0.0, phases.STARTUP, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def extend(e: Encoder, body: Body, x: Record, leg: float) -> None:
    """A reading of a leg that stands, m, tells the height."""
    x.read[x.count % MOST_READINGS, 0], x.read[x.count % MOST_READINGS, 1] = x.time, leg
    x.count += 1
    x.z, x.zz, x.zv = body.length - leg, e.noise + _GROUND_STDDEV_M**2, 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def stand(e: Encoder, body: Body, x: Record, s: Record) -> int:
    """A `SIGNAL` in stance; the event that ends its phase, if any."""
    if x.since > phases.LONGEST_STANCE_S:
        lose(x)
        return phases.NO_EVENT
    if np.isnan(s.leg):
        x.z += s.dt * x.v
        return phases.NO_EVENT
    if x.phase == phases.STANCE_UP and s.leg <= PRESSED_M:
        return phases.LIFTOFF
    extend(e, body, x, s.leg)
    if x.count > e.degree:
        readings = min(e.readings, _STANCE_READINGS)
        slope, variance = fitted(x.read, x.count, readings, e.degree, x.time, body.nominal_dt, True)
        x.v, x.vv = -slope, e.noise * variance
    if x.phase == phases.STANCE_DOWN and x.since > phases.SHORTEST_STANCE_S and (x.v > 0.0 or s.leg <= PRESSED_M):
        return phases.MAX_SQUAT
    return phases.NO_EVENT


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
        x.z, x.v, x.phase = body.length, 0.0, phases.STARTUP
    else:
        flown = x.time - stop
        x.z, x.v = body.length + flown * (x.v - 0.5 * body.gravity * flown), x.v - body.gravity * flown


@njit(cache=True, error_model="numpy", nogil=True)
def run(
    e: Encoder, parameters: Array, body: Body, states: Records, signals: Records, out: Array, events: Records
) -> int:
    """A baseline over one `SIGNAL` after another; how many events were found. As `vertical_kernels.run`.

    `states` are (1,) of `STATE`; parameters there are none.
    """
    x, found = states[0], 0
    for n in range(len(signals)):
        s = signals[n]
        x.time += s.dt
        x.since += s.dt
        event = phases.NO_EVENT
        if x.phase in (phases.DROP, phases.REBOUND):
            event = fly(e, body, x, s)
        elif x.phase == phases.STARTUP:
            event = phases.TOUCHDOWN if s.leg > PRESSED_M else phases.NO_EVENT
        else:
            event = stand(e, body, x, s)
        if event >= 0:
            found = phases.add_event(events, found, event, n, x.time, x.z, x.v, x.zz)
            x.phase, x.since = (phases.DROP if event == phases.APEX else event + 1), 0.0
            if event == phases.TOUCHDOWN:
                x.count = 0
                extend(e, body, x, s.leg)
            elif event == phases.LIFTOFF:
                leave(e, body, x)
        out[n, 0], out[n, 1], out[n, 2], out[n, 3], out[n, 4], out[n, 5] = x.z, x.v, x.zz, x.zv, x.vv, x.phase
    return found


# The bounce, and a baseline beside it.

USUAL_M, USUAL_HOPS = 0.1, 0.3
"""What a touchdown is foretold to, before any was seen, and for how many it counts."""
KEPT_SHARE = 0.7
"""Share of the mean square that is kept from hop to hop: the last three count most."""
LEAST_M, LARGEST_M = 0.005, 1.0
STANCE_STDDEV_M = 0.02
"""What a pressed leg does not tell of the height: how the foot stands and sinks, a leg that leans, the leg's length."""
STANCE_SHARE = 0.1
"""And of the speed, as a share of the landing's: a stance turns it round in tens of milliseconds, by some of which
the slope of an encoder's readings is late."""
UNREAD_S = 0.1
"""A leg that was not read for longer is not gone by."""
_HOPS, _SQUARES = range(2)
BOTH_STATE = layout(
    [
        *((name, np.float64, 2) for name in ("own_done", "leg_done")),
        *((name, np.float64) for name in ("ratios", "landed_m_s", "unread")),
    ]
)
"""How the bounce and the leg have done: how many touchdowns are remembered, and the sum of their squared errors. Of the
leg's, the sum of these over what was foretold (the bounce's own covariance has it); speed of the last landing; for how
long the leg was not read, s."""


def start_both(*_: Any) -> Records:
    """(1,) of `BOTH_STATE` before the first sample, wherever the robot is."""
    state = phases.new_state(BOTH_STATE, ratios=USUAL_HOPS, unread=np.inf)
    state["own_done"] = state["leg_done"] = USUAL_HOPS, USUAL_HOPS * USUAL_M**2
    return state


@njit(cache=True, error_model="numpy", nogil=True)
def run_both(
    e: Encoder,
    parameters: Array,
    body: Body,
    own: Records,
    leg: Records,
    states: Records,
    signals: Records,
    out: Array,
    events: Records,
) -> int:
    """Both over one `SIGNAL` after another; how many events were found. As `bounce_kernels.run`.

    `own` and `leg` are states of both, `states` (1,) of `BOTH_STATE`.
    """
    x, told, leg_events = states[0], np.empty((len(signals), 6)), np.empty_like(events)
    found = bounce_kernels.run(parameters, body, own, signals, out, events)
    leg_found = run(e, parameters, body, leg, signals, told, leg_events)
    next_own, next_leg = 0, 0
    for n in range(len(signals)):
        first = next_own
        while next_own < found and events[next_own].sample == n:
            # A landing in a gap is as foretold, and tells nothing.
            if events[next_own].kind == phases.TOUCHDOWN and events[next_own].height != body.length:
                compare(x.own_done, events[next_own], body.length, parameters[phases.DELAY_TD])
            next_own += 1
        while next_leg < leg_found and leg_events[next_leg].sample == n:
            if leg_events[next_leg].kind == phases.TOUCHDOWN:
                square = compare(x.leg_done, leg_events[next_leg], body.length, 0.0)
                x.ratios = KEPT_SHARE * x.ratios + square / max(leg_events[next_leg].variance, LEAST_M**2)
                x.landed_m_s = abs(leg_events[next_leg].velocity)
            next_leg += 1
        x.unread = x.unread + signals[n].dt if np.isnan(signals[n].leg) else 0.0
        if tell(x, out[n], told[n]):
            for row in range(first, next_own):
                if events[row].kind == phases.APEX:
                    events[row].height, events[row].velocity, events[row].variance = out[n, 0], out[n, 1], out[n, 2]
    return found


@njit(cache=True, error_model="numpy", nogil=True)
def tell(x: Record, out: Array, told: Array) -> bool:
    """What both tell, from what the bounce (`out`) and the leg (`told`) do; whether it is not the bounce's alone."""
    phase, leg_phase = int(out[5]), int(told[5])
    stands = phase in (phases.STANCE_DOWN, phases.STANCE_UP)
    if x.unread > UNREAD_S or not (stands or phase in (phases.DROP, phases.REBOUND)):
        return False
    if leg_phase in (phases.STANCE_DOWN, phases.STANCE_UP):
        for column in range(5):
            out[column] = told[column]
        out[2] += STANCE_STDDEV_M**2
        out[4] += (STANCE_SHARE * x.landed_m_s) ** 2
    elif leg_phase in (phases.DROP, phases.REBOUND):
        # The bounce sees a liftoff late: until then it is the leg's alone.
        m, m_leg = x.own_done[_SQUARES] / x.own_done[_HOPS], x.leg_done[_SQUARES] / x.leg_done[_HOPS]
        share = 1.0 if stands else m * m / (m * m + m_leg * m_leg)
        told[2] += STANCE_STDDEV_M**2
        told[4] += (STANCE_SHARE * x.landed_m_s) ** 2 if stands else 0.0
        mix(out, told, share, max(x.ratios / x.leg_done[_HOPS], 1.0))
    return True


@njit(cache=True, error_model="numpy", nogil=True)
def compare(done: Array, event: Record, length: float, late: float) -> float:
    """How well a touchdown was foretold that is seen `late`, s, is remembered; the square of its error, m^2."""
    error = min(max(abs(event.height - late * event.velocity - length), LEAST_M), LARGEST_M)
    done[_HOPS] = KEPT_SHARE * done[_HOPS] + 1.0
    done[_SQUARES] = KEPT_SHARE * done[_SQUARES] + error * error
    return error * error


@njit(cache=True, error_model="numpy", nogil=True)
def mix(out: Array, told: Array, share: float, wider: float) -> None:
    """Mean and covariance of both; `share` is that of the second, and `wider` what its covariance grows by."""
    z, v, zz, zv, vv = out[0], out[1], out[2], out[3], out[4]
    apart_z, apart_v, rest = told[0] - z, told[1] - v, 1.0 - share
    out[0] = z + share * apart_z
    out[1] = v + share * apart_v
    out[2] = rest * zz + share * wider * told[2] + share * rest * apart_z * apart_z
    out[3] = rest * zv + share * wider * told[3] + share * rest * apart_z * apart_v
    out[4] = rest * vv + share * wider * told[4] + share * rest * apart_v * apart_v
