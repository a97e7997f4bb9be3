"""Measurements that arrive together are filtered at once, to the last bit as one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracking import Bare, Tracker, as_bytes, reading

from hopper_estimation.model.configuration import ATTITUDE, HIGH_G, LOW_G, HopperConfiguration
from hopper_estimation.robot import ROBOT
from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.base.series import SET_POSE
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.pipeline.buffer import MeasurementBuffer
from onboard_estimation.pipeline.pipeline import Pipeline

SENSORS = ("range", "speed", "sonar")


@st.composite
def batches(draw: st.DrawFn) -> list[list[Measurement]]:
    """What arrives at wakings: mostly in order, some late by up to 0.3 s (the lag is 0.2), some twice, some far off."""
    now_s, found = 100.0, []
    for _ in range(draw(st.integers(1, 12))):
        batch = []
        for _ in range(draw(st.integers(0, 7))):
            now_s += draw(st.sampled_from([0.0, 0.001, 0.02, 0.1]))
            late_s = draw(st.sampled_from([0.0] * 6 + [0.005, 0.08, 0.19, 0.3, -20.0]))
            batch.append(reading(now_s - late_s, draw(st.sampled_from(SENSORS)), draw(st.floats(-5.0, 5.0))))
        found.append(batch)
    return found


@settings(max_examples=40)
@given(batches(), st.integers(0, 5))
def test_the_buffer_keeps_the_same_whether_filtered_at_once_or_not(found: list[list[Measurement]], count: int) -> None:
    estimator = Tracker()
    alone, together = (MeasurementBuffer(Bare(estimator, at_once), estimator.start(None)) for at_once in (0, count))
    for batch in found:
        expected = [estimate for estimate in map(alone.add, batch) if estimate is not None]
        at_once = together.add_all(batch, together.filtering.gathered(batch))
        # A late one goes farther back where more was filtered at once, and may have to wait longer until it is paid.
        if not any(counters.late for counters in alone.counters.values()):
            assert as_bytes(at_once) == as_bytes(expected)
    assert as_bytes(together.flush().estimates) == as_bytes(alone.flush().estimates)
    assert repr(together.state) == repr(alone.state)
    assert together.counters == alone.counters


def hops(seconds: float) -> list[Measurement]:
    configuration = HopperConfiguration()
    recording = ROBOT.simulate(configuration, "hardware", "mixed", seconds, np.random.default_rng(3))
    heard = {LOW_G.sensor, HIGH_G.sensor, ATTITUDE.sensor, SET_POSE}
    return [one for one in from_simulator(recording, ()).measurements() if one.sensor in heard]


def hopper() -> Pipeline:
    configuration = HopperConfiguration()
    return Pipeline(ROBOT.estimator(configuration, "kf1"), ROBOT.channels(configuration), lag_s=configuration.lag_s)


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "late"])
def test_the_hopper_takes_what_gathered_as_one_after_another(shuffled: bool) -> None:
    rng, measurements = np.random.default_rng(4), hops(4.0 if shuffled else 9.0)
    if shuffled:
        delays_ns = rng.choice([0, 0, 0, 3_000_000, 40_000_000], size=len(measurements))
        arrival = np.argsort([one.stamp_ns + late for one, late in zip(measurements, delays_ns, strict=True)])
        measurements = [measurements[place] for place in arrival]
    alone, together = hopper(), hopper()
    expected, found = list[Estimate](), list[Estimate]()
    while measurements:
        batch, measurements = measurements[: (size := int(rng.integers(1, 20)))], measurements[size:]
        expected += [estimate for estimate in map(alone.process, batch) if estimate is not None]
        found += together.process_all(batch)
    assert len(found) > 1000
    if not shuffled:
        assert as_bytes(found) == as_bytes(expected)
        assert together.take_events() == alone.take_events() != []
    for one in (alone, together):
        one._buffer.flush()
    assert repr(together.statistics()) == repr(alone.statistics())
    assert repr(together.state) == repr(alone.state)


def test_a_sensor_that_is_switched_off_or_out_of_range_is_left_out_of_what_is_taken_at_once() -> None:
    measurements = hops(1.0)
    alone, together = hopper(), hopper()
    for one in (alone, together):
        one.set_enabled(HIGH_G.sensor, False)
    wild = Measurement(measurements[50].stamp_ns, LOW_G.sensor, np.full(6, 1e6))
    batch = [*measurements[:50], wild, *measurements[51:]]
    for one in batch:
        alone.process(one)
    together.process_all(batch)
    assert repr(together.statistics()) == repr(alone.statistics())
    assert together.statistics()[HIGH_G.sensor]["used"] == 0
    assert together.statistics()[LOW_G.sensor]["out_of_range"] == 1


def test_what_was_filtered_at_once_settles_as_a_whole() -> None:
    estimator = Tracker()
    alone, together = (MeasurementBuffer(Bare(estimator, at_once), estimator.start(None)) for at_once in (0, 8))
    gathered = [reading(100.0 + 0.05 * number, "range", float(number)) for number in range(8)]
    # The next one leaves only the end of them within the lag; the one after it is late, and comes there.
    for batch in ([reading(99.99)], gathered, [reading(100.5, "range", 9.0)], [reading(100.32, "speed", 3.0)]):
        for one in batch:
            alone.add(one)
        together.add_all(batch, together.filtering.gathered(batch))
    assert as_bytes(together.flush().estimates) == as_bytes(alone.flush().estimates)
    assert repr(together.state) == repr(alone.state)
