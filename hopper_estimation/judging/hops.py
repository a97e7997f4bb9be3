"""Hops as cycles from touchdown to touchdown, cut out of phase events and a trajectory.

    touchdown -- stance -- max squat -- stance -- liftoff -- rebound -- apex -- drop -- next touchdown

Errors are taken per such cycle. Agility is taken from apex to apex, so a cycle also keeps the apex before it, where
that one was reached by a hop (a robot that is flown to its first height and dropped has none).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hopper_estimation.model.phases import APEX, EVENTS, LIFTOFF, MAX_SQUAT, TOUCHDOWN, Array
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, PhaseEvent
from onboard_estimation.base.series import nearest

Indices = NDArray[np.int64]

EVENT_TOLERANCE_S = 0.15
"""Events further apart are not the same."""
_SAME_HOP = 0.75

LONGEST_CYCLE_S = 6.0
"""Two touchdowns further apart are not one hop: the robot stood, or one was not seen. A 4 m hop takes 2.9 s."""


@dataclass(frozen=True)
class HopEvents:
    """Phase events in order of when they happened.

    Attributes
    ----------
    kind
        (M,) int64, see `hopper_estimation.model.phases.EVENTS`.
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


def hop_cycles(
    events: HopEvents,
    time_s: ArrayLike,
    height_m: ArrayLike,
    standing_height_m: float,
    ground_m: ArrayLike = 0.0,
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
        if broken[number] or not 0.0 < end - begin <= LONGEST_CYCLE_S:
            previous = (np.nan, np.nan)
            continue
        squat, _ = first_event(events, MAX_SQUAT, begin, end)
        liftoff, _ = first_event(events, LIFTOFF, begin if np.isnan(squat) else squat, end)
        apex, apex_height = first_event(events, APEX, begin if np.isnan(liftoff) else liftoff, end)
        if np.isnan(apex_height) and len(time):
            apex_height = np.interp(apex, time, height, left=np.nan, right=np.nan)
        rows.append((begin, squat, liftoff, apex, end, apex_height, ground[number], *previous))
        previous = (apex, float(apex_height))
    return HopCycles(*(*np.array(rows, float).reshape(-1, 9).T, standing_height_m))


def finite_samples(time_s: ArrayLike, *values: ArrayLike) -> Array:
    """(1 + n, K) time and values without samples that are not finite."""
    rows = np.array([time_s, *values], dtype=np.float64)
    return rows[:, np.isfinite(rows).all(axis=0)]


def first_event(events: HopEvents, kind: int, after_s: float, before_s: float) -> tuple[float, float]:
    """Time and height of the first event of a kind between two times; NaN: none."""
    found = np.flatnonzero((events.kind == kind) & (events.happened_s >= after_s) & (events.happened_s < before_s))
    if not len(found):
        return np.nan, np.nan
    return float(events.happened_s[found[0]]), float(events.height_m[found[0]])


def match_cycles(
    true: HopCycles, estimated: HopCycles, covered_s: tuple[float, float], unknown_s: ArrayLike = ()
) -> HopMatches:
    """Pair true and estimated cycles.

    Parameters
    ----------
    covered_s
        Time of the truth; estimated hops that are not wholly in it are no extra ones.
    unknown_s
        (B, 2) times in it at which the truth is not known; hops that lie more than half in one are no extra ones.
    """
    begins, ends = estimated.touchdown_s, estimated.next_touchdown_s
    partner = np.full(len(true), -1, np.int64)
    if len(estimated):
        # The same hop begins before the middle of the true one, and ends after it.
        begin, end = true.touchdown_s, true.next_touchdown_s
        order = np.argsort(begins)
        row = order[np.maximum(np.searchsorted(begins[order], 0.5 * (begin + end)) - 1, 0)]
        shared = np.minimum(end, ends[row]) - np.maximum(begin, begins[row])
        together = np.maximum(end, ends[row]) - np.minimum(begin, begins[row])
        partner = np.where(shared > _SAME_HOP * together, row, -1)
    inside = (begins >= covered_s[0]) & (ends <= covered_s[1])
    for start, stop in np.asarray(unknown_s, float).reshape(-1, 2):
        inside &= np.minimum(ends, stop) - np.maximum(begins, start) <= 0.5 * (ends - begins)
    extra = inside & ~np.isin(np.arange(len(estimated)), partner)
    return HopMatches(partner, np.flatnonzero(extra))


@dataclass(frozen=True)
class HopMatches:
    """Pairs of hops.

    Attributes
    ----------
    partner
        (N,) for each true hop the index of the estimated one, -1: missed.
    extra
        (E,) indices of estimated hops without a true one.
    """

    partner: Indices
    extra: Indices

    @property
    def missed(self) -> int:
        """True hops that the estimate does not have."""
        return int(np.sum(self.partner < 0))


@dataclass(frozen=True)
class EventTiming:
    """Times of one kind of event.

    Attributes
    ----------
    error_s
        (P,) time told less true time of the pairs.
    delay_s
        (P,) time seen less true time.
    missed, extra
        Events without a partner.
    """

    error_s: Array
    delay_s: Array
    missed: int
    extra: int

    def summary(self) -> dict[str, Any]:
        """Counts and, where there are pairs, medians of the sizes; units in the names."""
        out: dict[str, Any] = {"matched": len(self.error_s), "missed": self.missed, "extra": self.extra}
        if len(self.error_s):
            out |= {
                "time_error_abs_median_s": float(np.median(np.abs(self.error_s))),
                "seen_after_median_s": float(np.median(self.delay_s)),
            }
        return out


def match_events(
    true: HopEvents,
    estimated: HopEvents,
    kind: int,
    covered_s: tuple[float, float] | None = None,
    unknown_s: ArrayLike = (),
) -> EventTiming:
    """Pair events of one kind.

    Parameters
    ----------
    covered_s
        Time of the truth; estimated events outside it are not extra. By default, from the first to the last true event
        of any kind, and the tolerance before and after.
    unknown_s
        (B, 2) times in it at which the truth is not known; events in one count only if they have a partner.
    """
    if covered_s is None:
        ends = (true.happened_s[0], true.happened_s[-1]) if len(true.happened_s) else (np.inf, -np.inf)
        covered_s = (ends[0] - EVENT_TOLERANCE_S, ends[1] + EVENT_TOLERANCE_S)
    used = (estimated.kind == kind) & (estimated.happened_s >= covered_s[0]) & (estimated.happened_s <= covered_s[1])
    happened, seen, truth = estimated.happened_s[used], estimated.seen_s[used], true.times_s(kind)
    judged = np.ones(len(happened), bool)
    for start, stop in np.asarray(unknown_s, float).reshape(-1, 2):
        judged &= (happened <= start + EVENT_TOLERANCE_S) | (happened >= stop - EVENT_TOLERANCE_S)
    if not len(happened) or not len(truth):
        return EventTiming(np.empty(0), np.empty(0), len(truth), int(judged.sum()))
    to_truth, to_happened = nearest(happened, truth), nearest(truth, happened)
    mutual = to_happened[to_truth] == np.arange(len(happened))
    mutual &= np.abs(happened - truth[to_truth]) <= EVENT_TOLERANCE_S
    pairs = to_truth[mutual]
    error, delay = happened[mutual] - truth[pairs], seen[mutual] - truth[pairs]
    return EventTiming(error, delay, len(truth) - len(pairs), int(np.sum(judged & ~mutual)))
