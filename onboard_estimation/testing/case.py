"""A robot's recordings, and what each of its estimators makes of them: made once, shared by all promises."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any
from unittest import SkipTest

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import (
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Measurement,
    Vector,
    filter_order,
)
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import Simulated, chosen_scenario
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.pipeline.estimator import Estimator, Step
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.pipeline.reading_limits import ReadingCheck

LAG_S = 0.2
SECONDS, MOST_MEASUREMENTS = 6.0, 1200
"""Of a simulated recording, whichever comes first."""
SEEDS, RUN_S, RUN_WORK = 6, 20.0, 9000
"""Simulated recordings for statistics: how many, and of each the seconds or the measurements times dimensions."""
_EIGENVALUE_SLACK, _WRAP_SLACK = 1e-9, 1e-6


Innovations = list[tuple[str, Innovation]]
"""Sensor and innovation of each reading that has one."""


class Given:
    """A robot with a recording of it, which all of its estimators share; arguments as those of `check_robot`."""

    def __init__(self, robot: Robot, configuration: Any, sensors: Sequence[Series] | None) -> None:
        self.robot, self.configuration, self._sensors = robot, configuration, sensors
        self.channels = robot.channels(configuration)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """One of each sensor that the recording has."""
        if self._sensors is not None:
            return tuple(self._sensors)
        robot = self.robot
        if not isinstance(robot, Simulated):
            raise UserError(f"robot {robot.name!r} has no simulator: give check_robot a recording (`sensors=`)")
        rng = np.random.default_rng(1)
        found = robot.simulate(self.configuration, *chosen_scenario(robot, None, None), SECONDS, rng).sensors
        stamps = np.sort(np.concatenate([one.stamps_ns for one in found]))
        stop_ns = stamps[min(len(stamps), MOST_MEASUREMENTS) - 1]
        return tuple(one.rows(slice(int(np.searchsorted(one.stamps_ns, stop_ns, side="right")))) for one in found)

    @cached_property
    def recordings(self) -> tuple[LoadedRecording, ...]:
        """Simulated ones, a seed each, shorter where a state has many dimensions; none where a recording was given."""
        robot = self.robot
        if self._sensors is not None or not isinstance(robot, Simulated):
            return ()
        scenario = chosen_scenario(robot, None, None)
        dimension = max(robot.estimator(self.configuration, name).space.dimension for name in robot.estimators)
        stamps = np.concatenate([one.stamps_ns for one in self.series])
        rate_hz = len(stamps) / float(np.ptp(stamps)) * NANOSECONDS_PER_SECOND
        duration_s = min(RUN_S, RUN_WORK / dimension / rate_hz)
        return tuple(
            simulated_recording(robot, self.configuration, *scenario, duration_s, seed) for seed in range(1, SEEDS + 1)
        )


class Case:
    """One of the robot's estimators, on that recording."""

    def __init__(self, given: Given, name: str) -> None:
        self.given, self.name, self.robot, self.configuration = given, name, given.robot, given.configuration
        self.channels = tuple(given.robot.listened_channels(given.configuration, name))

    def estimator(self) -> Estimator[Any]:
        """A new one."""
        return self.robot.estimator(self.configuration, self.name)

    @cached_property
    def recording(self) -> LoadedRecording:
        """What the sensors that this estimator listens to say, as it is."""
        listened = {channel.sensor for channel in self.channels}
        return from_simulator(
            Recording(tuple(one for one in self.given.series if one.channel.sensor in listened), ()), ()
        )

    @cached_property
    def measurements(self) -> list[Measurement]:
        """All of it that a pipeline passes on, in the order in which it filters them."""
        return self.passed(self.recording)

    def passed(self, recording: LoadedRecording) -> list[Measurement]:
        """The same of another recording."""
        check, listened = ReadingCheck(self.channels), {channel.sensor for channel in self.channels}
        heard = (one for one in recording.measurements() if one.sensor in listened)
        return in_order(self.channels, (one for one in heard if check.passes(one.sensor, one.value, lambda _: None)))

    @property
    def first_third(self) -> list[Measurement]:
        """Enough where what is tried is the host's business as much as the filter's."""
        return self.measurements[: len(self.measurements) // 3]

    @cached_property
    def space(self) -> StateSpace:
        """Of the estimates."""
        return self.estimator().space

    @property
    def commands(self) -> tuple[str, ...]:
        """Sensors that are commands, of which the recording has several; SkipTest where there are none."""
        found = [one.channel for one in self.recording.series if one.channel.command and len(one.stamps_ns) > 1]
        if not found:
            raise SkipTest("the estimator listens to no commands, or the recording has none")
        return tuple(channel.sensor for channel in found)

    def pipeline(self, initial: Estimate | None = None) -> Pipeline:
        """A new one."""
        return Pipeline(self.estimator(), self.channels, initial, LAG_S)

    @cached_property
    def whole(self) -> tuple[list[Estimate], int]:
        """Estimates of the recording as it is, and how often the filter breaks down on it."""
        pipeline = self.pipeline()
        return pipeline.run(self.measurements), pipeline.breakdowns

    @property
    def record(self) -> list[Estimate]:
        """Estimates of the recording as it is."""
        return self.whole[0]

    @property
    def simulated(self) -> tuple[LoadedRecording, ...]:
        """Runs to hold the estimator against; SkipTest where there are none."""
        if not self.given.recordings:
            raise SkipTest("the recording was given, and statistics over seeds take a simulator")
        return self.given.recordings

    @cached_property
    def innovations(self) -> list[Innovations]:
        """Of each simulated run."""
        return [self.innovations_of(self.passed(one)) for one in self.simulated]

    def innovations_of(self, measurements: Sequence[Measurement]) -> Innovations:
        """From the configured start."""
        steps = self.steps(measurements)
        return [(one.sensor, step.innovation) for one, step in steps if step.innovation is not None]

    def steps(
        self, measurements: Sequence[Measurement], initial: Estimate | None = None
    ) -> Iterator[tuple[Measurement, Step]]:
        """Each measurement and what comes of it, in a new estimator without a pipeline."""
        estimator = self.estimator()
        state = estimator.start(initial)
        for one in measurements:
            step = estimator.step(state, one)
            state = step.state
            yield one, step

    def run(
        self, measurements: Iterable[Measurement], initial: Estimate | None = None, unbroken: str | None = None
    ) -> list[Estimate]:
        """Sound estimates of these; `unbroken` says in what case it may break down no oftener than on the recording."""
        pipeline = self.pipeline(initial)
        record = pipeline.run(in_order(self.channels, measurements))
        assert unbroken is None or pipeline.breakdowns <= self.whole[1], (
            f"it broke down {unbroken}: {pipeline.messages[-1]}"
        )
        check_sound(record, self.space)
        return record


def in_order(channels: Sequence[Channel], measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements as a pipeline puts them in order."""
    places = filter_order(channels)
    return sorted(measurements, key=lambda one: (one.stamp_ns, places.get(one.sensor, len(places)), one.sensor))


def check_sound(record: Sequence[Estimate], space: StateSpace) -> None:
    """AssertionError for estimates out of order, not finite, of wrong shapes, or whose covariance is none."""
    last, coordinates, dimension = None, space.coordinate_count, space.dimension
    for estimate in record:
        at = f"at {estimate.stamp_ns / NANOSECONDS_PER_SECOND:.6f} s"
        mean, covariance = estimate.mean, estimate.covariance
        assert mean.shape == (coordinates,), f"a mean of shape {mean.shape} {at}, not ({coordinates},)"
        assert covariance.shape == (dimension, dimension), f"a covariance of shape {covariance.shape} {at}"
        assert np.isfinite(mean).all(), f"the mean {at} is not finite"
        assert np.isfinite(covariance).all(), f"the covariance {at} is not finite"
        scale = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
        correlation = covariance / np.outer(scale, scale)
        assert np.abs(correlation - correlation.T).max() < _EIGENVALUE_SLACK, f"the covariance {at} is not symmetric"
        wrapped = space.plus(mean, np.zeros(dimension))
        assert np.abs(np.abs(mean) - np.abs(wrapped)).max() < _WRAP_SLACK, (
            f"the mean {at} is {mean}: an angle is not within -pi and pi, or a quaternion is no unit one; move states "
            f"by `space.plus`, which makes it {wrapped}"
        )
        least = np.linalg.eigvalsh(0.5 * (correlation + correlation.T)).min()
        assert least > -_EIGENVALUE_SLACK, f"the correlation {at} has an eigenvalue of {least:.3g}"
        assert last is None or estimate.stamp_ns >= last, f"the estimate {at} comes after a later one"
        last = estimate.stamp_ns


def at(measurement: Measurement) -> str:
    """When and of what, for a sentence."""
    return f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.6f} s of {measurement.sensor}"


def with_value(measurement: Measurement, elements: int | slice, wanted: float | Vector) -> Measurement:
    """With another value of some elements."""
    value = measurement.value.copy()
    value[elements] = wanted
    return dataclasses.replace(measurement, value=value)


def bits(value: Any) -> Any:
    """What a value is made of, comparable to the last bit: arrays by their bytes, NaN equal to itself."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, float | np.floating):
        return struct.pack("d", value)
    if isinstance(value, np.random.Generator):
        return bits(value.bit_generator.state)
    if isinstance(value, tuple | list):
        return tuple(bits(one) for one in value)
    if isinstance(value, dict):
        return tuple((str(key), bits(one)) for key, one in sorted(value.items(), key=lambda pair: str(pair[0])))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(bits(getattr(value, one.name)) for one in dataclasses.fields(value))
    own = getattr(value, "__dict__", None)
    if own and not isinstance(value, type) and not callable(value):
        return type(value).__name__, bits(own)
    return value
