"""Initial state of an IMU that lies still: tilt from gravity, biases as far as they can be seen, heading zero."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Matrix, Vector
from onboard_estimation.filtering.manifold_kernels import skew
from onboard_estimation.filtering.moments import Moments
from strapdown_estimation.model import state as model
from strapdown_estimation.model.configuration import Strapdown
from strapdown_estimation.model.state import attitude

# The origin is where the IMU lies at start: exact by definition. Square roots and inverses need a trace of variance.
_EXACT_M = 1e-6
_EXACT_RAD = 1e-6

_ACCELEROMETER_BIAS = model.SPACE.coordinates("accelerometer_bias")
_GYRO_BIAS = model.SPACE.coordinates("gyro_bias")


class Aligned(NamedTuple):
    """What is known at the start, as a value.

    Attributes
    ----------
    moments
        The state.
    specific_force_m_s2
        What the accelerometer reads at rest, its size.
    typical_step_s
        Between two readings; infinite where there was none.
    stuck_after
        So many repetitions of a reading mean that the sensor is stuck; 0: it repeats readings by nature.
    """

    moments: Moments
    specific_force_m_s2: float
    typical_step_s: float
    stuck_after: int

    @property
    def accelerometer_bias(self) -> Vector:
        """(3,) m/s^2."""
        return self.moments.mean[_ACCELEROMETER_BIAS]

    @property
    def gyro_bias(self) -> Vector:
        """(3,) rad/s."""
        return self.moments.mean[_GYRO_BIAS]


StillReadings = tuple[tuple[int, Vector], ...]
"""Stamps (ns) and readings (6,) of an IMU that has lain still since the first of them."""


def align(
    still: StillReadings, stamp_ns: int, reading: Vector, energy: float, configuration: Strapdown
) -> tuple[StillReadings, Aligned | None]:
    """With the next reading and its energy (rad/s): the readings at rest, and the start once they are enough."""
    p = configuration
    still = () if energy >= p.contact.rest_energy_rad_s else (*still, (stamp_ns, reading))
    duration_s = (stamp_ns - still[0][0]) / NANOSECONDS_PER_SECOND if still else 0.0
    if duration_s < p.start.duration_s:
        return still, None
    readings = np.array([one for _, one in still])
    gyro, force = readings[:, IMU.angular_velocity], readings[:, IMU.linear_acceleration]
    # A steady turn does not fluctuate: it shows as a bias that no gyro has.
    if np.abs(gyro.mean(axis=0)).max() > 5.0 * math.hypot(p.imu.gyro_bias_stddev_rad_s, gyro.std(axis=0).max()):
        return (), None
    equal = _longest_run(readings)
    return (), Aligned(
        Moments(*align_at_rest(gyro, force, duration_s, p)),
        float(np.linalg.norm(force.mean(axis=0))),
        duration_s / (len(readings) - 1),
        0 if equal > p.imu.stuck_readings else p.imu.stuck_readings * equal,
    )


def as_given(moments: Moments, configuration: Strapdown) -> Aligned:
    """The start from a state that is known, of an IMU that need not lie still and has noise at rest."""
    upwards = attitude(moments.mean)[2] * configuration.start.gravity_m_s2
    force = upwards + moments.mean[_ACCELEROMETER_BIAS]
    return Aligned(moments, float(np.linalg.norm(force)), math.inf, configuration.imu.stuck_readings)


def align_at_rest(
    gyro: NDArray[np.float64], accelerometer: NDArray[np.float64], duration_s: float, configuration: Strapdown
) -> tuple[Vector, Matrix]:
    """State (19,) and covariance (18, 18) from readings at rest.

    Parameters
    ----------
    gyro, accelerometer
        (N, 3) readings, rad/s and m/s^2.
    duration_s
        Time that they span.

    The accelerometer's mean m is gravity plus bias. Its direction levels the IMU; the horizontal bias that it hides
    becomes an uncertain tilt that is correlated with that bias, so that both are corrected together later on. Its size
    tells the vertical bias, as far as gravity is known. The gyro's mean is its bias plus the true rotation, which does
    not vanish in a standing person.
    """
    imu, start, contact = configuration.imu, configuration.start, configuration.contact
    mean_force = accelerometer.mean(axis=0)
    size = float(np.linalg.norm(mean_force))
    rotation = level(mean_force)
    up_in_imu = mean_force / size

    bias_variance, gravity_variance = imu.accelerometer_bias_stddev_m_s2**2, start.gravity_stddev_m_s2**2
    share = bias_variance / (bias_variance + gravity_variance)
    accelerometer_bias = share * (size - start.gravity_m_s2) * up_in_imu
    vertical = np.outer(up_in_imu, up_in_imu)
    bias_covariance = bias_variance * (np.eye(3) - vertical) + share * gravity_variance * vertical

    # What the gyro shows beside its mean may be true swaying, correlated over tau. Its mean over T has 2 tau / T of the
    # variance.
    averaging = min(1.0, 2.0 * contact.sway_correlation_s / max(duration_s, 1e-9))
    rate_variance = float(gyro.var(axis=0).mean()) * max(averaging, 1.0 / len(gyro))
    gyro_share = imu.gyro_bias_stddev_rad_s**2 / (imu.gyro_bias_stddev_rad_s**2 + rate_variance)

    state = model.SPACE.origin()
    state[model.SPACE.coordinates("attitude")] = rotation.as_quat()
    state[_ACCELEROMETER_BIAS] = accelerometer_bias
    state[_GYRO_BIAS] = gyro_share * gyro.mean(axis=0)

    # The true attitude R Exp(e) makes m - b vertical: e x m = b across the vertical, hence e = (up x b) / |m|.
    tilt_by_bias = skew(*up_in_imu) / size
    heading = _EXACT_RAD**2 * vertical
    averaged_force = accelerometer.var(axis=0).mean() / len(accelerometer) / size**2
    covariance = model.block_diagonal(
        position=_EXACT_M**2 * np.eye(3),
        velocity=contact.speed_stddev_m_s**2 * np.eye(3),
        attitude=tilt_by_bias @ bias_covariance @ tilt_by_bias.T + averaged_force * (np.eye(3) - vertical) + heading,
        accelerometer_bias=bias_covariance,
        gyro_bias=gyro_share * rate_variance * np.eye(3),
        lever_arm=contact.lever_arm_stddev_m**2 * np.eye(3),
    )
    tilt, bias = (model.SPACE.tangent(name) for name in ("attitude", "accelerometer_bias"))
    covariance[tilt, bias], covariance[bias, tilt] = tilt_by_bias @ bias_covariance, bias_covariance @ tilt_by_bias.T
    return state, covariance


def level(specific_force: Vector) -> Rotation:
    """Attitude (IMU frame to world) that turns a specific force at rest (3,) upwards, with heading zero.

    Heading zero means that the IMU's x axis, seen from above, points along the world's x (its y axis along y, where x
    is within 15 degrees of the vertical).
    """
    up = specific_force / np.linalg.norm(specific_force)
    axis = 0 if abs(up[0]) < np.cos(np.deg2rad(15.0)) else 1
    along = np.eye(3)[axis] - up[axis] * up
    along /= np.linalg.norm(along)
    x, y = (along, np.cross(up, along)) if axis == 0 else (np.cross(along, up), along)
    return Rotation.from_matrix(np.array([x, y, up]))


def _longest_run(readings: Matrix) -> int:
    """Most equal readings (N, 6) in a row: 1 where all differ from the one before."""
    changes = np.flatnonzero(np.append(True, (readings[1:] != readings[:-1]).any(axis=1)))
    return int(np.diff(np.append(changes, len(readings))).max())
