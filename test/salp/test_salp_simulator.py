"""Simulated LandSalp: stamps, noise and truth as stated; the estimator on what it records."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from salp_noise import IDEAL_NOISE
from salp_recordings import simulate
from scipy.integrate import solve_ivp

from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Estimate, Measurement
from onboard_estimation.base.series import Recording, Series
from onboard_estimation.filtering.consistency import chi_square_band, coverage, nees
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.estimators.estimator import SalpEstimator
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.model.gaits import FORWARD, GAITS
from salp_estimation.robot import ROBOT
from salp_estimation.simulation.simulator import IdealScenario

QUIET = IdealScenario(
    gyro_noise_stddev_rad_s=0.0,
    wheel_speed_noise_stddev_m_s=0.0,
    truth_position_stddev_m=0.0,
    truth_heading_stddev_rad=0.0,
)
CHAIN = ChainConfiguration()


def record(seed: int = 0, duration_s: float = 6.0, scenario: IdealScenario | None = None, **options) -> Recording:
    gait = GAITS[options.pop("gait", "forward")]
    return simulate(replace(CHAIN, **options), gait, duration_s, np.random.default_rng(seed), scenario)


def series(recording: Recording) -> dict[str, Series]:
    return {each.channel.sensor: each for each in (*recording.sensors, *recording.truth)}


def measurements(recording: Recording) -> list[Measurement]:
    """In the order of stamps, gyros before commands: the pipeline has to put equal stamps in order."""
    out = [
        Measurement(int(stamp), each.channel.sensor, value)
        for each in reversed(recording.sensors)
        for stamp, value in zip(each.stamps_ns, each.values, strict=True)
    ]
    return sorted(out, key=lambda measurement: measurement.stamp_ns)


def states_of(recording: Recording) -> np.ndarray:
    """States (K, 5) from the motion capture."""
    bodies = {each.channel.sensor.removeprefix("ground_truth/"): each.values for each in recording.truth}
    parts = ROBOT.true_parts(SalpConfiguration(), bodies)
    return np.hstack([parts["pose"], parts["joint_angles"]])


def test_stamps_are_exact() -> None:
    """The k-th sample at k / rate, rounded to the nanosecond; the last at the end of the recording."""
    by_name = series(record(duration_s=6.0))
    for name, rate in (("actuators/command", 20), ("imu/link_2", 20), ("ground_truth/link_1", 120)):
        expected = [round(Fraction(k * NANOSECONDS_PER_SECOND, rate)) for k in range(6 * rate + 1)]
        assert by_name[name].stamps_ns.dtype == np.int64
        np.testing.assert_array_equal(by_name[name].stamps_ns, expected)


def test_truth_is_the_integrated_motion() -> None:
    """SciPy under the commands as they were held; poses with noise scatter about it as stated."""
    chain, gait, duration_s = CHAIN.build(), FORWARD, 3.0
    state, times = np.zeros(5), np.arange(0.0, duration_s + 1e-9, 0.05)
    expected = [state]
    for time in times[:-1]:
        u = gait.controls(time)

        def rate(_, q, u=u):
            v = chain.velocity(q[3:], u)
            c, s = np.cos(q[2]), np.sin(q[2])
            return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], *v[2:]])

        state = solve_ivp(rate, (0.0, 0.05), state, rtol=1e-10, atol=1e-12).y[:, -1]
        expected.append(state)
    clean = record(0, duration_s, QUIET)
    np.testing.assert_allclose(states_of(clean)[::6], expected, atol=1e-8)
    by_name = series(clean)
    rates = np.array([chain.gyro_rates(q[3:], gait.controls(t)) for q, t in zip(expected, times, strict=True)])
    for i, link in enumerate(CHAIN.link_names):
        np.testing.assert_allclose(by_name[f"imu/{link}"].values[:, 2], rates[:, i], atol=1e-8)
        np.testing.assert_array_equal(by_name[f"imu/{link}"].values[:, [0, 1, 3, 4]], 0.0)
        np.testing.assert_allclose(by_name[f"imu/{link}"].values[:, 5], 9.80665)


def estimate(recording: Recording, configuration: SalpConfiguration | None = None, initial: Estimate | None = None):
    configuration = configuration or SalpConfiguration()
    pipeline = Pipeline(SalpEstimator(configuration), ROBOT.channels(configuration), initial)
    return pipeline.run(measurements(recording)), pipeline


@pytest.mark.slow
def test_estimates_are_close_and_consistent() -> None:
    """Eight drawn initial errors of 5 degrees, 20 s each: joint angles to a fraction of a degree, NEES in its band."""
    configuration = IDEAL_NOISE
    all_errors, all_covariances = [], []
    for seed in range(8):
        recording = record(seed, 20.0, gait="backward" if seed % 2 else "forward")
        covariance = configuration.initial_covariance()
        space = configuration.chain.build().space()
        rng = np.random.default_rng(100 + seed)
        start = Estimate(0, space.plus(np.zeros(5), rng.multivariate_normal(np.zeros(5), covariance)), covariance)
        estimates, pipeline = estimate(recording, configuration, start)
        at_end = [each for each in estimates if each.stamp_ns % 50_000_000 == 0][2::3]  # after all three gyros
        truth = states_of(recording)[::6].copy()
        all_errors.append(space.minus([each.mean for each in at_end], truth)[:, 3:])
        all_covariances.append([each.covariance[3:, 3:] for each in at_end])
        assert pipeline.breakdowns == 0
        for row in pipeline.statistics().values():
            assert row["rate_hz"] == pytest.approx(20.0)
            assert row["used"] + row["gated"] == row["received"] == 401
    errors = np.array(all_errors)
    covariances = np.array(all_covariances) + ROBOT.truth_specification(configuration).covariances["joint_angles"]
    settled = errors[:, 120:]
    assert np.rad2deg(np.sqrt(np.mean(settled**2))) < 0.3
    stddevs = np.sqrt(np.diagonal(covariances, axis1=-2, axis2=-1))
    values = nees(errors, covariances)
    assert 0.6 < np.nanmean(values) / errors.shape[-1] < 1.5  # errors of a run are correlated: about eight samples
    low, high = chi_square_band(errors.shape[-1], runs=len(values))
    averaged = np.mean(values, axis=0)
    assert np.mean((averaged >= low) & (averaged <= high)) > 0.8
    assert coverage(errors, stddevs, 3.0) > 0.98


def test_a_joint_driven_into_its_limit_again_and_again_tells_nothing_of_the_heading() -> None:
    """Some sigma points stand at the limit and others do not: their rates differ, whatever parts them."""
    limits = {"joint_lower_deg": (-20.0, -20.0), "joint_upper_deg": (20.0, 20.0)}
    configuration = replace(IDEAL_NOISE, chain=replace(CHAIN, **limits))
    recording = record(0, 40.0, gait="turning", **limits)
    truth = states_of(recording)[::6].copy()
    assert np.ptp(truth[:, 4]) == pytest.approx(np.deg2rad(40.0), abs=0.01)  # both limits were met
    space, covariance = configuration.chain.build().space(), configuration.initial_covariance()
    off = np.random.default_rng(200).multivariate_normal(np.zeros(5), covariance)
    found = estimate(recording, configuration, Estimate(0, space.plus(np.zeros(5), off), covariance))[0]
    at_end = [each for each in found if each.stamp_ns % 50_000_000 == 0][2::3]
    errors = space.minus([each.mean for each in at_end], truth)
    covariances = np.array([each.covariance for each in at_end])
    noise = ROBOT.truth_specification(configuration).covariances
    covariances[:, :3, :3] += noise["pose"]
    covariances[:, 3:, 3:] += noise["joint_angles"]
    assert np.sqrt(covariances[:, 2, 2]).min() > np.deg2rad(4.9)  # of 5 deg at the start
    assert nees(errors[:, :3], covariances[:, :3, :3]).mean() / 3.0 < 4.0
    # The filter meets limits in ten times longer steps than the simulator: hundredths of a degree.
    assert np.rad2deg(np.sqrt(np.mean(errors[300:, 3:] ** 2))) < 0.1
    assert nees(errors[:, 3:], covariances[:, 3:, 3:]).mean() / 2.0 < 6.0


def test_gyros_mounted_another_way_give_the_same_estimates() -> None:
    normal = record(8, 3.0)
    turned = []
    for each in normal.sensors:
        values = each.values
        if each.channel.sensor != COMMAND:
            values = np.full_like(each.values, 9.0)
            values[:, 1] = -each.values[:, 2]
        turned.append(Series(each.channel, each.stamps_ns, values))
    configuration = load(SalpConfiguration, None, {"gyro.axis": "-y"})
    first, second = estimate(normal)[0], estimate(Recording(tuple(turned), ()), configuration)[0]
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.mean, two.mean)
        np.testing.assert_array_equal(one.covariance, two.covariance)
