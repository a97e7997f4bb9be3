"""Recordings of the ideal chain."""

from __future__ import annotations

import numpy as np

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.simulation import Recording
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.gaits import Gait
from salp_estimation.simulator import IdealScenario, SalpSimulation


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
