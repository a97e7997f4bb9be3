"""Pipeline: what is refused, what is counted, and how a filter that broke down goes on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tracking import CHANNELS, COMMAND, Tracked, Tracker, as_bytes, pipeline_of, reading

from onboard_estimation.base.measurement import Estimate, Measurement, Notice, PhaseEvent
from onboard_estimation.filtering.moments import Moments
from onboard_estimation.pipeline.estimator import SensorsRefused, Step
from onboard_estimation.pipeline.pipeline import Pipeline


class Fragile(Tracker):
    """Does on readings of `sonar` what its value says."""

    def step(self, state: Tracked, measurement: Measurement) -> Step:
        step = super().step(state, measurement)
        if measurement.sensor != "sonar":
            return step
        fault = measurement.value[0]
        mean, covariance = step.state.moments
        if fault == 2.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite.")
        if fault == 3.0:
            mean = np.array([np.nan, 0.0])
        if fault == 5.0:
            covariance = np.array([[1.0, 2.0], [2.0, 1.0]])  # variances positive, an eigenvalue of -1
        state = step.state._replace(moments=Moments(mean, covariance))
        return Step(state, Estimate(measurement.stamp_ns, mean, covariance), step.innovation)


def readings(seconds: float = 2.0) -> list[Measurement]:
    rng = np.random.default_rng(3)
    out = []
    for k in range(round(20 * seconds)):
        out += [reading(0.05 * k, "range", 0.1 * rng.normal()), reading(0.05 * k + 0.01, "speed", 0.2 * rng.normal())]
    return out


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (2.0, "Matrix is not positive definite."),
        (3.0, "the state is not finite"),
        (5.0, "smallest eigenvalue -1"),
    ],
)
def test_breakdown_puts_the_filter_back_and_says_why(fault: float, reason: str) -> None:
    clean = readings()
    dirty = [*clean[:22], reading(0.52, "sonar", fault), *clean[22:]]
    told: list[str] = []
    pipeline, untouched = pipeline_of(Fragile(), tell=told.append), pipeline_of(Tracker())
    for measurement in clean[:22]:
        pipeline.process(measurement)
        untouched.process(measurement)
    assert pipeline.process(dirty[22]) is None
    for measurement in clean[22:]:
        estimate, expected = pipeline.process(measurement), untouched.process(measurement)
        assert as_bytes([estimate]) == as_bytes([expected])
    assert pipeline.breakdowns == 1
    assert len(told) == 1
    assert told[0].startswith("filter broke down on sonar at 0.520000 s, back to its last good state: ")
    assert told[0].endswith(reason)
    row = pipeline.statistics()["sonar"]
    assert (row["received"], row["used"], row["breakdowns"]) == (1, 0, 1)
    # The record has no estimate there.
    assert as_bytes(pipeline_of(Fragile()).run(dirty)) == as_bytes(pipeline_of(Tracker()).run(clean))


def test_state_that_a_command_spoilt_unseen_is_not_kept_for_ever() -> None:
    """The command gives no estimate, so nobody sees that the prediction to it ran away."""

    class Spoilt(Tracker):
        def step(self, state: Tracked, measurement: Measurement) -> Step:
            step = super().step(state, measurement)
            if measurement.sensor == COMMAND and measurement.value[0] == 7.0:
                spoilt = Moments(np.array([np.nan, np.nan]), step.state.moments.covariance)
                return Step(step.state._replace(moments=spoilt))
            return step

    pipeline = pipeline_of(Spoilt())
    for measurement in readings(1.0):
        pipeline.process(measurement)
    pipeline.process(reading(1.0, COMMAND, 7.0))
    estimates = [pipeline.process(reading(1.0 + 0.05 * k)) for k in range(10)]
    assert [estimate is None for estimate in estimates] == [True, True] + 8 * [False]
    assert pipeline.breakdowns == 2


def test_programming_errors_are_not_taken_for_breakdowns() -> None:
    with pytest.raises(KeyError):
        pipeline_of(Tracker()).process(reading(0.0, "lidar"))


def test_statistics_count_what_happened_to_every_sensor() -> None:
    """Twenty hertz and one odd reading; the mean NIS of drawn readings is one per degree of freedom."""
    rng = np.random.default_rng(4)
    pipeline = pipeline_of(Tracker(gate_probability=0.999, recover_after=3))
    velocity = position = 0.0
    for k in range(4000):
        position += 0.05 * velocity
        velocity += np.sqrt(0.05 * 1e-2) * rng.normal()
        pipeline.process(reading(0.05 * k, "range", position + 0.1 * rng.normal()))
        if k % 4 == 0:
            pipeline.process(reading(0.05 * k + 0.02, "speed", velocity + 0.2 * rng.normal()))
            pipeline.process(reading(0.05 * k + 0.02, "speed", velocity))
    pipeline.process(reading(200.0, "range", 1e3))
    statistics = pipeline.statistics()
    assert list(statistics) == ["range", "speed"]
    assert statistics["range"]["rate_hz"] == pytest.approx(20.0, rel=1e-9)
    assert statistics["speed"]["rate_hz"] == pytest.approx(5.0, rel=1e-9)
    assert statistics["speed"]["duplicates"] == 1000
    assert 1 <= statistics["range"]["gated"] <= 12
    assert statistics["range"]["mean_nis"] == pytest.approx(1.0, abs=0.1)  # the odd one is counted beside
    assert abs(statistics["range"]["mean_innovation_sigma"]) < 0.1
    assert statistics["speed"]["mean_nis"] < 1.1
    for k in range(2):
        pipeline.process(reading(200.05 + 0.05 * k, "range", 1e3))
    assert pipeline.statistics()["range"]["recoveries"] == 1


def test_rate_is_that_of_the_clock_in_force() -> None:
    """Neither a stray stamp, nor an earlier pass of the recording, nor a pause before a restart enters the rate."""
    pipeline = pipeline_of(Tracker())
    for k in range(100):
        pipeline.process(reading(1000.0 + 0.1 * k))
    pipeline.process(reading(1e9))
    assert pipeline.statistics()["range"]["rate_hz"] == pytest.approx(10.0)
    for k in range(100):
        pipeline.process(reading(0.02 * k))
    assert pipeline.statistics()["range"]["rate_hz"] == pytest.approx(50.0)
    assert pipeline.clock_jumps == 1
    single = pipeline_of(Tracker())
    single.process(reading(0.0))
    assert np.isnan(single.statistics()["range"]["rate_hz"])


def test_what_comes_before_the_start_is_left_out_and_the_newest_command_of_then_acts() -> None:
    """Whatever the order of arrival: as if the command had come at the start."""
    start = Estimate(1_000_000_000, np.array([1.0, 0.5]), np.diag([0.1, 0.1]))
    early = [reading(0.2, COMMAND, 5.0), reading(0.4, "range", 9.0), reading(0.9, COMMAND, 0.3), reading(0.99, "speed")]
    later = [reading(1.0 + 0.1 * k, "range", 1.0 + 0.05 * k) for k in range(10)]
    told = pipeline_of(Tracker(), initial=start)
    expected = as_bytes(told.run([reading(1.0, COMMAND, 0.3), *later]))
    for arriving in ([*early, *later], [early[2], early[0], later[0], early[3], early[1], *later[1:]]):
        pipeline = pipeline_of(Tracker(), initial=start, lag_s=0.9)
        assert as_bytes(pipeline.run(arriving)) == expected
        statistics = pipeline.statistics()
        assert statistics["range"]["left_out"] == statistics["speed"]["left_out"] == 1
        assert (statistics[COMMAND]["left_out"], statistics[COMMAND]["used"]) == (1, 1)


def test_a_sensor_that_is_switched_off_is_as_if_it_were_silent() -> None:
    pipeline = pipeline_of(Tracker())
    for measurement in readings():
        pipeline.set_enabled("speed", measurement.stamp_ns >= 1_000_000_000)
        pipeline.process(measurement)
    silent = [one for one in readings() if one.sensor == "range" or one.stamp_ns >= 1_000_000_000]
    expected = pipeline_of(Tracker())
    for measurement in silent:
        expected.process(measurement)
    assert pipeline.state.moments.mean.tobytes() == expected.state.moments.mean.tobytes()
    assert pipeline.statistics()["speed"]["left_out"] == 20
    for sensor in (COMMAND, "lidar"):
        with pytest.raises(ValueError, match=f"no sensor '{sensor}'; there are range, sonar, speed"):
            pipeline.set_enabled(sensor, False)


def test_sensors_that_cannot_be_right_are_refused_once_and_then_left_out() -> None:
    class Picky(Tracker):
        def step(self, state: Tracked, measurement: Measurement) -> Step:
            if measurement.value[0] > 7.0:
                raise SensorsRefused(f"range reads {measurement.value[0]:.2f} m: range and sonar are swapped")
            return super().step(state, measurement)

    pipeline = pipeline_of(Picky())
    assert pipeline.refusal is None
    pipeline.run([reading(0.1 * k, "range", 0.0 if k < 8 else 8.0) for k in range(20)])
    said = "range reads 8.00 m: range and sonar are swapped"
    assert pipeline.refusal == said
    assert pipeline.messages == [said]
    row = pipeline.statistics()["range"]
    assert (row["used"], row["breakdowns"], row["left_out"]) == (8, 1, 11)
    for jump in range(1, 5):  # a clock that jumps back and forth
        for k in range(20):
            pipeline.process(reading(100.0 * (jump % 2) + 0.1 * k, "range", 8.0 + 0.1 * jump))
    assert pipeline.clock_jumps > 2
    assert sum("swapped" in one for one in pipeline.messages) == 1
    pipeline.reset()  # who asks anew is told anew
    pipeline.process(reading(0.1, "range", 9.0))
    assert sum("swapped" in one for one in pipeline.messages) == 2


def test_notices_are_told_once_and_events_are_those_of_the_settled_record() -> None:
    """However often a roll-back sees them again; live, the host sorts out what it has told."""

    class Hopping(Tracker):
        def step(self, state: Tracked, measurement: Measurement) -> Step:
            step = super().step(state, measurement)
            stamp = measurement.stamp_ns
            if measurement.sensor != "sonar":
                return step
            late = Notice(f"sonar at {stamp}"), PhaseEvent("touchdown", stamp - 10, stamp, 0.01, 1)
            return step._replace(events=late)

    arriving = [reading(0.0), reading(0.2, "sonar"), reading(0.1), reading(0.3), reading(0.15, "sonar")]
    pipeline = pipeline_of(Hopping())
    pipeline.run(arriving)
    assert [event.seen_ns for event in pipeline.events] == [150_000_000, 200_000_000]
    live = pipeline_of(Hopping())
    for measurement in arriving:
        live.process(measurement)
    assert {event.seen_ns for event in live.take_events()} == {150_000_000, 200_000_000}
    assert live.take_events() == []
    assert live.messages == ["sonar at 200000000", "sonar at 150000000"]


def test_the_same_notice_with_other_times_in_it_is_told_every_few_seconds_only() -> None:
    """An IMU that falls silent again and again would fill the screen; another's silence is news."""

    class Silent(Tracker):
        def step(self, state: Tracked, measurement: Measurement) -> Step:
            at_s = measurement.stamp_ns / 1e9
            told = tuple(Notice(f"link_{link} is silent at {at_s:.2f} s") for link in (1, 2) if link == 1 or at_s > 3.0)
            return super().step(state, measurement)._replace(events=told)

    pipeline = pipeline_of(Silent())
    pipeline.run([reading(0.1 * k) for k in range(1, 71)])
    assert pipeline.messages == [
        "link_1 is silent at 0.10 s",
        "link_2 is silent at 3.10 s",
        "link_1 is silent at 5.10 s",
    ]


def test_innovations_that_contradict_for_seconds_are_told_once_an_episode() -> None:
    """However often a roll-back filters their readings again; the gate refuses them all the while."""
    rng = np.random.default_rng(4)
    arriving: list[tuple[float, Measurement]] = []
    for k in range(1200):
        time_s = 0.025 * k
        wrong = 8.0 if 8.0 <= time_s < 20.0 else 0.0
        arriving += [(time_s, reading(time_s, "range", 0.1 * rng.normal()))]
        arriving += [(time_s + 0.12 * (k % 3), reading(time_s, "sonar", wrong + 0.5 * rng.normal()))]
    channels = [replace(one, remedy=f"look at {one.sensor}") for one in CHANNELS]
    pipeline = Pipeline(Tracker(recover_after=0), channels, lag_s=0.3)
    measurements = [one for _, one in sorted(arriving, key=lambda pair: pair[0])]
    for measurement in measurements:
        pipeline.process(measurement)
    (sentence,) = pipeline.messages
    assert sentence.startswith("sonar contradicts the filter: in the 5 s up to 10.")
    assert "to one side (mean +" in sentence
    assert sentence.endswith(": look at sonar")
    assert pipeline.statistics()["range"]["gated"] < 20
