"""What the quasi-static model leaves out, in the filter without a residual model: covered, and known by gyros.

Scenario `hardware` breaks the model in many ways at once; its figures over many seeds are in `docs/salp.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Measurement
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.filtering.consistency import coverage
from onboard_estimation.judging.judge import judge
from onboard_estimation.judging.options import JudgeSettings
from salp_estimation.estimators.estimator import SalpEstimator, link_errors
from salp_estimation.estimators.unscented_gyro_kernels import COASTING_S
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.robot import ROBOT

Array = NDArray[np.float64]

CONFIGURATION = SalpConfiguration()
LINKS = CONFIGURATION.chain.link_names
STANDING = np.zeros(3)
SETTLE_S = 6.0


def imu(stamp_s: float, link: str, rate_rad_s: float) -> Measurement:
    return Measurement(round(stamp_s * 1e9), f"imu/{link}", np.array([0.0, 0.0, rate_rad_s, 0.0, 0.0, 9.8]))


def command(stamp_s: float, wheels_rad_s: Array) -> Measurement:
    return Measurement(round(stamp_s * 1e9), "actuators/command", wheels_rad_s)


def test_an_untrained_filter_on_a_real_robot_is_neither_lost_nor_sure() -> None:
    recording = from_simulator(
        ROBOT.simulate(CONFIGURATION, "hardware", "turning", 18.0, np.random.default_rng(13)), LINKS
    )
    found = judge(ROBOT, CONFIGURATION, "ukf", recording, JudgeSettings(seed=13))
    late = found.time_s >= SETTLE_S
    for part in found.parts.values():
        assert coverage(part.error[late], part.stddev[late], 3.0) >= 0.95, part.name
    joints = found.parts["joint_angles"]
    assert np.rad2deg(np.sqrt(np.mean(joints.error[late] ** 2))) < 12.0
    assert joints.nees[late].mean() / 2.0 < 6.0
    assert not [note for note in found.notes if "contradict" in note or "broke down" in note]
    for link in LINKS:
        row = found.sensors[f"imu/{link}"]
        assert row["recoveries"] == 0
        assert row["gated"] < 0.01 * row["received"]


def test_a_reading_corrects_as_the_exact_conditional_distribution_does() -> None:
    """Wheels at rest since just now: the model's rates do not depend on the state, and all is linear.

    A reading is the mean of the model's error over the time since the last one, of density q, and the gyro's own noise.
    That error has turned its link, so that it has the covariance q along the link's turning with the state.
    """
    period_s, link, rate = 0.01, 1, 0.08
    estimator = SalpEstimator(CONFIGURATION)
    state = estimator.start(Estimate(0, np.array([0.1, -0.2, 0.3, 0.2, -0.1]), CONFIGURATION.initial_covariance()))
    state = estimator.step(state, command(0.0, STANDING)).state
    for k in range(1, 11):
        state = estimator.step(state, imu(k * period_s, LINKS[link], 0.0)).state
    before = estimator.step(state, command(11 * period_s, STANDING)).state
    mean, covariance = estimator.published(before.filtered)
    after = estimator.step(before, imu(11 * period_s, LINKS[link], rate))

    process, gyro = CONFIGURATION.process, CONFIGURATION.gyro
    density = 2.0 * process.error_time_s * process.link_rate_error_rad_s**2
    turned = density * link_errors(3)[:, link]
    bias = CONFIGURATION.initial.gyro_bias_stddev_rad_s**2 + 9 * period_s * gyro.bias_walk_rad_s_sqrt_s**2
    own = gyro.noise_stddev_rad_s**2 + (density / period_s) * (gyro.scale_stddev * rate) ** 2 / (
        process.link_rate_error_rad_s**2
    )
    spread = density / period_s + own + bias * 20.0 / period_s
    expected = mean + turned * rate / spread
    assert after.estimate is not None
    np.testing.assert_allclose(after.estimate.mean[3:], expected[3:], atol=1e-12)
    assert np.abs(expected[3:] - mean[3:]).max() > 1e-4
    np.testing.assert_allclose(
        after.estimate.covariance[2:, 2:], (covariance - np.outer(turned, turned) / spread)[2:, 2:], atol=1e-12
    )
    assert after.innovation is not None
    single = gyro.noise_stddev_rad_s**2 + process.link_rate_error_rad_s**2 + bias + (gyro.scale_stddev * rate) ** 2
    assert after.innovation.nis == pytest.approx(rate**2 / single)


def test_a_bias_is_learned_from_a_robot_that_was_told_to_stand_and_does() -> None:
    rng, bias = np.random.default_rng(1), 0.006
    estimator = SalpEstimator(CONFIGURATION)

    def stand(state: Any, until_s: float, offset: float = 0.0) -> Any:
        first = 0 if state.stamp_ns is None else round(state.stamp_ns * 1e-9 * 200.0) + 1
        for k in range(first, round(200.0 * until_s)):
            reading = bias + offset + 0.0024 * rng.normal()
            state = estimator.step(state, imu(k / 200.0, LINKS[0], reading)).state
        return state

    before = stand(estimator.start(None), 2.0)
    assert before.filtered.biases[0, 0] == 0.0  # before the first command it may be moving
    told = estimator.step(before, command(2.0, STANDING)).state
    assert stand(told, 2.0 + 0.9 * COASTING_S).filtered.biases[0, 0] == 0.0  # it may roll on
    known = stand(told, 5.0)
    assert known.filtered.biases[0, 0] == pytest.approx(bias, abs=4e-4)
    creep = CONFIGURATION.process.creep_rad_s  # it may turn all the while, and no gyro can tell
    assert creep**2 <= known.filtered.biases[0, 1] < creep**2 + 6e-4**2
    moved = stand(known, 6.0, 0.05)  # carried away
    assert moved.filtered.biases[0, 0] == pytest.approx(bias, abs=4e-4)
    driven = estimator.step(known, command(5.0, np.ones(3))).state
    assert stand(driven, 6.0, 0.001).filtered.biases[0, 0] == known.filtered.biases[0, 0]
