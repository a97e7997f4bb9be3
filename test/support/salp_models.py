"""A residual model of LandSalp made by hand of round numbers, for tests of what is done with one."""

from __future__ import annotations

import numpy as np

from onboard_estimation.learning.model_file import ModelHeader, TrainingConditions
from salp_estimation.estimators.residual_model import Population, ResidualModel, chain_hash
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.training.population import kinds

CONFIGURATION = SalpConfiguration()
LINKS = CONFIGURATION.chain.link_names
_TYPICAL = {
    # Value, and its spread from robot to robot.
    "along": (0.5, 0.1),
    "across": (0.7, 0.15),
    "turning": (0.01, 0.004),
    "drag": (1.0, 0.05),
    "gain": (0.0, 0.03),
    "lag": (0.03, 0.01),
    "angle": (0.0, 0.01),
    "torque": (0.0, 0.008),
    "stiffness": (0.22, 0.05),
    "pull": (0.0, 0.02),
    "joint friction": (0.013, 0.003),
}


def a_model() -> ResidualModel:
    """Friction and harness about as large as those of the scenario `hardware`."""
    typical = np.array([_TYPICAL[kind] for kind in kinds(3)])
    residuals = np.array([0.002, 0.002, 0.02, 0.02, 0.02])
    creep = np.array([1e-4, 1e-4, 1e-3, 1e-3, 1e-3])
    population = Population(
        typical[:, 0], 1e-12 * np.eye(len(typical)), typical[:, 1], residuals, np.full(5, 0.5), creep
    )
    inputs = (*(f"alpha_{j}" for j in (1, 2)), *(f"u_{j}" for j in (1, 2, 3)))
    training = TrainingConditions(5.0, 1.0, 5, ("made",), ("",), ("0" * 64,), (-1.0,) * 5, (1.0,) * 5)
    header = ModelHeader(
        "local",
        "salp",
        tuple(f"imu/{name}" for name in LINKS),
        chain_hash(CONFIGURATION),
        inputs,
        ("rad", "rad", "m/s", "m/s", "m/s"),
        tuple(f"rate_{i}" for i in range(5)),
        ("m/s", "m/s", "rad/s", "rad/s", "rad/s"),
        training,
        "0",
    )
    return ResidualModel(header, population, None, np.array([[0.003, 0.06]] * 3))
