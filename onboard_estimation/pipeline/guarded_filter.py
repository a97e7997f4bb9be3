"""An estimator as a buffer sees it: started in time, checked after every measurement, its sensors counted.

**Contradictions.** Do a sensor's innovations agree with what the filter expects, over seconds? If not, a sentence says
so. One wild reading is the gate's business. What is looked for here lasts: a filter that is lost and sure of itself, a
model that the robot does not keep to, a sensor turned round. Readings are looked at in stretches of SPAN_S seconds, or
longer where a sensor is slow. A stretch contradicts where the mean NIS per degree of freedom is above ALARMED,
which is 1 for a filter that is right. Single readings count for no more than FARTHEST standard deviations: one in eight
would have to be wild to make a contradiction.

False alarms: the mean over n white innovations of a consistent filter, of m elements each, is chi-square with n m
degrees of freedom, over n m. With LEAST_READINGS readings of one element it is above ALARMED once in 3e8
stretches, with more of them never.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple, cast

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    Block,
    Channel,
    Estimate,
    FilteredBlock,
    Measurement,
    Notice,
    PhaseEvent,
    filter_order,
)
from onboard_estimation.base.series import MOST_AT_ONCE
from onboard_estimation.filtering.square_root import NOT_FINITE, SOUND, all_sound, covariance_root, soundness
from onboard_estimation.pipeline.buffer import Filtered
from onboard_estimation.pipeline.estimator import (
    BlockFilter,
    Estimator,
    FilterBreakdown,
    SensorsRefused,
    Smoother,
    Step,
)
from onboard_estimation.pipeline.use_counters import UseCounters

Listener = Callable[[str], None]

SPAN_S = 5.0
LEAST_READINGS = 20
ALARMED, CALM = 4.0, 2.0
"""Mean NIS per degree of freedom above which a stretch contradicts the filter, and below which an episode is over."""
FARTHEST = 5.0
_SPAN_NS = round(SPAN_S * NANOSECONDS_PER_SECOND)
LARGEST_NIS = 1e12
"""A million standard deviations: no reading within its sensor's range is as far from a state that means anything."""
_BYTES_AT_ONCE = 1 << 26
"""Of covariances."""
_REMEMBERED = 50
"""So many notices are not said again: more than a roll-back brings back."""
_SAME_NOTICE_NS = 5 * NANOSECONDS_PER_SECOND
_DECIMALS = re.compile(r"\d+\.\d+")
_UNUSED = UseCounters()
_Events = tuple[PhaseEvent, ...]


class InnovationAlarm(NamedTuple):
    """A stretch of readings that the filter did not expect.

    Attributes
    ----------
    sensor
        Whose readings.
    stamp_ns, span_s
        Where it ends, and how long it is.
    size
        Mean size of the innovations in the standard deviations that the filter states for them.
    bias
        Mean, in its standard deviation, of the element of the innovations that it is largest for.
    """

    sensor: str
    stamp_ns: int
    span_s: float
    size: float
    bias: float

    def sentence(self, remedy: str) -> str:
        """For the log and the notes of a run, with what to do about it (empty: nothing is known)."""
        one_sided = f", most of it to one side (mean {self.bias:+.3g})" if abs(self.bias) > 0.5 * self.size else ""
        stamp_s = self.stamp_ns / NANOSECONDS_PER_SECOND
        return (
            f"{self.sensor} contradicts the filter: in the {self.span_s:.0f} s up to {stamp_s:.3f} s its readings were "
            f"{self.size:.3g} standard deviations from what was expected, in the mean{one_sided}; the estimate may be "
            f"farther from the truth than it states{remedy and ': '}{remedy}"
        )


class InnovationMonitor(NamedTuple):
    """What is known of one sensor's innovations: a value, to be kept with the filter's state and rolled back with it.

    Attributes
    ----------
    since_ns
        Stamp of the first reading of this stretch; None before it.
    readings
        So many in this stretch.
    nis, sizes, normalised
        Sums over them: NIS per degree of freedom, none above FARTHEST^2; its roots, without a bound; each element of
        the innovation in its standard deviation.
    is_alarmed
        Whether an episode of contradiction goes on, which has been told.
    """

    since_ns: int | None = None
    readings: int = 0
    nis: float = 0.0
    sizes: float = 0.0
    normalised: tuple[float, ...] = ()
    is_alarmed: bool = False

    def seen(
        self, sensor: str, stamp_ns: int, nis: float, normalised: Sequence[float]
    ) -> tuple[InnovationMonitor, InnovationAlarm | None]:
        """With one more innovation, refused ones as well; a contradiction once an episode, at its first stretch.

        Its NIS, and its elements in their standard deviations.
        """
        nis = nis / len(normalised)
        since_ns = stamp_ns if self.since_ns is None else self.since_ns
        summed = InnovationMonitor(
            since_ns,
            self.readings + 1,
            self.nis + min(nis, FARTHEST**2),
            self.sizes + math.sqrt(nis),
            tuple([a + b for a, b in zip_longest(self.normalised, normalised, fillvalue=0.0)]),
            self.is_alarmed,
        )
        if stamp_ns - since_ns < _SPAN_NS or summed.readings < LEAST_READINGS:
            return summed, None
        return summed._judged(sensor, stamp_ns, since_ns)

    def _judged(self, sensor: str, stamp_ns: int, since_ns: int) -> tuple[InnovationMonitor, InnovationAlarm | None]:
        """At the end of a stretch; the next one is empty."""
        mean_nis = self.nis / self.readings
        goes_on = mean_nis > (CALM if self.is_alarmed else ALARMED)
        found = None
        if goes_on and not self.is_alarmed:
            span_s = (stamp_ns - since_ns) / NANOSECONDS_PER_SECOND
            bias = max(self.normalised, key=abs) / self.readings
            found = InnovationAlarm(sensor, stamp_ns, span_s, self.sizes / self.readings, bias)
        return InnovationMonitor(is_alarmed=goes_on), found


def is_news(found: InnovationAlarm, told_ns: int | None) -> bool:
    """Whether it is another one than that told last of this sensor: a roll-back finds the same one once more."""
    return told_ns is None or abs(found.stamp_ns - told_ns) > _SPAN_NS


_UNSEEN = InnovationMonitor()


class Kept(NamedTuple):
    """All that measurements change, as the buffer keeps it.

    Attributes
    ----------
    state
        Of the estimator; None before its start.
    start_ns
        What comes before is left out; None: nothing does.
    use
        Counters by sensor.
    held
        By sensor, the newest command from before the start.
    monitors
        By sensor, how its innovations agree with what the filter expects.
    checked, is_checked
        The last state that was looked at, and whether that is the one now: a measurement without an estimate (a
        command) may have spoilt a state unseen.
    broke_down
        Whether the filter did, and nothing has been looked at since.
    refusal
        Why nothing is filtered any more; None: it is.
    """

    state: Any
    start_ns: int | None
    use: Mapping[str, UseCounters]
    held: Mapping[str, Measurement]
    monitors: Mapping[str, InnovationMonitor]
    checked: Any = None
    is_checked: bool = True
    broke_down: bool = False
    refusal: str | None = None

    def counted(self, sensor: str, **more: int) -> Kept:
        """With more measurements of a sensor counted."""
        use = self.use.get(sensor, _UNUSED)
        found = {name: getattr(use, name) + count for name, count in more.items()}
        return self._replace(use={**self.use, sensor: use._replace(**found)})


class GuardedFilter:
    """The estimator as the buffer sees it: started in time, checked after every measurement, its sensors counted."""

    def __init__(
        self,
        estimator: Estimator[Any],
        channels: Iterable[Channel],
        initial: Estimate | None,
        tell: Listener,
        in_blocks: bool = True,
    ) -> None:
        self._in_blocks = in_blocks
        self.use_estimator(estimator)
        self.initial = initial
        self.disabled: frozenset[str] = frozenset()
        self.commands = frozenset(channel.sensor for channel in channels if channel.command)
        self.seen: list[PhaseEvent] = []
        self.smoothed_before: list[Estimate] = []
        self._order = filter_order(channels)
        self._tell = tell
        self._noticed: deque[tuple[str, str, int]] = deque(maxlen=_REMEMBERED)
        self.refused: set[str] = set()  # refusals that were told, without their numbers
        self._remedies = {channel.sensor: channel.remedy for channel in channels}
        self._alarmed_ns: dict[str, int] = {}

    def use_estimator(self, estimator: Estimator[Any]) -> None:
        """Go on with another configuration of it."""
        self.estimator = estimator
        takes = isinstance(estimator, BlockFilter) and self._in_blocks
        self._filter_block = cast(BlockFilter, estimator).filter_block if takes else None

    @property
    def most_at_once(self) -> int:
        """So many measurements the estimator takes at once; 0: it takes them one by one."""
        if self._filter_block is None:
            return 0
        return max(2, min(MOST_AT_ONCE, _BYTES_AT_ONCE // (8 * self.estimator.space.dimension**2)))

    def rank(self, sensor: str) -> int:
        return self._order.get(sensor, len(self._order))

    def restarted(self, kept: Kept) -> Kept:
        self.smoothed_before += self.smoothed(kept)
        return Kept(None, None, kept.use, {}, {})

    def smoothed(self, kept: Kept) -> list[Estimate]:
        """Since the last start, where the estimator is one that looks back."""
        if kept.state is None or not isinstance(self.estimator, Smoother):
            return []
        return self.estimator.smoothed(kept.state)

    def step(self, kept: Kept, measurement: Measurement) -> Filtered:
        after, estimate, events = self._step(kept, measurement)
        return Filtered(after, 1, () if estimate is None else (estimate,), events, estimate)

    def _step(self, kept: Kept, measurement: Measurement) -> tuple[Kept, Estimate | None, _Events]:
        if kept.state is None:
            started = self._started(kept, measurement)
            if started is None:
                return self._waiting(kept, measurement), None, ()
            kept = started
        sensor = measurement.sensor
        if sensor in self.disabled or kept.refusal is not None:
            return kept.counted(sensor, left_out=1), None, ()
        checked = kept.state if kept.is_checked else kept.checked
        try:
            step = self.estimator.step(kept.state, measurement)
            _check(step)
        except SensorsRefused as error:
            if (form := _DECIMALS.sub("", str(error))) not in self.refused:  # a clock may jump again and again
                self.refused.add(form)
                self._tell(str(error))
            return kept.counted(sensor, breakdowns=1)._replace(refusal=str(error)), None, ()
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, UserError) as error:
            stamp_s = measurement.stamp_ns / NANOSECONDS_PER_SECOND
            self._tell(f"filter broke down on {sensor} at {stamp_s:.6f} s, back to its last good state: {error}")
            back = kept._replace(
                state=checked if kept.broke_down else kept.state,
                checked=checked,
                is_checked=kept.is_checked or kept.broke_down,
                broke_down=True,
            )
            return back.counted(sensor, breakdowns=1), None, ()
        use = kept.use.get(sensor, _UNUSED)
        seen, estimate, monitors = step.innovation, step.estimate, kept.monitors
        if not step.used:
            use = use._replace(left_out=use.left_out + 1)
        elif seen is None:
            use = use.unseen(1)
        else:
            normalised = seen.normalised
            use = use.updated(seen.nis, normalised, seen.accepted, seen.inflation > 1.0)
            monitor, found = monitors.get(sensor, _UNSEEN).seen(sensor, measurement.stamp_ns, seen.nis, normalised)
            monitors = {**monitors, sensor: monitor}
            self._alarm(found)
        is_checked = estimate is not None
        after = Kept(
            step.state,
            kept.start_ns,
            {**kept.use, sensor: use},
            kept.held,
            monitors,
            checked,
            is_checked,
            kept.broke_down and not is_checked,
        )
        return after, estimate, self._told(step, measurement.stamp_ns) if step.events else ()

    def gathered(self, measurements: Sequence[Measurement]) -> Block | None:
        if self._filter_block is None or len(measurements) < 2:
            return None
        try:
            return Block.of(measurements)
        except ValueError:
            return None

    def several(self, kept: Kept, block: Block) -> Filtered | None:
        found = self.block(kept, block)
        if found is None:
            return None
        stamps_ns = block.stamps_ns[found.made_of].tolist()
        estimates = list(map(Estimate, stamps_ns, found.means, found.covariances))
        newest = estimates[-1] if estimates and found.made_of[-1] == found.taken - 1 else None
        return Filtered(found.state, found.taken, estimates, found.events, newest)

    def block(self, kept: Kept, block: Block) -> FilteredBlock | None:
        """At once what the estimator can take so; what is out of the ordinary is found, and told, one by one."""
        if self._filter_block is None or kept.state is None or kept.refusal is not None or self.disabled:
            return None
        try:
            found = self._filter_block(kept.state, block)
            if found is None or not all_sound(found.means, found.covariances):
                return None
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, UserError, SensorsRefused):
            return None
        counts = np.bincount(block.kinds[: found.taken], minlength=len(block.sensors)).tolist()
        use, monitors = dict(kept.use), kept.monitors
        told: list[InnovationAlarm] = []
        if found.innovations is not None:
            monitors = dict(monitors)
            of, value, stddev, *sizes = found.innovations
            columns = (block.kinds[of], block.stamps_ns[of], value / stddev, *sizes)
            for kind, stamp_ns, each, nis, accepted in zip(*(column.tolist() for column in columns), strict=True):
                if not nis <= LARGEST_NIS:
                    return None
                sensor = block.sensors[kind]
                use[sensor] = use.get(sensor, _UNUSED).updated(nis, each, accepted)
                monitors[sensor], alarm = monitors.get(sensor, _UNSEEN).seen(sensor, stamp_ns, nis, each)
                told += [alarm] if alarm is not None else []
                counts[kind] -= 1
        for kind in block.kinds[found.left_out].tolist():
            sensor = block.sensors[kind]
            use[sensor] = (before := use.get(sensor, _UNUSED))._replace(left_out=before.left_out + 1)
            counts[kind] -= 1
        for sensor, count in zip(block.sensors, counts, strict=True):
            if count:
                use[sensor] = use.get(sensor, _UNUSED).unseen(count)
        for alarm in told:
            self._alarm(alarm)
        self.seen.extend(found.events)
        is_checked = len(found.means) > 0
        after = kept._replace(
            state=found.state,
            use=use,
            monitors=monitors,
            checked=kept.state if kept.is_checked else kept.checked,
            is_checked=is_checked,
            broke_down=kept.broke_down and not is_checked,
        )
        return found._replace(state=after)

    def _waiting(self, kept: Kept, measurement: Measurement) -> Kept:
        """Before the start: the newest command of each kind will act from then on."""
        sensor = measurement.sensor
        if sensor not in self.commands:
            return kept.counted(sensor, left_out=1)
        if sensor in kept.held:
            kept = kept.counted(sensor, left_out=1)
        return kept._replace(held={**kept.held, sensor: measurement})

    def _started(self, kept: Kept, measurement: Measurement) -> Kept | None:
        """The start, with what was commanded before it; None where the measurement comes before it."""
        start_ns, initial = kept.start_ns, self.initial
        if start_ns is None:
            start_ns = measurement.stamp_ns
        elif measurement.stamp_ns < start_ns:
            return None
        if initial is not None:
            initial = replace(initial, stamp_ns=start_ns)
        state = self.estimator.start(initial)
        kept = kept._replace(state=state, checked=state)
        for sensor in sorted(kept.held, key=lambda name: (self.rank(name), name)):
            kept, _, _ = self._step(kept, replace(kept.held[sensor], stamp_ns=start_ns))
        return kept

    def _alarm(self, found: InnovationAlarm | None) -> None:
        """Say once what a roll-back finds once more."""
        if found is not None and is_news(found, self._alarmed_ns.get(found.sensor)):
            self._alarmed_ns[found.sensor] = found.stamp_ns
            self._tell(found.sentence(self._remedies.get(found.sensor, "")))

    def _told(self, step: Step, stamp_ns: int) -> _Events:
        """Events of the motion; notices are passed on."""
        for event in step.events:
            if isinstance(event, Notice) and self._is_news(event.sentence, stamp_ns):
                self._tell(event.sentence)
        found = tuple(event for event in step.events if isinstance(event, PhaseEvent))
        self.seen.extend(found)
        return found

    def _is_news(self, sentence: str, stamp_ns: int) -> bool:
        """Whether it is no notice that a roll-back has once more, and not the last seconds' with other times in it."""
        form = _DECIMALS.sub("", sentence)
        for noticed, noticed_form, noticed_ns in self._noticed:
            if sentence == noticed or (form == noticed_form and abs(stamp_ns - noticed_ns) < _SAME_NOTICE_NS):
                return False
        self._noticed.append((sentence, form, stamp_ns))
        return True


def _check(step: Step) -> None:
    estimate, innovation = step.estimate, step.innovation
    # NaN is not below any bound.
    if innovation is not None and not innovation.nis <= LARGEST_NIS:
        raise FilterBreakdown(
            f"its innovation cannot be: NIS {innovation.nis:.3g}, {np.sqrt(innovation.nis):.3g} standard deviations"
        )
    if estimate is None:
        return
    found = soundness(estimate.mean, estimate.covariance)
    if found == NOT_FINITE:
        raise FilterBreakdown("the state is not finite")
    if found != SOUND:
        covariance_root(estimate.covariance)  # which a covariance with exact parts has
