"""What a sensor cannot have read is refused before any filter sees it: counted, and said once with the way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tracking import Tracked, Tracker, as_bytes, pipeline_of, reading

from onboard_estimation.base.configuration import load
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, IMU_PARTS, Channel, Limit, Measurement, neutral_value
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import Robot, find_robot
from onboard_estimation.filtering.gating import Innovation
from onboard_estimation.judging.replay import replay
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.pipeline.reading_limits import ReadingCheck

ROBOTS = ("hopper", "salp", "strapdown", "thruster_chain")


def limited() -> list[tuple[str, Channel, Limit]]:
    robots = ((name, find_robot(name)) for name in ROBOTS)
    return [
        (name, channel, limit)
        for name, robot in robots
        for channel in robot.channels(robot.configuration_type())
        for limit in channel.limits
    ]


def with_element(channel: Channel, element: int, value: float) -> np.ndarray:
    out = neutral_value(channel)
    out[element] = value
    return out


@pytest.mark.parametrize(("name", "channel", "limit"), limited(), ids=lambda one: getattr(one, "sensor", None))
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_saturated_passes_and_beyond_the_range_is_refused(
    name: str, channel: Channel, limit: Limit, sign: float
) -> None:
    check, told = ReadingCheck([channel]), []
    for element in range(limit.first, limit.first + limit.count):
        assert check.passes(channel.sensor, with_element(channel, element, sign * limit.largest), told.append)
        assert check.passes(channel.sensor, with_element(channel, element, sign * 1.04 * limit.largest), told.append)
        assert not check.passes(
            channel.sensor, with_element(channel, element, sign * 1.06 * limit.largest), told.append
        )
        assert not check.passes(channel.sensor, with_element(channel, element, sign * 1e150), told.append)
    assert check.out_of_range == {channel.sensor: 2 * limit.count}
    (sentence,) = told
    assert sentence.startswith(f"{limit.what} of {sign * 1.06 * limit.largest:.6g}")
    assert f" from {channel.sensor} is beyond" in sentence
    assert f"its range of {limit.largest:g}" in sentence
    if limit.parameter:
        assert f"raise {limit.parameter} if" in sentence
        # The way out is one.
        robot = find_robot(name)
        wider = load(robot.configuration_type, None, {limit.parameter: 1.2 * limit.largest})
        (same,) = [one for one in robot.channels(wider) if one.sensor == channel.sensor]
        value = with_element(channel, limit.first, sign * 1.06 * limit.largest)
        assert ReadingCheck([same]).passes(channel.sensor, value, told.append)


@pytest.mark.parametrize(("count", "place"), [(1, 0), (128, 127), (300, 128), (300, 299)])
def test_one_bad_reading_among_many_is_found_wherever_it_is(count: int, place: int) -> None:
    channel = Channel("a", "sensor_msgs/msg/Imu", "imu/a", limits=(Limit("rate", 0, 3, 2.0, "rad/s"),))
    for element, bad in ((2, -2.2), (0, 2.2), (5, np.nan), (3, -np.inf)):
        values = np.zeros((count, 6))
        if place < count:
            values[place, element] = bad
        for layout in (values, np.asfortranarray(values)):
            rows, _ = ReadingCheck([channel]).refused("imu/a", layout)
            assert rows.tolist() == ([place] if place < count else [])


# Parts that a message lacks


@pytest.mark.parametrize("needs", [(), ("angular_velocity",), ("linear_acceleration",), tuple(IMU_PARTS)])
def test_a_needed_part_that_is_absent_is_refused_by_name_once_and_counted(needs: tuple[str, ...]) -> None:
    channel = Channel("a", "sensor_msgs/msg/Imu", "imu/a", limits=(Limit("rate", 0, 3, 2.0, "rad/s"),), needs=needs)
    values = np.random.default_rng(1).uniform(-1.0, 1.0, (60, 6))
    values[10:20, IMU.angular_velocity] = np.nan
    values[15:30, IMU.linear_acceleration] = np.nan
    values[40, 1] = np.nan  # one number of three is a damaged reading, not an absent part
    values[50, 0] = 3.0
    lacking = np.zeros(60, dtype=bool)
    lacking[10:20] |= "angular_velocity" in needs
    lacking[15:30] |= "linear_acceleration" in needs
    expected = np.flatnonzero(lacking | np.isin(np.arange(60), (40, 50)))
    single, told = ReadingCheck([channel]), []
    passed = [single.passes("imu/a", value, told.append) for value in values]
    many = ReadingCheck([channel])
    rows, said = many.refused("imu/a", values)
    assert rows.tolist() == expected.tolist() == np.flatnonzero(~np.array(passed)).tolist()
    assert [sentence for _, sentence in sorted(said)] == told
    for check in (single, many):
        assert check.incomplete == ({"imu/a": int(lacking.sum())} if needs else {})
        assert (check.not_finite, check.out_of_range) == ({"imu/a": 1}, {"imu/a": 1})
    if not needs:
        assert len(told) == 1
        return
    part = needs[0].replace("_", " ")
    assert told[0].startswith(f"imu/a has no {part} (element 0 of its covariance is -1, or all of it is NaN)")
    assert len(told) == 2


def recording(robot: Robot, spoil: Any) -> LoadedRecording:
    """A few seconds with readings that cannot be, of every IMU and command."""
    scenario = next(iter(robot.scenarios))
    variant = next(iter(robot.scenarios[scenario].variants), "")
    configuration = robot.configuration_type()
    simulated = robot.simulate(configuration, scenario, variant, 6.0, np.random.default_rng(2))
    loaded = from_simulator(simulated, robot.truth_specification(configuration).bodies)
    return replace(loaded, series=tuple(replace(one, values=spoil(one.values.copy())) for one in loaded.series))


def some_absurd(values: np.ndarray) -> np.ndarray:
    values[40::97, 0] = 1e150
    values[41::97, min(2, values.shape[1] - 1)] = -1e6
    values[42::97, 0] = np.nan
    return values


@pytest.mark.parametrize("name", ["hopper", "salp"])
def test_refused_is_the_same_as_never_sent_and_bulk_is_message_by_message(name: str) -> None:
    robot = find_robot(name)
    configuration, estimator = robot.configuration_type(), robot.estimators[0]
    spoilt = recording(robot, some_absurd)
    found = [replay(robot, configuration, estimator, spoilt, None, 0.05, bulk=bulk) for bulk in (True, False)]
    for one in found:
        assert one.record.means.tobytes() == found[0].record.means.tobytes()
        assert one.record.covariances.tobytes() == found[0].record.covariances.tobytes()
        assert repr(one.sensors) == repr(found[0].sensors)
        assert one.messages == found[0].messages
    assert np.isfinite(found[0].record.means).all()
    imu = next(sensor for sensor in found[0].sensors if sensor.startswith("imu/"))
    assert found[0].sensors[imu]["out_of_range"] > found[0].sensors[imu]["invalid"] > 0
    pipeline = Pipeline(robot.estimator(configuration, estimator), robot.channels(configuration), lag_s=0.05)
    check = ReadingCheck(robot.channels(configuration))
    sent = [one for one in spoilt.measurements() if check.passes(one.sensor, one.value, lambda _: None)]
    last = pipeline.run(sent)[-1]
    assert last.mean.tobytes() == found[0].record.means[-1].tobytes()


class Absurd(Tracker):
    """Its innovation on `sonar` is what the reading says; one of zero is a fault that a user could mend."""

    def step(self, state: Tracked, measurement: Measurement) -> Step:
        step = super().step(state, measurement)
        if measurement.sensor == "sonar":
            if measurement.value[0] == 0.0:
                raise UserError("the height at touchdown is nan, not a number of m")
            absurd = Innovation(np.ones(1), np.ones((1, 1)), float(measurement.value[0]), True)
            return step._replace(innovation=absurd)
        return step


@pytest.mark.parametrize(
    ("nis", "words"),
    [
        (1e13, "its innovation cannot be: NIS 1e+13, 3.16e+06 standard deviations"),
        (0.0, "the height at touchdown is nan"),
    ],
)
def test_an_absurd_innovation_and_any_refusal_are_breakdowns(nis: float, words: str) -> None:
    clean = [reading(0.05 * k, value=0.1) for k in range(20)]
    pipeline = Pipeline(Absurd())
    record = pipeline.run([*clean[:10], reading(0.47, "sonar", nis), *clean[10:]])
    assert as_bytes(record) == as_bytes(pipeline_of(Tracker()).run(clean))
    assert pipeline.statistics()["sonar"]["breakdowns"] == 1
    (message,) = pipeline.messages
    assert message.startswith("filter broke down on sonar at 0.470000 s, back to its last good state: ")
    assert words in message
