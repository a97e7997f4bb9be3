"""Motion of a strapped-down IMU from its own readings, with the derivatives that an error-state filter needs.

Equations (1) to (7) of "Optimized Kalman Filter based State Estimation and Height Control in Hopping Robots", in their
general form. The IMU reads in its own frame

    accelerometer = a - g (specific force) + bias + noise + aliasing                  # eq. (1)
    gyro          = angular rate + bias + noise                                       # eq. (2)

and with the readings freed of their biases, position p, velocity v and attitude R (IMU frame to world) follow

    R' = R Exp(w dt),   v' = v + (R f + g) dt,   p' = p + v dt + (R f + g) dt^2 / 2    # eqs. (3) to (7)

What differs from the paper: the rotation uses the exact exponential instead of its first-order Taylor expansion, and
both readings are taken as linear between two samples (trapezoidal rule) instead of constant.

Ground contact. A foot that stands does not quite rest: it rolls over its sole, so that the IMU moves with
v = R (w x r), r being the lever arm from the point of contact to the IMU, in the IMU frame. The lever arm is part of
the state. With r = 0 the measurement is the usual zero-velocity update.

State and error
---------------
| block | coordinates | error |
|---|---|---|
| position | x, y, z in the world, m | added |
| velocity | in the world, m/s | added |
| attitude | quaternion x, y, z, w, IMU frame to world | rotation vector in the IMU frame, R_true = R Exp(error) |
| accelerometer_bias | in the IMU frame, m/s^2 | added |
| gyro_bias | in the IMU frame, rad/s | added |
| lever_arm | from the point of contact to the IMU, in the IMU frame, m | added |

The world frame is z up. Readings are rows of (gyro x y z, accelerometer x y z), rad/s and m/s^2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.filtering import manifold_kernels as manifold
from onboard_estimation.filtering.manifold_kernels import rotation_matrix, skew
from onboard_estimation.filtering.moments import Moments, predict
from onboard_estimation.filtering.state_space import StateSpace, so3, vector
from strapdown_estimation.model.configuration import Imu, Strapdown

Array = NDArray[np.float64]

SPACE = StateSpace(
    vector("position", ("x", "y", "z"), "m"),
    vector("velocity", ("x", "y", "z"), "m/s"),
    so3("attitude"),
    vector("accelerometer_bias", ("x", "y", "z"), "m/s^2"),
    vector("gyro_bias", ("x", "y", "z"), "rad/s"),
    vector("lever_arm", ("x", "y", "z"), "m"),
)
DIMENSION = SPACE.dimension

# First element of each block in the error (tangent) and in the coordinates: compiled functions cannot ask SPACE.
POSITION, VELOCITY, ATTITUDE, ACCELEROMETER_BIAS, GYRO_BIAS, LEVER_ARM = (
    SPACE.tangent(block.name).start for block in SPACE.blocks
)
QUATERNION = SPACE.coordinates("attitude").start
C_VELOCITY, C_ACCELEROMETER_BIAS, C_GYRO_BIAS, C_LEVER_ARM = (
    SPACE.coordinates(name).start for name in ("velocity", "accelerometer_bias", "gyro_bias", "lever_arm")
)


def block_diagonal(**blocks: Array) -> Array:
    """(18, 18) covariance of blocks by name, each (3, 3), that are not correlated."""
    out = np.zeros((DIMENSION, DIMENSION))
    for name, block in blocks.items():
        out[SPACE.tangent(name), SPACE.tangent(name)] = block
    return out


# Loops over scalars: numba compiles and runs them several times faster than slices and `@` on matrices this small.


@njit(cache=True)
def product(a: Array, b: Array) -> Array:
    """Product of two (3, 3) matrices."""
    out = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]
    return out


@njit(cache=True)
def attitude(state: Array) -> Array:
    """(3, 3) rotation from the IMU frame to the world of a state (19,)."""
    return rotation_matrix(state[QUATERNION], state[QUATERNION + 1], state[QUATERNION + 2], state[QUATERNION + 3])


@njit(cache=True)
def force_derivative(rotation: Array, reading: Array, mean: Array) -> tuple[Array, Array]:
    """World-frame specific force (3,), m/s^2, and its derivative (3, 3) by the attitude's error."""
    b, force = C_ACCELEROMETER_BIAS, np.empty(3)
    x, y, z = reading[3] - mean[b], reading[4] - mean[b + 1], reading[5] - mean[b + 2]
    for i in range(3):
        force[i] = rotation[i, 0] * x + rotation[i, 1] * y + rotation[i, 2] * z
    return force, product(rotation, skew(-x, -y, -z))


@njit(cache=True)
def move(mean: Array, before: Array, after: Array, dt: float, gravity: float) -> tuple[Array, Array]:
    """State `dt` seconds on, and the Jacobian of its error.

    Parameters
    ----------
    mean
        (19,) state at the earlier reading.
    before, after
        (6,) readings at both ends of the step.
    gravity
        Magnitude, m/s^2.

    Returns
    -------
    (19,) state and (18, 18) transition F of the error.
    """
    turn = (0.5 * (before[:3] + after[:3]) - mean[C_GYRO_BIAS : C_GYRO_BIAS + 3]) * dt
    moved, quaternion = mean.copy(), mean[QUATERNION : QUATERNION + 4].reshape(1, 4)
    rotation = np.array([[manifold.SO3, 3]])  # the space of the attitude alone
    turned = manifold.plus(quaternion, turn.reshape(1, 3), rotation)
    for i in range(4):
        moved[QUATERNION + i] = turned[0, i]
    rotation_before, rotation_after = attitude(mean), attitude(moved)
    force_before, tilt_before = force_derivative(rotation_before, before, mean)
    force_after, tilt_after = force_derivative(rotation_after, after, mean)
    force_before[2] -= gravity
    force_after[2] -= gravity
    sixth, half = dt * dt / 6.0, 0.5 * dt
    for i in range(3):
        # Exact where the acceleration is linear in time.
        moved[i] += mean[C_VELOCITY + i] * dt + sixth * (2.0 * force_before[i] + force_after[i])
        moved[C_VELOCITY + i] += half * (force_before[i] + force_after[i])

    turned_back = product(np.ascontiguousarray(rotation_after.T), rotation_before)  # Exp(-turn)
    turn_by_bias = manifold.right_jacobian(turn, rotation)
    after_by_attitude = product(tilt_after, turned_back)
    after_by_bias = product(tilt_after, turn_by_bias)

    transition = np.eye(DIMENSION)
    p, v, a, b, g = POSITION, VELOCITY, ATTITUDE, ACCELEROMETER_BIAS, GYRO_BIAS
    for i in range(3):
        transition[p + i, v + i] = dt
        for j in range(3):
            transition[p + i, a + j] = sixth * (2.0 * tilt_before[i, j] + after_by_attitude[i, j])
            transition[p + i, b + j] = -sixth * (2.0 * rotation_before[i, j] + rotation_after[i, j])
            transition[p + i, g + j] = -sixth * dt * after_by_bias[i, j]
            transition[v + i, a + j] = half * (tilt_before[i, j] + after_by_attitude[i, j])
            transition[v + i, b + j] = -half * (rotation_before[i, j] + rotation_after[i, j])
            transition[v + i, g + j] = -half * dt * after_by_bias[i, j]
            transition[a + i, a + j] = turned_back[i, j]
            transition[a + i, g + j] = -dt * turn_by_bias[i, j]
    return moved, transition


@njit(cache=True)
def process_noise(before: Array, after: Array, mean: Array, acceleration: float, dt: float, noise: Array) -> Array:
    """(18, 18) covariance that a step of `dt` seconds adds to the error.

    Parameters
    ----------
    before, after
        (6,) readings at both ends of the step.
    mean
        (19,) state.
    acceleration
        Size of the IMU's acceleration in the step, m/s^2.
    noise
        (7,): noise densities of accelerometer (m/s^2/sqrt(Hz)) and gyro (rad/s/sqrt(Hz)), two-sided; what is added to
        them for each m/s^2 of acceleration and rad/s of rotation (1/sqrt(Hz)); random walks of accelerometer bias
        (m/s^2/sqrt(s)), gyro bias (rad/s/sqrt(s)) and lever arm (m/sqrt(s)).
    """
    rate = np.sum((0.5 * (before[:3] + after[:3]) - mean[C_GYRO_BIAS : C_GYRO_BIAS + 3]) ** 2)
    q = noise[0] ** 2 + (noise[2] * acceleration) ** 2
    r = noise[1] ** 2 + noise[3] ** 2 * rate
    out = np.zeros((DIMENSION, DIMENSION))
    for i in range(3):
        out[POSITION + i, POSITION + i], out[VELOCITY + i, VELOCITY + i] = q * dt**3 / 3.0, q * dt
        out[POSITION + i, VELOCITY + i] = out[VELOCITY + i, POSITION + i] = q * dt**2 / 2.0
        out[ATTITUDE + i, ATTITUDE + i] = r * dt
        out[ACCELEROMETER_BIAS + i, ACCELEROMETER_BIAS + i] = noise[4] ** 2 * dt
        out[GYRO_BIAS + i, GYRO_BIAS + i] = noise[5] ** 2 * dt
        out[LEVER_ARM + i, LEVER_ARM + i] = noise[6] ** 2 * dt
    return out


@njit(cache=True)
def move_with_noise(
    mean: Array, before: Array, after: Array, dt: float, gravity: float, noise: Array
) -> tuple[Array, Array, Array]:
    """State `dt` seconds on, transition F and process noise Q of its error: see `move` and `process_noise`."""
    moved, transition = move(mean, before, after, dt, gravity)
    change = np.sqrt(np.sum((moved[C_VELOCITY : C_VELOCITY + 3] - mean[C_VELOCITY : C_VELOCITY + 3]) ** 2))
    return moved, transition, process_noise(before, after, mean, change / dt, dt, noise)


@njit(cache=True)
def contact_velocity(mean: Array, reading: Array) -> tuple[Array, Array]:
    """Velocity of the point of contact, which is zero while the foot stands, and its Jacobian.

    Parameters
    ----------
    mean
        (19,) state.
    reading
        (6,) reading of that instant.

    Returns
    -------
    (3,) velocity R^T v - w x r in the IMU frame, m/s, and (3, 18) derivative by the error.
    """
    rotation = attitude(mean)
    velocity = np.zeros(3)
    for i in range(3):
        for j in range(3):
            velocity[i] += rotation[j, i] * mean[C_VELOCITY + j]
    rx, ry, rz = reading[:3] - mean[C_GYRO_BIAS : C_GYRO_BIAS + 3]
    ax, ay, az = mean[C_LEVER_ARM : C_LEVER_ARM + 3]
    by_attitude = skew(velocity[0], velocity[1], velocity[2])
    by_gyro_bias, by_arm = skew(-ax, -ay, -az), skew(-rx, -ry, -rz)
    jacobian = np.zeros((3, DIMENSION))
    for i in range(3):
        for j in range(3):
            jacobian[i, VELOCITY + j] = rotation[j, i]
            jacobian[i, ATTITUDE + j] = by_attitude[i, j]
            jacobian[i, GYRO_BIAS + j] = by_gyro_bias[i, j]
            jacobian[i, LEVER_ARM + j] = by_arm[i, j]
    velocity[0] -= ry * az - rz * ay
    velocity[1] -= rz * ax - rx * az
    velocity[2] -= rx * ay - ry * ax
    return velocity, jacobian


# The state moved by the readings at both ends of a step, and its covariance with what moves without being measured.

# A rotation that is less certain than this is not known at all.
_UNKNOWN_ANGLE_RAD = 1.0


_SATURATED = 0.99
EQUAL_EXTREMES = 3
"""So many readings of an axis that equal its largest to the last bit are its limit: noise does not repeat itself."""
_SLOWEST_LIMIT = np.repeat([1.0, 15.0], 3)
"""No IMU of a foot saturates below it: rad/s, m/s^2 (ranges begin at 125 deg/s and 2 g)."""


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


class Coverage(NamedTuple):
    """How completely the readings have shown the motion.

    Attributes
    ----------
    typical_step_s
        Between two readings none of which is lost; infinite as long as it is not known.
    beyond
        (6,) for how many readings each axis has been beyond its range.
    largest, equal
        (6,) the largest size of each axis so far, and how many readings had it: of an axis that is cut off, many.
    """

    typical_step_s: float
    beyond: NDArray[np.int64] = np.zeros(6, dtype=np.int64)
    largest: Vector = _SLOWEST_LIMIT
    equal: NDArray[np.int64] = np.zeros(6, dtype=np.int64)

    def seen(self, size: Vector) -> Coverage:
        """With the next reading's size (6,)."""
        extreme = size >= self.largest
        if not extreme.any():
            return self
        equal = np.where(size > self.largest, 1, self.equal + extreme)
        beyond = np.where(extreme & (equal == EQUAL_EXTREMES), EQUAL_EXTREMES - 1, self.beyond)
        return self._replace(largest=np.maximum(size, self.largest), equal=equal, beyond=beyond)

    @property
    def cut_off(self) -> bool:
        """Whether an axis is cut off at its largest reading."""
        return bool((self.equal >= EQUAL_EXTREMES).any())

    def limits(self, configured: Vector) -> Vector:
        """(6,) where each axis is cut off: as configured, or as seen."""
        return np.where(self.equal >= EQUAL_EXTREMES, np.minimum(configured, self.largest), configured)


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
        self._range = np.repeat([imu.gyro_range_rad_s, imu.accelerometer_range_m_s2], 3)

    def step(
        self, coverage: Coverage, moments: Moments, before: Vector, reading: Vector, step_s: float
    ) -> tuple[Coverage, Moments]:
        """Moved by the readings (6,) at both ends of the step, long steps in pieces."""
        coverage = coverage.seen(np.abs(reading))
        typical_s, beyond_for, *_ = coverage
        pieces = max(1, math.ceil(step_s / self._imu.largest_step_s - 1e-9))
        begin, change = before, (reading - before) / pieces
        for _ in range(pieces):
            end = begin + change if pieces > 1 else reading
            moved = move_with_noise(moments.mean, begin, end, step_s / pieces, self._gravity_m_s2, self._noise)
            moments = predict(moments, *moved)
            begin = end
        limits = coverage.limits(self._range) * _SATURATED
        beyond = (np.abs(reading) >= limits) | (np.abs(before) >= limits)
        if beyond.any() or beyond_for.any():
            beyond_for = np.where(beyond, beyond_for + 1, 0)
        lost_s = step_s - typical_s if step_s > 1.5 * typical_s else 0.0
        if lost_s > 0.0 or beyond.any():
            size = np.abs(reading - before)
            hidden = hidden_motion(attitude(moments.mean), size, step_s, lost_s, beyond_for, self._imu)
            moments = Moments(moments.mean, moments.covariance + hidden)
        if math.isinf(typical_s):
            typical_s = step_s
        typical_s += 0.02 * (min(step_s, 2.0 * typical_s) - typical_s)
        return coverage._replace(typical_step_s=typical_s, beyond=beyond_for), moments
