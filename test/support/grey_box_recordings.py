"""Recordings of a soft robot that is the grey box itself, with moments that no equation knows: parameters are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import Series
from onboard_estimation.contract.recorded import LoadedRecording, from_simulator
from onboard_estimation.contract.tracks import BodyTrack
from softrobot_estimation.model.configuration import WRENCH, SoftRobotConfiguration, pressure_channel
from softrobot_estimation.model.description import BASE, TIP
from softrobot_estimation.model.grey_box import GreyBox
from softrobot_estimation.model.grey_box_kernels import MOMENTS, RATES
from softrobot_estimation.simulation.simulated_signals import mixture
from softrobot_estimation.simulation.unknown_soft_robot import read_unknown_soft_robot

STEP_S = 0.008
START_NS = 1_000 * NANOSECONDS_PER_SECOND
Array = NDArray[np.float64]


def grey_box_recording(
    configuration: SoftRobotConfiguration,
    duration_s: float,
    seed: int = 1,
    *,
    disturbance_n_m: float = 0.0,
    capture_late_s: float = 0.005,
) -> LoadedRecording:
    """A run of that robot: absolute pressures, wrench, poses of tip and base as their sensors give them.

    Parameters
    ----------
    disturbance_n_m
        Standard deviation of moments about x and y, correlated over `filter.moment_time_s`.
    capture_late_s
        By how much stamps of motion capture are late.
    """
    rng = np.random.default_rng(seed)
    model, count = GreyBox(configuration), int(duration_s / STEP_S)
    chambers_known = configuration.chambers
    pattern = mixture(chambers_known.angles_rad, chambers_known.pressure_max_pa, rng)
    commanded = pattern(STEP_S * np.arange(count))
    row, stiffness = model.resting_row()[None], np.array([model.stiffness])
    chambers = commanded[0].copy()
    kick = disturbance_n_m * np.sqrt(-np.expm1(-2.0 * STEP_S / configuration.filter.moment_time_s))
    places, velocities, loads = np.empty((count, 3)), np.empty((count, 3)), np.empty((count, 6))
    row[0, MOMENTS : MOMENTS + 2] = disturbance_n_m * rng.standard_normal(2)
    for n in range(count):
        if n:
            chambers, mean = model.through_hoses(commanded[n - 1], chambers, STEP_S)
            row = model.propagate(row, stiffness, mean, STEP_S)
            row[0, MOMENTS : MOMENTS + 2] += kick * rng.standard_normal(2)
        places[n], velocities[n] = np.split(model.tips(row, stiffness, chambers)[0, :6], 2)
        loads[n] = model.loads(row, stiffness, chambers)[0]
    assert np.isfinite(places).all(), "it fell over"
    assert np.abs(row[0, RATES : RATES + 3]).max() < 1e3

    stamps_ns = START_NS + np.arange(count) * round(STEP_S * NANOSECONDS_PER_SECOND)
    series = [
        Series(
            pressure_channel(name),
            stamps_ns,
            (
                commanded[:, [c]]
                + model.offsets_pa[c]
                + configuration.pressure.ambient_pa
                + configuration.pressure.noise_pa * rng.standard_normal((count, 1))
            ),
        )
        for c, name in enumerate(configuration.chambers.names)
    ]
    known = configuration.wrench
    sensed = np.hstack([loads[:, :3] @ known.base_from_sensor, loads[:, 3:] @ known.base_from_sensor])
    sensed += rng.standard_normal(sensed.shape) * ([known.force_stddev_n] * 3 + [known.torque_stddev_n_m] * 3)
    series.append(Series(WRENCH, stamps_ns, sensed))

    frame_s = 1.0 / configuration.truth.rate_hz
    at_s = np.arange(0.0, STEP_S * (count - 1), frame_s)
    captured_ns = START_NS + np.round((at_s + capture_late_s) * NANOSECONDS_PER_SECOND).astype(np.int64)
    down = configuration.mounting.down_in_base
    world, _ = Rotation.align_vectors([[0.0, 0.0, -1.0]], [down])
    moving = CubicSpline(STEP_S * np.arange(count), places)(at_s)
    origin = np.array([0.3, -0.2, 1.4])
    poses = {}
    for body, where in ((TIP, moving), (BASE, np.zeros_like(moving))):
        noise = configuration.truth.position_stddev_m * rng.standard_normal(where.shape)
        turned = np.tile(world.as_quat(), (len(where), 1))
        poses[body] = BodyTrack.clean(body, captured_ns, np.hstack([origin + world.apply(where) + noise, turned]))
    return LoadedRecording(tuple(series), np.repeat(np.arange(len(series)), count), poses, simulated=True)


def unknown_robot(
    shared_data: Path, run: int, seconds: float = np.inf
) -> tuple[SoftRobotConfiguration, LoadedRecording]:
    """A recorded run, or its first seconds, of a robot whose simulator nobody here wrote, and what is known of it."""
    converted = read_unknown_soft_robot(shared_data / "unknown_soft_robot" / f"run_{run}")
    sensors = tuple(one.rows(one.stamps_ns < one.stamps_ns[0] + 1e9 * seconds) for one in converted.recording.sensors)
    configuration = converted.configurations["softrobot"]
    assert isinstance(configuration, SoftRobotConfiguration)
    return configuration, from_simulator(replace(converted.recording, sensors=sensors), (TIP, BASE))
