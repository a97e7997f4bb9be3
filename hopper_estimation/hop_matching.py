"""Which estimated hop is which true one, and when the phases' events were told against when they happened.

Hops are intervals that do not overlap among themselves. Two of them are the same hop if what they share is more than
three quarters of what they cover together. No hop then has two partners, since two estimated hops that each share more
than half of that with one true hop would have to overlap each other: the matching needs no search and no order. With
three quarters, two hops that were told as one (a touchdown missed) are not taken for the longer of them, either.

Events of one kind are the same if each is the other's nearest in time, within a tolerance.

What has no partner is counted: missed where the truth has it, extra where the estimate has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hopper_estimation.hops import HopCycles, HopEvents
from hopper_estimation.phases import EVENTS

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

EVENT_TOLERANCE_S = 0.15
_SAME_HOP = 0.75


def match_cycles(
    true: HopCycles,
    estimated: HopCycles,
    covered_s: tuple[float, float] | None = None,
    unknown_s: ArrayLike = (),
) -> HopMatches:
    """Pair true and estimated cycles.

    Parameters
    ----------
    covered_s
        Time of the truth; estimated hops that are not wholly in it are no extra ones. By default, from the first to the
        last true touchdown.
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
    if covered_s is None:
        covered_s = (true.touchdown_s[0], true.next_touchdown_s[-1]) if len(true) else (np.inf, -np.inf)
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
    true_s
        (P,) true times of the pairs.
    missed, extra
        Events without a partner.
    """

    error_s: Array
    delay_s: Array
    true_s: Array
    missed: int
    extra: int

    def summary(self) -> dict[str, Any]:
        """Counts and, where there are pairs, medians and 95 % of the sizes; units in the names."""
        out: dict[str, Any] = {"matched": len(self.error_s), "missed": self.missed, "extra": self.extra}
        if len(self.error_s):
            out |= {
                "time_error_median_s": float(np.median(self.error_s)),
                "time_error_abs_median_s": float(np.median(np.abs(self.error_s))),
                "time_error_abs_95_percent_s": float(np.quantile(np.abs(self.error_s), 0.95)),
                "seen_after_median_s": float(np.median(self.delay_s)),
                "seen_after_95_percent_s": float(np.quantile(self.delay_s, 0.95)),
            }
        return out


def match_events(
    true: HopEvents,
    estimated: HopEvents,
    kind: int,
    covered_s: tuple[float, float] | None = None,
    unknown_s: ArrayLike = (),
    tolerance_s: float = EVENT_TOLERANCE_S,
) -> EventTiming:
    """Pair events of one kind.

    Parameters
    ----------
    covered_s
        Time of the truth; estimated events outside it are not extra. By default, from the first to the last true event
        of any kind, and the tolerance before and after.
    unknown_s
        (B, 2) times in it at which the truth is not known; events in one count only if they have a partner.
    tolerance_s
        Events further apart are not the same.
    """
    if covered_s is None:
        ends = (true.happened_s[0], true.happened_s[-1]) if len(true.happened_s) else (np.inf, -np.inf)
        covered_s = (ends[0] - tolerance_s, ends[1] + tolerance_s)
    used = (estimated.kind == kind) & (estimated.happened_s >= covered_s[0]) & (estimated.happened_s <= covered_s[1])
    happened, seen, truth = estimated.happened_s[used], estimated.seen_s[used], true.times_s(kind)
    judged = np.ones(len(happened), bool)
    for start, stop in np.asarray(unknown_s, float).reshape(-1, 2):
        judged &= (happened <= start + tolerance_s) | (happened >= stop - tolerance_s)
    if not len(happened) or not len(truth):
        return EventTiming(np.empty(0), np.empty(0), np.empty(0), len(truth), int(judged.sum()))
    to_truth, to_happened = _nearest(truth, happened), _nearest(happened, truth)
    mutual = to_happened[to_truth] == np.arange(len(happened))
    mutual &= np.abs(happened - truth[to_truth]) <= tolerance_s
    pairs = to_truth[mutual]
    error, delay = happened[mutual] - truth[pairs], seen[mutual] - truth[pairs]
    return EventTiming(error, delay, truth[pairs], len(truth) - len(pairs), int(np.sum(judged & ~mutual)))


def event_summary(
    true: HopEvents,
    estimated: HopEvents,
    covered_s: tuple[float, float] | None = None,
    unknown_s: ArrayLike = (),
) -> dict[str, dict[str, Any]]:
    """`EventTiming.summary` of every kind of event by its name."""
    kinds = enumerate(EVENTS)
    return {name: match_events(true, estimated, kind, covered_s, unknown_s).summary() for kind, name in kinds}


def _nearest(sorted_s: Array, at_s: Array) -> Indices:
    """Index of the nearest of sorted times to each time."""
    right = np.clip(np.searchsorted(sorted_s, at_s), 1, max(len(sorted_s) - 1, 1))
    if len(sorted_s) == 1:
        return np.zeros(len(at_s), np.int64)
    return np.where(at_s - sorted_s[right - 1] <= sorted_s[right] - at_s, right - 1, right).astype(np.int64)
