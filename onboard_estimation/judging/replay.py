"""A recording through a robot's filter: at once where the robot can, else measurement by measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, PhaseEvent, Vector
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.trained import Smoothed
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.told import Told, watched
from onboard_estimation.pipeline.bulk_record import in_filter_order
from onboard_estimation.pipeline.pipeline import Pipeline

Rows = NDArray[np.float64]


LARGE_STATE = 64
"""Dimensions beyond which covariances are what fills the memory, and not the number of estimates."""
MOST_BYTES = 100_000_000
"""Of their covariances: of a chain of 30 links 800 estimates, of 100 links 75."""


class Record(list[Estimate]):
    """Estimates in order, one a stamp; of large states every second, fourth, ... and the last, so that they fit.

    Attributes
    ----------
    every
        Of so many estimates one is kept.
    """

    def __init__(self, estimates: Iterable[Estimate] = ()) -> None:
        super().__init__()
        self.every, self._seen = 1, 0
        self.extend(estimates)

    def extend(self, estimates: Iterable[Estimate]) -> None:
        """With more; of several with one stamp (sensors sampled together) the last, which has seen them all."""
        for estimate in estimates:
            if self and self[-1].stamp_ns == estimate.stamp_ns:
                self[-1] = estimate
                continue
            if self and (self._seen - 1) % self.every:
                self.pop()  # the last until now
            if len(estimate.covariance) > LARGE_STATE and len(self) * estimate.covariance.nbytes >= MOST_BYTES:
                self[:], self.every = self[::2], 2 * self.every
            self.append(estimate)
            self._seen += 1


@dataclass(frozen=True, eq=False)
class EstimateSeries:
    """Settled estimates, one per stamp: stamps (K,), means (K, a), covariances (K, n, n); one of `every` so many."""

    stamps_ns: NDArray[np.int64]
    means: Rows
    covariances: Rows
    every: int = 1

    @property
    def time_s(self) -> Vector:
        """(K,) seconds since the first."""
        return (self.stamps_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND

    @property
    def thinned(self) -> str:
        """A sentence where not all estimates are here; empty: they are."""
        if self.every == 1:
            return ""
        count, gigabytes = self.every * len(self.stamps_ns), 1e-9 * self.every * self.covariances.nbytes
        return f"One of {self.every} estimates is judged: covariances of all {count} would take {gigabytes:.2g} GB."

    @classmethod
    def of(cls, estimates: Iterable[Estimate]) -> EstimateSeries:
        """A `Record` as arrays, or what it makes of estimates in order."""
        record = estimates if isinstance(estimates, Record) else Record(estimates)
        return cls(
            np.array([estimate.stamp_ns for estimate in record], dtype=np.int64),
            np.array([estimate.mean for estimate in record]),
            np.array([estimate.covariance for estimate in record]),
            record.every,
        )


@dataclass(frozen=True, eq=False)
class Replayed:
    """What a filter made of a recording.

    Attributes
    ----------
    sensors
        Statistics by sensor, see `Pipeline.statistics`.
    messages
        What the pipeline told.
    events
        Phase events of the record, in the order of being seen.
    health
        The filter's figures on itself at the end, see `Estimator.health`.
    learned
        What it has learned by then, see `Estimator.learned`.
    told
        What it told and when, where it was watched.
    """

    space: StateSpace
    record: EstimateSeries
    sensors: Mapping[str, Mapping[str, float]]
    messages: tuple[str, ...]
    events: tuple[PhaseEvent, ...]
    health: Mapping[str, float] = field(default_factory=dict)
    learned: Any = None
    told: tuple[Told, ...] = ()


def replay(
    robot: Robot,
    configuration: Any,
    estimator_name: str,
    recording: LoadedRecording,
    initial: Estimate | None,
    lag_s: float,
    smooth: bool = False,
    bulk: bool = True,
) -> Replayed:
    """The record of a whole recording; where a fault begins amid it, with what was told and when.

    Parameters
    ----------
    initial
        State to start from; None: as the configuration says.
    lag_s
        How late a measurement may arrive and still be filtered in its place.
    smooth
        The robot's smoother in the place of its filter.
    bulk
        Let the robot filter the recording at once, where it can.

    Raises
    ------
    UserError
        A lag that is none, a robot without a smoother, or sensors that cannot be right.
    """
    channels, watch = robot.channels(configuration), any(one.from_s >= 0.0 for one in recording.injected)
    estimator: Any
    if smooth:
        estimator = Smoothed[Any].of(robot).smoother(configuration, estimator_name)
    else:
        estimator = robot.estimator(configuration, estimator_name)
    pipeline = Pipeline(estimator, channels, initial, lag_s, in_blocks=bulk)
    told = list[Told]()
    record = None if watch or smooth else at_once(pipeline, recording, lag_s, channels)
    if record is None:
        kept, measurements = Record(), recording.measurements()
        if watch:
            measurements = watched(pipeline, measurements, told)
        pipeline.run(measurements, kept, deferred=not watch)
        record = EstimateSeries.of(pipeline.smoothed() if smooth else kept)
    if pipeline.refusal is not None:
        raise UserError(pipeline.refusal)
    return Replayed(
        pipeline.space,
        record,
        pipeline.statistics(),
        tuple(pipeline.messages),
        pipeline.events,
        pipeline.health,
        pipeline.learned,
        tuple(told),
    )


def at_once(
    pipeline: Pipeline, recording: LoadedRecording, lag_s: float, channels: Sequence[Channel] = ()
) -> EstimateSeries | None:
    """The record from the estimator's kernel over arrays; None where it has none, or not for this recording."""
    if not pipeline.takes_blocks:
        return None
    ordered = in_filter_order(recording.series, recording.arrival, lag_s, channels)
    if ordered is None:
        return None
    size, dimension = len(pipeline.space.origin()), pipeline.space.dimension
    found = pipeline.run_ordered(ordered)
    if dimension > LARGE_STATE:
        rows = (row for block in found for row in zip(*block, strict=True))
        return EstimateSeries.of(Record(Estimate(int(stamp_ns), *moments) for stamp_ns, *moments in rows))
    # Filled from the start: blocks that are joined at the end take their memory twice, what is not filled takes none.
    most, count = len(ordered.arrival), 0
    stamps_ns, means, covariances = (
        np.empty(most, np.int64),
        np.empty((most, size)),
        np.empty((most, dimension, dimension)),
    )
    for block in found:
        taken = slice(count, count + len(block[0]))
        stamps_ns[taken], means[taken], covariances[taken] = block
        count = taken.stop
    stamps_ns, means, covariances = stamps_ns[:count], means[:count], covariances[:count]
    last = np.append(stamps_ns[1:] != stamps_ns[:-1], True)[:count]
    if not last.all():
        stamps_ns, means, covariances = stamps_ns[last], means[last], covariances[last]
    return EstimateSeries(stamps_ns, means, covariances)
