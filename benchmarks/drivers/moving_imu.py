"""An IMU on a tracked body, moved at random: what both would record, with clocks and frames that are known.

It shares nothing with what is judged by it: rotations are multiplied step by step at 1 kHz, rates and accelerations
come from splines. Noise and bias of the gyro are those of the MPU-6050's data sheet; the truth has noise, lost frames
and holes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bulk import Column

Rows = NDArray[np.float64]

GRAVITY_M_S2 = np.array([0.0, 0.0, 9.81])
START_NS = 1_700_000_000_000_000_000
_STEP_S = 1e-3


@dataclass(frozen=True)
class Moved:
    """How it is moved, and how badly it is measured."""

    duration_s: float = 30.0
    rate_rad_s: float = 1.2
    reach_m: float = 0.15
    band_hz: float = 1.5
    planar: bool = False
    imu_hz: float = 200.0
    truth_hz: float = 100.0
    gyro_noise_rad_s_sqrt_hz: float = float(np.deg2rad(0.005))
    gyro_bias_rad_s: float = 0.05
    gyro_scale: float = 0.01
    force_noise_m_s2_sqrt_hz: float = 0.004
    force_bias_m_s2: float = 0.3
    vibration_rad_s: float = 0.02
    vibration_m_s2: float = 0.2
    truth_stddev_m: float = 3e-4
    truth_stddev_rad: float = float(np.deg2rad(0.2))
    lost: float = 0.01
    holes: int = 3
    largest_offset_s: float = 0.02


class Truth(NamedTuple):
    """What is to be found: offset (s), rotation from the IMU's to the body's frame, place of the IMU in it (m)."""

    offset_s: float
    mounting: Rotation
    lever_m: Rows


class Recorded(NamedTuple):
    """Stamps in ns; readings (N, 6), gyro first; poses (K, 7)."""

    imu_ns: NDArray[np.int64]
    readings: Rows
    truth_ns: NDArray[np.int64]
    poses: Rows
    truth: Truth


def readings_of(stamps_ns: NDArray[np.int64], values: NDArray[np.float64], delay_ns: int = 0) -> Column:
    """Readings (N, 6) of an IMU alone in its bag, recorded so long after their stamps."""
    return Column(stamps_ns, stamps_ns + delay_ns, values, np.arange(len(stamps_ns)))


def record(seed: int, how: Moved = Moved()) -> Recorded:
    """One recording; everything is drawn anew for each seed."""
    rng = np.random.default_rng(seed)
    times = np.arange(-0.5, how.duration_s + 0.5, _STEP_S)

    def wandering(size: float) -> CubicSpline:
        knots = np.arange(times[0] - 0.5, times[-1] + 1.0, 0.4 / how.band_hz)
        return CubicSpline(knots, rng.normal(0.0, size, (len(knots), 3)))

    rate, place = wandering(how.rate_rad_s), wandering(how.reach_m)
    in_plane = np.array([0.0, 0.0, 1.0]) if how.planar else np.ones(3)
    rates, accelerations = in_plane * rate(times), place(times, 2)
    turns = Rotation.from_rotvec(_STEP_S * in_plane * rate(times[:-1] + _STEP_S / 2)).as_matrix()
    attitudes = np.empty((len(times), 3, 3))
    attitudes[0] = np.eye(3) if how.planar else Rotation.random(random_state=seed).as_matrix()
    for step, turn in enumerate(turns):
        attitudes[step + 1] = attitudes[step] @ turn
    mounting = (
        Rotation.from_euler("z", rng.uniform(-3.0, 3.0)) if how.planar else Rotation.random(random_state=seed + 1)
    )
    lever = rng.normal(0.0, 0.05, 3)
    turning = in_plane * rate(times, 1)
    forces = np.einsum("tji,tj->ti", attitudes, accelerations + GRAVITY_M_S2)
    forces += np.cross(turning, lever) + np.cross(rates, np.cross(rates, lever))
    found = Truth(float(rng.uniform(-1.0, 1.0) * how.largest_offset_s), mounting, lever)

    when = np.arange(rng.uniform(0.0, 1.0), how.duration_s * how.imu_hz) / how.imu_hz
    gyro = mounting.inv().apply(_at(when, times, rates)) * (1.0 + rng.normal(0.0, how.gyro_scale, 3))
    force = mounting.inv().apply(_at(when, times, forces))
    white = np.sqrt(how.imu_hz / 2.0)
    shaken = 2.0 * np.pi * (rng.uniform(15.0, 60.0) * when[:, None] + rng.uniform(0.0, 1.0, 3))
    gyro += rng.normal(0.0, how.gyro_bias_rad_s, 3) + how.vibration_rad_s * np.sin(shaken)
    gyro += rng.normal(0.0, how.gyro_noise_rad_s_sqrt_hz * white, gyro.shape)
    force += rng.normal(0.0, how.force_bias_m_s2, 3) + how.vibration_m_s2 * np.sin(shaken)
    force += rng.normal(0.0, how.force_noise_m_s2_sqrt_hz * white, force.shape)

    seen = np.round(
        (np.arange(rng.uniform(0.0, 1.0), how.duration_s * how.truth_hz) / how.truth_hz - times[0]) / _STEP_S
    )
    seen = seen[rng.uniform(size=len(seen)) > how.lost].astype(np.int64)
    for start in rng.uniform(0.0, how.duration_s, how.holes):
        hole = (times[seen] > start) & (times[seen] < start + rng.uniform(0.1, 0.6))
        seen = seen[~hole]
    shaken_by = Rotation.from_rotvec(rng.normal(0.0, how.truth_stddev_rad, (len(seen), 3)))
    positions = place(times[seen]) + rng.normal(0.0, how.truth_stddev_m, (len(seen), 3))
    poses = np.hstack([positions, (Rotation.from_matrix(attitudes[seen]) * shaken_by).as_quat()])
    return Recorded(_ns(when), np.hstack([gyro, force]), _ns(times[seen] - found.offset_s), poses, found)


def _at(when: Rows, times: Rows, values: Rows) -> Rows:
    return np.column_stack([np.interp(when, times, column) for column in values.T])


def _ns(times_s: Rows) -> NDArray[np.int64]:
    return START_NS + np.round(times_s * 1e9).astype(np.int64)
