"""What moves without being measured: between readings that are lost, and on axes that are beyond their range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.measurement import Matrix, Vector
from strapdown_estimation.configuration import Imu
from strapdown_estimation.model import ATTITUDE, DIMENSION, POSITION, VELOCITY

# A rotation that is less certain than this is not known at all.
_UNKNOWN_ANGLE_RAD = 1.0


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
    turn = slice(ATTITUDE, ATTITUDE + 3)
    noise[turn, turn] = np.diag(np.minimum(angles, _UNKNOWN_ANGLE_RAD**2))
    return noise


def steady(speeds: Matrix, duration_s: float) -> Matrix:
    """(18, 18) covariance of an unknown steady acceleration.

    `speeds` (3, 3) is the covariance of the velocity that it adds in `duration_s` seconds, along the world's axes.
    """
    noise = np.zeros((DIMENSION, DIMENSION))
    p, v = slice(POSITION, POSITION + 3), slice(VELOCITY, VELOCITY + 3)
    noise[v, v] = speeds
    noise[p, v] = noise[v, p] = 0.5 * duration_s * speeds
    noise[p, p] = (0.5 * duration_s) ** 2 * speeds
    return noise
