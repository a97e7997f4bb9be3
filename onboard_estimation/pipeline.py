"""An estimator with its measurement handling: fed by a live node or a bag reader, which it knows nothing of.

A robot supplies an `Estimator`, which filters measurements in the order of their stamps. The `Pipeline` around it is
the same for all robots: it refuses what is no number or beyond its sensor's range, leaves out what comes before the
start and sensors that are switched off, orders what arrives out of order, counts everything, and puts a filter that
broke down back to its last good state, with the reason.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.contradiction import Agreement, Contradiction, is_news
from onboard_estimation.errors import UserError
from onboard_estimation.estimator import Estimator, FilterBreakdown, SensorsRefused, Smoother, Step
from onboard_estimation.filtering.square_root import covariance_root, is_finite, is_positive_definite
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import (
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Measurement,
    Notice,
    PhaseEvent,
    filter_order,
)
from onboard_estimation.reading_limits import ReadingCheck
from onboard_estimation.timing.buffer import MeasurementBuffer, Settled
from onboard_estimation.use_counters import UseCounters, sensor_table

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


class _Kept(NamedTuple):
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

    def counted(self, sensor: str, **more: int) -> _Kept:
        """With more measurements of a sensor counted."""
        use = self.use.get(sensor, _UNUSED)
        found = {name: getattr(use, name) + count for name, count in more.items()}
        return self._replace(use={**self.use, sensor: use._replace(**found)})


class _Guarded:
    """The estimator as the buffer sees it: started in time, checked after every measurement, its sensors counted."""

    def __init__(
        self, estimator: Estimator[Any], channels: Iterable[Channel], initial: Estimate | None, tell: Listener
    ) -> None:
        self.estimator = estimator
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

    def rank(self, sensor: str) -> int:
        return self._order.get(sensor, len(self._order))

    def restarted(self, kept: _Kept) -> _Kept:
        self.looked_back += self.smoothed(kept)
        return _Kept(None, None, kept.use, {}, {})

    def smoothed(self, kept: _Kept) -> list[Estimate]:
        """Since the last start, where the estimator is one that looks back."""
        if kept.state is None or not isinstance(self.estimator, Smoother):
            return []
        return self.estimator.smoothed(kept.state)

    def step(self, kept: _Kept, measurement: Measurement) -> tuple[_Kept, Estimate | None, _Events]:
        if kept.state is None:
            started = self._started(kept, measurement)
            if started is None:
                return self._waiting(kept, measurement), None, ()
            kept = started
        return self._advanced(kept, measurement)

    def _waiting(self, kept: _Kept, measurement: Measurement) -> _Kept:
        """Before the start: the newest command of each kind will act from then on."""
        sensor = measurement.sensor
        if sensor not in self.commands:
            return kept.counted(sensor, left_out=1)
        if sensor in kept.held:
            kept = kept.counted(sensor, left_out=1)
        return kept._replace(held={**kept.held, sensor: measurement})

    def _started(self, kept: _Kept, measurement: Measurement) -> _Kept | None:
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

    def _advanced(self, kept: _Kept, measurement: Measurement) -> tuple[_Kept, Estimate | None, _Events]:
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
        after = _Kept(
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
    if not is_finite(estimate.mean) or not is_finite(estimate.covariance.ravel()):
        raise FilterBreakdown("the state is not finite")
    if not is_positive_definite(estimate.covariance):
        covariance_root(estimate.covariance)  # which a covariance with exact parts has


class Pipeline:
    """Time-stamped measurements in, time-stamped estimates out.

    Parameters
    ----------
    estimator
        The robot's filter.
    channels
        Topics of the robot, which tell commands from sensors and order them: readings beyond their limits are refused,
        see `reading_limits`.
    initial
        State to start from; measurements from before its stamp are left out, but the newest commands among them act
        from the start on. None: as the estimator's configuration says, at the first measurement.
    lag_s, clock_jump_s
        See `MeasurementBuffer`.
    tell
        Receives sentences worth a line in a log (clock jumps, breakdowns); by default they are kept in `messages`.
    """

    def __init__(
        self,
        estimator: Estimator[Any],
        channels: Iterable[Channel] = (),
        initial: Estimate | None = None,
        lag_s: float = 0.2,
        clock_jump_s: float = 10.0,
        tell: Listener | None = None,
    ) -> None:
        self.messages: list[str] = []
        self._listener = tell
        channels = tuple(channels)
        self._guarded = _Guarded(estimator, channels, initial, self._tell)
        kept = _Kept(None, None if initial is None else initial.stamp_ns, {}, {}, {})
        self._buffer = MeasurementBuffer(self._guarded, kept, lag_s, clock_jump_s, on_reset=self._tell)
        self._check = ReadingCheck(channels)
        self._sensors = {channel.sensor for channel in channels} - self._guarded.commands
        self._events: list[PhaseEvent] = []

    @property
    def estimator(self) -> Estimator[Any]:
        """The filter inside."""
        return self._guarded.estimator

    @estimator.setter
    def estimator(self, estimator: Estimator[Any]) -> None:
        """Go on from the same state with another configuration, which must not change what a state is."""
        self._guarded.estimator = estimator

    @property
    def state(self) -> Any:
        """Of the filter, after the newest measurement; None before its start."""
        return self._kept.state

    @property
    def phase(self) -> str | None:
        """The phase that the robot is in; None where it has none (yet)."""
        state = self.state
        return None if state is None else self.estimator.phase(state)

    @property
    def health(self) -> Mapping[str, float]:
        """Figures of the filter on itself, see `Estimator.health`; none before its start."""
        state = self.state
        return {} if state is None else self.estimator.health(state)

    @property
    def learned(self) -> Any:
        """What the filter has learned, see `Estimator.learned`; None before its start."""
        state = self.state
        return None if state is None else self.estimator.learned(state)

    @property
    def refusal(self) -> str | None:
        """Why the filter does not go on with these sensors, one sentence; None: it does."""
        return self._kept.refusal

    @property
    def space(self) -> StateSpace:
        """State space of the estimates."""
        return self.estimator.space

    @property
    def _kept(self) -> _Kept:
        kept: _Kept = self._buffer.state
        return kept

    def process(self, measurement: Measurement) -> Estimate | None:
        """Take a measurement as it arrives; the newest estimate if there is a new one (see `MeasurementBuffer.add`)."""
        estimate = self._add(measurement, deferred=False)
        self._buffer.take_settled()  # a live host publishes as it goes: the record would only grow
        return estimate

    def _add(self, measurement: Measurement, deferred: bool) -> Estimate | None:
        if not self._check.passes(measurement.sensor, measurement.value, self._tell):
            return None
        return self._buffer.add(measurement, deferred)

    def run(self, measurements: Iterable[Measurement]) -> list[Estimate]:
        """Process a whole recording; its settled record, in order."""
        record: list[Estimate] = []
        self._events = []
        for count, measurement in enumerate(measurements):
            self._add(measurement, deferred=True)
            if count % 1024 == 0:
                self._keep(record, self._buffer.take_settled())
        self._keep(record, self._buffer.flush())
        return record

    def smoothed(self) -> list[Estimate]:
        """What a `Smoother` makes of all measurements until now, of each interval between resets on its own."""
        return [*self._guarded.looked_back, *self._guarded.smoothed(self._kept)]

    def _keep(self, record: list[Estimate], settled: Settled) -> None:
        record.extend(settled.estimates)
        self._events.extend(settled.events)

    @property
    def events(self) -> _Events:
        """Phase events of the settled record of `run`, in the order of being seen."""
        return tuple(sorted(self._events, key=lambda event: (event.seen_ns, event.stamp_ns)))

    def take_events(self) -> list[PhaseEvent]:
        """Phase events seen by `process` since this was last asked, in the order of being seen.

        A roll-back of late measurements may see the same event once more, a little earlier or later, or not any more:
        the host sorts out what it has already told.
        """
        seen, self._guarded.seen = self._guarded.seen, []
        return seen

    def reset(self) -> None:
        """Forget all measurements and start anew; counters go on."""
        self._buffer.restart()

    def set_enabled(self, sensor: str, enabled: bool) -> None:
        """Use a sensor or leave it out from now on; ValueError where the robot has no such sensor."""
        if sensor not in self._sensors:
            raise ValueError(f"no sensor {sensor!r}; there are {', '.join(sorted(self._sensors)) or 'none'}")
        others = self._guarded.disabled - {sensor}
        self._guarded.disabled = others if enabled else others | {sensor}

    def statistics(self) -> dict[str, dict[str, float]]:
        """Per sensor what was received, used, late, gated, dropped, its rate and mean NIS (per degree of freedom).

        received = used + gated + left_out + breakdowns + too_late + duplicates + stray + invalid + out_of_range +
        incomplete, up to four that are held back while a jump of the clock waits for its confirmation, late ones that
        wait for their roll-back, and commands that wait for the start.
        """
        return sensor_table(self._buffer.counters, self._kept.use, self._check)

    @property
    def breakdowns(self) -> int:
        """Measurements of all sensors that the filter broke down on."""
        return sum(use.breakdowns for use in self._kept.use.values())

    @property
    def clock_jumps(self) -> int:
        """How often a jump of the clock reset the filter."""
        return self._buffer.clock_jumps

    def _tell(self, sentence: str) -> None:
        if self._listener is None:
            self.messages.append(sentence)
        else:
            self._listener(sentence)
