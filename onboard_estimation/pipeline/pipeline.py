"""An estimator with its measurement handling: fed by a live node or a bag reader, which it knows nothing of.

A robot supplies an `Estimator`, which filters measurements in the order of their stamps. The `Pipeline` around it is
the same for all robots: it refuses what is no number or beyond its sensor's range, leaves out what comes before the
start and sensors that are switched off, orders what arrives out of order, counts everything, and puts a filter that
broke down back to its last good state, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Channel, Estimate, Matrix, Measurement, PhaseEvent
from onboard_estimation.base.series import blocks_of
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.pipeline.buffer import MeasurementBuffer, Settled
from onboard_estimation.pipeline.bulk_record import Integers, Ordered
from onboard_estimation.pipeline.estimator import Estimator
from onboard_estimation.pipeline.guarded_filter import GuardedFilter, Kept, Listener
from onboard_estimation.pipeline.reading_limits import ReadingCheck
from onboard_estimation.pipeline.use_counters import sensor_table


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
    lag_s
        See `MeasurementBuffer`.
    tell
        Receives sentences worth a line in a log (clock jumps, breakdowns); by default they are kept in `messages`.
    in_blocks
        Let a `BlockFilter` take several measurements at once; the same comes out to the last bit.
    """

    def __init__(
        self,
        estimator: Estimator[Any],
        channels: Iterable[Channel] = (),
        initial: Estimate | None = None,
        lag_s: float = 0.2,
        tell: Listener | None = None,
        in_blocks: bool = True,
    ) -> None:
        self.messages: list[str] = []
        self._listener = tell
        channels = tuple(channels)
        self._guarded = GuardedFilter(estimator, channels, initial, self._tell, in_blocks)
        kept = Kept(None, None if initial is None else initial.stamp_ns, {}, {}, {})
        self._buffer = MeasurementBuffer(self._guarded, kept, lag_s, on_reset=self._tell)
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
        self._guarded.use_estimator(estimator)

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
    def sensor_faults(self) -> Mapping[str, str]:
        """What is wrong with sensors, see `Estimator.sensor_faults`; none before its start."""
        state = self.state
        return {} if state is None else self.estimator.sensor_faults(state)

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
    def takes_blocks(self) -> bool:
        """Whether its estimator takes several measurements at once."""
        return self._guarded.most_at_once > 0

    @property
    def space(self) -> StateSpace:
        """State space of the estimates."""
        return self.estimator.space

    @property
    def _kept(self) -> Kept:
        kept: Kept = self._buffer.state
        return kept

    def process(self, measurement: Measurement) -> Estimate | None:
        """Take a measurement as it arrives; the newest estimate if there is a new one (see `MeasurementBuffer.add`)."""
        passes = self._check.passes(measurement.sensor, measurement.value, self._tell)
        estimate = self._buffer.add(measurement) if passes else None
        self._buffer.take_settled()  # a live host publishes as it goes: the record would only grow
        return estimate

    def process_all(self, measurements: Iterable[Measurement]) -> list[Estimate]:
        """Take measurements that arrived together, as `process` takes one after another: its new estimates, in order.

        Faster where the estimator is a `BlockFilter`.
        """
        passed = list(measurements)
        block = self._guarded.gathered(passed)
        if block is None or not self._check.all_pass(block):
            passed = [one for one in passed if self._check.passes(one.sensor, one.value, self._tell)]
            block = self._guarded.gathered(passed)
        estimates = self._buffer.add_all(passed, block)
        self._buffer.take_settled()
        return estimates

    def run(
        self, measurements: Iterable[Measurement], record: list[Estimate] | None = None, deferred: bool = True
    ) -> list[Estimate]:
        """Process a whole recording; its settled record, in order, which extends a list that is given.

        Not `deferred`: each measurement is filtered as it comes.
        """
        record, self._events = [] if record is None else record, []
        for count, measurement in enumerate(measurements):
            if self._check.passes(measurement.sensor, measurement.value, self._tell):
                self._buffer.add(measurement, deferred)
            if count % 1024 == 0:
                self._keep(record, self._buffer.take_settled())
        self._keep(record, self._buffer.flush())
        return record

    def run_ordered(self, ordered: Ordered) -> Iterator[tuple[Integers, Matrix, NDArray[np.float64]]]:
        """As `run` does, of a recording that needs no more than being put in order: stamps, means and covariances.

        Those of one instant follow each other.
        """
        guarded, self._check, self._events = self._guarded, ordered.check, []
        self._buffer.counters.update(ordered.counters)
        for sentence in ordered.messages:
            self._tell(sentence)
        for block in blocks_of(ordered.series, ordered.arrival):
            place, most, longest = 0, guarded.most_at_once, guarded.most_at_once
            while place < len(block.kinds):
                part = block.rows(place, place + most)
                several = guarded.block(self._kept, part) if len(part.kinds) > 1 else None
                if several is not None:
                    self._buffer.state, taken = several.state, several.taken
                    self._events.extend(several.events)
                    yield part.stamps_ns[several.made_of], several.means, several.covariances
                elif len(part.kinds) > 1:  # what cannot be taken at once is sought by halves
                    most = len(part.kinds) // 2
                    continue
                else:
                    step = guarded.step(self._kept, block.measurement(place))
                    self._buffer.state, taken = step.state, 1
                    self._events.extend(step.events)
                    if step.newest is not None:
                        yield part.stamps_ns, step.newest.mean[None], step.newest.covariance[None]
                place, most = place + taken, min(2 * most, longest)

    def smoothed(self) -> list[Estimate]:
        """What a `Smoother` makes of all measurements until now, of each interval between resets on its own."""
        return [*self._guarded.smoothed_before, *self._guarded.smoothed(self._kept)]

    def _keep(self, record: list[Estimate], settled: Settled) -> None:
        record.extend(settled.estimates)
        self._events.extend(settled.events)

    @property
    def events(self) -> tuple[PhaseEvent, ...]:
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
        self._guarded.refused.clear()
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
