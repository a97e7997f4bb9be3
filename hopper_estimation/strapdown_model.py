"""Motion of a strapped-down IMU from its own readings, with the derivatives that an error-state filter needs.

Equations (1) to (7) of "Optimized Kalman Filter based State Estimation and Height Control in Hopping Robots", in their
general form. The IMU reads in its own frame

    accelerometer = a - g (specific force) + bias + noise + aliasing                  # eq. (1)
    gyro          = angular rate + bias + noise                                       # eq. (2)

and with the readings freed of their biases, position p, velocity v and attitude R (IMU frame to world) follow

    R' = R Exp(w dt),   v' = v + (R f + g) dt,   p' = p + v dt + (R f + g) dt^2 / 2    # eqs. (3) to (7)

What differs from the paper: the rotation uses the exact exponential instead of its first-order Taylor expansion, and
both readings are taken as linear between two samples (trapezoidal rule) instead of constant, which at 200 Hz halves the
vertical drift of a fast walk.

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

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.state_space import StateSpace, so3, vector

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
_SMALL_ANGLE = 1e-4


@njit(cache=True)
def skew(v: Array) -> Array:
    """(3, 3) matrix of the cross product: skew(v) @ u = v x u."""
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


@njit(cache=True)
def rotation_matrix(q: Array) -> Array:
    """(3, 3) rotation of a unit quaternion x, y, z, w."""
    x, y, z, w = q[0], q[1], q[2], q[3]
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


@njit(cache=True)
def rotated_quaternion(q: Array, turn: Array) -> Array:
    """Unit quaternion of R Exp(turn), turn (3,) a rotation vector in the IMU frame, rad."""
    angle = np.sqrt(np.sum(turn * turn))
    scale = 0.5 - angle * angle / 48.0 if angle < _SMALL_ANGLE else np.sin(0.5 * angle) / angle
    x, y, z, w = turn[0] * scale, turn[1] * scale, turn[2] * scale, np.cos(0.5 * angle)
    product = np.array(
        [
            q[3] * x + q[0] * w + q[1] * z - q[2] * y,
            q[3] * y - q[0] * z + q[1] * w + q[2] * x,
            q[3] * z + q[0] * y - q[1] * x + q[2] * w,
            q[3] * w - q[0] * x - q[1] * y - q[2] * z,
        ]
    )
    return product / np.sqrt(np.sum(product * product))


@njit(cache=True)
def right_jacobian(turn: Array) -> Array:
    """(3, 3) J with Exp(turn + e) = Exp(turn) Exp(J e) to first order in e."""
    square = np.sum(turn * turn)
    angle = np.sqrt(square)
    if angle < _SMALL_ANGLE:
        a, b = 0.5, 1.0 / 6.0
    else:
        a, b = (1.0 - np.cos(angle)) / square, (angle - np.sin(angle)) / (square * angle)
    cross = skew(turn)
    return np.eye(3) - a * cross + b * (cross @ cross)


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
    rate = 0.5 * (before[:3] + after[:3]) - mean[C_GYRO_BIAS : C_GYRO_BIAS + 3]
    turn = rate * dt
    force_before = before[3:] - mean[C_ACCELEROMETER_BIAS : C_ACCELEROMETER_BIAS + 3]
    force_after = after[3:] - mean[C_ACCELEROMETER_BIAS : C_ACCELEROMETER_BIAS + 3]
    quaternion_after = rotated_quaternion(mean[QUATERNION : QUATERNION + 4], turn)
    rotation_before = rotation_matrix(mean[QUATERNION : QUATERNION + 4])
    rotation_after = rotation_matrix(quaternion_after)
    acceleration_before = rotation_before @ force_before
    acceleration_after = rotation_after @ force_after
    acceleration_before[2] -= gravity
    acceleration_after[2] -= gravity

    moved = mean.copy()
    velocity = mean[C_VELOCITY : C_VELOCITY + 3]
    # Exact where the acceleration is linear in time.
    moved[:3] += velocity * dt + (2.0 * acceleration_before + acceleration_after) * (dt * dt / 6.0)
    moved[C_VELOCITY : C_VELOCITY + 3] += 0.5 * (acceleration_before + acceleration_after) * dt
    moved[QUATERNION : QUATERNION + 4] = quaternion_after

    turned_back = rotation_after.T @ rotation_before  # Exp(-turn)
    turn_by_bias = -right_jacobian(turn) * dt
    tilt_before = -rotation_before @ skew(force_before)
    tilt_after = -rotation_after @ skew(force_after)
    after_by_attitude = tilt_after @ turned_back
    after_by_bias = tilt_after @ turn_by_bias

    transition = np.eye(DIMENSION)
    p, v, a, b, g = POSITION, VELOCITY, ATTITUDE, ACCELEROMETER_BIAS, GYRO_BIAS
    sixth, half = dt * dt / 6.0, 0.5 * dt
    for i in range(3):
        transition[p + i, v + i] = dt
        for j in range(3):
            transition[p + i, a + j] = sixth * (2.0 * tilt_before[i, j] + after_by_attitude[i, j])
            transition[p + i, b + j] = -sixth * (2.0 * rotation_before[i, j] + rotation_after[i, j])
            transition[p + i, g + j] = sixth * after_by_bias[i, j]
            transition[v + i, a + j] = half * (tilt_before[i, j] + after_by_attitude[i, j])
            transition[v + i, b + j] = -half * (rotation_before[i, j] + rotation_after[i, j])
            transition[v + i, g + j] = half * after_by_bias[i, j]
            transition[a + i, a + j] = turned_back[i, j]
            transition[a + i, g + j] = turn_by_bias[i, j]
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
    rate = 0.0
    for i in range(3):
        rate += (0.5 * (before[i] + after[i]) - mean[C_GYRO_BIAS + i]) ** 2
    q = noise[0] ** 2 + (noise[2] * acceleration) ** 2
    r = noise[1] ** 2 + noise[3] ** 2 * rate
    out = np.zeros((DIMENSION, DIMENSION))
    for i in range(3):
        out[POSITION + i, POSITION + i] = q * dt**3 / 3.0
        out[POSITION + i, VELOCITY + i] = q * dt**2 / 2.0
        out[VELOCITY + i, POSITION + i] = q * dt**2 / 2.0
        out[VELOCITY + i, VELOCITY + i] = q * dt
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
    change = 0.0
    for i in range(3):
        change += (moved[C_VELOCITY + i] - mean[C_VELOCITY + i]) ** 2
    return moved, transition, process_noise(before, after, mean, np.sqrt(change) / dt, dt, noise)


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
    rotation = rotation_matrix(mean[QUATERNION : QUATERNION + 4])
    velocity = rotation.T @ mean[C_VELOCITY : C_VELOCITY + 3]
    rate = reading[:3] - mean[C_GYRO_BIAS : C_GYRO_BIAS + 3]
    arm = mean[C_LEVER_ARM : C_LEVER_ARM + 3]
    jacobian = np.zeros((3, DIMENSION))
    by_attitude, by_gyro_bias, by_arm = skew(velocity), -skew(arm), -skew(rate)
    for i in range(3):
        for j in range(3):
            jacobian[i, VELOCITY + j] = rotation[j, i]
            jacobian[i, ATTITUDE + j] = by_attitude[i, j]
            jacobian[i, GYRO_BIAS + j] = by_gyro_bias[i, j]
            jacobian[i, LEVER_ARM + j] = by_arm[i, j]
    return velocity - skew(rate) @ arm, jacobian
