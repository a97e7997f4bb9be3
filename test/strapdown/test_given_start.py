"""The filter from a state that is given: it need not lie still first, and where it stands is not the origin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import Estimate, Measurement, Notice
from onboard_estimation.pipeline.pipeline import Pipeline
from strapdown_estimation.estimators.estimator import StrapdownEstimator
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import DIMENSION, SPACE
from strapdown_estimation.robot import ROBOT
from strapdown_estimation.simulation.simulator import GAITS, Conditions, Walk

SENSOR = "imu/foot"
GRAVITY_M_S2 = Strapdown().start.gravity_m_s2
POSITION, VELOCITY, ATTITUDE = (SPACE.coordinates(name) for name in ("position", "velocity", "attitude"))
GYRO_BIAS = np.array([0.3, -0.2, 0.1])
ACCELEROMETER_BIAS = np.array([0.5, -0.4, 0.8])
"""Far beyond what the filter expects by itself: only who is told of them can be right."""
MOVED = np.array([3.0, -2.0, 5.0])
STDDEV = np.repeat([0.01, 0.05, 0.01, 0.02, 0.002, 0.1], 3)


def at(stamp_ns: int, **blocks: Any) -> Estimate:
    """A state of those blocks, drawn around them as far as it says that it may be wrong."""
    mean = SPACE.origin()
    for name, value in {"gyro_bias": GYRO_BIAS, "accelerometer_bias": ACCELEROMETER_BIAS, **blocks}.items():
        mean[SPACE.coordinates(name)] = value
    return Estimate(stamp_ns, mean, np.diag(STDDEV**2))


def lying(seconds: float, first: int = 1) -> list[Measurement]:
    """A level IMU that lies still, with biases and noise."""
    rng = np.random.default_rng(3)
    at_rest = np.concatenate([GYRO_BIAS, ACCELEROMETER_BIAS])
    at_rest[5] += GRAVITY_M_S2
    readings = at_rest + rng.normal(0.0, np.repeat([0.005, 0.02], 3), (int(200 * seconds), 6))
    return [Measurement((first + k) * 5_000_000, SENSOR, one) for k, one in enumerate(readings)]


@pytest.mark.parametrize("start_s", [3.0, 3.25, 3.75])
def test_it_follows_the_truth_from_the_middle_of_a_walk(start_s: float) -> None:
    """In swing or in stance: position, velocity and attitude in the frame of the start, and as sure as is stated."""
    rng = np.random.default_rng(4)
    walk = Walk(GAITS["normal"], 20.0, rng, Conditions())
    stamps_ns = np.arange(round(start_s * 200), 10 * 200) * 5_000_000
    times_s = stamps_ns * 1e-9
    positions, attitudes = walk.pose(times_s)
    before, after = (walk.pose(times_s[:1] + sign * 1e-4)[0][0] for sign in (-1.0, 1.0))
    noise = rng.normal(0.0, np.repeat([0.01, 0.1], 3), (len(times_s), 6))
    readings = walk.readings(times_s) + np.concatenate([GYRO_BIAS, ACCELEROMETER_BIAS]) + noise
    true = at(
        stamps_ns[0], position=positions[0] + MOVED, velocity=(after - before) / 2e-4, attitude=attitudes[0].as_quat()
    )
    drawn = Estimate(true.stamp_ns, SPACE.plus(true.mean, STDDEV * rng.standard_normal(DIMENSION)), true.covariance)
    pipeline = Pipeline(ROBOT.estimator(Strapdown(), "eskf"), ROBOT.channels(Strapdown()), drawn)
    record = pipeline.run([Measurement(int(s), SENSOR, one) for s, one in zip(stamps_ns, readings, strict=True)])

    assert [one.stamp_ns for one in record] == stamps_ns.tolist()
    np.testing.assert_array_equal(record[0].mean, drawn.mean)
    assert pipeline.messages == []
    errors = np.array([one.mean[POSITION] for one in record]) - positions - MOVED
    stddev = np.sqrt([np.diag(one.covariance)[:3] for one in record])
    assert np.linalg.norm(errors[-1]) < 0.25
    assert (np.abs(errors) < 3.0 * stddev).mean() > 0.97
    turn = Rotation.from_quat(record[-1].mean[ATTITUDE]).inv() * attitudes[-1]
    assert turn.magnitude() < 0.06


def test_it_knows_rest_by_the_biases_that_are_given() -> None:
    """By any others the readings would be those of a turn, and no contact."""
    estimator = StrapdownEstimator(Strapdown())
    state = estimator.start(at(0))
    for one in lying(1.0):
        state, _, innovation, *_ = estimator.step(state, one)
    assert state.contact.claim.at_rest
    assert innovation.accepted
    assert np.abs(state.filtered.moments.mean[VELOCITY]).max() < 0.01
    mistaken = estimator.start(at(0, gyro_bias=-GYRO_BIAS))
    for one in lying(1.0):
        mistaken = estimator.step(mistaken, one).state
    assert not mistaken.contact.claim.in_contact


def test_the_first_ground_is_new_at_the_height_that_is_given() -> None:
    estimator = StrapdownEstimator(Strapdown())
    state = estimator.start(at(0, position=[0.0, 0.0, 5.0]))
    assert state.filtered.ground.levels == ()
    for one in lying(1.0):
        state = estimator.step(state, one).state
    (level,) = state.filtered.ground.levels
    assert level.height == pytest.approx(5.0, abs=0.05)


def test_how_often_readings_come_is_told_by_two_of_them() -> None:
    """Not by the time from the start to the first, however short: no reading would seem to be missing but all."""
    estimator = StrapdownEstimator(Strapdown())
    state = estimator.start(at(5_000_000 - 1000))
    first, second, *_ = lying(1.0)
    state = estimator.step(state, first).state
    assert np.isinf(state.filtered.coverage.typical_step_s)
    state = estimator.step(state, second).state
    assert state.filtered.coverage.typical_step_s == pytest.approx(0.005)


def test_a_start_long_before_the_first_reading_says_nothing_of_it() -> None:
    estimator = StrapdownEstimator(Strapdown())
    step = estimator.step(estimator.start(at(0)), lying(1.0, first=200)[0])
    (event,) = step.events
    assert isinstance(event, Notice)
    assert event.sentence.startswith("no readings of imu/foot for 1.00 s, at 1.000 s: lost until")
    assert step.estimate.covariance[0, 0] > 2.0**2


def test_a_sensor_that_is_stuck_is_told_and_not_used() -> None:
    """Its repetitions are taken back to the first; once it changes, it counts again, after a gap."""
    estimator = StrapdownEstimator(Strapdown())
    state, readings = estimator.start(at(0)), lying(1.0)
    for one in readings[:50]:
        state = estimator.step(state, one).state
    kept, steps = state, []
    for one in readings[50:60]:
        steps.append(estimator.step(state, Measurement(one.stamp_ns, SENSOR, readings[49].value)))
        state = steps[-1].state
    stuck_after = Strapdown().imu.stuck_readings
    assert [one.used for one in steps] == [True] * (stuck_after - 1) + [False] * (11 - stuck_after)
    (notice,) = (event for one in steps for event in one.events)
    assert notice.sentence == "7 equal readings in a row of imu/foot, at 0.280 s: stuck, left out until they change"
    assert state.filtered is kept.filtered
    assert state.contact is kept.contact
    assert all(one.estimate is None for one in steps[stuck_after - 1 :])
    again = estimator.step(state, readings[60])
    assert again.used
    assert again.events[0].sentence.startswith("no readings of imu/foot for 0.06 s")
