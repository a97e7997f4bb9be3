"""The filters on pressures and wrench on robots that are their own model: are they as sure as they may be?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.configuration import load
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.contract.recorded import from_simulator
from onboard_estimation.judging.judge import judge
from onboard_estimation.pipeline.pipeline import Pipeline
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import STEP_S, GreyBox
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.simulation.paper_simulator import known_configuration
from softrobot_estimation.simulation.simulated_signals import mixture

Array = NDArray[np.float64]

KNOWN = {
    "filter.place_stddev_m": 0.0,
    "filter.place_share": 0.0,
    "filter.stiffness_share": 0.0,
    "model.axial_stiffness_spread": 0.0,
    "learning.particles": 300,
    "learning.noise_share": 0.05,
}
"""The world is the grey box, and nothing beside it."""


FEW = load(SoftRobotConfiguration, {"learning.particles": 60})


def drawn(configuration: SoftRobotConfiguration, seed: int, duration_s: float) -> tuple[list[Measurement], Array]:
    """Measurements of a robot drawn from what the filters count on, and its tip (N, 7) at each wrench."""
    rng, settings, sensor = np.random.default_rng(seed), configuration.filter, configuration.wrench
    box, count = GreyBox(configuration), round(duration_s / STEP_S)
    stiffness = np.array([box.stiffness * np.exp(settings.stiffness_spread * rng.normal())])
    pattern = mixture(configuration.chambers.angles_rad, configuration.chambers.pressure_max_pa, rng)
    readings = pattern(8.0 + STEP_S * np.arange(count))
    readings += 5.0 * rng.normal(size=readings.shape)  # which the robot feels: equal readings would be a stuck sensor
    row = box.resting_row()[None]
    row[0, kernels.MOMENTS : kernels.PAYLOAD] = settings.moment_stddev_n_m * rng.normal(size=2)
    row[0, kernels.PAYLOAD] = abs(settings.payload_stddev_kg * rng.normal())
    row[0, kernels.REST :] = settings.rest_moment_stddev_n_m * rng.normal(size=2)
    for _ in range(250):
        row = box.propagate(row, stiffness, readings[0], STEP_S)
    offsets = np.sqrt(2.0) * np.repeat([sensor.force_drift_n, sensor.torque_drift_n_m], 3) * rng.normal(size=6)
    walk = np.repeat([settings.force_walk_n_sqrt_s, settings.torque_walk_n_m_sqrt_s], 3)
    walk[2] = sensor.force_drift_n / np.sqrt(60.0)
    noise = np.repeat([settings.force_stddev_n, settings.torque_stddev_n_m], 3)
    noise[5] = settings.twist_stddev_n_m
    shaken = [*[settings.bending_rate_noise_rad_s_sqrt_s] * 2, settings.elongation_rate_noise_m_s_sqrt_s]
    moved = settings.moment_stddev_n_m * np.sqrt(-np.expm1(-2.0 * STEP_S / settings.moment_time_s))
    measurements, tips, chambers = [], np.empty((count, 7)), readings[0]
    for n in range(count):
        if n > 0:
            chambers, mean = box.through_hoses(readings[n - 1], chambers, STEP_S)
            row = box.propagate(row, stiffness, mean, STEP_S)
            row[0, kernels.RATES : kernels.RELAXED] += np.sqrt(STEP_S) * np.array(shaken) * rng.normal(size=3)
            row[0, kernels.MOMENTS : kernels.PAYLOAD] += moved * rng.normal(size=2)
            offsets = offsets + np.sqrt(STEP_S) * walk * rng.normal(size=6)
            stiffness *= np.exp(settings.stiffness_walk_sqrt_s * np.sqrt(STEP_S) * rng.normal())
        stamp_ns = round(1e9 * STEP_S * n)
        load = box.loads(row, stiffness, chambers)[0] + offsets + noise * rng.normal(size=6)
        measurements += [
            Measurement(stamp_ns, f"pressure/chamber_{c + 1}", np.array([configuration.pressure.ambient_pa + one]))
            for c, one in enumerate(readings[n].tolist())
        ]
        in_sensor = (
            load.reshape(2, 3) @ Rotation.from_euler("z", sensor.angle_about_base_z_deg, degrees=True).as_matrix()
        )
        measurements.append(Measurement(stamp_ns, "wrench", in_sensor.ravel()))
        tips[n] = box.tips(row, stiffness, chambers)[0]
    return measurements, tips


def judged(name: str, seed: int, duration_s: float = 8.0, place_stddev_m: float = 0.0) -> tuple[Array, Array]:
    """NEES of the tip's place (3), and by how many standard deviations each coordinate is off, after a second."""
    configuration = load(SoftRobotConfiguration, {**KNOWN, "filter.place_stddev_m": place_stddev_m})
    measurements, tips = drawn(configuration, seed, duration_s)
    pipeline = Pipeline(ROBOT.estimator(configuration, name), ROBOT.channels(configuration))
    record = [one for one in pipeline.run(measurements) if one.stamp_ns > 1_000_000_000]
    assert not pipeline.messages
    places = np.array([round(one.stamp_ns * 1e-9 / STEP_S) for one in record])
    errors = np.array([one.mean for one in record]) - tips[places]
    covariances = np.array([one.covariance for one in record])
    nees = np.einsum("ki,kij,kj->k", errors[:, :3], np.linalg.inv(covariances[:, :3, :3]), errors[:, :3])
    return nees, errors / np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))


def test_particles_make_one_step_from_wrench_to_wrench_whenever_pressures_come() -> None:
    """What they know then is what pressures at the wrenches' own stamps give, but for their random numbers."""
    together, _ = drawn(FEW, 3, 1.2)
    apart = [
        replace(one, stamp_ns=one.stamp_ns + 1_000_000 * int(one.sensor[-1])) if "chamber" in one.sensor else one
        for one in together
    ]
    found = []
    for measurements in (together, sorted(apart, key=lambda one: one.stamp_ns)):
        pipeline = Pipeline(ROBOT.estimator(FEW, "marginalized_pf"), ROBOT.channels(FEW))
        found.append(pipeline.run(measurements)[-1])
        assert pipeline.state.filtered.steps in (149, 150)
    stddev = np.sqrt(np.diag(found[0].covariance)[:3])
    assert (np.abs(found[1].mean[:3] - found[0].mean[:3]) < 3.0 * stddev).all()


def test_the_unscented_filter_finds_the_robot_again_where_its_stiffness_doubles_in_a_step() -> None:
    """The paper's robot 9; with 12 refused wrenches in a row it was 174 mm astray."""
    known = known_configuration(SoftRobotConfiguration())
    run = ROBOT.simulate(SoftRobotConfiguration(), "paper", "", 6.5, np.random.default_rng(9))
    result = judge(ROBOT, known, "ukf", from_simulator(run, (TIP, BASE)))
    assert result.metrics["position"]["position_ate_max_m"] < 5e-3


@pytest.mark.slow
def test_the_unscented_filter_is_as_sure_as_it_may_be() -> None:
    """Four seeds: mean NEES of the tip about 3, and 99 % of all within three standard deviations."""
    found = [judged("ukf", seed) for seed in range(4)]
    nees, off = np.concatenate([one[0] for one in found]), np.vstack([one[1] for one in found])
    assert 1.8 < nees.mean() < 4.5
    assert (np.abs(off) < 3.0).mean() > 0.99
    assert 0.6 < np.sqrt(np.mean(off[:, :3] ** 2)) < 1.25


def test_particles_with_the_room_that_a_real_robot_needs_are_not_too_sure() -> None:
    """A cloud of some hundred is too narrow for 17 coordinates: the configured errors of place are above that."""
    _, off = judged("marginalized_pf", 0, 4.0, 0.0005)
    assert (np.abs(off[:, :6]) < 3.0).mean() > 0.97
    assert np.sqrt(np.mean(off[:, :3] ** 2)) < 1.6


def test_a_place_far_from_the_axis_is_less_sure_by_a_share_of_how_far_it_is() -> None:
    found = []
    for share in (0.0, 0.1):
        configuration = load(SoftRobotConfiguration, {"filter.place_share": share})
        pipeline = Pipeline(ROBOT.estimator(configuration, "ukf"), ROBOT.channels(configuration))
        gauges = [(f"pressure/chamber_{number}", [101325.0 + gauge]) for number, gauge in ((1, 3e4), (2, 0), (3, 0))]
        given = [(8_000_000, *one) for one in gauges] + [(16_000_000, *one) for one in gauges]
        given.append((16_000_000, "wrench", [0.0, 0.0, 1.5, 0.0, 0.0, 0.0]))
        found.append(pipeline.run([Measurement(stamp, name, np.array(value)) for stamp, name, value in given])[-1])
    away = np.hypot(*found[0].mean[:2])
    assert away > 0.005
    more = np.diag(found[1].covariance) - np.diag(found[0].covariance)
    np.testing.assert_allclose(more, [(0.1 * away) ** 2] * 3 + [0.0] * 4, rtol=1e-6, atol=1e-12)
