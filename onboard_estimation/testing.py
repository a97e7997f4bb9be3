"""Whether a robot keeps the contract: `check_robot`, in the manner of scikit-learn's `check_estimator`.

    from onboard_estimation.testing import checks

    @pytest.mark.parametrize("check", checks(ROBOT), ids=str)
    def test_contract(check):
        check()

Each check is a promise of `onboard_estimation.pipeline.estimator` or of the pipeline, tried on a recording of the
robot: its simulator's, or one that is given. What fails says what was promised, what was found, and where to look.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import (
    IMU_PARTS,
    NANOSECONDS_PER_SECOND,
    Channel,
    Estimate,
    Measurement,
    PhaseEvent,
    filter_order,
    neutral_value,
    value_size,
)
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.simulated import Simulated, chosen_scenario
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.replay import Replayed, replay
from onboard_estimation.pipeline.estimator import BulkFilter, Estimator
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.pipeline.reading_limits import ReadingCheck

LAG_S = 0.2
SECONDS, MOST_MEASUREMENTS = 6.0, 1200
"""Of a simulated recording, whichever comes first."""
_EIGENVALUE_SLACK = 1e-9
_TRIES = 200
_FAR = 6.0
"""Standard deviations: what an estimate may differ from the state that its filter was just given."""


def check_robot(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> None:
    """Hold a robot to the contract.

    Parameters
    ----------
    configuration
        Of the robot; its defaults by default.
    estimator
        One of its estimators; by default each of them.
    sensors
        A recording: one series of each sensor. By default the first seconds of what the robot's simulator gives.

    Raises
    ------
    AssertionError
        All promises that it does not keep, one paragraph each.
    UserError
        It has no simulator, and no recording was given.
    """
    broken, tried = [], checks(robot, configuration, estimator, sensors)
    _ = tried[0].case.given.series  # without which nothing can be tried
    for check in tried:
        try:
            check()
        except AssertionError as error:
            broken.append(f"{check}: {error}")
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, UserError) as error:
            broken.append(f"{check}: {type(error).__name__}: {error}")
    if broken:
        raise AssertionError(f"robot {robot.name!r} breaks the contract:\n\n" + "\n\n".join(broken))


def checks(
    robot: Robot, configuration: Any = None, estimator: str | None = None, sensors: Sequence[Series] | None = None
) -> list[Check]:
    """The checks one by one, for `pytest.mark.parametrize`; parameters as those of `check_robot`."""
    given = Given(robot, robot.configuration_type() if configuration is None else configuration, sensors)
    cases = [Case(given, name) for name in (robot.estimators if estimator is None else (estimator,))]
    return [Check(one, case) for case in cases for one in PROMISES]


@dataclasses.dataclass(frozen=True)
class Check:
    """A promise to be tried; its name says which, and of which estimator where a robot has several."""

    promise: Callable[[Case], None]
    case: Case

    def __call__(self) -> None:
        """AssertionError where it is not kept."""
        self.promise(self.case)

    def __str__(self) -> str:
        several = len(self.case.given.robot.estimators) > 1
        return f"{self.case.name}-{self.promise.__name__}" if several else self.promise.__name__


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


class Case:
    """One of the robot's estimators, on that recording."""

    def __init__(self, given: Given, name: str) -> None:
        self.given, self.name, self.robot, self.configuration = given, name, given.robot, given.configuration
        self.channels = tuple(given.robot.listened_channels(given.configuration, name))

    def estimator(self) -> Estimator[Any]:
        """A new one."""
        return self.robot.estimator(self.configuration, self.name)

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Of the sensors that this estimator listens to."""
        listened = {channel.sensor for channel in self.channels}
        return tuple(one for one in self.given.series if one.channel.sensor in listened)

    @cached_property
    def measurements(self) -> list[Measurement]:
        """All of the recording that a pipeline passes on, in the order in which it filters them."""
        check, recording = ReadingCheck(self.channels), from_simulator(Recording(self.series, ()), ())
        whole = (one for one in recording.measurements() if check.passes(one.sensor, one.value, lambda _: None))
        return in_order(self.channels, whole)

    @property
    def first_third(self) -> list[Measurement]:
        """Enough where what is tried is the host's business as much as the filter's."""
        return self.measurements[: len(self.measurements) // 3]

    def pipeline(self, initial: Estimate | None = None, lag_s: float = LAG_S) -> Pipeline:
        """A new one."""
        return Pipeline(self.estimator(), self.channels, initial, lag_s)

    @cached_property
    def filtered(self) -> tuple[list[Estimate], int]:
        """Estimates of the whole recording as it is, and how often the filter breaks down on it."""
        pipeline = self.pipeline()
        return pipeline.run(self.measurements), pipeline.breakdowns

    @property
    def record(self) -> list[Estimate]:
        """Estimates of the whole recording."""
        return self.filtered[0]

    @property
    def breakdowns(self) -> int:
        """How often the filter breaks down on the recording as it is."""
        return self.filtered[1]

    def replayed(self, bulk: bool, initial: Estimate | None = None) -> Replayed:
        """The recording as `evaluate` filters it."""
        series = self.series
        arrival = np.concatenate([np.full(len(one.stamps_ns), number) for number, one in enumerate(series)])
        order = np.argsort(np.concatenate([one.stamps_ns for one in series]), kind="stable")
        recording = LoadedRecording(series, arrival[order], {}, simulated=True)
        return replay(self.robot, self.configuration, self.name, recording, initial, LAG_S, bulk=bulk)


def in_order(channels: Sequence[Channel], measurements: Iterable[Measurement]) -> list[Measurement]:
    """Measurements as a pipeline puts them in order."""
    places = filter_order(channels)
    return sorted(measurements, key=lambda one: (one.stamp_ns, places.get(one.sensor, len(places)), one.sensor))


def names_and_shapes(case: Case) -> None:
    """Channels, parameters and the parts that the truth tells are what they are named."""
    robot, space = case.robot, case.estimator().space
    sensors = [channel.sensor for channel in case.given.channels]
    assert len(set(sensors)) == len(sensors), f"several channels have one sensor: {sensors}"
    for channel in case.given.channels:
        size = value_size(channel)
        for limit in channel.limits:
            stop = limit.first + limit.count
            assert size is None or stop <= size, f"{channel.sensor}: a limit on element {stop - 1} of {size}"
        unknown = set(channel.needs) - set(IMU_PARTS)
        assert not unknown, f"{channel.sensor} needs {sorted(unknown)}; parts are {sorted(IMU_PARTS)}"
    heard = {one.channel.sensor for one in case.given.series}
    assert heard <= set(sensors), f"the recording has sensors {sorted(heard - set(sensors))} that no channel has"
    if isinstance(robot, StartedFromTruth):
        shape, wanted = robot.initial_covariance(case.configuration).shape, (space.dimension, space.dimension)
        assert shape == wanted, f"initial covariance {shape}, not {wanted}"


def estimates_are_sound(case: Case) -> None:
    """Finite, of the space's shape, in order, with covariances that are symmetric and have no negative eigenvalue."""
    assert case.record, "no estimate of the whole recording"
    _check_sound(case.record, case.estimator().space)


def a_step_changes_nothing_but_gives_a_new_state(case: Case) -> None:
    """From one state a measurement gives the same to the last bit, however often; state and estimator stay as are."""
    estimator = case.estimator()
    state = estimator.start(None)
    every = max(1, len(case.measurements) // _TRIES)
    for number, measurement in enumerate(case.measurements):
        if number % every:
            state = estimator.step(state, measurement).state
            continue
        before, own = _bits(state), _bits(vars(estimator))
        first = estimator.step(state, measurement)
        assert _bits(state) == before, f"the step at {_at(measurement)} wrote into the state that it was given"
        assert _bits(vars(estimator)) == own, (
            f"the step at {_at(measurement)} changed the estimator: what measurements change belongs into the state"
        )
        again = estimator.step(state, measurement)
        assert _bits(first) == _bits(again), (
            f"from one state, the measurement at {_at(measurement)} gave two results: random numbers belong into the "
            "state (`onboard_estimation.filtering.particle_weights`)"
        )
        state = first.state


def a_kept_state_is_taken_up_again(case: Case) -> None:
    """By another estimator of the same configuration, to the last bit."""
    first, second = case.estimator(), case.estimator()
    half = len(case.measurements) // 2
    state = first.start(None)
    for measurement in case.measurements[:half]:
        state = first.step(state, measurement).state
    going_on = taken_up = state
    for measurement in case.measurements[half : half + _TRIES]:
        one, other = first.step(going_on, measurement), second.step(taken_up, measurement)
        assert _bits(one) == _bits(other), f"another estimator went on differently at {_at(measurement)}"
        going_on, taken_up = one.state, other.state


def shuffled_arrival_is_as_good_as_sorted(case: Case) -> None:
    """Within the lag, with messages that come twice, offline and live."""
    pipeline = case.pipeline()
    assert _bits(pipeline.run(_shuffled(case.measurements))) == _bits(case.record), (
        "messages out of order gave another record"
    )
    live, expected, first = case.pipeline(), case.pipeline(), case.first_third
    for measurement in first:
        expected.process(measurement)
    for measurement in _shuffled(first):
        live.process(measurement)
    # A live host goes back when that can be paid: at the latest with what comes next in order.
    last = dataclasses.replace(first[-1], stamp_ns=first[-1].stamp_ns + round(2e9 * LAG_S))
    for one in (live, expected):
        one.process(last)
    assert _bits(live.state) == _bits(expected.state), "messages out of order left another state in a live pipeline"


def _shuffled(measurements: list[Measurement]) -> list[Measurement]:
    """As they arrive when each is late by up to the lag, and twenty of them come twice."""
    rng = np.random.default_rng(2)
    doubled = [measurements[i] for i in rng.integers(len(measurements), size=20)]
    late = [(one.stamp_ns + int(rng.integers(round(LAG_S * 1e9))), one) for one in [*measurements, *doubled]]
    return [one for _, one in sorted(late, key=lambda pair: pair[0])]


def at_once_is_as_one_by_one(case: Case) -> None:
    """A recording filtered at once gives the record, the events and the counts of its steps, to the last bit."""
    if not isinstance(case.estimator(), BulkFilter):
        return
    for initial in (None, case.record[len(case.record) // 2]):
        found = [case.replayed(bulk, initial) for bulk in (True, False)]
        for what in ("record", "sensors", "events", "messages"):
            one, other = (_bits(getattr(each, what)) for each in found)
            assert one == other, f"{what} of a recording filtered at once differ from those of its steps"


def what_is_no_number_is_as_if_it_had_not_come(case: Case) -> None:
    """NaN and infinity, from every sensor."""
    spoilt = []
    for number, measurement in enumerate(case.measurements):
        if number % 7 == 3 and measurement.value.size:
            value = measurement.value.copy()
            value[_element_that_counts(case.channels, measurement)] = (np.nan, np.inf, -np.inf)[number % 3]
            spoilt.append(dataclasses.replace(measurement, stamp_ns=measurement.stamp_ns + 1, value=value))
    pipeline = case.pipeline()
    record = pipeline.run(in_order(case.channels, [*case.measurements, *spoilt]))
    assert _bits(record) == _bits(case.record), "readings that are no number changed the record"
    assert pipeline.breakdowns == case.breakdowns, f"it broke down: {pipeline.messages}"


def a_part_that_is_absent_is_needed_or_not_used(case: Case) -> None:
    """An IMU that has no gyro, or no accelerometer, from half of the recording on: refused, or no harm."""
    middle_ns = (case.measurements[0].stamp_ns + case.measurements[-1].stamp_ns) // 2
    for channel in case.channels:
        if channel.message_type != "sensor_msgs/msg/Imu" or channel.field == "orientation":
            continue
        for part, elements in IMU_PARTS.items():
            lacking = [_without(one, channel, elements, middle_ns) for one in case.measurements]
            pipeline = case.pipeline()
            record = pipeline.run(lacking)
            if part in channel.needs:
                kept = [
                    one for one in lacking if one.sensor != channel.sensor or np.isfinite(one.value[elements]).all()
                ]
                expected = case.pipeline().run(kept)
                assert _bits(record) == _bits(expected), f"{channel.sensor} without {part} was not refused"
            else:
                _check_sound(record, pipeline.space)
                assert pipeline.breakdowns == case.breakdowns, (
                    f"{channel.sensor} does not need {part}, but without it the filter broke down "
                    f"({pipeline.messages[-1]}): add {part!r} to the channel's `needs`"
                )


def a_silent_sensor_does_no_harm(case: Case) -> None:
    """Each sensor in turn is silent for the middle third of the recording; one that never speaks; nothing at all."""
    start, stop = case.measurements[0].stamp_ns, case.measurements[-1].stamp_ns
    third = (stop - start) // 3
    for channel in case.channels:
        middle = [
            one
            for one in case.measurements
            if one.sensor != channel.sensor or not start + third <= one.stamp_ns <= stop - third
        ]
        for heard in (middle, [one for one in case.first_third if one.sensor != channel.sensor]):
            pipeline = case.pipeline()
            _check_sound(pipeline.run(heard), pipeline.space)
    assert case.pipeline().run([]) == [], "estimates of nothing"


def an_hour_of_nothing_is_survived(case: Case) -> None:
    """A third of the recording, an hour in which nothing comes, the second third, fifty seconds, the last third."""
    pauses_ns = [round(1e9 * seconds) for seconds in (0.0, 3600.0, 3650.0)]
    third = -(-len(case.measurements) // 3)
    parted = [
        dataclasses.replace(one, stamp_ns=one.stamp_ns + pauses_ns[number // third])
        for number, one in enumerate(case.measurements)
    ]
    pipeline = case.pipeline()
    record = pipeline.run(parted)
    _check_sound(record, pipeline.space)
    for begin, end, pause in ((third, 2 * third, "an hour"), (2 * third, len(parted), "50 s")):
        found = [one for one in record if parted[begin].stamp_ns <= one.stamp_ns <= parted[end - 1].stamp_ns]
        assert found, f"no estimates after {pause} of nothing: {pipeline.messages}"


def a_reset_starts_anew(case: Case) -> None:
    """What comes after a reset gives what it would give a new pipeline, to the last bit."""
    pipeline = case.pipeline()
    for measurement in case.first_third:
        pipeline.process(measurement)
    pipeline.reset()
    fresh = case.pipeline()
    for measurement in case.first_third:
        one, other = pipeline.process(measurement), fresh.process(measurement)
        assert _bits(one) == _bits(other), f"after a reset the estimate at {_at(measurement)} is another one"


def a_given_start_is_taken(case: Case) -> None:
    """From a state of its own record it goes on near that state; what came before does not count, commands aside."""
    # Early in the recording: filters may take for granted what robots do at the start, such as to rest.
    given = case.record[len(case.record) // 10]
    initial = dataclasses.replace(given, stamp_ns=given.stamp_ns + 1)
    commands = {channel.sensor for channel in case.channels if channel.command}
    early = [one for one in case.measurements if one.stamp_ns < initial.stamp_ns]
    newest = {one.sensor: one for one in early if one.sensor in commands}
    acting = [dataclasses.replace(one, stamp_ns=initial.stamp_ns) for one in newest.values()]
    later = [one for one in case.measurements if one.stamp_ns > initial.stamp_ns]
    record = case.pipeline(initial).run(case.measurements)
    expected = case.pipeline(initial).run(in_order(case.channels, [*acting, *later]))
    assert _bits(record) == _bits(expected), "measurements from before the start changed the record"
    assert record, "no estimate after a given start"
    space = case.estimator().space
    step = np.abs(space.minus(record[0].mean, initial.mean))
    follows = next(one for one in case.record if one.stamp_ns >= record[0].stamp_ns)
    moved = np.abs(space.minus(follows.mean, initial.mean))
    stddev = np.sqrt(np.maximum(np.diag(initial.covariance), np.diag(follows.covariance)))
    far = [
        f"{name} by {size:.3g}"
        for name, size, most in zip(space.names, step, _FAR * stddev + 2.0 * moved + 1e-9, strict=True)
        if size > most
    ]
    assert not far, f"the first estimate after a given start is far from it: {', '.join(far)}; is `initial` used?"


def events_and_phases_are_named(case: Case) -> None:
    """Events belong to the measurement that showed them, and lead to phases that the estimator has."""
    estimator = case.estimator()
    state = estimator.start(None)
    for measurement in case.measurements:
        step = estimator.step(state, measurement)
        state = step.state
        for event in step.events:
            if isinstance(event, PhaseEvent):
                assert 0 <= event.phase < len(estimator.phases), f"event {event.name} leads to phase {event.phase}"
                assert event.seen_ns == measurement.stamp_ns, f"event {event.name} was not seen in its measurement"
        phase = estimator.phase(state)
        assert phase is None or phase in estimator.phases, f"phase {phase!r} is none of {estimator.phases}"


def neutral_readings_compile_every_kernel(case: Case) -> None:
    """`Robot.exercise`, by which a node compiles what it needs before the first message, runs through."""
    case.robot.exercise(case.configuration, case.name)
    pipeline = case.pipeline()
    for step in range(3):
        for channel in case.channels:
            pipeline.process(Measurement((step + 1) * 10_000_000, channel.sensor, neutral_value(channel)))
    assert pipeline.breakdowns == 0, f"it broke down on neutral readings: {pipeline.messages}"


PROMISES: tuple[Callable[[Case], None], ...] = (
    names_and_shapes,
    estimates_are_sound,
    a_step_changes_nothing_but_gives_a_new_state,
    a_kept_state_is_taken_up_again,
    shuffled_arrival_is_as_good_as_sorted,
    at_once_is_as_one_by_one,
    what_is_no_number_is_as_if_it_had_not_come,
    a_part_that_is_absent_is_needed_or_not_used,
    a_silent_sensor_does_no_harm,
    an_hour_of_nothing_is_survived,
    a_reset_starts_anew,
    a_given_start_is_taken,
    events_and_phases_are_named,
    neutral_readings_compile_every_kernel,
)


def _without(measurement: Measurement, channel: Channel, elements: slice, from_ns: int) -> Measurement:
    if measurement.sensor != channel.sensor or measurement.stamp_ns < from_ns:
        return measurement
    value = measurement.value.copy()
    value[elements] = np.nan
    return dataclasses.replace(measurement, value=value)


def _element_that_counts(channels: Sequence[Channel], measurement: Measurement) -> int:
    """One whose absence is a fault: of a part that is needed, where the channel names any."""
    needs = next((channel.needs for channel in channels if channel.sensor == measurement.sensor), ())
    return next((IMU_PARTS[part].start for part in needs if part in IMU_PARTS), 0)


def _check_sound(record: Sequence[Estimate], space: StateSpace) -> None:
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
        least = np.linalg.eigvalsh(0.5 * (correlation + correlation.T)).min()
        assert least > -_EIGENVALUE_SLACK, f"the correlation {at} has an eigenvalue of {least:.3g}"
        assert last is None or estimate.stamp_ns >= last, f"the estimate {at} comes after a later one"
        last = estimate.stamp_ns


def _at(measurement: Measurement) -> str:
    return f"{measurement.stamp_ns / NANOSECONDS_PER_SECOND:.6f} s of {measurement.sensor}"


def _bits(value: Any) -> Any:
    """What a value is made of, comparable to the last bit: arrays by their bytes, NaN equal to itself."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, float | np.floating):
        return struct.pack("d", value)
    if isinstance(value, np.random.Generator):
        return _bits(value.bit_generator.state)
    if isinstance(value, tuple | list):
        return tuple(_bits(one) for one in value)
    if isinstance(value, dict):
        return tuple((str(key), _bits(one)) for key, one in sorted(value.items(), key=lambda pair: str(pair[0])))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(_bits(getattr(value, one.name)) for one in dataclasses.fields(value))
    own = getattr(value, "__dict__", None)
    if own and not isinstance(value, type) and not callable(value):
        return type(value).__name__, _bits(own)
    return value
