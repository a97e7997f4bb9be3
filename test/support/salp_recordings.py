"""Recordings of the ideal chain."""

from __future__ import annotations

import numpy as np

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gaits import Gait
from salp_estimation.simulation.simulator import IdealScenario, SalpSimulation


def simulate(
    configuration: ChainConfiguration,
    gait: Gait,
    duration_s: float,
    rng: np.random.Generator,
    scenario: IdealScenario | None = None,
) -> Recording:
    """Recording of a gait, started straight at the origin at time zero; the same generator gives the same recording."""
    simulation = SalpSimulation(configuration, gait, rng, scenario)
    return simulation.advance(round(duration_s * NANOSECONDS_PER_SECOND) + 1)
