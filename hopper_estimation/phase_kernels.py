"""What the hopper's compiled filters share: which reading to go by, gaps, and which event ends a phase.

    touchdown    jerk of the low-passed acceleration over several readings above a threshold
    max squat    that jerk becomes negative
    liftoff      that acceleration falls below zero
    apex         the estimated velocity does

(section III of the paper). Robustness is ours: an event cannot follow another sooner than legs can move, a touchdown
ends a rebound whose apex was missed, and a stance or a drop that lasts longer than any is given up.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hopper_estimation.phases import APEX, DROP, LIFTOFF, MAX_SQUAT, REBOUND, STANCE_DOWN, STARTUP, TOUCHDOWN

Array = NDArray[np.float64]

E_KIND, E_TIME, E_HEIGHT, E_VELOCITY, E_VARIANCE, E_SAMPLE = range(6)
EVENT_SIZE = 6
"""An event: kind, time (s, of the state's clock), height and velocity before its updates, variance of the height."""
NO_EVENT, LOST = -1, -2

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
STANDING_PVV = 1e-4
"""Variance of the velocity of a robot that stands, m^2/s^2."""
LONGEST_SHOCK_M_S2 = 300.0
"""Mean acceleration of a stance after a drop of some metres."""


@njit(cache=True, error_model="numpy", inline="always")
def awaits_high(usable: int, low: float, gravity: float, switch: float) -> bool:
    """Whether a high-g reading that is due decides: no event is seen without it, as it may come a moment later."""
    return bool(usable & 8) and (not usable & 1 or abs(low + gravity) > switch)


@njit(cache=True, error_model="numpy", inline="always")
def choose(usable: int, low: float, high: float, held: float, gravity: float, switch: float) -> tuple[float, float]:
    """Which reading to go by, m/s^2, and the variance by which it deserves less trust than usual.

    The low-g sensor as far as its specific force is below `switch`, m/s^2, then the high-g one. Without the one that
    ought to be taken, the other; `held`, the filtered acceleration so far, where there is neither, and where a high-g
    reading that is due is missing: it may come a moment later, and the low-g one would feign the end of a shock.
    """
    if usable & 8 and awaits_high(usable, low, gravity, switch):
        return held, HELD_M_S2**2
    if usable & 1:
        if usable & 2 and abs(low + gravity) > switch:
            return high, 0.0
        return low, 0.0
    if usable & 2:
        return high, 0.0 if usable & 4 else ALONE_M_S2**2
    if usable & 4:
        return low, CLIPPED_M_S2**2
    return held, CLIPPED_M_S2**2


@njit(cache=True, error_model="numpy", inline="always")
def remembered_gap(gap: float, step: float, nominal_dt: float) -> float:
    """The last gap between samples as far as it counts after another step, s; `gap` is the same before it."""
    if step > GAP_STEPS * nominal_dt:
        return step
    return FORGOTTEN * gap if gap > _FORGOTTEN_GAP_S else 0.0


@njit(cache=True, error_model="numpy", inline="always")
def acceleration_over_gap(step: float, before: float, after: float) -> tuple[float, float]:
    """Acceleration over a gap in the readings, m/s^2, and the variance that makes up for not knowing it.

    It went on as it was `before` (over more than a flight: none), and may have changed at any time to what it is
    `after`; but that may be the peak of a shock, which does not last.
    """
    change = min(abs(after - before), LONGEST_SHOCK_M_S2)
    return before if step < LONGEST_FLIGHT_S else 0.0, GAP_M_S2**2 + change**2


@njit(cache=True, error_model="numpy", inline="always")
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


@njit(cache=True, error_model="numpy", inline="always")
def add_event(
    events: Array, found: int, kind: int, time: float, height: float, velocity: float, variance: float, sample: int
) -> int:
    """Write an event where there is room left; how many there are now."""
    if found >= events.shape[0]:
        return found
    events[found, E_KIND], events[found, E_TIME], events[found, E_HEIGHT] = kind, time, height
    events[found, E_VELOCITY], events[found, E_VARIANCE], events[found, E_SAMPLE] = velocity, variance, sample
    return found + 1


@njit(cache=True, error_model="numpy", inline="always")
def standing(z: float, pzz: float, step: float, length: float) -> tuple[float, float]:
    """Height (m) and its variance (m^2) of a robot that stands, after a step: it nears the leg's length."""
    return z + (length - z) * min(10.0 * step, 1.0), min(pzz, 1e-2)
