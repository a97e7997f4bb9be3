"""Ten links: a model of the form `local` is trained from runs with motion capture and runs in the filter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from salp_recordings import true_state

from onboard_estimation.base.configuration import load
from onboard_estimation.base.installed import resource
from onboard_estimation.base.measurement import Estimate
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.pipeline.pipeline import Pipeline
from salp_estimation.estimators.residual_estimator import ResidualEstimator, initial_covariance
from salp_estimation.model import friction_kernels
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import Gait
from salp_estimation.simulation.hardware_simulator import HardwareSimulation
from salp_estimation.training.residual_training import train
from salp_estimation.training.runs import training_run

# A wave along the chain: designing a gait of ten links takes seconds, and any that bends all joints will do.
_PHASES = 1.3 * np.arange(10)
WAVE = Gait((0.0,) * 10, tuple(0.04 * np.cos(_PHASES)), tuple(0.04 * np.sin(_PHASES)))


CONFIGURATION: SalpConfiguration = load(SalpConfiguration, resource("config/salp_ten_links.yaml"))


def recording(seed: int, duration_s: float) -> LoadedRecording:
    simulation = HardwareSimulation(CONFIGURATION.chain, WAVE.controls, np.random.default_rng(seed))
    return from_simulator(simulation.advance(round(duration_s * 1e9)), CONFIGURATION.chain.link_names)


@pytest.mark.slow
def test_a_local_model_is_trained_and_follows_another_robot() -> None:
    """Without a model the commands alone would put the joints elsewhere by degrees: no friction, no harness."""
    told = replace(CONFIGURATION, gyro=replace(CONFIGURATION.gyro, used_rate_hz=25.0))
    runs = [training_run(told, recording(seed, 17.0), f"run {seed}") for seed in (11, 12, 13)]
    model, _ = train(told, runs, ["", "", ""], "local")
    assert model.link_count == 10
    assert model.processes is None
    assert model.population.parameters.shape == (friction_kernels.parameter_count(10),)

    seen = recording(14, 12.0)
    start_ns = next(seen.measurements()).stamp_ns
    space = ResidualEstimator(told, model).space
    mean = space.origin()
    mean[space.coordinates("joint_angles")] = true_state(told, seen, np.array([start_ns + 20_000_000]))[0, 3:]
    covariance = initial_covariance(replace(told, initial=replace(told.initial, joint_angle_stddev_deg=0.5)))
    initial = Estimate(start_ns, mean, covariance)
    pipeline = Pipeline(ResidualEstimator(told, model), find_robot("salp").channels(told), initial)
    estimates = pipeline.run(seen.measurements())
    late = [one for one in estimates if one.stamp_ns > start_ns + 6_000_000_000]
    joints = space.coordinates("joint_angles")
    truth = true_state(told, seen, np.array([one.stamp_ns for one in late]))[:, 3:]
    error = np.array([one.mean[joints] for one in late]) - truth
    assert np.rad2deg(np.ptp(truth, axis=0)).max() > 5.0
    assert np.rad2deg(np.sqrt(np.mean(error**2))) < 1.0
    final = late[-1].covariance
    np.testing.assert_allclose(final, final.T, rtol=0.0, atol=1e-15)
    assert np.linalg.eigvalsh(final)[0] > 0.0
