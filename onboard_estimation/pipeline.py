"""An estimator with its measurement handling: fed by a live node or a bag reader, which it knows nothing of.

A robot supplies an `Estimator`, which filters measurements in the order of their stamps. The `Pipeline` around it is
the same for all robots: it refuses what is no number or beyond its sensor's range, orders what arrives out of order,
counts everything, and puts a filter that broke down back to its last good state, with the reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bulk_record import BulkRecord, MeasurementSeries
from onboard_estimation.errors import UserError
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.square_root import covariance_root, is_finite, is_positive_definite
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Measurement, PhaseEvent
from onboard_estimation.reading_limits import ReadingCheck
from onboard_estimation.timing.buffer import MeasurementBuffer
from onboard_estimation.use_counters import UseCounters, sensor_table

Listener = Callable[[str], None]


LARGEST_NIS = 1e12
"""A million standard deviations: no reading within its sensor's range is as far from a state that means anything."""


class FilterBreakdown(ArithmeticError):
    """A filter that cannot go on: a covariance that lost its sign, a state that is no number, an absurd innovation."""


class Estimator(ABC):
    """A robot's filter: measurements in order of their stamps go in, estimates come out.

    Subclasses keep all state that measurements change in what `snapshot` returns, and treat arrays as values: replaced,
    never written, so that snapshots are cheap.

    Attributes
    ----------
    space
        State space of the estimates.
    phases
        Names of the phases of its motion, by number; empty: it tells of none.
    notice
        What `apply` has to say of the last measurement, one sentence for the log that names sensor and time; None:
        nothing.
    refusal
        Why it does not go on with these sensors at all, one sentence; None: it does.
    """

    space: StateSpace
    phases: tuple[str, ...] = ()
    refusal: str | None = None

    def __init__(self) -> None:
        self.last_innovation: Innovation | None = None
        self.left_out = False
        self.notice: str | None = None

    def rank(self, sensor: str) -> int:
        """Order among measurements with the same stamp: commands come first, for they act from then on."""
        return 0 if "command" in sensor else 1

    @abstractmethod
    def apply(self, measurement: Measurement) -> Estimate | None:
        """Filter the next measurement; the estimate at its stamp, or None where there is none (yet).

        Where the measurement corrected the state, `last_innovation` holds what the update saw, else None. Where it was
        not looked at (sensor switched off, before the start), `left_out` is set.
        """

    @abstractmethod
    def snapshot(self) -> Any:
        """All state that `apply` changes."""

    @abstractmethod
    def restore(self, snapshot: Any) -> None:
        """Return to a snapshot."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all measurements and start anew."""

    @property
    def phase(self) -> str | None:
        """The phase that it is in, one of `phases`; None where it has none (yet)."""
        return None

    def take_events(self) -> list[PhaseEvent]:
        """Events that were seen since this was last asked, in the order of being seen.

        A roll-back of late measurements may see the same event once more, a little earlier or later, or not any more:
        the estimator tells of what it sees, and its host sorts out what it has already told.
        """
        return []

    def filter_recording(
        self, series: Sequence[MeasurementSeries], arrival: NDArray[np.int64], lag_s: float
    ) -> BulkRecord | None:
        """The record of a whole recording at once, where the filter is a compiled kernel over arrays.

        It must equal what a pipeline makes of the same measurements one by one, and it starts as a new estimator does,
        whatever this one has seen. By default None: the measurements are filtered one by one.

        Parameters
        ----------
        series
            One of each sensor, (K, d) values, all finite, in the order of their stamps, of which none occurs twice.
        arrival
            (M,) int64: the number of the series of each measurement, in the order in which they are to be filtered: by
            stamp, `rank` and name of the sensor (see `in_order` in `onboard_estimation.bulk_record`).
        lag_s
            How late measurements might have arrived; they have been put in order.

        Returns
        -------
        The record, or None where this recording is not one for the kernel.
        """
        return None

    def set_enabled(self, sensor: str, enabled: bool) -> None:
        """Use a sensor or leave it out from now on."""
        raise NotImplementedError(f"{type(self).__name__} cannot leave out {sensor!r} (asked for enabled={enabled})")

    def reconfigure(self, configuration: Any) -> None:
        """Go on with another configuration, which differs in the robot's `run_time_parameters` only."""
        raise NotImplementedError(f"{type(self).__name__} takes no parameters while it runs")


class _Guarded:
    """The estimator as the buffer sees it: checked after every measurement, with its counters rolled back along.

    A filter that breaks down is put back to its state before the measurement. A measurement without an estimate (a
    command) may have spoilt that state unseen: if it breaks down again at once, to the last state that was checked.
    """

    def __init__(self, estimator: Estimator, tell: Listener) -> None:
        self.estimator = estimator
        self.use: dict[str, UseCounters] = {}
        self._tell = tell
        self._checked_state = estimator.snapshot()
        self._is_checked = True
        self._broke_down = False
        self._noticed: str | None = None
        self.events: dict[tuple[int, str], list[PhaseEvent]] | None = None

    def rank(self, sensor: str) -> int:
        return self.estimator.rank(sensor)

    def apply(self, measurement: Measurement) -> Estimate | None:
        estimator, use = self.estimator, self.use.get(measurement.sensor, UseCounters())
        before = estimator.snapshot()
        if self._is_checked:
            self._checked_state = before
        estimator.last_innovation, estimator.left_out, estimator.notice = None, False, None
        try:
            estimate = estimator.apply(measurement)
            _check(estimate, estimator.last_innovation)
        except (ArithmeticError, ValueError, np.linalg.LinAlgError, UserError) as error:
            estimator.restore(self._checked_state if self._broke_down else before)
            if self.events is not None:
                self._keep_events(measurement, [])
                estimator.take_events()
            self._is_checked, self._broke_down = self._is_checked or self._broke_down, True
            self.use[measurement.sensor] = use._replace(breakdowns=use.breakdowns + 1)
            stamp_s = measurement.stamp_ns / NANOSECONDS_PER_SECOND
            self._tell(
                f"filter broke down on {measurement.sensor} at {stamp_s:.6f} s, back to its last good state: {error}"
            )
            return None
        self._pass_on(estimator.notice)
        if self.events is not None:
            self._keep_events(measurement, estimator.take_events())
        self._is_checked = estimate is not None
        self._broke_down = self._broke_down and not self._is_checked
        if estimator.left_out:
            self.use[measurement.sensor] = use._replace(left_out=use.left_out + 1)
        else:
            self.use[measurement.sensor] = use.counted(estimator.last_innovation)
        return estimate

    def _pass_on(self, notice: str | None) -> None:
        if notice is not None and notice != self._noticed:  # a roll-back has it once more
            self._noticed = notice
            self._tell(notice)

    def _keep_events(self, measurement: Measurement, events: list[PhaseEvent]) -> None:
        """Of a measurement that is filtered once more, after a roll-back, what is seen last counts."""
        assert self.events is not None
        if events:
            self.events[measurement.stamp_ns, measurement.sensor] = events
        elif self.events:
            self.events.pop((measurement.stamp_ns, measurement.sensor), None)

    def snapshot(self) -> Any:
        return self.estimator.snapshot(), dict(self.use), self._checked_state, self._is_checked, self._broke_down

    def restore(self, snapshot: Any) -> None:
        state, use, self._checked_state, self._is_checked, self._broke_down = snapshot
        self.estimator.restore(state)
        self.use = dict(use)

    def reset(self) -> None:
        self.estimator.reset()
        self._is_checked, self._broke_down = True, False


def _check(estimate: Estimate | None, innovation: Innovation | None) -> None:
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
    lag_s, clock_jump_s
        See `MeasurementBuffer`.
    channels
        Topics of the robot: readings beyond their limits are refused, see `reading_limits`.
    tell
        Receives sentences worth a line in a log (clock jumps, breakdowns); by default they are kept in `messages`.
    """

    def __init__(
        self,
        estimator: Estimator,
        lag_s: float = 0.2,
        clock_jump_s: float = 10.0,
        tell: Listener | None = None,
        channels: Iterable[Channel] = (),
    ) -> None:
        self.messages: list[str] = []
        self._listener = tell
        self._guarded = _Guarded(estimator, self._tell)
        self._buffer = MeasurementBuffer(self._guarded, lag_s, clock_jump_s, on_reset=self._tell)
        self._check = ReadingCheck(channels)

    @property
    def estimator(self) -> Estimator:
        """The filter inside."""
        return self._guarded.estimator

    @property
    def space(self) -> StateSpace:
        """State space of the estimates."""
        return self.estimator.space

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
        """Process a whole recording; its settled record, in order. Takes the estimator's events, see `events`."""
        record: list[Estimate] = []
        self._guarded.events = {}
        for count, measurement in enumerate(measurements):
            self._add(measurement, deferred=True)
            if count % 1024 == 0:
                record.extend(self._buffer.take_settled())
        record.extend(self._buffer.flush())
        return record

    @property
    def events(self) -> tuple[PhaseEvent, ...]:
        """Phase events of the settled record of `run`, in the order of being seen."""
        found = [event for events in (self._guarded.events or {}).values() for event in events]
        return tuple(sorted(found, key=lambda event: (event.seen_ns, event.stamp_ns)))

    def reset(self) -> None:
        """Forget all measurements and start anew; counters go on."""
        self._buffer.restart()
        self._guarded.reset()

    def statistics(self) -> dict[str, dict[str, float]]:
        """Per sensor what was received, used, late, gated, dropped, its rate and mean NIS (per degree of freedom).

        received = used + gated + left_out + breakdowns + too_late + duplicates + stray + invalid + out_of_range +
        incomplete, up to four that are held back while a jump of the clock waits for its confirmation, and late ones
        that wait for their roll-back.
        """
        return sensor_table(self._buffer.counters, self._guarded.use, self._check)

    @property
    def breakdowns(self) -> int:
        """Measurements of all sensors that the filter broke down on."""
        return sum(use.breakdowns for use in self._guarded.use.values())

    @property
    def clock_jumps(self) -> int:
        """How often a jump of the clock reset the filter."""
        return self._buffer.clock_jumps

    def _tell(self, sentence: str) -> None:
        if self._listener is None:
            self.messages.append(sentence)
        else:
            self._listener(sentence)
