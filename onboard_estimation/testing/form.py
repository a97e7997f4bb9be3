"""What an estimator promises whatever it estimates: names, pure steps, what is late, absent, silent or no number."""

from __future__ import annotations

from dataclasses import replace
from unittest import SkipTest

import numpy as np

from onboard_estimation.base.measurement import IMU_PARTS, Measurement, PhaseEvent, neutral_value, value_size
from onboard_estimation.contract.truth import StartedFromTruth
from onboard_estimation.judging.replay import replay
from onboard_estimation.pipeline.estimator import BlockFilter
from onboard_estimation.testing.case import LAG_S, Case, at, bits, check_sound, with_value

_TRIES = 200


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
    check_sound(case.record, case.estimator().space)


def a_step_changes_nothing_but_gives_a_new_state(case: Case) -> None:
    """From one state a measurement gives the same to the last bit, in another estimator too; both stay as they are."""
    estimator, other = case.estimator(), case.estimator()
    state = estimator.start(None)
    every = max(1, len(case.measurements) // _TRIES)
    for number, measurement in enumerate(case.measurements):
        if number % every:
            state = estimator.step(state, measurement).state
            continue
        before, own = bits(state), bits(vars(estimator))
        first = estimator.step(state, measurement)
        assert bits(state) == before, f"the step at {at(measurement)} wrote into the state that it was given"
        assert bits(vars(estimator)) == own, (
            f"the step at {at(measurement)} changed the estimator: what measurements change belongs into the state"
        )
        again = other.step(state, measurement)
        assert bits(first) == bits(again), (
            f"from one state, the measurement at {at(measurement)} gave two results: random numbers, and "
            "all that changes, belong into the state (`onboard_estimation.filtering.particle_weights`)"
        )
        state = first.state


def shuffled_arrival_is_as_good_as_sorted(case: Case) -> None:
    """Each late by up to the lag, and twenty of them come twice; offline and live."""
    rng, whole = np.random.default_rng(2), case.first_third
    doubled = [whole[i] for i in rng.integers(len(whole), size=20)]
    late = [(one.stamp_ns + int(rng.integers(round(LAG_S * 1e9))), one) for one in [*whole, *doubled]]
    shuffled = [one for _, one in sorted(late, key=lambda pair: pair[0])]
    found, expected = case.pipeline().run(shuffled), case.pipeline().run(whole)
    assert bits(found) == bits(expected), "messages out of order gave another record"
    # A live host goes back when that can be paid: at the latest with what comes next in order.
    last = replace(whole[-1], stamp_ns=whole[-1].stamp_ns + round(2e9 * LAG_S))
    hosts = case.pipeline(), case.pipeline()
    for host, arriving in zip(hosts, (shuffled, whole), strict=True):
        for measurement in [*arriving, last]:
            host.process(measurement)
    assert bits(hosts[0].state) == bits(hosts[1].state), "messages out of order left another state in a live pipeline"


def at_once_is_as_one_by_one(case: Case) -> None:
    """A recording filtered at once gives the record, the events and the counts of its steps, to the last bit."""
    if not isinstance(case.estimator(), BlockFilter):
        raise SkipTest("the estimator has no kernel that takes a recording at once")
    of = case.robot, case.configuration, case.name, case.recording
    for initial in (None, case.record[len(case.record) // 2]):
        found = [replay(*of, initial, LAG_S, bulk=bulk) for bulk in (True, False)]
        for what in ("record", "sensors", "events", "messages"):
            one, other = (bits(getattr(each, what)) for each in found)
            assert one == other, f"{what} of a recording filtered at once differ from those of its steps"


def what_is_no_number_is_as_if_it_had_not_come(case: Case) -> None:
    """NaN and infinity, from every sensor, in a part that is needed where its channel names any."""
    needs = {one.sensor: [IMU_PARTS[part] for part in one.needs if part in IMU_PARTS] for one in case.channels}
    odd_ones = (np.nan, np.inf, -np.inf)
    odd = [
        with_value(replace(one, stamp_ns=one.stamp_ns + 1), next(iter(needs[one.sensor]), 0), odd_ones[k % 3])
        for k, one in enumerate(case.measurements)
        if k % 7 == 3 and one.value.size
    ]
    record = case.run([*case.measurements, *odd], unbroken="on what is no number")
    assert bits(record) == bits(case.record), "readings that are no number changed the record"


def a_part_that_is_absent_is_needed_or_not_used(case: Case) -> None:
    """An IMU that has no gyro, or no accelerometer, from half of the recording on: refused, or no harm."""
    middle_ns = (case.measurements[0].stamp_ns + case.measurements[-1].stamp_ns) // 2
    for channel in case.channels:
        if channel.message_type != "sensor_msgs/msg/Imu" or channel.field == "orientation":
            continue
        late = [one.sensor == channel.sensor and one.stamp_ns >= middle_ns for one in case.measurements]
        for part, elements in IMU_PARTS.items():
            lacking = [
                with_value(one, elements, np.nan) if hit else one
                for hit, one in zip(late, case.measurements, strict=True)
            ]
            if part in channel.needs:
                kept = [one for hit, one in zip(late, case.measurements, strict=True) if not hit]
                assert bits(case.run(lacking)) == bits(case.run(kept)), (
                    f"{channel.sensor} without {part} was not refused"
                )
            else:
                words = f"on {channel.sensor} without {part} (add {part!r} to the channel's `needs`)"
                case.run(lacking, unbroken=words)


def a_silent_sensor_does_no_harm(case: Case) -> None:
    """Each sensor in turn is silent for the middle third of the recording; one that never speaks; nothing at all."""
    start, stop = case.measurements[0].stamp_ns, case.measurements[-1].stamp_ns
    third = (stop - start) // 3
    for channel in case.channels:
        others = [one.sensor != channel.sensor for one in case.measurements]
        heard = list(zip(others, case.measurements, strict=True))
        case.run(one for other, one in heard if other or not start + third <= one.stamp_ns <= stop - third)
        case.run(one for other, one in heard[: len(heard) // 3] if other)
    assert case.run([]) == [], "estimates of nothing"


def an_hour_of_nothing_is_survived(case: Case) -> None:
    """A third of the recording, an hour in which nothing comes, the second third, fifty seconds, the last third."""
    pauses_ns = [round(1e9 * seconds) for seconds in (0.0, 3600.0, 3650.0)]
    third = -(-len(case.measurements) // 3)
    parted = [
        replace(one, stamp_ns=one.stamp_ns + pauses_ns[number // third]) for number, one in enumerate(case.measurements)
    ]
    record = case.run(parted)
    for begin, end, pause in ((third, 2 * third, "an hour"), (2 * third, len(parted), "50 s")):
        found = [one for one in record if parted[begin].stamp_ns <= one.stamp_ns <= parted[end - 1].stamp_ns]
        assert found, f"no estimates after {pause} of nothing"


def a_reset_starts_anew(case: Case) -> None:
    """What comes after a reset gives what it gave before, to the last bit."""
    pipeline, found = case.pipeline(), []
    for _ in range(2):
        found.append([pipeline.process(measurement) for measurement in case.first_third])
        pipeline.reset()
    assert bits(found[0]) == bits(found[1]), "after a reset the estimates are others"


def events_and_phases_are_named(case: Case) -> None:
    """Events belong to the measurement that showed them, and lead to phases that the estimator has."""
    estimator = case.estimator()
    for measurement, step in case.steps(case.measurements):
        for event in step.events:
            if isinstance(event, PhaseEvent):
                assert 0 <= event.phase < len(estimator.phases), f"event {event.name} leads to phase {event.phase}"
                assert event.seen_ns == measurement.stamp_ns, f"event {event.name} was not seen in its measurement"
        phase = estimator.phase(step.state)
        assert phase is None or phase in estimator.phases, f"phase {phase!r} is none of {estimator.phases}"


def neutral_readings_compile_every_kernel(case: Case) -> None:
    """`Robot.exercise`, by which a node compiles what it needs before the first message, runs through."""
    case.robot.exercise(case.configuration, case.name)
    stamps = (10_000_000, 20_000_000, 30_000_000)
    neutral = [Measurement(stamp, one.sensor, neutral_value(one)) for stamp in stamps for one in case.channels]
    case.run(neutral, unbroken="on neutral readings")
