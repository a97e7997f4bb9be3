"""A buffer that filters late and out-of-order measurements as if they had arrived in order.

The buffer keeps the measurements of the last `lag_s` seconds with the filter's state before each of them. A measurement
that arrives late is put in its place, and everything from there on is filtered again, from the state kept there. What
has left the window is settled: it can no longer change.

So the final state and the settled record depend only on the measurements, not on the order of their arrival, as long as
none arrives later than the lag. Measurements are ordered by stamp, then by the rank of their sensor, then by its name.
Of several measurements of one sensor with one stamp only one is used: a message that was recorded twice must not be
fused twice. Which one is decided by content, so that it too does not depend on arrival.

Clock jumps. A stamp more than `clock_jump_s` away from the newest one, or more than `fallback_s` behind the newest of
its own sensor, is either a stray or the first message of a restarted clock (a bag played again). It is held back until
`jump_confirmations` messages in a row agree with it. A confirmed jump back, or one ahead by more than `longest_gap_s`,
resets the filter, which goes on with the messages held back; a shorter one ahead is a gap in the recording, bridged
by prediction. Messages that nothing confirms are dropped and counted.

Cost. A late measurement makes the filter go again over what follows it, up to the whole window. Each measurement that
arrives, late or not, therefore earns `steps_per_measurement` steps of the filter, and a roll-back waits until it can
be paid: what is late in the meantime goes along in the same one. Up to a whole window's steps are saved up, so that few
late measurements are filtered at once; many enter the state at most a third of a window later than they came. Nothing
settles before it was filtered in order, and that costs at most two more steps each. So

    steps of the filter <= (steps_per_measurement + 2) * measurements received,

whatever the stamps. Deferred, as for a recording of which only the record counts, measurements are filtered when they
settle, each exactly once.

Measurements that arrived together are filtered at once where the filter can do that; only the first of them keeps the
state before it, and a late one goes back to that.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import Any, NamedTuple, Protocol

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Block, Estimate, Measurement, PhaseEvent


class Filtered(NamedTuple):
    """What came of readings that were filtered.

    Attributes
    ----------
    state
        After them.
    taken
        How many they are.
    estimates, events
        Those that they gave, in order.
    newest
        The estimate that the last of them gave; None: it gave none.
    """

    state: Any
    taken: int
    estimates: Sequence[Estimate]
    events: Sequence[PhaseEvent]
    newest: Estimate | None


class Replayable(Protocol):
    """What the buffer needs of a filter: pure functions over states that it keeps.

    Attributes
    ----------
    most_at_once
        So many measurements it takes at once; 0: it takes them one by one.
    """

    @property
    def most_at_once(self) -> int: ...

    def rank(self, sensor: str) -> int:
        """Order of the sensor among measurements with the same stamp (commands before the sensors they move)."""

    def step(self, state: Any, measurement: Measurement) -> Filtered:
        """The next measurement in order."""

    def gathered(self, measurements: Sequence[Measurement]) -> Block | None:
        """Measurements that may be taken at once; None: they are taken one by one."""

    def several(self, state: Any, block: Block) -> Filtered | None:
        """Some of the next measurements in order at once, as their steps would; None: the first is to be a step."""

    def restarted(self, state: Any) -> Any:
        """That state with all measurements forgotten, those that settled aside."""


class Settled(NamedTuple):
    """What can no longer change, in order."""

    estimates: list[Estimate]
    events: list[PhaseEvent]


@dataclass
class BufferCounters:
    """What happened to measurements of one sensor before they reached the filter.

    Attributes
    ----------
    received
        All that arrived.
    late
        Arrived out of order but within the lag: filtered in their place.
    too_late
        Older than the lag: dropped.
    duplicates
        Same sensor and stamp as another one: dropped.
    stray
        Stamp far from all others, never confirmed: dropped.
    stamps, first_ns, last_ns
        Number and range of the distinct stamps since the clock last jumped, for the rate.
    """

    received: int = 0
    late: int = 0
    too_late: int = 0
    duplicates: int = 0
    stray: int = 0
    stamps: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @property
    def rate_hz(self) -> float:
        """Mean rate since the clock last jumped; NaN before the second stamp."""
        if self.last_ns == self.first_ns:
            return math.nan
        return (self.stamps - 1) * NANOSECONDS_PER_SECOND / (self.last_ns - self.first_ns)

    def see(self, first_ns: int, last_ns: int, count: int = 1) -> None:
        """Take more distinct stamps into account, so many from one to another."""
        self.first_ns = min(self.first_ns, first_ns) if self.stamps else first_ns
        self.last_ns = max(self.last_ns, last_ns) if self.stamps else last_ns
        self.stamps += count


class _Run(NamedTuple):
    """Measurements of the window that were filtered at once: the first of them, what was before it, what came of them.

    A late measurement that belongs among them goes back to the first.
    """

    start: int
    before: Any
    filtered: Filtered


Key = tuple[int, int, str]
_AT_ONCE = 16
"""Measurements that are filtered once more at a time, at most: a late one goes back to the first of them."""


@dataclass
class MeasurementBuffer:
    """Feeds a filter in the order of stamps.

    Parameters
    ----------
    filtering
        Filters measurements in order.
    state
        Its state before the first of them; afterwards, after the newest.
    lag_s
        How late a measurement may arrive and still be filtered in its place, seconds.
    clock_jump_s
        A step of the stamps beyond this must be confirmed, seconds; UserError unless it is longer than the lag.
    longest_gap_s
        A confirmed step ahead up to this is bridged by prediction, seconds.
    jump_confirmations
        Messages in a row that must agree before a jump is believed.
    on_reset
        Told, in one sentence with numbers, when a clock jump resets the filter: the 1st, 2nd, 4th, 8th, ... time.
    fallback_s
        A sensor whose stamps fall back behind its own newest one by more than this, and by more than the lag, has a
        restarted clock, seconds: messages of one sensor hardly overtake each other.
    steps_per_measurement
        Steps of the filter that a measurement earns, one or more; see the module.
    """

    filtering: Replayable
    state: Any = None
    lag_s: float = 0.2
    clock_jump_s: float = 10.0
    longest_gap_s: float = 60.0
    jump_confirmations: int = 5
    on_reset: Callable[[str], None] | None = None
    fallback_s: float = 1.0
    steps_per_measurement: int = 4
    counters: defaultdict[str, BufferCounters] = field(default_factory=lambda: defaultdict(BufferCounters))
    clock_jumps: int = 0
    _keys: list[Key] = field(default_factory=list)
    _window: list[Measurement] = field(default_factory=list)
    _runs: list[_Run] = field(default_factory=list)
    _settled: Settled = field(default_factory=lambda: Settled([], []))
    _suspects: list[Measurement] = field(default_factory=list)
    _filtered: int = 0
    _is_ahead: bool = False
    _earned: int = 0

    # The first `_filtered` measurements of the window have been filtered in order, in `_runs`; `_at` is the state after
    # them. The filter's own is the same, or it is ahead: it has seen the newest one, but late ones before that wait.

    def __post_init__(self) -> None:
        self._lag_ns = round(self.lag_s * NANOSECONDS_PER_SECOND)
        self._jump_ns = round(self.clock_jump_s * NANOSECONDS_PER_SECOND)
        self._fallback_ns = max(self._lag_ns, round(self.fallback_s * NANOSECONDS_PER_SECOND))
        if not 0 <= self._lag_ns < self._jump_ns:
            raise UserError(
                f"a lag of {self.lag_s:g} s is not allowed: it has to be 0 s or more and less than a clock jump, "
                f"{self.clock_jump_s:g} s"
            )
        self._at = self.state

    def add(self, measurement: Measurement, deferred: bool = False) -> Estimate | None:
        """Take a measurement as it arrives.

        Parameters
        ----------
        deferred
            Only the record is wanted: the measurement is filtered when it settles.

        Returns
        -------
        The estimate at the newest stamp if it is new: what a live node publishes. None where the measurement was late
        (the state is mended, the stream already published is not), dropped, held back, deferred, or gave no estimate.
        """
        counters = self.counters[measurement.sensor]
        counters.received += 1
        self._earned = min(self._earned, len(self._keys)) + self.steps_per_measurement
        if self._keys:
            step = measurement.stamp_ns - self._keys[-1][0]
            fell_back = counters.stamps > 0 and measurement.stamp_ns < counters.last_ns - self._fallback_ns
            if abs(step) > self._jump_ns or fell_back:
                return self._suspect(measurement, deferred)
            if step < -self._lag_ns:
                counters.too_late += 1
                return None
        if self._suspects:
            self._drop_suspects()
        return self._insert(measurement, deferred)

    def add_all(self, measurements: Sequence[Measurement], block: Block | None) -> list[Estimate]:
        """Take measurements that arrived together, as `add` takes one after another; at once as far as possible.

        `block`: they, as `Replayable.gathered` has them.
        """
        found: list[Estimate] = []
        place = 0
        while place < len(measurements):
            keys = [] if block is None else self._follow(measurements[place:], block.sensors)
            several = None
            if block is not None and len(keys) > 1:
                several = self.filtering.several(self.state, block.rows(place, place + len(keys)))
            count = max(1, (len(keys) + 1) // 2)  # what cannot be taken at once is sought by halves
            if several is None:
                found += [one for one in map(self.add, measurements[place : place + count]) if one is not None]
            else:
                count = several.taken
                self._append(measurements[place : place + count], keys[:count], several)
                found += several.estimates
            place += count
        return found

    def _follow(self, measurements: Sequence[Measurement], sensors: Iterable[str]) -> list[Key]:
        """Keys of the first of them: those that follow, in order, on measurements that were filtered in order."""
        if not self._keys or self._suspects or self._filtered != len(self._keys):
            return []
        ranks = {sensor: self.filtering.rank(sensor) for sensor in sensors}  # a call for each would cost as much as all
        keys = [(one.stamp_ns, ranks[one.sensor], one.sensor) for one in measurements]
        follow = list(map(lt, [self._keys[-1], *keys[:-1]], keys))
        count = follow.index(False) if False in follow else len(keys)
        # A jump is for `add`; strays that are far ahead hold up no more than those that come with them.
        return keys[:count] if count and keys[count - 1][0] - self._keys[-1][0] <= self._jump_ns else []

    def _append(self, measurements: Sequence[Measurement], keys: list[Key], filtered: Filtered) -> None:
        """Keep those that were filtered at once."""
        first_ns = {sensor: stamp_ns for stamp_ns, _, sensor in reversed(keys)}
        last_ns = {sensor: stamp_ns for stamp_ns, _, sensor in keys}
        for sensor, count in Counter([sensor for _, _, sensor in keys]).items():
            counters = self.counters[sensor]
            counters.received += count
            counters.see(first_ns[sensor], last_ns[sensor], count)
        earned = self.steps_per_measurement - 1
        self._earned = min(self._earned + earned * (len(keys) - 1), len(self._keys)) + earned
        self._keys += keys
        self._window += measurements
        self._take(filtered)
        self.state = self._at
        self._settle_old()

    def _take(self, filtered: Filtered) -> None:
        """Keep what came of the next of the window."""
        self._runs.append(_Run(self._filtered, self._at, filtered))
        self._at = filtered.state
        self._filtered += filtered.taken

    def take_settled(self) -> Settled:
        """Estimates and events that can no longer change, each handed out once."""
        settled = self._settled
        if settled.estimates or settled.events:
            self._settled = Settled([], [])
        return settled

    def flush(self) -> Settled:
        """Settle everything, as at the end of a recording, and hand it out."""
        self._drop_suspects()
        self._settle(len(self._window))
        return self.take_settled()

    def restart(self) -> None:
        """Settle everything and start with an empty window."""
        self._drop_suspects()
        self._settle(len(self._window))
        self.state = self._at = self.filtering.restarted(self.state)
        for counters in self.counters.values():
            counters.stamps = counters.first_ns = counters.last_ns = 0

    def _key(self, measurement: Measurement) -> Key:
        return measurement.stamp_ns, self.filtering.rank(measurement.sensor), measurement.sensor

    def _insert(self, measurement: Measurement, deferred: bool) -> Estimate | None:
        key = self._key(measurement)
        newest = not self._keys or key > self._keys[-1]
        place = len(self._keys) if newest else bisect_left(self._keys, key)
        counters = self.counters[measurement.sensor]
        if not newest and self._keys[place] == key:
            counters.duplicates += 1
            if measurement.value.tobytes() < self._window[place].value.tobytes():
                self._window[place] = measurement
                self._mend(place, deferred)
            return None
        counters.see(measurement.stamp_ns, measurement.stamp_ns)
        in_order = self._filtered == len(self._window)
        self._keys.insert(place, key)
        self._window.insert(place, measurement)
        if not newest:
            counters.late += 1
            self._mend(place, deferred)
            return None
        estimate = None
        if not deferred and in_order:  # nothing waits before it
            self._take(self.filtering.step(self.state, measurement))
            self.state, estimate = self._at, self._runs[-1].filtered.newest
            self._earned -= 1
        elif not deferred:
            estimate = self._filter_newest()
        self._settle_old()
        return estimate

    def _filter_newest(self) -> Estimate | None:
        """Filter the last one: in order where that can be paid, else on top of what the filter has seen so far."""
        if len(self._window) - self._filtered <= max(1, self._earned):
            self._filter(len(self._window))
            return self._runs[-1].filtered.newest
        self._is_ahead = True
        self._earned -= 1
        step = self.filtering.step(self.state, self._window[-1])
        self.state = step.state
        return step.newest

    def _mend(self, place: int, deferred: bool) -> None:
        """Take note that what stands from this place on has not been filtered in order; do so where it can be paid."""
        while self._runs and place < self._filtered:
            self._filtered, self._at, _ = self._runs.pop()
        self._is_ahead = self._is_ahead or self._at is not self.state
        if not deferred and len(self._window) - self._filtered <= self._earned:
            self._filter(len(self._window))

    def _filter(self, stop: int, settles: bool = False) -> None:
        """Filter in order up to there; what settles need not be gone back to."""
        self._earned -= stop - self._filtered
        at_once = self.filtering.most_at_once
        most = longest = max(1, at_once if settles else min(at_once, _AT_ONCE))
        while self._filtered < stop:
            measurements = self._window[self._filtered : min(self._filtered + most, stop)]
            block = self.filtering.gathered(measurements)
            several = None if block is None else self.filtering.several(self._at, block)
            if several is None and len(measurements) > 1:
                # What cannot be taken at once is sought by halves.
                most = len(measurements) // 2
                continue
            self._take(several or self.filtering.step(self._at, measurements[0]))
            most = min(2 * most, longest)
        self.state, self._is_ahead = self._at, False

    def _settle_old(self) -> None:
        horizon = self._keys[-1][0] - self._lag_ns
        # Leaving the window one by one would cost a shift of the lists each time.
        if self._keys[len(self._keys) // 2][0] < horizon or self._lag_ns == 0:
            self._settle(bisect_left(self._keys, (horizon, -1, "")))

    def _settle(self, count: int) -> None:
        if self._filtered < count:
            # A filter that is ahead must be so again.
            self._filter(len(self._window) if self._is_ahead else count, settles=not self._is_ahead)
        ends = [run.start + run.filtered.taken for run in self._runs]
        runs = bisect_right(ends, count)
        for run in self._runs[:runs]:
            self._settled.estimates.extend(run.filtered.estimates)
            self._settled.events.extend(run.filtered.events)
        count = ends[runs - 1] if runs else 0
        self._runs = [run._replace(start=run.start - count) for run in self._runs[runs:]]
        del self._window[:count], self._keys[:count]
        self._filtered -= count

    def _suspect(self, measurement: Measurement, deferred: bool) -> Estimate | None:
        if self._suspects and abs(measurement.stamp_ns - self._suspects[-1].stamp_ns) > self._jump_ns:
            self._drop_suspects()
        self._suspects.append(measurement)
        if len(self._suspects) < self.jump_confirmations:
            return None
        confirmed, self._suspects = sorted(self._suspects, key=self._key), []
        step_s = (confirmed[0].stamp_ns - self._keys[-1][0]) / NANOSECONDS_PER_SECOND
        if not 0.0 < step_s <= self.longest_gap_s:
            self.clock_jumps += 1
            self.restart()
            jumps = self.clock_jumps
            if self.on_reset is not None and jumps & (jumps - 1) == 0:
                so_far = f", jump number {jumps}" if jumps > 1 else ""
                self.on_reset(
                    f"clock jumped by {step_s:+.3f} s ({self.jump_confirmations} messages agree): filter reset{so_far}"
                )
        newest = None
        for held in confirmed:
            newest = self._insert(held, deferred)
        return newest

    def _drop_suspects(self) -> None:
        for dropped in self._suspects:
            counters = self.counters[dropped.sensor]
            if abs(dropped.stamp_ns - self._keys[-1][0]) > self._jump_ns:
                counters.stray += 1
            else:
                counters.too_late += 1
        self._suspects.clear()
