"""Residuals of LandSalp's model in the scenario `hardware`, as training sets for `residual_training`.

Every run is another robot (seed): its friction, springs and delays differ. Inputs: joint angles (rad) and commanded rim
speeds (m/s). Targets: measured less modelled body velocity and joint rates, and gyro rates less their mean at rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.gaits import GAITS
from salp_estimation.hardware_simulator import HardwareSimulation
from salp_estimation.motion import Motion, motion_from_links

Array = NDArray[np.float64]

RATE_HZ = 5.0


def residuals(seeds: Sequence[int], points: int) -> tuple[Array, Array, NDArray[np.int64]]:
    """Inputs (n, 5), targets (n, 8) and the number of the run (n,): a run of so many points for each seed and gait."""
    runs = [_run(gait, [seed, number], points) for seed in seeds for number, gait in enumerate(GAITS)]
    numbers = np.repeat(np.arange(len(runs)), points)
    return np.concatenate([inputs for inputs, _ in runs]), np.concatenate([targets for _, targets in runs]), numbers


def _run(gait: str, seed: list[int], points: int) -> tuple[Array, Array]:
    configuration = ChainConfiguration()
    chain, n = configuration.build(), len(configuration.link_names)
    simulation = HardwareSimulation(configuration, GAITS[gait].controls, np.random.default_rng(seed))
    rest_s = simulation.scenario.rest_s
    recording = simulation.advance(round((rest_s + points / RATE_HZ + 4.0) * NANOSECONDS_PER_SECOND))
    command, *imus = recording.sensors
    poses = [planar_pose(series.values) for series in recording.truth]
    names = configuration.link_names
    motion = motion_from_links(chain, [series.stamps_ns for series in recording.truth], poses, names)
    rim_speeds = command.values * configuration.signed_wheel_radii_m
    controls = motion.low_pass(motion.held(command.stamps_ns, rim_speeds))
    gyros = np.column_stack([_gyro(motion, series.stamps_ns, series.values[:, 2], rest_s) for series in imus])
    gyros = motion.low_pass(gyros)
    at_s = motion.stamps_ns / NANOSECONDS_PER_SECOND
    usable = motion.valid & np.isfinite(gyros).all(axis=1) & np.isfinite(controls).all(axis=1) & (at_s > rest_s + 1.0)
    chosen = np.flatnonzero(usable)[:: round(motion.rate_hz / RATE_HZ)][:points]
    inputs = np.concatenate([motion.states[chosen, 3:], controls[chosen]], axis=1)
    modelled = [
        np.concatenate([chain.velocity(row[: n - 1], row[n - 1 :]), chain.gyro_rates(row[: n - 1], row[n - 1 :])])
        for row in inputs
    ]
    return inputs, np.concatenate([motion.rates[chosen], gyros[chosen]], axis=1) - np.array(modelled)


def _gyro(motion: Motion, stamps_ns: NDArray[np.int64], rate_rad_s: Array, rest_s: float) -> Array:
    """A gyro's rate (K,) at the instants of the motion, less its mean at rest."""
    resting = stamps_ns < rest_s * NANOSECONDS_PER_SECOND
    return motion.sampled(stamps_ns, (rate_rad_s - rate_rad_s[resting].mean())[:, None])[:, 0]
