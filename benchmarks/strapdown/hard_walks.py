"""The recorded walks made harder, by the strapdown filter and by a plain zero-velocity filter (`plain`).

What was done to them is fixed; noise and losses are drawn with a seed that no constant was chosen with. A faster gait
is the same path in less time: rates by s, accelerations about gravity by s^2, by the attitudes that the filter itself
finds, then cut off at the sensor's range.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from benchmarks.measuring import Array, Row, recordings, rms, row
from benchmarks.strapdown.plain import plain_positions
from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2, Recording, Series
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.alignment import align_heading
from onboard_estimation.judging.judge import judge
from recorded_robots.pyshoe import read_pyshoe
from strapdown_estimation.estimators.estimator import StrapdownEstimator
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import ACCELEROMETER_BIAS, SPACE
from strapdown_estimation.robot import ROBOT

RUNS_UNASKED = ()
SEED = 36
MOST_TIMES_PLAIN = 2.0
_RANGES = np.repeat([20.9, 8.0 * STANDARD_GRAVITY_M_S2], 3)
_AXES = np.array([0.6, -0.6, 0.53])


def cut_off(given: Recording, ranges: Array) -> Recording:
    """With readings cut off at the ranges (6,)."""
    return _with(given, np.clip(given.sensors[0].values, -ranges, ranges))


def faster(given: Recording, factor: float) -> Recording:
    """The same path, that many times as fast from half a second before its first motion to half a second after."""
    (imu,), (truth,) = given.sensors, given.truth
    estimator, means = StrapdownEstimator(Strapdown()), []
    state = estimator.start(None)
    for stamp, reading in zip(imu.stamps_ns.tolist(), imu.values, strict=True):
        state = estimator.step(state, Measurement(stamp, imu.channel.sensor, reading)).state
        means.append(SPACE.origin() if state.filtered is None else state.filtered.moments.mean)
    mean, times = np.array(means), (imu.stamps_ns - imu.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    up = Rotation.from_quat(mean[:, SPACE.coordinates("attitude")]).inv().apply([0.0, 0.0, STANDARD_GRAVITY_M_S2])
    moving = times[np.linalg.norm(imu.values[:, :3], axis=1) > 0.5]
    ramp = np.clip(np.minimum(times - moving[0] + 0.5, moving[-1] + 0.5 - times) / 0.3, 0.0, 1.0)
    speed = 1.0 + (factor - 1.0) * ramp
    new_times = np.append(0.0, np.cumsum(np.diff(times) * 0.5 * (1.0 / speed[1:] + 1.0 / speed[:-1])))
    at_rest = np.hstack([mean[:, ACCELEROMETER_BIAS + 4 : ACCELEROMETER_BIAS + 7], up])
    at_rest[:, 3:] += mean[:, ACCELEROMETER_BIAS + 1 : ACCELEROMETER_BIAS + 4]
    values = at_rest + (imu.values - at_rest) * np.repeat([speed, speed**2], 3, axis=0).T
    grid = np.arange(0.0, new_times[-1], 0.005)
    values = np.column_stack([np.interp(grid, new_times, column) for column in values.T])
    true_times = np.interp((truth.stamps_ns - imu.stamps_ns[0]) / NANOSECONDS_PER_SECOND, times, new_times)
    readings = Series(imu.channel, imu.stamps_ns[0] + _nanoseconds(grid), np.clip(values, -_RANGES, _RANGES))
    return Recording((readings,), (Series(truth.channel, imu.stamps_ns[0] + _nanoseconds(true_times), truth.values),))


def harder(given: Recording) -> Iterator[tuple[str, Recording]]:
    """Each way in which a recording is made harder, by name."""
    rng, (imu,) = np.random.default_rng(SEED), given.sensors
    times = (imu.stamps_ns - imu.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    late = (times > 0.5 * times[-1])[:, None]
    noise = np.diff(imu.values[:200], axis=0).std(axis=0) / np.sqrt(2.0)
    yield "as recorded", given
    for g in (2.0, 4.0, 6.0):
        yield f"accelerometer cut off at {g:g} g", cut_off(given, np.repeat([20.9, g * STANDARD_GRAVITY_M_S2], 3))
    yield "gyro cut off at 300 deg/s", cut_off(given, np.repeat([np.deg2rad(300.0), 78.4], 3))
    for factor in (1.5, 2.0, 2.5):
        yield f"{factor:g} times as fast", (fast := faster(given, factor))
        yield f"{factor:g} times, 4 g", cut_off(fast, np.repeat([20.9, 4.0 * STANDARD_GRAVITY_M_S2], 3))
    yield "10 % of the readings lost", _kept(given, (times < 1.5) | (rng.random(len(times)) > 0.1))
    for gap_s in (0.03, 0.08, 0.2):
        phase = rng.uniform(0.0, 2.0)
        yield f"{1000 * gap_s:g} ms lost every 2 s", _kept(given, (times < 1.5) | ((times + phase) % 2.0 >= gap_s))
    yield "gyro scale +2 %", _with(given, imu.values * np.repeat([1.02, 1.0], 3))
    yield "noise x 3", _with(given, imu.values + rng.normal(size=imu.values.shape) * noise * np.sqrt(8.0))
    yield "gyro bias +0.02 rad/s halfway", _with(given, imu.values + late * np.append(0.02 * _AXES, np.zeros(3)))
    yield "accelerometer bias +0.3 m/s^2 halfway", _with(given, imu.values + late * np.append(np.zeros(3), 0.3 * _AXES))


def hard_walks(quick: bool) -> list[Row]:
    """Recorded walks made harder: the strapdown filter beside a plain zero-velocity filter, horizontal RMS errors."""
    rows = []
    for path in sorted(recordings("pyshoe_vicon").glob("*.mat"))[: 1 if quick else None]:
        rows += [_judged(path, name, given) for name, given in harder(read_pyshoe(path).recording)]
    return rows


def _judged(path: Path, name: str, given: Recording) -> Row:
    found = judge(ROBOT, load(Strapdown, None, {}), "eskf", from_simulator(given, ("foot",))).metrics["position"]
    ours_cm, covered = 100.0 * found["position_horizontal_rmse_m"], found["coverage_3_sigma"]
    (imu,), (truth,) = given.sensors, given.truth
    plain = plain_positions(imu.stamps_ns, imu.values)
    true = np.column_stack([np.interp(imu.stamps_ns, truth.stamps_ns, column) for column in truth.values.T])
    error = align_heading(plain, true).positions(plain) - true
    plain_cm = 100.0 * rms(np.linalg.norm(error[:, :2], axis=1))
    figure = f"{ours_cm:.1f} cm, within 3 sigma {covered:.2f}; plain {plain_cm:.1f} cm"
    target = f"<= {MOST_TIMES_PLAIN:g} x plain", ours_cm <= MOST_TIMES_PLAIN * plain_cm
    return row(f"{path.stem}, {name}", figure, *target, ours_cm=ours_cm, plain_cm=plain_cm, covered=covered)


def _with(given: Recording, values: Array) -> Recording:
    (imu,) = given.sensors
    return Recording((Series(imu.channel, imu.stamps_ns, values),), given.truth)


def _kept(given: Recording, kept: Array) -> Recording:
    (imu,) = given.sensors
    return Recording((Series(imu.channel, imu.stamps_ns[kept], imu.values[kept]),), given.truth)


def _nanoseconds(times_s: Array) -> Array:
    return np.round(times_s * NANOSECONDS_PER_SECOND).astype(np.int64)
