"""Recordings of the ideal chain, and the truth in any of a chain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Recording
from onboard_estimation.contract.recorded import LoadedRecording
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.model.gaits import Gait
from salp_estimation.robot import ROBOT
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


def on_hardware(gait: str, seed: int, duration_s: float) -> Recording:
    """A run of the scenario `hardware`, with gyros at 50 Hz and motion capture at 60 Hz: soon read and replayed."""
    rng = np.random.default_rng(seed)
    simulation = ROBOT.simulation(SalpConfiguration(), "hardware", gait, rng, imu_rate_hz=50.0)
    recording = simulation.advance(round(duration_s * 1e9) + 1)
    return replace(recording, truth=tuple(one.rows(slice(None, None, 4)) for one in recording.truth))


def true_state(
    configuration: SalpConfiguration, recording: LoadedRecording, at_ns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """(K, N + 2) pose and joint angles, from the motion capture."""
    bodies = {name: recording.tracks[name].at(at_ns, 1.0)[0] for name in configuration.chain.link_names}
    parts = ROBOT.true_parts(configuration, bodies)
    return np.hstack([parts["pose"], parts["joint_angles"]])
