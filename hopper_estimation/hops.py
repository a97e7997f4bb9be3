"""Hops as cycles from touchdown to touchdown, cut out of phase events and a trajectory.

    touchdown -- stance -- max squat -- stance -- liftoff -- rebound -- apex -- drop -- next touchdown

Errors are taken per such cycle. Agility is taken from apex to apex, so a cycle also keeps the apex before it, where
that one was reached by a hop (a robot that is flown to its first height and dropped has none).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hopper_estimation.phases import APEX, EVENTS, LIFTOFF, MAX_SQUAT, TOUCHDOWN
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, PhaseEvent

Array = NDArray[np.float64]

LONGEST_CYCLE_S = 6.0
"""Two touchdowns further apart are not one hop: the robot stood, or one was not seen. A 4 m hop takes 2.9 s."""


@dataclass(frozen=True)
class HopEvents:
    """Phase events in order of when they happened.

    Attributes
    ----------
    kind
        (M,) int64, see `hopper_estimation.phases.EVENTS`.
    happened_s, seen_s
        (M,) float64: times of the event and of the measurement that it was seen in.
    height_m
        (M,) float64: height of the body at that time as the estimator gave it, NaN: not given.
    """

    kind: NDArray[np.int64]
    happened_s: Array
    seen_s: Array
    height_m: Array

    @classmethod
    def of(
        cls,
        kind: ArrayLike,
        happened_s: ArrayLike,
        seen_s: ArrayLike | None = None,
        height_m: ArrayLike | None = None,
    ) -> HopEvents:
        """From arrays (M,) in any order. Without `seen_s`, events were seen when they happened."""
        kinds, happened = np.asarray(kind, np.int64), np.asarray(happened_s, float)
        seen = happened if seen_s is None else np.asarray(seen_s, float)
        height = np.full(len(kinds), np.nan) if height_m is None else np.asarray(height_m, float)
        order = np.lexsort((kinds, happened))
        return cls(kinds[order], happened[order], seen[order], height[order])

    @classmethod
    def from_phase_events(cls, events: Iterable[PhaseEvent], start_ns: int = 0) -> HopEvents:
        """From an estimator's events; times count from `start_ns` on. Events of other names are left out."""
        used = [one for one in events if one.name in EVENTS]
        seconds = [((one.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND) for one in used]
        seen = [((one.seen_ns - start_ns) / NANOSECONDS_PER_SECOND) for one in used]
        return cls.of([EVENTS.index(one.name) for one in used], seconds, seen, [one.height_m for one in used])

    def times_s(self, kind: int) -> Array:
        """When events of one kind happened."""
        return self.happened_s[self.kind == kind]


@dataclass(frozen=True)
class HopCycles:
    """N cycles from touchdown to touchdown, each (N,) float64; NaN where an event is missing.

    Attributes
    ----------
    touchdown_s, max_squat_s, liftoff_s, apex_s, next_touchdown_s
        Times of the cycle's events.
    apex_height_m
        Height of the body at the apex, in the trajectory's frame.
    ground_m
        Height of the ground under the stance that begins the cycle, in the same frame.
    previous_apex_s, previous_apex_height_m
        Of the cycle before, where it ends with this touchdown.
    standing_height_m
        Height of the body above the ground with the leg extended.
    """

    touchdown_s: Array
    max_squat_s: Array
    liftoff_s: Array
    apex_s: Array
    next_touchdown_s: Array
    apex_height_m: Array
    ground_m: Array
    previous_apex_s: Array
    previous_apex_height_m: Array
    standing_height_m: float

    def __len__(self) -> int:
        return len(self.touchdown_s)

    @property
    def hop_height_m(self) -> Array:
        """Apex above standing on the ground that the hop left, m."""
        return self.apex_height_m - self.standing_height_m - self.ground_m

    @property
    def drop_height_m(self) -> Array:
        """Apex before, above standing on the ground that the drop ended on, m: h_prev of the agility."""
        return self.previous_apex_height_m - self.standing_height_m - self.ground_m

    @property
    def stance_s(self) -> Array:
        """Touchdown to liftoff, s."""
        return self.liftoff_s - self.touchdown_s

    @property
    def rebound_s(self) -> Array:
        """Liftoff to apex, s."""
        return self.apex_s - self.liftoff_s

    @property
    def drop_s(self) -> Array:
        """Apex before to touchdown, s."""
        return self.touchdown_s - self.previous_apex_s


def hop_cycles(
    events: HopEvents,
    time_s: ArrayLike,
    height_m: ArrayLike,
    standing_height_m: float,
    ground_m: ArrayLike = 0.0,
    longest_cycle_s: float = LONGEST_CYCLE_S,
    breaks_s: ArrayLike = (),
) -> HopCycles:
    """Cycles between successive touchdowns, each with the first event of every other kind in order.

    Parameters
    ----------
    events
        Of the robot's phases. The height of an apex is the event's own, else the trajectory's at that time.
    time_s, height_m
        (K,) trajectory, times in order; samples that are not finite are left out.
    standing_height_m
        See `HopCycles`.
    ground_m
        Height of the ground at each touchdown event, or one number for all.
    longest_cycle_s
        Touchdowns further apart make no cycle.
    breaks_s
        Times, in order, at which nothing is known of the motion: no cycle goes across one.
    """
    time, height = finite_samples(time_s, height_m)
    touchdown = events.times_s(TOUCHDOWN)
    ground = np.broadcast_to(np.asarray(ground_m, float), touchdown.shape)
    broken = np.diff(np.searchsorted(np.asarray(breaks_s, float), touchdown)) > 0
    rows = []
    previous = (np.nan, np.nan)
    for number in range(len(touchdown) - 1):
        begin, end = touchdown[number], touchdown[number + 1]
        if broken[number] or not 0.0 < end - begin <= longest_cycle_s:
            previous = (np.nan, np.nan)
            continue
        squat, _ = _first(events, MAX_SQUAT, begin, end)
        liftoff, _ = _first(events, LIFTOFF, begin if np.isnan(squat) else squat, end)
        apex, apex_height = _first(events, APEX, begin if np.isnan(liftoff) else liftoff, end)
        if np.isnan(apex_height) and len(time):
            apex_height = np.interp(apex, time, height, left=np.nan, right=np.nan)
        rows.append((begin, squat, liftoff, apex, end, apex_height, ground[number], *previous))
        previous = (apex, float(apex_height))
    columns = np.array(rows, float).reshape(-1, 9).T
    names = [one.name for one in fields(HopCycles)]
    return HopCycles(**dict(zip(names, (*columns, standing_height_m), strict=True)))


def finite_samples(time_s: ArrayLike, *values: ArrayLike) -> Array:
    """(1 + n, K) time and values without samples that are not finite."""
    rows = np.array([time_s, *values], dtype=np.float64)
    return rows[:, np.isfinite(rows).all(axis=0)]


def _first(events: HopEvents, kind: int, after_s: float, before_s: float) -> tuple[float, float]:
    """Time and height of the first event of a kind between two times; NaN: none."""
    found = np.flatnonzero((events.kind == kind) & (events.happened_s >= after_s) & (events.happened_s < before_s))
    if not len(found):
        return np.nan, np.nan
    return float(events.happened_s[found[0]]), float(events.height_m[found[0]])
