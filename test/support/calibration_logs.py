"""A simulated session of six positions and three turns by hand, with known errors of the sensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation, Slerp

from drivers.calibration.logs import POSITIONS, UP, ImuLog

Array = NDArray[np.float64]

G = 9.80665
RATE_HZ = 100.0


@dataclass(frozen=True, eq=False)
class Truth:
    """Errors of the sensor: reading = inv(matrix) true + bias."""

    accelerometer_bias: Array
    accelerometer_matrix: Array
    gyro_bias: Array
    gyro_matrix: Array


def truth(seed: int) -> Truth:
    random = np.random.default_rng(seed)

    def matrix() -> Array:
        gain = np.eye(3) + random.uniform(-0.02, 0.02, (3, 3)) + np.diag(random.uniform(-0.02, 0.02, 3))
        return np.linalg.inv(gain)

    return Truth(random.uniform(-0.6, 0.6, 3), matrix(), random.uniform(-0.02, 0.02, 3), matrix())


@cache
def session(
    seed: int,
    positions: tuple[str, ...] = POSITIONS,
    turns: str = "xyz",
    rest_s: float = 4.0,
    turn_deg: float = 360.0,
) -> ImuLog:
    """Log with white noise; tilts uniform up to 5 degrees, turns of the angle to within 2 degrees on a table."""
    random = np.random.default_rng([seed, 1])
    errors = truth(seed)
    attitudes: list[Rotation] = []
    previous: Rotation | None = None
    stages = [(name, 0.0) for name in positions] + [(f"+{axis}", turn_deg + random.uniform(-2, 2)) for axis in turns]
    for name, turn in stages:
        up = UP[POSITIONS.index(name)]
        across = np.cross(up, random.normal(size=3))
        tilt = np.deg2rad(random.uniform(0.0, 5.0)) * across / np.linalg.norm(across)
        tilted = Rotation.from_rotvec(tilt).apply(up)
        # The turn about it that brings the tilted direction up; its heading is whatever it is.
        attitude = Rotation.align_vectors([[0.0, 0.0, 1.0]], [tilted])[0]
        if previous is not None:
            attitudes.append(_moved(previous, attitude, 1.2))
        attitudes.append(_held(attitude, rest_s))
        if turn:
            attitudes += [_turned(attitude, np.deg2rad(turn), 4.0), _held(attitude, rest_s)]
            attitude = Rotation.from_rotvec([0, 0, np.deg2rad(turn)]) * attitude
            attitudes[-1] = _held(attitude, rest_s)
        previous = attitude
    steps = Rotation.concatenate(attitudes)
    rates = (steps[:-1].inv() * steps[1:]).as_rotvec() * RATE_HZ
    # A trapezoid of rates at the samples has to give the turned angle: rate in the middle of two steps.
    rates = np.vstack([rates[:1], (rates[1:] + rates[:-1]) / 2.0, rates[-1:]])
    force = steps.inv().apply([0.0, 0.0, G])
    gyro = rates @ np.linalg.inv(errors.gyro_matrix).T + errors.gyro_bias + 1e-3 * random.normal(size=rates.shape)
    accelerometer = force @ np.linalg.inv(errors.accelerometer_matrix).T + errors.accelerometer_bias
    accelerometer += 0.02 * random.normal(size=force.shape)
    return ImuLog("session", "imu", np.arange(len(force)) / RATE_HZ, np.hstack([gyro, accelerometer]))


def resting(seconds: float, density: float, random_walk: float, seed: int, rate_hz: float = 20.0) -> Array:
    """(K,) white noise and random walk, per sqrt(Hz) and sqrt(s)."""
    random = np.random.default_rng(seed)
    count = round(seconds * rate_hz)
    walk = random_walk * np.cumsum(random.normal(size=count)) / np.sqrt(rate_hz)
    out: Array = density * np.sqrt(rate_hz) * random.normal(size=count) + walk
    return out


def write_csv(path: Path, log: ImuLog) -> Path:
    table = np.column_stack([log.time_s, log.values])
    header = "time_s,gyr_x,gyr_y,gyr_z,acc_x,acc_y,acc_z"
    np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.6f")
    return path


def _smooth(seconds: float) -> Array:
    share = np.arange(1, round(seconds * RATE_HZ) + 1) / round(seconds * RATE_HZ)
    out: Array = share - np.sin(2.0 * np.pi * share) / (2.0 * np.pi)
    return out


def _held(attitude: Rotation, seconds: float) -> Rotation:
    return Rotation.concatenate([attitude] * round(seconds * RATE_HZ))


def _moved(start: Rotation, end: Rotation, seconds: float) -> Rotation:
    return Slerp([0.0, 1.0], Rotation.concatenate([start, end]))(np.minimum(_smooth(seconds), 1.0))


def _turned(start: Rotation, angle_rad: float, seconds: float) -> Rotation:
    angles = angle_rad * _smooth(seconds)
    return Rotation.from_rotvec(angles[:, None] * np.array([0.0, 0.0, 1.0])) * start
