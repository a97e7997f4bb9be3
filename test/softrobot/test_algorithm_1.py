"""Algorithm 1 against the paper's text in NumPy, step by step from the same random numbers."""

from __future__ import annotations

import numpy as np
import pytest
from algorithm_1_oracle import Oracle

from softrobot_estimation.estimators.algorithm_1 import PSI, SIGMA_F, UNIT_N_PER_M, Algorithm1Estimator, RandomWalk
from softrobot_estimation.estimators.particle_estimator import stiffness_prior
from softrobot_estimation.model import grey_box_kernels as kernels
from softrobot_estimation.model.configuration import SoftRobotConfiguration
from softrobot_estimation.simulation.paper_simulator import known_configuration

STEP_S, STEPS, PARTICLES = 0.008, 12, 60
PRESSURES_PA = np.array([30e3, 5e3, 0.0])
WIDE = {"filter.force_stddev_n": 0.3, "filter.torque_stddev_n_m": 0.01, "filter.twist_stddev_n_m": 0.01}
"""So that the oracle's densities are numbers."""
START = np.zeros(kernels.ROW)
START[:6] = 0.4, -0.2, 0.005, 1.0, 0.5, 0.01
STDDEV = np.where(np.arange(kernels.ROW) < 6, np.repeat([0.03, 0.001], [5, 12]), 0.0)


def differences(hyper_parameters: bool, faulty: float = 1.0) -> tuple[float, float, float]:
    """Largest of states, stiffness (as a share of the nominal one) and weights, after all steps."""
    known = known_configuration(SoftRobotConfiguration()).with_parameters(
        {"learning.hyper_parameters": hyper_parameters, "learning.particles": PARTICLES, **WIDE}
    )
    estimator = Algorithm1Estimator(known)
    box, unit = estimator.grey_box, UNIT_N_PER_M * known.chambers.centre_radius_m**2
    filtered = estimator.begun(START, STDDEV, box.stiffness, 0.1)
    cloud, tracker = filtered.cloud, estimator._tracker(known.filter.moment_stddev_n_m)
    walk, basis = RandomWalk(), stiffness_prior(known).basis
    first = np.array([SIGMA_F**2, 1.0])
    oracle = Oracle(
        lambda x, k, step_s: box.propagate(x, k, PRESSURES_PA, step_s),
        lambda x, k: box.loads(x, k, PRESSURES_PA),
        np.array(basis.centre),
        np.array(basis.half_widths),
        np.where(np.isin(np.arange(kernels.ROW), (3, 4, 5)), np.pad(estimator.rate_walk, (3, kernels.ROW - 6)), 0.0),
        faulty * np.diag(estimator.wrench_stddev**2),
        box.stiffness,
        0.25 * box.stiffness,
        PSI * unit**2,
        3.0,
        np.tile(first, (PARTICLES, 1)),
        first * [walk.deviation_noise, walk.length_noise],
        first / [walk.farthest_deviation, walk.farthest_length],
        cloud.states.copy(),
        cloud.values[:, 0].copy(),
        np.full(PARTICLES, 1.0 / PARTICLES),
    )
    row, noise = START[None], np.random.default_rng(5)
    for _ in range(STEPS):
        stiffness = np.array([1.2 * box.stiffness])
        row = box.propagate(row, stiffness, PRESSURES_PA, STEP_S)
        y = box.loads(row, stiffness, PRESSURES_PA)[0] + estimator.wrench_stddev * noise.standard_normal(6)
        rng, _ = cloud.draws.generator()
        cloud, _ = tracker.step(cloud, STEP_S, y, PRESSURES_PA)
        oracle.step(y, STEP_S, rng, hyper_parameters)
    return (
        float(np.abs(cloud.states - oracle.x).max()),
        float(np.abs(cloud.values[:, 0] - oracle.k).max() / box.stiffness),
        float(np.abs(np.exp(cloud.log_weights) - oracle.w).max()),
    )


@pytest.mark.parametrize("hyper_parameters", [False, True])
def test_steps_are_those_of_the_paper(hyper_parameters: bool) -> None:
    assert max(differences(hyper_parameters)) < 1e-9


def test_a_wrong_noise_is_noticed() -> None:
    assert max(differences(False, faulty=1.01)) > 1e-6
