"""An estimator as a buffer sees it: started in time, checked after every measurement, its sensors counted."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.contradiction import Agreement, Contradiction, is_news
from onboard_estimation.errors import UserError
from onboard_estimation.estimator import Estimator, FilterBreakdown, Scanner, SensorsRefused, Smoother, Step
from onboard_estimation.filtering.square_root import NOT_FINITE, SOUND, all_sound, covariance_root, soundness
from onboard_estimation.measurement import (
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Measurement,
    Notice,
    PhaseEvent,
    Scanned,
    filter_order,
)
from onboard_estimation.use_counters import UseCounters

Listener = Callable[[str], None]

LARGEST_NIS = 1e12
"""A million standard deviations: no reading within its sensor's range is as far from a state that means anything."""
_REMEMBERED = 50
"""So many notices are not said again: more than a roll-back brings back."""
_SAME_NOTICE_NS = 5 * NANOSECONDS_PER_SECOND
_DECIMALS = re.compile(r"\d+\.\d+")
_UNUSED = UseCounters()
_UNSEEN = Agreement()
_Events = tuple[PhaseEvent, ...]


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
    agreements
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
    agreements: Mapping[str, Agreement]
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
        self, estimator: Estimator[Any], channels: Iterable[Channel], initial: Estimate | None, tell: Listener
    ) -> None:
        self.use_estimator(estimator)
        self.initial = initial
        self.disabled: frozenset[str] = frozenset()
        self.commands = frozenset(channel.sensor for channel in channels if channel.command)
        self.seen: list[PhaseEvent] = []
        self.looked_back: list[Estimate] = []
        self._order = filter_order(channels)
        self._tell = tell
        self._noticed: deque[tuple[str, str, int]] = deque(maxlen=_REMEMBERED)
        self._remedies = {channel.sensor: channel.remedy for channel in channels}
        self._contradicted_ns: dict[str, int] = {}

    def use_estimator(self, estimator: Estimator[Any]) -> None:
        """Go on with another configuration of it."""
        self.estimator = estimator
        self._scan = estimator.scan if isinstance(estimator, Scanner) else None

    @property
    def scans(self) -> bool:
        """Whether the estimator takes several measurements at once."""
        return self._scan is not None

    def rank(self, sensor: str) -> int:
        return self._order.get(sensor, len(self._order))

    def restarted(self, kept: Kept) -> Kept:
        self.looked_back += self.smoothed(kept)
        return Kept(None, None, kept.use, {}, {})

    def smoothed(self, kept: Kept) -> list[Estimate]:
        """Since the last start, where the estimator is one that looks back."""
        if kept.state is None or not isinstance(self.estimator, Smoother):
            return []
        return self.estimator.smoothed(kept.state)

    def step(self, kept: Kept, measurement: Measurement) -> tuple[Kept, Estimate | None, _Events]:
        if kept.state is None:
            started = self._started(kept, measurement)
            if started is None:
                return self._waiting(kept, measurement), None, ()
            kept = started
        return self._advanced(kept, measurement)

    def scan(self, kept: Kept, measurements: Sequence[Measurement]) -> Scanned | None:
        """At once what the estimator can take so; what is out of the ordinary is found, and told, one by one."""
        if self._scan is None or kept.state is None or kept.refusal is not None or self.disabled:
            return None
        try:
            scanned = self._scan(kept.state, measurements)
            if scanned is None or not all_sound(scanned.means, scanned.covariances):
                return None
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, UserError, SensorsRefused):
            return None
        if not scanned.found or scanned.found[-1][0] is None:
            return None
        counts: dict[str, int] = {}
        for measurement, (_, events) in zip(measurements, scanned.found, strict=False):
            counts[measurement.sensor] = counts.get(measurement.sensor, 0) + 1
            self.seen.extend(events)
        use = dict(kept.use)
        for sensor, count in counts.items():
            before = use.get(sensor, _UNUSED)
            use[sensor] = UseCounters(before.used + count, *before[1:])
        after = kept._replace(state=scanned.state, use=use, is_checked=True, broke_down=False)
        return scanned._replace(state=after)

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
            kept, _, _ = self._advanced(kept, replace(kept.held[sensor], stamp_ns=start_ns))
        return kept

    def _advanced(self, kept: Kept, measurement: Measurement) -> tuple[Kept, Estimate | None, _Events]:
        sensor = measurement.sensor
        if sensor in self.disabled or kept.refusal is not None:
            return kept.counted(sensor, left_out=1), None, ()
        checked = kept.state if kept.is_checked else kept.checked
        try:
            step = self.estimator.step(kept.state, measurement)
            _check(step)
        except SensorsRefused as error:
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
        use = use.counted(step.innovation) if step.used else use._replace(left_out=use.left_out + 1)
        estimate, agreements = step.estimate, kept.agreements
        if step.innovation is not None:
            agreement, found = agreements.get(sensor, _UNSEEN).seen(sensor, measurement.stamp_ns, step.innovation)
            agreements = {**agreements, sensor: agreement}
            self._contradicted(found)
        is_checked = estimate is not None
        after = Kept(
            step.state,
            kept.start_ns,
            {**kept.use, sensor: use},
            kept.held,
            agreements,
            checked,
            is_checked,
            kept.broke_down and not is_checked,
        )
        return after, estimate, self._told(step, measurement.stamp_ns) if step.events else ()

    def _contradicted(self, found: Contradiction | None) -> None:
        """Say once what a roll-back finds once more."""
        if found is not None and is_news(found, self._contradicted_ns.get(found.sensor)):
            self._contradicted_ns[found.sensor] = found.stamp_ns
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
