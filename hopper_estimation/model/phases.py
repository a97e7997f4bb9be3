"""Phases of a hop, and the estimator of them that all filters share: section III of the paper.

    drop -- touchdown --> stance down -- max squat --> stance up -- liftoff --> rebound -- apex --> drop

Before the first drop the robot stands, or is flown to its starting height: `startup`. With the low-passed accelerations
y1 (for the state) and y2 (for the phase), cut-offs f1 and f2,

    touchdown    jerk of y2 over several readings above a threshold
    max squat    that jerk becomes negative
    liftoff      y2 falls below zero
    apex         the estimated velocity does

Compiled. Robustness is ours: an event cannot follow
another sooner than legs can move, a touchdown ends a rebound whose apex was missed, and a stance or a drop that lasts
longer than any is given up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Records = NDArray[np.void]
"""Of a structured type."""
Record = Any
"""One of them: compiled functions read and change its fields."""


def layout(fields: list[Any]) -> np.dtype[np.void]:
    """A structured type whose fields are read by name without numba too, as with NUMBA_DISABLE_JIT."""
    return np.dtype((np.record, fields))


DROP, STANCE_DOWN, STANCE_UP, REBOUND, STARTUP = range(5)
PHASES = ("drop", "stance_down", "stance_up", "rebound", "startup")
PHASE_WORDS = ("while dropping", "in stance, down", "in stance, up", "while rebounding", "before the first drop")
"""Behind a quantity's name in a sentence."""

TOUCHDOWN, MAX_SQUAT, LIFTOFF, APEX = range(4)
EVENTS = ("touchdown", "max_squat", "liftoff", "apex")
PHASE_AFTER = (STANCE_DOWN, STANCE_UP, REBOUND, DROP)
"""Phase that each event begins."""
NO_EVENT, LOST = -1, -2

# Elements of a parameter vector; the first fifteen are those of the paper's table II.
(F_STATE, F_PHASE, SWITCH, SIGMA_A, SIGMA_B, SIGMA_V, SIGMA_P, VEL2, VEL1, VEL0, CH1, CH0, THRUST1, THRUST0, JERK,
 DELAY_TD, DELAY_MS, DELAY_LO, STANCE_TIME) = range(19)  # fmt: skip
PARAMETER_COUNT = 19

JERK_STEPS = 3.0
SHORTEST_STANCE_S = 0.004
SHORTEST_REBOUND_S = 0.02
SHORTEST_FLIGHT_S = 0.09
SHORTEST_DROP_S = 0.07
"""Of a flight of that length: an apex that was told right after a liftoff, with a velocity that is far off, is no
excuse for a touchdown before the shock of the liftoff has faded."""
LONGEST_STANCE_S = 0.25
LONGEST_FLIGHT_S = 2.5
STILL_M_S2 = 0.8
STILL_S = 0.5
LOST_HEIGHT_M = 0.3
LOST_SPEED_M_S = 3.0
ALONE_M_S2 = 20.0
"""Little trust in a high-g sensor that is alone in flight: its offset drifts by some tenths of m/s^2."""
HELD_M_S2 = 100.0
"""By how much a shock changes while one of its readings is waited for."""
ALONE_RISE_M_S2 = 40.0
"""Rise over several readings of a high-g sensor that is alone which may be noise, before the filter: a touchdown's is
more."""
CLIPPED_M_S2 = 400.0
"""A clipped reading may be wrong by as much as it shows, for as long as a stance."""
GAP_STEPS = 10.0
GAP_M_S2 = 30.0
"""Over a gap the acceleration may have been anything that it is in flight."""
FORGOTTEN = 0.9
"""An event that is seen soon after a gap may have happened at any time in it; a gap counts less from step to step."""
_FORGOTTEN_GAP_S = 1e-20
"""What is left of a gap then changes no result; it would become a number near 1e-310, with which sums take long."""
_USUAL_S = 1e-5
"""Steps that differ by less from the usual one are such."""
_SINCE_DROP_S = 0.05
"""A drop that was told has lasted for so long."""
LONGEST_SHOCK_M_S2 = 300.0
"""Mean acceleration of a stance after a drop of some metres."""

LOW_USABLE, HIGH_USABLE, LOW_CLIPPED, HIGH_DUE = 1, 2, 4, 8
"""Bits: the low-g, the high-g reading is there and inside its range; the first is beyond it; the second is due, and
missing."""

SIGNAL = layout(
    [
        *((name, np.float64) for name in ("dt", "low", "high", "side_x", "side_y", "goal", "thrust", "leg")),
        ("usable", np.int64),
    ]
)
"""What filters take of a sample: the time since the one before, s; vertical acceleration of the body by the low-g and
the high-g sensor, gravity taken off, and the horizontal specific force in the level frame of the given attitude, m/s^2;
commanded hop height, m (NaN: none was commanded); specific thrust of the duty cycles, m/s^2 (NaN: unknown); compression
of the leg, m (NaN: not read); bits as `LOW_USABLE`."""

EVENT = layout(
    [
        *((name, np.int64) for name in ("kind", "sample")),
        *((name, np.float64) for name in ("time", "height", "velocity", "variance")),
    ]
)
"""Number of the event and of its sample; time by the state's clock, s; height (m) and velocity (m/s) before its
updates, variance of the height (m^2)."""


class Body(NamedTuple):
    """What all filters know of the robot.

    Attributes
    ----------
    length
        Height of the body with the leg extended, m.
    gravity
        m/s^2.
    nominal_dt
        Usual time between samples, s.
    ground_step
        Standard deviation of the ground's change from hop to hop, m; only the bounce estimates it.
    """

    length: float
    gravity: float
    nominal_dt: float
    ground_step: float = 0.0


HOP: list[Any] = [
    ("phase", np.int64),
    *((name, np.float64) for name in ("since", "still", "apex", "begun", "time", "gap", "y1", "y2", "h1", "h2", "h3")),
]
"""Fields of the phase estimator in a filter's state: number of the phase, for how long it has lasted, and for how long
nothing has moved, s; height of the last apex, m (0: none); whether there was a sample; time since the start, and the
last gap between samples as far as it counts, s; see `Level`."""


def new_state(layout: np.dtype[np.void], **fields: float) -> Records:
    """(1,) a state before the first sample; what is not given is zero."""
    state = np.zeros(1, layout)
    for name, value in fields.items():
        state[name] = value
    return state


def new_filter_state(
    layout: np.dtype[np.void], height_m: float, velocity_m_s: float, covariance: Array, phase: int
) -> Records:
    """(1,) such a state at that height and velocity, with their covariance (2, 2), in that phase."""
    (zz, zv), (_, vv) = covariance
    since_s = _SINCE_DROP_S if phase == DROP else 0.0
    return new_state(layout, phase=phase, since=since_s, z=height_m, v=velocity_m_s, zz=zz, zv=zv, vv=vv)


def copied(state: Records) -> Records:
    """The same; NumPy's own way takes the fields one by one, and twenty times as long."""
    return np.ndarray(1, state.dtype, bytearray(state.tobytes()))


class Level(NamedTuple):
    """Low-passed accelerations y1 and y2, and the last three of y2, m/s^2."""

    y1: float
    y2: float
    h1: float
    h2: float
    h3: float


class Tuned(NamedTuple):
    """What a filter goes by.

    Attributes
    ----------
    parameters
        (PARAMETER_COUNT,).
    body
        Of the robot.
    f1, f2
        Cut-offs, rad/s.
    gain1, gain2, inverse1, inverse2
        Of the low-pass filters over the usual step t: f t / (1 + f t), 1 / (1 + f t).
    switch
        Specific force from which on the high-g sensor is gone by, m/s^2.
    jerk
        Threshold of a touchdown, over the steps of a rise, m/s^3.
    """

    parameters: Array
    body: Body
    f1: float
    f2: float
    gain1: float
    gain2: float
    inverse1: float
    inverse2: float
    switch: float
    jerk: float


@njit(cache=True, error_model="numpy", nogil=True)
def tuned(parameters: Array, body: Body) -> Tuned:
    """A filter's parameters on a robot."""
    f1, f2, dt = 2.0 * np.pi * parameters[F_STATE], 2.0 * np.pi * parameters[F_PHASE], body.nominal_dt
    gain1, gain2 = f1 * dt / (1.0 + f1 * dt), f2 * dt / (1.0 + f2 * dt)
    inverse1, inverse2 = 1.0 / (1.0 + f1 * dt), 1.0 / (1.0 + f2 * dt)
    switch, jerk = parameters[SWITCH] * body.gravity, parameters[JERK] * JERK_STEPS
    return Tuned(parameters, body, f1, f2, gain1, gain2, inverse1, inverse2, switch, jerk)


@njit(cache=True, error_model="numpy", nogil=True)
def gains(t: Tuned, step: float) -> tuple[float, float]:
    """Of the low-pass filters for y1 and y2 over a step, s: f t / (1 + f t)."""
    if abs(step - t.body.nominal_dt) <= _USUAL_S:
        return t.gain1, t.gain2
    return t.f1 * step / (1.0 + t.f1 * step), t.f2 * step / (1.0 + t.f2 * step)


@njit(cache=True, error_model="numpy", nogil=True)
def awaits_high(usable: int, low: float, gravity: float, switch: float) -> bool:
    """Whether a high-g reading that is due decides: no event is seen without it, as it may come a moment later."""
    return bool(usable & HIGH_DUE) and (not usable & LOW_USABLE or abs(low + gravity) > switch)


@njit(cache=True, error_model="numpy", nogil=True)
def choose(s: Record, held: float, gravity: float, switch: float) -> tuple[float, float]:
    """Which reading of a `SIGNAL` to go by, m/s^2, and the variance by which it deserves less trust than usual.

    The low-g sensor as far as its specific force is below `switch`, m/s^2, then the high-g one. Without the one that
    ought to be taken, the other; `held`, the filtered acceleration so far, where there is neither, and where a high-g
    reading that is due is missing: it may come a moment later, and the low-g one would feign the end of a shock.
    """
    if awaits_high(s.usable, s.low, gravity, switch):
        return held, HELD_M_S2**2
    if s.usable & LOW_USABLE:
        if s.usable & HIGH_USABLE and abs(s.low + gravity) > switch:
            return s.high, 0.0
        return s.low, 0.0
    if s.usable & HIGH_USABLE:
        return s.high, 0.0 if s.usable & LOW_CLIPPED else ALONE_M_S2**2
    return s.low if s.usable & LOW_CLIPPED else held, CLIPPED_M_S2**2


@njit(cache=True, error_model="numpy", nogil=True)
def remembered_gap(gap: float, step: float, nominal_dt: float) -> float:
    """The last gap between samples as far as it counts after another step, s; `gap` is the same before it."""
    if step > GAP_STEPS * nominal_dt:
        return step
    return FORGOTTEN * gap if gap > _FORGOTTEN_GAP_S else 0.0


@njit(cache=True, error_model="numpy", nogil=True)
def acceleration_over_gap(step: float, before: float, after: float) -> tuple[float, float]:
    """Acceleration over a gap in the readings, m/s^2, and the variance that makes up for not knowing it.

    It went on as it was `before` (over more than a flight: none), and may have changed at any time to what it is
    `after`; but that may be the peak of a shock, which does not last.
    """
    change = min(abs(after - before), LONGEST_SHOCK_M_S2)
    return before if step < LONGEST_FLIGHT_S else 0.0, GAP_M_S2**2 + change**2


@njit(cache=True, error_model="numpy", nogil=True)
def heard(level: Level, a: float, gain1: float, gain2: float) -> tuple[Level, float]:
    """After a reading a, m/s^2, that was chosen, y += gain (a - y), and how much y2 rose over three readings."""
    y1 = level.y1 + gain1 * (a - level.y1)
    y2 = level.y2 + gain2 * (a - level.y2)
    return Level(y1, y2, y2, level.h1, level.h2), y2 - level.h3


@njit(cache=True, error_model="numpy", nogil=True)
def listen(t: Tuned, x: Record, s: Record) -> tuple[float, float, float, float, float, float]:
    """A `SIGNAL` is heard by a state of `HOP`, whose phase stays: the reading that was chosen and the acceleration to
    go on with, m/s^2, the variance by which they deserve less trust than usual, how much y2 rose over three readings,
    both filters' gains."""
    gain1, gain2 = gains(t, s.dt)
    a, doubt = choose(s, x.y1, t.body.gravity, t.switch)
    is_gap, over_gap = s.dt > GAP_STEPS * t.body.nominal_dt, 0.0
    if is_gap:
        over_gap, unknown = acceleration_over_gap(s.dt, x.y1, a)
        doubt += unknown
    level = Level(x.y1, x.y2, x.h1, x.h2, x.h3) if x.begun > 0.0 else Level(a, a, a, a, a)
    level, rise = heard(level, a, gain1, gain2)
    x.y1, x.y2, x.h1, x.h2, x.h3 = level
    x.gap = remembered_gap(x.gap, s.dt, t.body.nominal_dt)
    x.since, x.begun, x.time = x.since + s.dt, 1.0, x.time + s.dt
    return a, over_gap if is_gap else level.y1, doubt, rise, gain1, gain2


@njit(cache=True, error_model="numpy", nogil=True)
def seen(t: Tuned, x: Record, s: Record, velocity: float, rise: float, gain2: float) -> int:
    """Which event a `SIGNAL` ends the phase with, at an estimated velocity, m/s; see `phase_event`."""
    if awaits_high(s.usable, s.low, t.body.gravity, t.switch):
        return NO_EVENT
    limit = touchdown_rise(t, s, x.gap, gain2)
    return phase_event(x.phase, x.since, velocity, x.y2, rise, limit)


@njit(cache=True, error_model="numpy", nogil=True)
def enter(x: Record, event: int, rests: bool, step: float) -> bool:
    """Enter the phase that an event begins, after a step, s; whether the robot stands: it `rests` for long."""
    x.still = x.still + step if rests else 0.0
    stands = x.still > STILL_S and event < 0
    if event >= 0:
        x.phase, x.since = (DROP if event == APEX else event + 1), 0.0
    elif event == LOST or stands:
        x.phase, x.since = STARTUP, 0.0
    return stands


@njit(cache=True, error_model="numpy", nogil=True)
def flies_on(x: Record, event: int) -> bool:
    """Whether the robot is in flight, and no event tells otherwise: where thrust tells the bias."""
    return event == NO_EVENT and (x.phase == DROP or x.phase == REBOUND)


@njit(cache=True, error_model="numpy", nogil=True)
def phase_event(phase: int, since: float, velocity: float, level: float, rise: float, limit: float) -> int:
    """Which event ends the phase now: an event's number, `NO_EVENT`, or `LOST` for a phase that no robot stays in.

    Parameters
    ----------
    phase, since
        Phase and how long it lasts, s.
    velocity, level
        Estimated velocity, m/s; filtered acceleration, m/s^2.
    rise, limit
        How much that acceleration rose over several readings, and what a touchdown's rise exceeds, m/s^2.
    """
    event = NO_EVENT
    if phase in (DROP, STARTUP):
        if rise > limit and since > SHORTEST_DROP_S:
            event = TOUCHDOWN
        elif since > LONGEST_FLIGHT_S and phase == DROP:
            event = LOST
    elif phase == REBOUND:
        if velocity < 0.0 and since > SHORTEST_REBOUND_S:
            event = APEX
        elif rise > limit and since > SHORTEST_FLIGHT_S:
            event = TOUCHDOWN  # whose apex was missed
    elif since > LONGEST_STANCE_S:
        event = LOST  # no leg is pressed for so long: the touchdown was none, or the robot stands
    elif phase == STANCE_DOWN:
        if rise < 0.0 and since > SHORTEST_STANCE_S:
            event = MAX_SQUAT
    elif level < 0.0 and since > SHORTEST_STANCE_S:
        event = LIFTOFF
    return event


@njit(cache=True, error_model="numpy", nogil=True)
def touchdown_rise(t: Tuned, s: Record, gap: float, gain2: float) -> float:
    """How much y2 rises over several readings at a touchdown, m/s^2, after a gap that is remembered as so long, s."""
    # A third of the time that the readings of the rise span. Stamps of a sender that was held up stand close
    # together; what they are of did not.
    usual = s.dt if abs(s.dt - t.body.nominal_dt) <= _USUAL_S else max(s.dt, t.body.nominal_dt)
    limit = t.jerk * (gap / JERK_STEPS + (0.0 if s.dt > GAP_STEPS * t.body.nominal_dt else usual))
    if s.usable & (LOW_USABLE | HIGH_USABLE | LOW_CLIPPED) == HIGH_USABLE:
        limit += gain2 * ALONE_RISE_M_S2
    return limit


@njit(cache=True, error_model="numpy", nogil=True)
def add_event(
    events: Records, found: int, kind: int, sample: int, time: float, height: float, velocity: float, variance: float
) -> int:
    """Write an `EVENT` where there is room left; how many there are now."""
    if found < len(events):
        one = events[found]
        one.kind, one.sample, one.time = kind, sample, time
        one.height, one.velocity, one.variance = height, velocity, variance
        found += 1
    return found
