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
    changed,
    hopping,
    loaded,
    plain_model,
    rows_of,
    series_of,
)
from scipy.spatial.transform import Rotation

from hopper_estimation.estimators import readings_kernels as readings
from hopper_estimation.estimators.estimator import Ground
from hopper_estimation.estimators.samples import (
    KINDS,
    NOMINAL_DT_S,
    SAMPLE,
    messages_of,
    nothing_arrived,
    take,
    taken_of,
)
from hopper_estimation.model import phases
from hopper_estimation.model.phases import DROP, PHASES, STARTUP
from hopper_estimation.model.topics import (
    ATTITUDE,
    COMMANDED_HEIGHT,
    HIGH_G,
    LEG,
    LOW_G,
    MOTOR_COUNT,
    MOTORS,
    limited_channels,
)
from hopper_estimation.training.trials import trial_of
from onboard_estimation.base.measurement import IMU, Channel, Estimate, Measurement, PhaseEvent, filter_order
from onboard_estimation.base.series import Recording, Series, set_pose_channel
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.robot import estimator_name
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.replay import at_once, replay
from onboard_estimation.judging.simulated_bags import simulated_recording
from onboard_estimation.pipeline.estimator import FilterBreakdown
from onboard_estimation.pipeline.pipeline import Pipeline
from onboard_estimation.ros.phases import NewEvents

# ----------------------------------------------------------------------------------------------------------- samples


CHANNELS = limited_channels(CONFIGURATION)
ORDER = filter_order(CHANNELS)


def test_measurements_with_one_stamp_come_in_the_order_of_the_channels() -> None:
    """Commands first, the readings that decide on a sample last; a recording's samples are made in the same order."""
    assert ORDER["set_pose"] < ORDER[ATTITUDE.sensor] < ORDER[LEG.sensor] < ORDER[HIGH_G.sensor] < ORDER[LOW_G.sensor]
    assert {channel.sensor for channel in CHANNELS if channel.command} == {MOTORS.sensor, COMMANDED_HEIGHT.sensor}
    assert sorted(ORDER[channel.sensor] for channel in KINDS) == [ORDER[channel.sensor] for channel in KINDS]


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
        taken = take(settings, arrived, readings_state, messages_of([message]))
        if len(taken.signals):
            raw.append(arrived.copy())
            signals.append(taken.signals)
            stamps_ns.append(taken.stamps_ns)
    assert raw
    return np.concatenate(raw), np.concatenate(signals), np.concatenate(stamps_ns)


def random_series(rng: np.random.Generator, channel: Channel, rate_hz: float, width: int, grid: bool) -> Series:
    """Two seconds of a sensor, with gaps of up to 60 ms; on a grid of 1/840 s, where stamps coincide, or off it."""
    time_s = np.arange(rng.uniform(0.0, 0.2), 2.0, 1.0 / rate_hz)
    time_s += 0.0 if grid else 1e-4 * rng.normal(size=len(time_s))
    for start in rng.uniform(0.0, 2.0, size=rng.integers(0, 4)):
        time_s = time_s[(time_s < start) | (time_s > start + rng.uniform(0.002, 0.06))]
    stamps = np.round(time_s * 840.0) / 840.0 if grid else time_s
    stamps_ns = np.unique(np.round(stamps * 1e9).astype(np.int64))
    values = rng.normal(size=(len(stamps_ns), width))
    if channel is ATTITUDE:
        values /= np.linalg.norm(values, axis=1, keepdims=True)
    return Series(channel, stamps_ns, values)


@pytest.mark.parametrize("seed", range(12))
def test_one_message_at_a_time_makes_the_samples_of_the_whole_recording(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = bool(seed % 2)
    series = [
        random_series(rng, LOW_G, 840.0, 6, grid),
        random_series(rng, HIGH_G, rng.choice([210.0, 840.0, 1600.0]), 6, grid),
        random_series(rng, ATTITUDE, rng.choice([50.0, 200.0]), 4, grid),
        random_series(rng, LEG, 500.0, 1, grid),
        random_series(rng, MOTORS, 400.0, MOTOR_COUNT, grid),
        random_series(rng, COMMANDED_HEIGHT, 3.0, 3, grid),
    ]
    # Whole sensors are missing, too: of the two accelerometers one at most.
    missing = rng.choice([-1, 0, 1, 2, 3, 4, 5], size=2)
    series = [one for number, one in enumerate(series) if number not in missing or number == 1 - missing[0]]
    rng.shuffle(series)  # type: ignore[arg-type]
    at_once_made, _ = taken_of(CONFIGURATION, series)
    _, signals, stamps_ns = one_by_one(series)
    assert at_once_made.signals.tobytes() == signals.tobytes()
    np.testing.assert_array_equal(at_once_made.stamps_ns, stamps_ns)
    assert np.all(at_once_made.signals["dt"] > 0.0)
    assert np.all(np.diff(at_once_made.stamps_ns) > 0)


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


class PlainReadings:
    """The readings of `readings_kernels` in plain Python, with SciPy's rotations."""

    def __init__(self) -> None:
        self.turned = Rotation.identity()
        self.up = np.array([0.0, 0.0, 1.0])
        self.low_offset, self.high_offset, self.gyro_offset = np.zeros(3), np.zeros(3), np.zeros(3)
        self.rest: list[tuple[float, Any, Any]] = []
        self.equal = {"low": 0, "high": 0}
        self.last: dict[str, list[float]] = {}
        self.high_silent_s = np.inf
        self.shocks = np.zeros(3)  # compared, too small, too large
        self.at_odds = self.at_odds_at_rest = self.turns = False

    def compare(self, low: float, high: float) -> None:
        if self.at_odds_at_rest:
            return
        if self.turns and abs(low) < 5.0:
            self.at_odds, self.turns = not self.at_odds, False
        if not 50.0 < low < 0.9 * CONFIGURATION.sensors.low_range_m_s2:
            return
        self.shocks += [1.0, high / low < 0.6, high / low > 1.6]
        if self.shocks[0] < 24.0:
            return
        outside = max(self.shocks[1:]) / self.shocks[0]
        if outside < 0.35 if self.at_odds else outside > 0.5:
            self.turns, self.shocks = True, np.zeros(3)
        elif self.at_odds or self.shocks[0] >= 96.0:
            self.shocks /= 2.0

    def still(self, low: Any) -> bool:
        if not self.rest:
            return True
        mean = np.mean([one for _, one, _ in self.rest], axis=0)
        limit = 3.0 * CONFIGURATION.sensors.rest_rate_rad_s
        return bool(np.all(np.abs(low[3:] - mean[3:]) < 1.5) and np.all(np.abs(low[:3] - mean[:3]) < limit))

    def zero(self, dt: float, low: Any, high: Any) -> None:
        if low is None:
            return
        if not self.still(low):
            self.rest = []
            return
        self.rest.append((dt, low, high))
        if sum(one for one, _, _ in self.rest[1:]) < CONFIGURATION.sensors.rest_s:
            return
        mean = np.mean([one for _, one, _ in self.rest], axis=0)
        gravity = np.array([0.0, 0.0, GRAVITY])
        highs = [one[3:] for _, _, one in self.rest if one is not None]
        tilt = np.arccos(mean[5] / np.linalg.norm(mean[3:]))
        if tilt > np.deg2rad(CONFIGURATION.sensors.largest_tilt_deg):
            return
        if abs(np.linalg.norm(mean[3:]) - GRAVITY) > CONFIGURATION.sensors.low_offset_m_s2:
            return
        self.gyro_offset, self.low_offset = mean[:3], mean[3:] - gravity
        if highs:
            found = np.mean(highs, axis=0) - gravity
            near = np.abs(found) < CONFIGURATION.sensors.high_offset_m_s2
            self.at_odds_at_rest = self.at_odds_at_rest or not near[2]
            self.high_offset = np.where(near, found, self.high_offset)
        self.up = np.array([0.0, 0.0, 1.0])

    def stuck(self, name: str, reading: Any) -> bool:
        same = self.last.get(name) == reading[3:].tolist()
        self.equal[name] = self.equal[name] + 1 if same else 0
        self.last[name] = reading[3:].tolist()
        return self.equal[name] >= CONFIGURATION.sensors.stuck_readings

    def add(self, dt: float, low: Any, high: Any, up: Any) -> tuple[float, float, int]:
        """Vertical accelerations by both sensors (NaN: no reading) and which of them can be used."""
        sensors = CONFIGURATION.sensors
        low_stuck = low is not None and self.stuck("low", low)
        high_stuck = high is not None and self.stuck("high", high)
        if low is not None and not low_stuck:
            self.up = Rotation.from_rotvec((low[:3] - self.gyro_offset) * dt).inv().apply(self.up)
        if np.isfinite(up).all():
            self.up = up
        self.zero(dt, None if low_stuck else low, None if high_stuck else high)
        self.high_silent_s = 0.0 if high is not None else self.high_silent_s + dt
        usable, found = 0, [np.nan, np.nan]
        if low is not None:
            found[0] = float((low[3:] - self.low_offset) @ self.up - GRAVITY)
            if abs(low[5]) >= 0.99 * sensors.low_range_m_s2:
                usable |= phases.LOW_CLIPPED
            elif not low_stuck:
                usable |= phases.LOW_USABLE
        if high is not None:
            found[1] = float((high[3:] - self.high_offset) @ self.up - GRAVITY)
            if abs(high[5]) < 0.99 * sensors.high_range_m_s2 and not high_stuck:
                usable |= phases.HIGH_USABLE
        elif self.high_silent_s <= sensors.silent_s:
            usable |= phases.HIGH_DUE
        if usable & phases.LOW_USABLE and usable & phases.HIGH_USABLE:
            self.compare(low[5] - self.low_offset[2], high[5] - self.high_offset[2])
        if self.at_odds or self.at_odds_at_rest:
            usable &= phases.LOW_USABLE | phases.LOW_CLIPPED
        return found[0], found[1], usable


def compiled(samples: Any) -> tuple[Any, Any, Any]:
    state, settings = readings.new_state(), readings.reading_settings(CONFIGURATION)
    signals = np.zeros(len(samples), phases.SIGNAL)
    for sample, signal in zip(samples, signals, strict=True):
        readings.read(settings[0], state[0], sample, signal)
    return np.column_stack([signals["low"], signals["high"]]), signals["usable"], state


def samples_from(dt: Any, low: Any, high: Any, has: Any, up: Any) -> Any:
    """Of `SAMPLE`."""
    made = np.zeros(len(dt), SAMPLE)
    for name, column in (("dt", dt), ("low", low), ("high", high), ("has", has), ("up", up)):
        made[name] = column
    return made


def made_up_samples(seed: int, ratio: float = 1.0) -> Any:
    """Rest, tumbling with shocks beyond both ranges, an attitude sensor at times, a stuck sensor, and rest again.

    In shocks within both ranges the high-g sensor reads so many times what the other one does, with much noise.
    """
    rng = np.random.default_rng(seed)
    count = 3000
    rest = np.r_[np.ones(900), np.zeros(1200), np.ones(900)].astype(bool)
    rates = np.where(rest[:, None], [0.02, -0.01, 0.03], rng.normal(size=(count, 3)) * 2.0)
    low = np.column_stack([rates + 0.002 * rng.normal(size=(count, 3)), 0.1 * rng.normal(size=(count, 3))])
    low[:, 3:] += np.where(rest[:, None], [0.2, -0.3, GRAVITY + 0.25], rng.normal(size=(count, 3)) * [20, 20, 90])
    high = np.column_stack([np.zeros((count, 3)), 4.6 * rng.normal(size=(count, 3))])
    high[:, 3:] += np.where(rest[:, None], [3.0, -4.0, GRAVITY + 5.0], rng.normal(size=(count, 3)) * [50, 50, 900])
    shock = (low[:, 5] > 40.0) & (low[:, 5] < 150.0)
    high[shock, 5] = ratio * low[shock, 5] * rng.lognormal(0.0, 0.4, size=int(shock.sum()))
    low[:, 3:] = np.clip(low[:, 3:], -156.9, 156.9)
    high[:, 3:] = np.clip(high[:, 3:], -1961.0, 1961.0)
    low[1400:1500, 3:], high[1550:1650, 3:] = low[1400, 3:], high[1550, 3:]
    low[1400:1500, :3] = 0.0
    has = np.full(count, 3, dtype=np.uint8)
    has[rng.random(count) < 0.05] = 1
    has[1700:1760] = 2
    has[1800:1840] = 1
    low[has == 2], high[has == 1] = 0.0, 0.0
    up = np.full((count, 3), np.nan)
    told = rng.random(count) < 0.02
    told &= ~rest
    up[told] = Rotation.random(int(told.sum()), rng).apply([0.0, 0.0, 1.0])
    dt = rng.uniform(0.8, 1.2, size=count) / 840.0
    return samples_from(dt, low, high, has, up)


@pytest.mark.parametrize(("seed", "ratio", "at_odds"), [(0, 1.0, 0.0), (1, 1.0, 0.0), (2, 2.5, 1.0), (3, -1.0, 1.0)])
def test_readings_are_those_of_a_plain_implementation(seed: int, ratio: float, at_odds: float) -> None:
    samples = made_up_samples(seed, ratio)
    out, usable, state = compiled(samples)
    plain = PlainReadings()
    expected = []
    for one in samples:
        low, high = one["low"] if one["has"] & 1 else None, one["high"] if one["has"] & 2 else None
        expected.append(plain.add(float(one["dt"]), low, high, one["up"]))
    low, high, bits = (np.array(column) for column in zip(*expected, strict=True))
    np.testing.assert_array_equal(usable, bits)
    assert state["at_odds"][0] == at_odds
    seen, everything = set(np.unique(usable).tolist()), {0, 1, 2, 3, 4, 6, 8, 9, 12}
    assert seen < everything if at_odds else seen == everything
    for column, value in ((0, low), (1, high)):
        known = np.isfinite(value)
        np.testing.assert_allclose(out[known, column], value[known], rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(state["low"][0], plain.low_offset, atol=1e-9)
    np.testing.assert_allclose(state["high"][0], plain.high_offset, atol=1e-9)
    # The test is one only if the sensors were zeroed, and the second rest zeroed them anew.
    np.testing.assert_allclose(plain.high_offset, [3.0, -4.0, 5.0], atol=1.0)


def test_a_tilt_of_the_board_and_an_offset_are_zeroed() -> None:
    """A board that sits askew by 3 degrees reads the same vertical acceleration, once zeroed, to cosines."""
    count = 2000
    askew = Rotation.from_rotvec([0.05, -0.02, 0.0])
    force = np.zeros((count, 3))
    force[:, 2] = GRAVITY
    force[1000:, 2] += 50.0
    low = np.hstack([np.zeros((count, 3)), askew.apply(force) + np.array([0.3, -0.2, 0.5])])
    low[::2, 3] += 1e-9  # no sensor says the same twice
    dt = np.full(count, NOMINAL_DT_S)
    has = np.ones(count, dtype=np.uint8)
    samples = samples_from(dt, low, np.zeros((count, 6)), has, np.full((count, 3), np.nan))
    out, usable, state = compiled(samples)
    assert np.all(usable == phases.LOW_USABLE)
    np.testing.assert_allclose(out[700:1000, 0], 0.0, atol=1e-9)
    np.testing.assert_allclose(out[1000:, 0], 50.0, atol=50.0 * 0.05**2)
    assert state["zeroed"][0] == 1.0


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
    cut_ns = 3_400_000_000
    whole = hopping("1m", 9.6)

    def joined(one: Series) -> Series:
        time_s = one.stamps_ns * 1e-9
        kept = ((time_s > 0.9) & (time_s < 2.0)) | (time_s > 5.5)
        kept &= (
            np.arange(len(time_s))
            % {"motors/command": 10, "imu/attitude": 7, "leg/state": 6}.get(one.channel.sensor, 1)
        ) == 0
        stamps = one.stamps_ns[kept]
        return replace(
            one, stamps_ns=np.where(stamps > 5_000_000_000, stamps - cut_ns, stamps), values=one.values[kept]
        )

    return Recording(tuple(joined(one) for one in whole.sensors), tuple(joined(one) for one in whole.truth))


def start_of(recording: Recording) -> Estimate:
    """A state a little after the first messages: those before are left out."""
    stamp_ns = int(series_of(recording, LOW).stamps_ns[40])
    return Estimate(stamp_ns, np.array([STANDING_M + 0.01, -0.02]), np.diag([0.01**2, 0.05**2]))


def both_ways(configuration: Any, name: str, recording: LoadedRecording, initial: Estimate | None, lag_s: float = 0.05):
    """The record at once and message by message, which must be the same; the first of them."""
    estimator = ROBOT.estimator(configuration, estimator_name(ROBOT, name))
    found = at_once(estimator, recording, lag_s, CHANNELS, initial)
    assert found is not None, "the recording was not filtered at once: nothing is compared"
    slow = replay(ROBOT, configuration, name, recording, initial, lag_s, bulk=False)
    np.testing.assert_array_equal(found.record.stamps_ns, slow.record.stamps_ns)
    np.testing.assert_array_equal(found.record.means, slow.record.means)
    np.testing.assert_array_equal(found.record.covariances, slow.record.covariances)
    assert found.events == slow.events
    np.testing.assert_equal(found.sensors, slow.sensors)
    return found


@pytest.mark.parametrize("name", ROBOT.estimators)
def test_at_once_is_message_by_message(name: str, configuration: Any, short: Recording) -> None:
    found = both_ways(configuration, name, loaded(short), start_of(short))
    assert {event.name for event in found.events} == {"touchdown", "max_squat", "liftoff", "apex"}
    assert found.sensors[LOW]["left_out"] == 40
    assert found.sensors["set_pose"]["used"] == 1
    assert np.isfinite(found.record.means).all()


@pytest.mark.parametrize("name", ["bounce", "kf1"])
def test_over_changing_ground_too(configuration: Any, short: Recording, name: str) -> None:
    found = both_ways(replace(configuration, ground_changes=True), name, loaded(short), None)
    level = replay(ROBOT, configuration, name, loaded(short), None, 0.05)
    ground = found.record.means[:, 0] - level.record.means[:, 0]
    assert np.ptp(ground) > 0.0
    # A touchdown is told where the ground was found to be, the leg extended.
    for event in found.events:
        if event.name == "touchdown":
            row = int(np.searchsorted(found.record.stamps_ns, event.seen_ns))
            assert event.height_m == pytest.approx(STANDING_M + ground[row], abs=2e-3)


def test_ground_that_steps_is_followed_and_what_adds_up_is_said(configuration: Any) -> None:
    """Six robots on boards of 4 cm, drawn anew from hop to hop; heights above the ground of the start."""
    configuration = replace(configuration, ground_changes=True)
    within, errors_m, stddevs_m = [], [], []
    for seed in range(340, 346):
        recording = simulated_recording(ROBOT, configuration, "uneven", "mixed", 60.0, seed)
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
    stamps = [
        int(low.stamps_ns[20]),
        int(low.stamps_ns[1500]),
        int(low.stamps_ns[2500]) + 500,
        int(low.stamps_ns[3000]),
    ]
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


@pytest.mark.parametrize("stddev_m", [0.01, 0.5])
def test_a_pose_is_known_as_well_as_it_says(configuration: Any, short: Recording, stddev_m: float) -> None:
    pose = series_of(short, "set_pose")
    values = pose.values[:1].copy()
    values[0, 7 + 14] = stddev_m**2
    told = Recording(
        (
            *(one for one in short.sensors if one.channel.sensor != "set_pose"),
            Series(set_pose_channel(), pose.stamps_ns[:1], values),
        ),
        short.truth,
    )
    record = replay(ROBOT, configuration, "bounce", loaded(told), start_of(short), 0.05).record
    at = int(np.searchsorted(record.stamps_ns, pose.stamps_ns[0], side="right"))
    assert np.sqrt(record.covariances[at, 0, 0]) == pytest.approx(stddev_m, abs=0.15)


@pytest.mark.parametrize("name", ["bounce", "kf1", "eskf2", "dr1"])
def test_messages_that_come_late(name: str, configuration: Any, short: Recording) -> None:
    """Late within the lag, each sensor by its own, changes no bit of the record; what was told live hardly differs."""
    late = arriving_late(short, {HIGH: 0.003, "imu/attitude": 0.02, LOW: 0.0015, "motors/command": 0.01})
    found = both_ways(configuration, name, late, start_of(short), lag_s=0.03)
    assert found.sensors[HIGH]["late"] > 100
    in_time = replay(ROBOT, configuration, name, loaded(short), start_of(short), 0.03)
    np.testing.assert_array_equal(found.record.means, in_time.record.means)
    assert found.events == in_time.events


def live_events(configuration: Any, name: str, recording: LoadedRecording) -> list[Any]:
    """Events as a node tells them: at once, each once."""
    pipeline, new = Pipeline(ROBOT.estimator(configuration, name), CHANNELS, lag_s=0.03), NewEvents()
    told = []
    for measurement in recording.measurements():
        pipeline.process(measurement)
        told += new(pipeline.take_events())
    return told


@pytest.mark.parametrize("name", ["bounce", "kf1", "kf2", "eskf1"])
def test_live_decisions_are_the_offline_ones(name: str, configuration: Any, short: Recording) -> None:
    """In the same order and within two samples, though the high-g sensor and the attitude come late."""
    offline = at_once(ROBOT.estimator(configuration, name), loaded(short), 0.03, CHANNELS)
    assert offline is not None
    assert len(offline.events) >= 7
    for recording in (loaded(short), arriving_late(short, {HIGH: 0.002, "imu/attitude": 0.01})):
        told = live_events(configuration, name, recording)
        assert [event.name for event in told] == [event.name for event in offline.events]
        apart_s = [abs(a.seen_ns - b.seen_ns) * 1e-9 for a, b in zip(told, offline.events, strict=True)]
        assert max(apart_s) <= 2.0 * NOMINAL_DT_S + 1e-6, apart_s


def test_going_on_from_a_state(configuration: Any, short: Recording) -> None:
    """What was filtered in between leaves no trace; and a state may be gone on from more than once."""
    messages = list(ordered(short.sensors))
    for name in ("bounce", "kf1", "eskf1", "ba1"):
        estimator = ROBOT.estimator(replace(configuration, ground_changes=True), name)
        middle = len(messages) // 2
        kept = estimator.start(None)
        for message in messages[:middle]:
            kept = estimator.step(kept, message).state
        outcomes = []
        for _ in range(2):
            state, estimates, events = kept, [], []
            for message in messages[middle : middle + 1500]:
                state, estimate, _, seen, _ = estimator.step(state, message)
                events += seen
                if estimate is not None:
                    estimates.append((estimate.mean.tolist(), estimate.covariance.tolist()))
            outcomes.append((estimates, events))
            assert estimator.phase(state) in PHASES
        assert outcomes[0] == outcomes[1]
        assert outcomes[0][1], "no event: hardly anything is compared"


def test_phases_told_and_published(configuration: Any, short: Recording) -> None:
    estimator = ROBOT.estimator(configuration, "kf1")
    state = estimator.start(None)
    assert estimator.phase(state) == PHASES[STARTUP]
    seen: list[str | None] = []
    events: list[PhaseEvent] = []
    for message in ordered(short.sensors):
        state, _, _, found, _ = estimator.step(state, message)
        events += found
        if not seen or estimator.phase(state) != seen[-1]:
            seen.append(estimator.phase(state))
    assert seen[:2] == [PHASES[STARTUP], PHASES[DROP]]
    assert seen[2:6] == ["stance_down", "stance_up", "rebound", "drop"]
    assert events
    for event in events:
        delay = {"touchdown": 0.008, "max_squat": 0.004, "liftoff": 0.006, "apex": 0.001}[event.name]
        assert event.seen_ns - event.stamp_ns == round(delay * 1e9)
    assert estimator.phase(estimator.start(None)) == PHASES[STARTUP]


def test_covariances_are_scaled_by_phase(configuration: Any, short: Recording) -> None:
    """By the model's scale and floor of the phase that the filter is in."""
    plain = plain_model().entries["kf1"]
    wide = replace(
        plain,
        height_scale=3.0 * plain.height_scale,
        velocity_scale=2.0 * plain.velocity_scale,
        height_floor_m=np.zeros(5) + 1e-9,
        velocity_floor_m_s=np.zeros(5) + 1e-9,
    )
    from hopper_estimation.estimators.estimator import HopperEstimator

    estimators = (HopperEstimator(configuration, "kf1", entry) for entry in (plain, wide))
    one, other = (at_once(each, loaded(short), 0.03, CHANNELS) for each in estimators)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.record.means, other.record.means)
    phase = np.full(len(one.record.stamps_ns), STARTUP)
    drop = int(series_of(short, "set_pose").stamps_ns[0])
    phase[one.record.stamps_ns >= drop] = DROP
    for event in one.events:
        phase[one.record.stamps_ns >= event.seen_ns] = event.phase
    z, v = one.record.covariances[:, 0, 0], one.record.covariances[:, 1, 1]
    wide_z, wide_v = other.record.covariances[:, 0, 0], other.record.covariances[:, 1, 1]
    np.testing.assert_allclose(9.0 * (z - plain.height_floor_m[phase] ** 2), wide_z, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(4.0 * (v - plain.velocity_floor_m_s[phase] ** 2), wide_v, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        6.0 * one.record.covariances[:, 0, 1], other.record.covariances[:, 0, 1], rtol=1e-9, atol=1e-15
    )
    correlation = one.record.covariances[:, 0, 1] / np.sqrt(z * v)
    assert np.all(np.abs(correlation) < 1.0)


def test_a_stretch_without_the_low_g_sensor_is_the_same_both_ways(configuration: Any, short: Recording) -> None:
    low = series_of(short, LOW)
    gap = rows_of(lambda time_s: (time_s < 3.0) | (time_s > 3.4))
    thinned = gap(low)
    assert thinned is not None
    spoilt = Recording(tuple(thinned if one is low else one for one in short.sensors), short.truth)
    found = both_ways(configuration, "kf1", loaded(spoilt), None)
    inside = (found.record.stamps_ns > 3.02e9) & (found.record.stamps_ns < 3.39e9)
    assert inside.sum() > 250, "the high-g sensor goes on alone"


def without_gyro(one: Series) -> Series:
    values = one.values.copy()
    values[:, IMU.angular_velocity] = np.nan
    return replace(one, values=values)


def test_the_high_g_sensor_needs_no_gyro(configuration: Any, short: Recording) -> None:
    """What is absent is NaN: no bit of estimates, events and training changes by it, though it is alone for a while."""
    gap = rows_of(lambda time_s: (time_s < 3.0) | (time_s > 3.4))
    plain = changed(short, {LOW: gap})
    absent = changed(plain, {HIGH: without_gyro})
    for name in ("bounce", "kf1", "eskf2"):
        estimator = ROBOT.estimator(configuration, name)
        one, other = (loaded(recording) for recording in (plain, absent))
        found, expected = (
            estimator.filter_recording(estimator.start(None), each.series, in_order(each.series), 0.0)
            for each in (other, one)
        )
        np.testing.assert_array_equal(found.means, expected.means)
        np.testing.assert_array_equal(found.covariances, expected.covariances)
        assert found.events == expected.events
        assert np.isfinite(found.means).all()
        state = estimator.start(None)
        means = []
        for message in ordered(absent.sensors):
            state, estimate, *_ = estimator.step(state, message)
            if estimate is not None:
                means.append(estimate.mean)
        np.testing.assert_array_equal(means, expected.means)
    recordings = hopping(), changed(hopping(), {HIGH: without_gyro})
    learned = (trial_of(CONFIGURATION, "run", loaded(one)) for one in recordings)
    one, other = (trial.signals.tobytes() for trial in learned)
    assert one == other


def in_order(series: Sequence[Series]) -> Any:
    """(M,) number of the series of each message, in the order in which a pipeline filters them."""
    stamps = np.concatenate([one.stamps_ns for one in series])
    numbers = np.repeat(np.arange(len(series)), [len(one.stamps_ns) for one in series])
    places = np.array([ORDER[one.channel.sensor] for one in series])
    return numbers[np.lexsort((places[numbers], stamps))]


def test_a_touchdown_without_a_height_is_refused(configuration: Any) -> None:
    estimator = ROBOT.estimator(configuration, "kf1")
    ground = estimator._after_hop(Ground(apex_m=2.0), 0.3, -6.0)
    assert (ground.hops, np.isnan(ground.apex_m)) == (1, True)
    with pytest.raises(FilterBreakdown, match="hop 2: the height at touchdown is nan"):
        estimator._after_hop(ground, np.nan, -6.0)
