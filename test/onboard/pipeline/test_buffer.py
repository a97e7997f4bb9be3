"""Buffer: whatever the order of arrival, the filter ends as if all had come in order."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracking import COMMAND, Tracked, Tracker, as_bytes, buffer_of, pipeline_of, reading

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.pipeline.estimator import Step
from onboard_estimation.pipeline.pipeline import Pipeline

LAG_S = 0.2


class Arrival(NamedTuple):
    """Measurements in the order of their stamps, and of their arrival."""

    sorted: list[Measurement]
    shuffled: list[Measurement]


def arriving(measurements: list[Measurement], delays_ns: Iterable[int]) -> Arrival:
    due_ns = [one.stamp_ns + int(delay) for one, delay in zip(measurements, delays_ns, strict=True)]
    order = sorted(range(len(measurements)), key=due_ns.__getitem__)
    in_order = sorted(measurements, key=lambda measurement: measurement.stamp_ns)
    return Arrival(in_order, [measurements[place] for place in order])


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """Up to 40 measurements: stamps on a coarse grid, so that many are equal, gaps of seconds, repetitions with the
    same or another content; each delayed by up to the lag."""
    stamp_ns = draw(st.integers(0, 10**18))
    measurements = []
    for _ in range(draw(st.integers(1, 40))):
        stamp_ns += draw(st.sampled_from([0, 0, 1, 10_000_000, 50_000_000, 120_000_000, 5_000_000_000]))
        sensor = draw(st.sampled_from(["range", "speed", "sonar", COMMAND]))
        value = draw(st.floats(-10.0, 10.0))
        measurements.append(Measurement(stamp_ns, sensor, np.array([value])))
        if draw(st.integers(0, 4)) == 0:
            copied = draw(st.sampled_from(measurements))
            if draw(st.booleans()):
                copied = replace(copied, value=np.array([draw(st.floats(-10.0, 10.0))]))
            if stamp_ns - copied.stamp_ns < 1_000_000_000:
                measurements.append(copied)
    lag_ns = round(LAG_S * NANOSECONDS_PER_SECOND)
    return arriving(measurements, [draw(st.sampled_from([0, lag_ns]) | st.integers(0, lag_ns)) for _ in measurements])


def run(pipeline: Pipeline, measurements: list[Measurement]):
    record = as_bytes(pipeline.run(measurements))
    statistics = pipeline.statistics()
    for row in statistics.values():
        row.pop("late")
        row.pop("rate_hz")
    # NaN is not equal to itself.
    return record, {sensor: {key: repr(value) for key, value in row.items()} for sensor, row in statistics.items()}


@settings(max_examples=25)
@given(arrivals())
def test_shuffled_arrival_gives_the_state_and_record_of_sorted_arrival_to_the_last_bit(arrival: Arrival) -> None:
    in_order, shuffled = (pipeline_of(Tracker(0.9, recover_after=2), lag_s=LAG_S) for _ in range(2))
    expected = run(in_order, arrival.sorted)
    assert run(shuffled, arrival.shuffled) == expected
    assert _bytes_of(shuffled.state) == _bytes_of(in_order.state)
    stamps = [stamp for stamp, _, _ in expected[0]]
    assert stamps == sorted(stamps)
    distinct = {(m.stamp_ns, m.sensor) for m in arrival.sorted if m.sensor != COMMAND}
    assert len(stamps) == len(distinct)


class Stepping(Tracker):
    """Counts what it is asked to filter, roll-backs or not."""

    steps = 0

    def step(self, state: Tracked, measurement: Measurement) -> Step:
        self.steps += 1
        return super().step(state, measurement)


@settings(max_examples=25)
@given(arrivals(), st.integers(1, 4), st.booleans())
def test_a_live_host_ends_with_the_same_at_bounded_cost(arrival: Arrival, paid: int, mixed: bool) -> None:
    """However few steps a measurement earns, and where some measurements are deferred and others are not."""
    in_order, shuffled = Tracker(0.9, recover_after=2), Stepping(0.9, recover_after=2)
    expected = buffer_of(in_order, LAG_S)
    for measurement in arrival.sorted:
        expected.add(measurement)
    buffer = buffer_of(shuffled, LAG_S, steps_per_measurement=paid)
    for number, measurement in enumerate(arrival.shuffled):
        buffer.add(measurement, deferred=mixed and number % 5 == 0)
    assert as_bytes(buffer.flush().estimates) == as_bytes(expected.flush().estimates)
    assert _bytes_of(buffer.state) == _bytes_of(expected.state)
    assert shuffled.steps <= (paid + 2) * len(arrival.sorted)


def _bytes_of(state: Tracked) -> tuple:
    return (*(part.tobytes() for part in state.moments), *state[1:])


@settings(max_examples=25)
@given(arrivals(), st.randoms(use_true_random=False))
def test_every_measurement_is_accounted_for(arrival: Arrival, random) -> None:
    """In any order at all, beyond the lag, with strays and readings that are no number."""
    measurements = list(arrival.sorted)
    for _ in range(5):
        stray = random.choice([1.0, np.nan])
        measurements.append(Measurement(random.randrange(2 * 10**18), "range", np.array([stray])))
    random.shuffle(measurements)
    pipeline = pipeline_of(Tracker(0.9), lag_s=LAG_S)
    pipeline.run(measurements)
    fates = ("used", "gated", "left_out", "breakdowns", "too_late", "duplicates", "stray", "invalid")
    statistics = pipeline.statistics()
    for row in statistics.values():
        assert row["received"] == sum(row[fate] for fate in fates)
    assert sum(row["received"] for row in statistics.values()) == len(measurements)


def test_equal_stamps_are_put_in_order_commands_first() -> None:
    heard: list[str] = []

    class Listening(Tracker):
        def step(self, state: Tracked, measurement: Measurement) -> Step:
            heard.append(measurement.sensor)
            return super().step(state, measurement)

    for arriving in permutations(["range", "speed", COMMAND, "sonar"]):
        buffer = buffer_of(Listening())
        for sensor in arriving:
            buffer.add(reading(1.0, sensor), deferred=True)
        heard.clear()
        buffer.flush()
        assert heard == [COMMAND, "range", "speed", "sonar"]


def test_clock_that_jumps_back_resets_the_filter_and_says_so() -> None:
    """A recording played twice: the second pass gives what the first gave, nothing held back is lost."""
    rng = np.random.default_rng(1)
    passing = [reading(100.0 + 0.05 * k, sensor, rng.normal()) for k in range(400) for sensor in ("range", "speed")]
    told: list[str] = []
    buffer = buffer_of(Tracker(), LAG_S, on_reset=told.append)
    once = buffer_of(Tracker(), LAG_S)
    for measurement in passing:
        once.add(measurement)
    for measurement in passing + passing:
        buffer.add(measurement)
    assert as_bytes(buffer.flush().estimates) == 2 * as_bytes(once.flush().estimates)
    assert told == ["clock jumped by -19.950 s (5 messages agree): filter reset"]
    assert (buffer.clock_jumps, buffer.filtering.resets) == (1, 1)
    assert buffer.counters["range"].received == 800
    assert buffer.counters["range"].stray == buffer.counters["range"].too_late == 0


@pytest.mark.parametrize("duration_s", [2.0, 9.5])
def test_short_recording_played_again_and_again_resets_the_filter_each_time(duration_s: float) -> None:
    """Shorter than what counts as a jump between sensors: each sensor falls back behind itself."""
    passing = [
        reading(0.05 * k, sensor) for k in range(round(20 * duration_s)) for sensor in ("range", "speed", COMMAND)
    ]
    told: list[str] = []
    buffer = buffer_of(Tracker(), LAG_S, on_reset=told.append)
    for measurement in 3 * passing:
        buffer.add(measurement)
    assert buffer.filtering.resets == len(told) == 2
    assert len(buffer.flush().estimates) == 3 * 2 * round(20 * duration_s)
    assert sum(counters.too_late + counters.stray for counters in buffer.counters.values()) == 0


def test_sensor_that_lags_behind_is_no_clock_jump() -> None:
    """Three quarters of a second late, all the time: dropped, not taken for a restart. So are copies far behind."""
    buffer = buffer_of(Tracker(), LAG_S)
    for k in range(400):
        buffer.add(reading(10.0 + 0.05 * k))
        buffer.add(reading(9.25 + 0.05 * k, "speed"))
        if k >= 60:
            buffer.add(reading(7.0 + 0.05 * k))
    assert len(buffer.flush().estimates) == 400
    assert buffer.filtering.resets == 0
    assert buffer.counters["speed"].too_late == 400
    assert buffer.counters["range"].too_late == 340


@pytest.mark.parametrize(("gap_s", "resets"), [(9.0, 0), (59.9, 0), (60.3, 1), (1e9, 1)])
def test_gap_is_bridged_by_prediction_up_to_its_longest(gap_s: float, resets: int) -> None:
    told: list[str] = []
    buffer = buffer_of(Tracker(), LAG_S, on_reset=told.append)
    for k in range(20):
        buffer.add(reading(0.01 * k, "speed", 1.0))
    known = buffer.state.moments.covariance[1, 1]
    for k in range(20):
        buffer.add(reading(0.19 + gap_s + 0.01 * k, COMMAND if k == 0 else "range", gap_s))
    assert buffer.filtering.resets == len(told) == resets
    assert len(buffer.flush().estimates) == 39
    assert known < 0.01
    if resets:
        assert f"clock jumped by +{gap_s:.3f} s" in told[0]
    else:
        assert buffer.state.moments.mean[0] == pytest.approx(gap_s, rel=0.05)
    assert all(counters.stray == 0 for counters in buffer.counters.values())


@pytest.mark.parametrize(("far_s", "count"), [(1e9, 1), (-1e9, 4), (20.0, 4), (-20.0, 1)])
def test_few_strays_change_nothing(far_s: float, count: int) -> None:
    buffer, reference = buffer_of(Tracker(), LAG_S), buffer_of(Tracker(), LAG_S)
    for k in range(100):
        if k == 50:
            for i in range(count):
                assert buffer.add(reading(100.0 + far_s + 0.01 * i, "range", 1e6)) is None
        buffer.add(reading(100.0 + 0.01 * k, value=0.1 * k))
        reference.add(reading(100.0 + 0.01 * k, value=0.1 * k))
    assert as_bytes(buffer.flush().estimates) == as_bytes(reference.flush().estimates)
    assert buffer.filtering.resets == 0
    assert buffer.counters["range"].stray == count
    assert buffer.counters["range"].rate_hz == pytest.approx(100.0)


def test_messages_held_back_are_filtered_in_order() -> None:
    """The five that confirm a jump may themselves have come out of order, by more than the lag."""
    told: list[str] = []
    buffer = buffer_of(Tracker(), LAG_S, on_reset=told.append)
    for k in range(20):
        buffer.add(reading(500.0 + 0.1 * k))
    for time_s in (0.4, 0.0, 0.3, 0.8, 0.1, 0.9):
        buffer.add(reading(time_s, "sonar"))
    stamps = [estimate.stamp_ns for estimate in buffer.flush().estimates][20:]
    assert stamps == [0, 100_000_000, 300_000_000, 400_000_000, 800_000_000, 900_000_000]


def test_memory_does_not_grow() -> None:
    """A live host takes no record: neither the window nor what has left it may grow. 100 Hz for 10 s."""
    pipeline = pipeline_of(Tracker(), lag_s=LAG_S)
    means: list[weakref.ref] = []
    for k in range(1000):
        estimate = pipeline.process(reading(0.01 * k))
        means.append(weakref.ref(estimate.mean))
        if k % 7 == 0:
            pipeline.process(reading(0.01 * k - 0.055, "speed"))
    # Up to twice the lag is kept, of both sensors; a few are in the pipeline's hands. States hold the means as well.
    window = 2.0 * LAG_S * (100.0 + 100.0 / 7.0)
    assert sum(mean() is not None for mean in means) < window + 5


def test_lag_beyond_a_clock_jump_is_refused() -> None:
    for lag_s in (10.0, -0.1):
        with pytest.raises(UserError, match=f"lag of {lag_s:g} s is not allowed: .* less than a clock jump, 10 s"):
            buffer_of(Tracker(), lag_s)
