"""What is left to know where readings were missing, wrong or contradictory, and how the filter finds back.

An error-state filter is linear about its estimate: with an attitude that may be wrong by a radian, its covariance means
nothing. So the estimate of a filter that is lost stands still where it was last believed, with a covariance that grows
as fast as feet move, until the IMU stands on the ground. Gravity then gives the tilt, contact the velocity. The heading
is lost as far as it may have turned: nothing on board tells it.

A heading error t turns the path walked since, d, by 1 - cos t along it, which is no linear error: the filter has no
place for it. What it publishes gets it added, (E[(1 - cos t)^2] d d^T for the position.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix, Vector
from strapdown_estimation.configuration import Strapdown
from strapdown_estimation.model import (
    ACCELEROMETER_BIAS,
    ATTITUDE,
    DIMENSION,
    GYRO_BIAS,
    LEVER_ARM,
    POSITION,
    QUATERNION,
    SPACE,
    VELOCITY,
    attitude,
)

UNKNOWN_ANGLE_VARIANCE = math.pi**2 / 3.0
"""Of an angle that may be anything, rad^2."""
CONTRADICTING_READINGS = 5
"""So many readings on the ground that contradict the state, one after another, make it lost."""
_CONTRADICTING_TILT = math.cos(0.7)
"""Gravity further off than this is no heel that rolls: 0.4 rad is the most in walks that are well."""
_CONTRADICTING_SPEED_M_S = 2.5
"""The same for the speed of a foot on the ground: 2.1 m/s is the most, for one reading."""
_FLAT_M_S2 = 2.0
_FLAT_RAD_S = 1.0
_LEAST_TILT_STDDEV_RAD = 0.05
_LEAST_SPEED_STDDEV_M_S = 0.1


class Anchor(NamedTuple):
    """What a lost filter goes back to.

    Attributes
    ----------
    stamp_ns
        When the state was last believed.
    position, variance
        (3,) and (3, 3): then.
    heading_variance
        Then, rad^2.
    """

    stamp_ns: int
    position: Vector
    variance: Matrix
    heading_variance: float


class Lost(NamedTuple):
    """A filter that is lost: since when it was last believed, and the variance of its heading, rad^2."""

    anchor: Anchor
    heading_variance: float


def anchor_at(stamp_ns: int, mean: Vector, covariance: Matrix) -> Anchor:
    """The state as it is believed now."""
    p = slice(POSITION, POSITION + 3)
    return Anchor(stamp_ns, mean[p], covariance[p, p], heading_variance(mean, covariance))


def heading_variance(mean: Vector, covariance: Matrix) -> float:
    """Variance of a turn about the vertical, rad^2."""
    up = attitude(mean)[2]
    return float(up @ covariance[ATTITUDE : ATTITUDE + 3, ATTITUDE : ATTITUDE + 3] @ up)


def lost_at(anchor: Anchor, turned_rad: float) -> Lost:
    """Lost since then; the heading may have turned by so much (standard deviation)."""
    return Lost(anchor, min(anchor.heading_variance + turned_rad**2, UNKNOWN_ANGLE_VARIANCE))


def is_flat(deviation_rms: float, rate_rms: float) -> bool:
    """Whether an IMU in contact moves so little that its accelerometer shows where up is."""
    return deviation_rms < _FLAT_M_S2 and rate_rms < _FLAT_RAD_S


def contradicts(mean: Vector, reading: Vector, accepted: bool, speed_m_s: float) -> bool:
    """Whether a reading (6,) of an IMU that lies flat says that the state cannot be right."""
    force = reading[3:]
    upwards = float(attitude(mean)[2] @ force) / max(float(np.linalg.norm(force)), 1e-9)
    return upwards < _CONTRADICTING_TILT or (not accepted and speed_m_s > _CONTRADICTING_SPEED_M_S)


def unknown(lost: Lost, stamp_ns: int, mean: Vector, configuration: Strapdown) -> tuple[Vector, Matrix]:
    """State (19,) and covariance (18, 18) of a filter that is lost: where it was, as far as it may have come."""
    imu = configuration.imu
    elapsed_s = (stamp_ns - lost.anchor.stamp_ns) / NANOSECONDS_PER_SECOND
    moved = (imu.hidden_speed_stddev_m_s * elapsed_s) ** 2
    state = _without_motion(mean, lost.anchor.position)
    covariance = np.zeros((DIMENSION, DIMENSION))
    _set(covariance, POSITION, lost.anchor.variance + moved * np.eye(3))
    _set(covariance, VELOCITY, imu.hidden_speed_stddev_m_s**2 * np.eye(3))
    _set(covariance, ATTITUDE, UNKNOWN_ANGLE_VARIANCE * np.eye(3))
    _set_constants(covariance, configuration)
    return state, covariance


def found(
    lost: Lost, stamp_ns: int, mean: Vector, reading: Vector, deviation_rms: float, biases: Vector, p: Strapdown
) -> tuple[Vector, Matrix]:
    """State and covariance of a filter whose IMU lies flat on the ground, by its reading (6,).

    Biases (6,), of accelerometer and gyro, are those of the start: bad readings may have spoilt the estimated ones.
    """
    state, covariance = unknown(lost, stamp_ns, mean, p)
    state[SPACE.coordinates("accelerometer_bias")], state[SPACE.coordinates("gyro_bias")] = biases[:3], biases[3:]
    turn = Rotation.from_quat(mean[QUATERNION : QUATERNION + 4])
    up = turn.apply(reading[3:] - biases[:3])
    level, _ = Rotation.align_vectors(np.array([[0.0, 0.0, 1.0]]), up[None] / np.linalg.norm(up))
    rotation = level * turn
    state[QUATERNION : QUATERNION + 4] = rotation.as_quat()
    tilt = _LEAST_TILT_STDDEV_RAD**2 + (deviation_rms / p.start.gravity_m_s2) ** 2
    vertical = np.outer(rotation.as_matrix()[2], rotation.as_matrix()[2])
    _set(covariance, ATTITUDE, tilt * (np.eye(3) - vertical) + lost.heading_variance * vertical)
    speed = _LEAST_SPEED_STDDEV_M_S**2 + p.contact.speed_stddev_m_s**2
    _set(covariance, VELOCITY, speed * np.eye(3))
    return state, covariance


def with_turned_path(origin: Vector, mean: Vector, covariance: Matrix) -> Matrix:
    """Covariance with what a heading that is not known does to the path since the origin (3,), and to the velocity."""
    variance = heading_variance(mean, covariance)
    squared = 1.0 - 2.0 * math.exp(-0.5 * variance) + 0.5 * (1.0 + math.exp(-2.0 * variance))
    along = np.zeros(DIMENSION)
    along[POSITION : POSITION + 2] = mean[POSITION : POSITION + 2] - origin[:2]
    along[VELOCITY : VELOCITY + 2] = mean[VELOCITY : VELOCITY + 2]
    widened: Matrix = covariance + squared * np.outer(along, along)
    return widened


def _without_motion(mean: Vector, position: Vector) -> Vector:
    state = mean.copy()
    state[SPACE.coordinates("position")] = position
    state[SPACE.coordinates("velocity")] = 0.0
    state[SPACE.coordinates("lever_arm")] = 0.0
    return state


def _set_constants(covariance: Matrix, configuration: Strapdown) -> None:
    imu = configuration.imu
    _set(covariance, ACCELEROMETER_BIAS, imu.accelerometer_bias_stddev_m_s2**2 * np.eye(3))
    _set(covariance, GYRO_BIAS, imu.gyro_bias_stddev_rad_s**2 * np.eye(3))
    _set(covariance, LEVER_ARM, configuration.contact.lever_arm_stddev_m**2 * np.eye(3))


def _set(covariance: Matrix, first: int, block: Matrix) -> None:
    covariance[first : first + 3, first : first + 3] = block
