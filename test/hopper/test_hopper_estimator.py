"""The hopper from messages to estimates: samples, readings, and whole recordings against one message at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hopper_samples_for_tests import (
    CONFIGURATION,
    GRAVITY,
    HIGH,
    LOW,
    ROBOT,
    STANDING_M,
    arriving_late,
    every,
    hopping,
    loaded,
    plain_model,
    rows_of,
    series_of,
)
from scipy.spatial.transform import Rotation

from hopper_estimation.estimators import readings_kernels as readings
from hopper_estimation.estimators.samples import NOMINAL_DT_S, SAMPLE, nothing_arrived, take, taken_of
from hopper_estimation.model import phases
from hopper_estimation.model.configuration import (
    ATTITUDE,
    COMMANDED_HEIGHT,
    HIGH_G,
    LEG,
    LOW_G,
    MOTORS,
    limited_channels,
)
from onboard_estimation.base.measurement import Block, Channel, Estimate, Measurement, filter_order
from onboard_estimation.base.series import Recording, Series, set_pose_channel
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import estimator_name
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.replay import at_once, replay
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.phases import NewEvents

# ----------------------------------------------------------------------------------------------------------- samples


CHANNELS = limited_channels(CONFIGURATION)
ORDER = filter_order(CHANNELS)


def ordered(series: Sequence[Series]) -> Iterator[Measurement]:
    """All messages in the order in which a pipeline filters them."""
    messages = [
        Measurement(int(stamp), one.channel.sensor, value)
        for one in series
        for stamp, value in zip(one.stamps_ns, one.values, strict=True)
    ]
    return iter(sorted(messages, key=lambda one: (one.stamp_ns, ORDER[one.sensor])))


def one_by_one(series: Sequence[Series]) -> tuple[Any, Any, Any]:
    """Samples of messages that come one after another; signals and stamps."""
    arrived, readings_state, settings = (
        nothing_arrived(),
        readings.new_state(),
        readings.reading_settings(CONFIGURATION),
    )
    raw, signals, stamps_ns = [], [], []
    for message in ordered(series):
        taken = take(settings, arrived, readings_state, Block.of([message]))
        if len(taken.signals):
            raw.append(arrived.copy())
            signals.append(taken.signals)
            stamps_ns.append(taken.stamps_ns)
    assert raw
    return np.concatenate(raw), np.concatenate(signals), np.concatenate(stamps_ns)


def test_what_goes_into_a_sample() -> None:
    step = 2_000_000

    def at(channel: Channel, *stamped: tuple[int, list[float]]) -> Series:
        stamps, values = zip(*stamped, strict=True)
        return Series(channel, np.array(stamps, dtype=np.int64), np.array(values, dtype=np.float64))

    low = [(n * step, [0.0, 0.0, 0.0, 0.0, 0.0, float(n)]) for n in (0, 1, 2, 20, 21)]
    high = [(n * step, [0.0, 0.0, 0.0, 0.0, 0.0, 100.0 + n]) for n in range(22) if n != 1]
    series = [
        at(LOW_G, *low),
        at(HIGH_G, *high),
        at(COMMANDED_HEIGHT, (step, [0.0, 0.0, 3.0])),
        at(MOTORS, (2 * step, [0.5, 0.5, 0.5, 0.5])),
        at(LEG, (step + 1, [0.01])),
        at(ATTITUDE, (2 * step, [np.sin(0.1), 0.0, 0.0, np.cos(0.1)])),
    ]
    found, signals, stamps_ns = one_by_one(series)
    at_once_made, _ = taken_of(CONFIGURATION, series)
    assert at_once_made.signals.tobytes() == signals.tobytes()
    # The low-g sensor is silent after 2 and back at 20; beyond 10 ms, so after 7, the other goes on alone.
    numbers = stamps_ns // step
    assert numbers.tolist() == [0, 1, 2, *range(8, 20), 20, 21]
    # At 20 the high-g reading was a sample before the low-g one of the same stamp came: time goes on by one step.
    assert found["has"].tolist() == [3, 1, 3, *[2] * 12, 2, 3]
    assert found["dt"][0] == NOMINAL_DT_S
    np.testing.assert_allclose(found["dt"][1:], np.diff(stamps_ns) * 1e-9)
    assert np.isnan(found["goal"][0])
    assert found["goal"][1:].tolist() == [3.0] * 16
    full = CONFIGURATION.rotors.full_thrust_weights * GRAVITY
    np.testing.assert_allclose(found["thrust"], [np.nan, np.nan, *[0.25 * full] * 15])
    assert np.flatnonzero(np.isfinite(found["leg"])).tolist() == [2]
    np.testing.assert_allclose(found["up"][2], Rotation.from_rotvec([0.2, 0.0, 0.0]).inv().apply([0.0, 0.0, 1.0]))
    assert np.isnan(np.delete(found["up"], 2, axis=0)).all()


# ---------------------------------------------------------------------------------------------------------- readings


REST = 900
"""Samples: longer than it takes to zero the sensors."""


def read(low: Any, high: Any = None, up: Any = None) -> tuple[Any, Any]:
    """Signals of samples at the nominal rate, and the state after them; rows of NaN: nothing was read."""
    made, high = np.zeros(len(low), SAMPLE), np.full(np.shape(low), np.nan) if high is None else high
    made["dt"], made["up"] = NOMINAL_DT_S, np.nan if up is None else up
    made["has"] = np.isfinite(low[:, 0]) + 2 * np.isfinite(high[:, 0])
    made["low"], made["high"] = np.nan_to_num(low), np.nan_to_num(high)
    state, settings = readings.new_state(), readings.reading_settings(CONFIGURATION)
    signals = np.zeros(len(made), phases.SIGNAL)
    for sample, signal in zip(made, signals, strict=True):
        readings.read(settings[0], state[0], sample, signal)
    return signals, state


def standing(count: int) -> Any:
    """(count, 6) readings of a level board at rest; no sensor says the same twice."""
    out = np.zeros((count, 6))
    out[:, 5], out[::2, 3] = GRAVITY, 1e-9
    return out


def test_a_board_that_turns_reads_the_vertical_acceleration_whatever_it_was_zeroed_of() -> None:
    """Turns by SciPy's rotations; a gyro that was wrong for a while is mended by an attitude; a second rest counts."""
    rng = np.random.default_rng(0)
    count, turning = 3000, slice(REST, 2100)
    low = standing(count)
    low[turning, :3] = 2.0 * rng.normal(size=(1200, 3))
    world = np.tile([0.0, 0.0, GRAVITY], (count, 1))
    world[turning] += rng.normal(size=(1200, 3)) * [10.0, 10.0, 30.0]
    attitude = [Rotation.identity()] * REST
    for rate in low[turning, :3]:
        attitude.append(attitude[-1] * Rotation.from_rotvec(rate * NOMINAL_DT_S))
    low[turning, 3:] = Rotation.concatenate(attitude[REST:]).inv().apply(world[turning])
    high = low.copy()
    up = np.full((count, 3), np.nan)
    for row in (REST, 1300, 1700):  # often enough that up is not drawn to where the random forces point
        up[row] = attitude[row].inv().apply([0.0, 0.0, 1.0])
    low[1600:1700, 1] += 5.0
    low += [0.02, -0.01, 0.03, 0.2, -0.3, 0.25]
    high += [0.0, 0.0, 0.0, 3.0, -4.0, 5.0]
    low[2100:, 3:] += 0.1
    signals, state = read(low, high, up)
    vertical = world[:, 2] - GRAVITY
    for name in ("low", "high"):
        known = np.r_[REST - 100 : 1600, 1700:2100]
        np.testing.assert_allclose(signals[name][known], vertical[known], atol=1e-5)
        assert np.abs(signals[name] - vertical)[1620:1700].max() > 1.0, "nothing was to be mended"
    np.testing.assert_allclose(state["low"][0], [0.3, -0.2, 0.35], atol=1e-6)
    np.testing.assert_allclose(state["high"][0], [3.0, -4.0, 5.0], atol=1e-6)
    assert np.abs(signals["low"][-100:]).max() < 1e-5


def test_readings_that_are_clipped_stuck_or_missing_are_marked() -> None:
    sensors, both = CONFIGURATION.sensors, phases.LOW_USABLE | phases.HIGH_USABLE
    low, high, expected = standing(500), standing(500), np.full(500, both)
    low[10, 5], high[20, 5] = -sensors.low_range_m_s2, 0.995 * sensors.high_range_m_s2
    expected[10], expected[20] = phases.LOW_CLIPPED | phases.HIGH_USABLE, phases.LOW_USABLE
    for reading, first, other in ((low, 100, phases.HIGH_USABLE), (high, 200, phases.LOW_USABLE)):
        reading[first : first + 61] = reading[first]
        expected[first + sensors.stuck_readings : first + 61] = other
    high[300:350] = np.nan
    due = int(sensors.silent_s / NOMINAL_DT_S)
    expected[300 : 300 + due], expected[300 + due : 350] = phases.LOW_USABLE | phases.HIGH_DUE, phases.LOW_USABLE
    low[400:410] = np.nan
    expected[400:410] = phases.HIGH_USABLE
    np.testing.assert_array_equal(read(low, high)[0]["usable"], expected)


def test_a_smooth_climb_is_no_rest_to_zero_at() -> None:
    low = standing(3 * REST)
    low[REST:, 5] -= 1.3
    low[REST : REST + 2, 5] += 9.0
    assert abs(read(low)[1]["low"][0, 2]) < 1e-9


@pytest.mark.parametrize(
    ("wrong", "rise", "fall", "back_after"),
    [(10, 1.0, 1.0, 0), (10, 1.7, 0.1, 0), (2, 2.5, 2.5, 4), (2, -1.0, -1.0, 3)],
)
def test_a_high_g_sensor_is_left_out_after_two_shocks_that_contradict_and_is_back_after_some_that_do_not(
    wrong: int, rise: float, fall: float, back_after: int
) -> None:
    """Not amid a stance; of a sensor that only lags, as a stiff leg shows, rise and fall cancel."""
    low, ratio = np.zeros((10, 70, 6)), np.ones((10, 70, 1))
    low[:, :10, 5], low[:, ::2, 3] = 100.0, 1e-6
    ratio[:wrong, :6], ratio[:wrong, 6:10] = rise, fall
    usable = read(low.reshape(-1, 6), (low * ratio).reshape(-1, 6))[0]["usable"]
    left_out = np.flatnonzero(usable & phases.HIGH_USABLE == 0)
    assert np.unique(left_out // 70).tolist() == [*range(1, 2 + back_after)] if back_after else not len(left_out)
    assert np.all(np.diff(left_out) == 1)
    assert np.all(left_out[:1] % 70 > 40)
    assert np.all(usable & phases.LOW_USABLE)


# ------------------------------------------------------------------------------------------- recordings and pipelines


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hopper_model") / "plain.json"
    plain_model().save(path)
    return path


@pytest.fixture(scope="session")
def configuration(model_file: Path) -> Any:
    return replace(CONFIGURATION, filter_model=str(model_file))


@pytest.fixture(scope="session")
def short() -> Recording:
    """A rest and two hops, without the flight up to the first drop; slow sensors are thinned out."""
    thinned = {"motors/command": 10, "imu/attitude": 7, "leg/state": 6}

    def joined(one: Series) -> Series:
        kept = rows_of(lambda t: ((t > 0.9) & (t < 2.0)) | (t > 5.5))(every(thinned.get(one.channel.sensor, 1))(one))
        return replace(kept, stamps_ns=kept.stamps_ns - 3_400_000_000 * (kept.stamps_ns > 5_000_000_000))

    whole = hopping("1m", 8.8)
    return Recording(tuple(joined(one) for one in whole.sensors), tuple(joined(one) for one in whole.truth))


def start_of(recording: Recording) -> Estimate:
    """A state a little after the first messages: those before are left out."""
    stamp_ns = int(series_of(recording, LOW).stamps_ns[40])
    return Estimate(stamp_ns, np.array([STANDING_M + 0.01, -0.02]), np.diag([0.01**2, 0.05**2]))


def both_ways(configuration: Any, name: str, recording: LoadedRecording, initial: Estimate | None, lag_s: float = 0.05):
    """The record at once and message by message, which must be the same; the first of them."""
    estimator = ROBOT.estimator(configuration, estimator_name(ROBOT, name))
    pipeline = Pipeline(estimator, CHANNELS, initial, lag_s)
    assert at_once(pipeline, recording, lag_s, CHANNELS) is not None, "not filtered at once: nothing is compared"
    found = replay(ROBOT, configuration, name, recording, initial, lag_s)
    slow = replay(ROBOT, configuration, name, recording, initial, lag_s, bulk=False)
    np.testing.assert_array_equal(found.record.stamps_ns, slow.record.stamps_ns)
    np.testing.assert_array_equal(found.record.means, slow.record.means)
    np.testing.assert_array_equal(found.record.covariances, slow.record.covariances)
    assert found.events == slow.events
    np.testing.assert_equal(found.sensors, slow.sensors)
    return found


@pytest.mark.parametrize("name", ["bounce", "kf1"])
def test_over_changing_ground_at_once_is_message_by_message_and_late_within_the_lag_is_in_time(
    name: str, configuration: Any, short: Recording
) -> None:
    """Each sensor late by its own changes no bit of the record; on level ground `check_robot` says so."""
    configuration = replace(configuration, ground_changes=True)
    late = arriving_late(short, {HIGH: 0.003, "imu/attitude": 0.02, LOW: 0.0015, "motors/command": 0.01})
    found = both_ways(configuration, name, late, start_of(short), lag_s=0.03)
    assert found.sensors[HIGH]["late"] > 100
    assert found.sensors[LOW]["left_out"] == 40
    assert found.sensors["set_pose"]["used"] == 1
    in_time = replay(ROBOT, configuration, name, loaded(short), start_of(short), 0.03)
    np.testing.assert_array_equal(found.record.means, in_time.record.means)
    assert found.events == in_time.events


def test_a_touchdown_is_told_where_changing_ground_was_found(configuration: Any, short: Recording) -> None:
    found, level = (
        replay(ROBOT, replace(configuration, ground_changes=changes), "bounce", loaded(short), None, 0.05)
        for changes in (True, False)
    )
    ground = found.record.means[:, 0] - level.record.means[:, 0]
    assert np.ptp(ground) > 0.0
    for event in found.events:
        if event.name == "touchdown":  # the leg extended
            row = int(np.searchsorted(found.record.stamps_ns, event.seen_ns))
            assert event.height_m == pytest.approx(STANDING_M + ground[row], abs=2e-3)


def test_ground_that_steps_is_followed_and_what_adds_up_is_said(configuration: Any) -> None:
    """Robots on boards of 4 cm, drawn anew from hop to hop; heights above the ground of the start."""
    configuration = replace(configuration, ground_changes=True)
    within, errors_m, stddevs_m = [], [], []
    for seed in range(340, 343):
        recording = simulated_recording(ROBOT, configuration, "uneven", "mixed", 35.0, seed)
        height = judge(ROBOT, configuration, "bounce", recording).parts["height"]
        known = np.isfinite(height.error[:, 0])
        error, stddev = height.error[known, 0], height.stddev[known, 0]
        within.append(np.mean(np.abs(error) < 3.0 * stddev))
        errors_m.append(abs(np.median(error[-2000:])))
        stddevs_m.append(np.median(stddev[-2000:]))
    assert min(within) > 0.9
    assert np.mean(within) > 0.97
    assert np.median(errors_m) < 0.35
    assert 0.1 < np.median(stddevs_m) < 1.0


def test_with_poses_set_on_the_way(configuration: Any, short: Recording) -> None:
    """In flight, one with the stamp of a reading, one that knows nothing of the height, and one before the start."""
    low = series_of(short, LOW)
    known = series_of(short, "set_pose").values[0]
    unknown = known.copy()
    unknown[7 + 14] = 1e6
    stamps = [int(low.stamps_ns[k]) + 500 * (k == 2500) for k in (20, 1500, 2500, 3000)]
    values = np.array([known, known, known, unknown])
    values[:3, 2] = [5.0, 2.0, 1.5]
    poses = Series(set_pose_channel(), np.array(stamps), values)
    several = Recording((*(one for one in short.sensors if one.channel.sensor != "set_pose"), poses), short.truth)
    found = both_ways(configuration, "kf1", loaded(several), start_of(short))
    at = np.searchsorted(found.record.stamps_ns, stamps)
    heights = found.record.means[:, 0]
    # A pose holds from the reading of its own stamp on, of which the filter has a step to predict.
    assert heights[at[1]] == pytest.approx(2.0, abs=0.01)
    assert heights[at[2]] == pytest.approx(1.5, abs=0.01)
    assert abs(heights[at[3]] - heights[at[3] - 1]) < 0.05
    assert found.sensors["set_pose"]["left_out"] == 1


def test_live_decisions_are_the_offline_ones(configuration: Any, short: Recording) -> None:
    """As a node tells them: at once, each once, in the same order and within two samples, though sensors come late."""
    offline = replay(ROBOT, configuration, "bounce", loaded(short), None, 0.03)
    assert len(offline.events) >= 7
    pipeline, new = Pipeline(ROBOT.estimator(configuration, "bounce"), CHANNELS, lag_s=0.03), NewEvents()
    told: list[Any] = []
    for measurement in arriving_late(short, {HIGH: 0.002, "imu/attitude": 0.01}).measurements():
        pipeline.process(measurement)
        told += new(pipeline.take_events())
    assert [event.name for event in told] == [event.name for event in offline.events]
    apart_s = [abs(a.seen_ns - b.seen_ns) * 1e-9 for a, b in zip(told, offline.events, strict=True)]
    assert max(apart_s) <= 2.0 * NOMINAL_DT_S + 1e-6, apart_s


def test_events_are_told_when_they_happened_not_when_they_were_seen(configuration: Any, short: Recording) -> None:
    events = replay(ROBOT, configuration, "kf1", loaded(short), None, 0.05).events
    delays = {(event.name, event.seen_ns - event.stamp_ns) for event in events}
    told = {"touchdown": 8_000_000, "max_squat": 4_000_000, "liftoff": 6_000_000, "apex": 1_000_000}
    assert delays == set(told.items())
