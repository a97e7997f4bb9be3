"""The state moved by the readings at both ends of a step, and its covariance with what moves without being measured.

That is what lies between readings that are lost, and on axes that are beyond their range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.moments import Moments, predict
from onboard_estimation.measurement import Matrix, Vector
from strapdown_estimation import model
from strapdown_estimation.configuration import Imu, Strapdown
from strapdown_estimation.model import attitude, move_with_noise

# A rotation that is less certain than this is not known at all.
_UNKNOWN_ANGLE_RAD = 1.0


_SATURATED = 0.99


def hidden_motion(
    rotation: Matrix, change: Vector, step_s: float, lost_s: float, beyond: NDArray[np.int64], imu: Imu
) -> Matrix:
    """(18, 18) covariance of motion that was not measured: `lost_s` seconds of a step, axes beyond their range.

    Of a lost reading one knows that it lay about between its neighbours; of a longer gap, nothing. What a saturated
    axis hides has one sign while it lasts: after n steps its variance is n^2 times that of one.

    Parameters
    ----------
    rotation
        (3, 3) from the IMU to the world.
    change
        (6,) size of the change of the reading over the step: rad/s, m/s^2.
    beyond
        (6,) for how many readings each axis has been beyond its range.
    """
    angle, speed = 0.5 * lost_s * float(change[:3].max()), 0.5 * lost_s * float(change[3:].max())
    if lost_s > imu.largest_step_s:
        angle, speed = lost_s * imu.hidden_rate_stddev_rad_s, lost_s * imu.hidden_acceleration_stddev_m_s2
    growth = np.maximum(2 * beyond - 1, 0)
    angles = angle**2 + growth[:3] * (step_s * imu.hidden_rate_stddev_rad_s) ** 2
    speeds = speed**2 + growth[3:] * (step_s * imu.hidden_acceleration_stddev_m_s2) ** 2
    noise = steady((rotation * speeds) @ rotation.T, step_s)
    turn = slice(model.ATTITUDE, model.ATTITUDE + 3)
    noise[turn, turn] = np.diag(np.minimum(angles, _UNKNOWN_ANGLE_RAD**2))
    return noise


def steady(speeds: Matrix, duration_s: float) -> Matrix:
    """(18, 18) covariance of an unknown steady acceleration.

    `speeds` (3, 3) is the covariance of the velocity that it adds in `duration_s` seconds, along the world's axes.
    """
    noise = np.zeros((model.DIMENSION, model.DIMENSION))
    p, v = slice(model.POSITION, model.POSITION + 3), slice(model.VELOCITY, model.VELOCITY + 3)
    noise[v, v] = speeds
    noise[p, v] = noise[v, p] = 0.5 * duration_s * speeds
    noise[p, p] = (0.5 * duration_s) ** 2 * speeds
    return noise


class Coverage(NamedTuple):
    """How completely the readings have shown the motion.

    Attributes
    ----------
    typical_step_s
        Between two readings none of which is lost; infinite as long as it is not known.
    beyond
        (6,) for how many readings each axis has been beyond its range.
    """

    typical_step_s: float
    beyond: NDArray[np.int64]


class Prediction:
    """Readings go in, moved moments come out.

    Parameters
    ----------
    configuration
        See `Strapdown`.
    """

    def __init__(self, configuration: Strapdown) -> None:
        imu = self._imu = configuration.imu
        self._gravity_m_s2 = configuration.start.gravity_m_s2
        self._noise = np.array(
            [
                imu.acceleration_noise_m_s2_sqrt_hz,
                imu.rate_noise_rad_s_sqrt_hz,
                imu.acceleration_noise_share_sqrt_hz,
                imu.rate_noise_share_sqrt_hz,
                imu.accelerometer_bias_walk_m_s2_sqrt_s,
                imu.gyro_bias_walk_rad_s_sqrt_s,
                configuration.contact.lever_arm_walk_m_sqrt_s,
            ]
        )
        self._range = np.repeat([imu.gyro_range_rad_s, imu.accelerometer_range_m_s2], 3) * _SATURATED

    def step(
        self, coverage: Coverage, moments: Moments, before: Vector, reading: Vector, step_s: float
    ) -> tuple[Coverage, Moments]:
        """Moved by the readings (6,) at both ends of the step, long steps in pieces."""
        typical_s, beyond_for = coverage
        pieces = max(1, math.ceil(step_s / self._imu.largest_step_s - 1e-9))
        begin, change = before, (reading - before) / pieces
        for _ in range(pieces):
            end = begin + change if pieces > 1 else reading
            moved = move_with_noise(moments.mean, begin, end, step_s / pieces, self._gravity_m_s2, self._noise)
            moments = predict(moments, *moved)
            begin = end
        beyond = (np.abs(reading) >= self._range) | (np.abs(before) >= self._range)
        if beyond.any() or beyond_for.any():
            beyond_for = np.where(beyond, beyond_for + 1, 0)
        lost_s = step_s - typical_s if step_s > 1.5 * typical_s else 0.0
        if lost_s > 0.0 or beyond.any():
            size = np.abs(reading - before)
            hidden = hidden_motion(attitude(moments.mean), size, step_s, lost_s, beyond_for, self._imu)
            moments = Moments(moments.mean, moments.covariance + hidden)
        if math.isinf(typical_s):
            typical_s = step_s
        return Coverage(typical_s + 0.02 * (min(step_s, 2.0 * typical_s) - typical_s), beyond_for), moments
