"""A robot with a recording, to try what it promises: see `onboard_estimation.testing`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from onboard_estimation.capabilities.simulated import Simulated
from onboard_estimation.errors import UserError
from onboard_estimation.estimator import Estimator
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.evaluation.replay import Replayed, replay
from onboard_estimation.measurement import (
    Channel,
    Estimate,
    Measurement,
    filter_order,
)
from onboard_estimation.pipeline import Pipeline
from onboard_estimation.reading_limits import ReadingCheck
from onboard_estimation.robots import Robot
from onboard_estimation.series import Series

LAG_S = 0.2
SECONDS, MOST_MEASUREMENTS = 6.0, 4000
"""Of a simulated recording, whichever comes first."""


class Case:
    """A robot with a recording of it; arguments as those of `check_robot`."""

    def __init__(
        self, robot: Robot, configuration: Any, estimator: str | None, sensors: Sequence[Series] | None
    ) -> None:
        self.robot, self.configuration, self.name = robot, configuration, estimator or robot.estimators[0]
        self.channels = robot.channels(configuration)
        self._sensors = sensors

    def estimator(self) -> Estimator[Any]:
        """A new one."""
        return self.robot.estimator(self.configuration, self.name)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """One of each sensor that the recording has."""
        if self._sensors is not None:
            return tuple(self._sensors)
        robot = self.robot
        if not isinstance(robot, Simulated):
            raise UserError(f"robot {robot.name!r} has no simulator: give check_robot a recording (`sensors=`)")
        scenario = next(iter(robot.scenarios))
        variants = robot.scenarios[scenario].variants
        rng = np.random.default_rng(1)
        found = robot.simulate(self.configuration, scenario, variants[0] if variants else "", SECONDS, rng).sensors
        stamps = np.sort(np.concatenate([one.stamps_ns for one in found]))
        stop_ns = stamps[min(len(stamps), MOST_MEASUREMENTS) - 1]
        return tuple(_until(one, stop_ns) for one in found)

    @cached_property
    def measurements(self) -> list[Measurement]:
        """All of the recording that a pipeline passes on, in the order in which it filters them."""
        check = ReadingCheck(self.channels)
        whole = (one for one in _measurements(self.series) if check.passes(one.sensor, one.value, lambda _: None))
        return in_order(self.channels, whole)

    @cached_property
    def middle_ns(self) -> int:
        """Half of the recording."""
        return (self.measurements[0].stamp_ns + self.measurements[-1].stamp_ns) // 2

    def pipeline(self, initial: Estimate | None = None, lag_s: float = LAG_S) -> Pipeline:
        """A new one."""
        return Pipeline(self.estimator(), self.channels, initial, lag_s)

    @cached_property
    def record(self) -> list[Estimate]:
        """Estimates of the whole recording."""
        return self.pipeline().run(self.measurements)

    def replayed(self, bulk: bool, initial: Estimate | None = None) -> Replayed:
        """The recording as `evaluate` filters it."""
        arrival = np.concatenate([np.full(len(one.stamps_ns), number) for number, one in enumerate(self.series)])
        order = np.argsort(np.concatenate([one.stamps_ns for one in self.series]), kind="stable")
        recording = LoadedRecording(self.series, arrival[order], {}, simulated=True)
        return replay(self.robot, self.configuration, self.name, recording, initial, LAG_S, bulk=bulk)

    @cached_property
    def breakdowns(self) -> int:
        """How often the filter breaks down on the recording as it is."""
        pipeline = self.pipeline()
        pipeline.run(self.measurements)
        return pipeline.breakdowns


def _measurements(series: Iterable[Series]) -> Iterator[Measurement]:
    for one in series:
        for stamp_ns, value in zip(one.stamps_ns.tolist(), one.values, strict=True):
            yield Measurement(stamp_ns, one.channel.sensor, value)


def _until(one: Series, stop_ns: int) -> Series:
    count = int(np.searchsorted(one.stamps_ns, stop_ns, side="right"))
    return dataclasses.replace(one, stamps_ns=one.stamps_ns[:count], values=one.values[:count])


def in_order(channels: Sequence[Channel], measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements as a pipeline puts them in order."""
    places = filter_order(channels)
    return sorted(measurements, key=lambda one: (one.stamp_ns, places.get(one.sensor, len(places)), one.sensor))
