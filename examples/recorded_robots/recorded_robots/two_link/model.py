"""State of two jointed IMUs, how it moves, and what the joint tells of it, with derivatives for an error-state filter.

R turns vectors of the second (distal) IMU's frame into those of the first (proximal); w_i, f_i are what gyro and
accelerometer of IMU i read without their errors, r_i is the lever arm from it to the joint. Then

    R' = -[w_1]x R + R [w_2]x,    0 = c_1 - R c_2    with    c_i = f_i + w_i x (w_i x r_i) + w_i' x r_i:

both see one and the same acceleration of the joint (Weygers and Kok, "Drift-free inertial sensor-based joint kinematics
for long-term arbitrary movements", IEEE Sensors Journal 20(14), 2020). Gravity is in both and need not be known. Nor is
an attitude against the world needed: only R is estimated. Where the joint is a hinge, its axis j_i is fixed in both
frames: j_1 = R j_2.

State and error
---------------
| block | coordinates | error |
|---|---|---|
| relative_orientation | quaternion x, y, z, w of R | rotation vector in the distal IMU's frame, R_true = R Exp(error) |
| proximal_, distal_gyro_bias | in the IMU's frame, rad/s | added |
| proximal_, distal_accelerometer_error | in the IMU's frame, m/s^2 | added |
| proximal_, distal_lever_arm | from the IMU to the joint, in its frame, m | added |
| proximal_, distal_axis | of a hinge, a unit vector in the IMU's frame; zero until it is known | added |
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import rotation_matrix, skew
from onboard_estimation.filtering.state_space import StateSpace, so3, vector

Array = NDArray[np.float64]

_AXES = ("x", "y", "z")
_PAIR = ("proximal", "distal")
_FREE = (
    so3("relative_orientation"),
    *(vector(f"{one}_gyro_bias", _AXES, "rad/s") for one in _PAIR),
    *(vector(f"{one}_accelerometer_error", _AXES, "m/s^2") for one in _PAIR),
    *(vector(f"{one}_lever_arm", _AXES, "m") for one in _PAIR),
)
FREE = StateSpace(*_FREE)
HINGE = StateSpace(*_FREE, *(vector(f"{one}_axis", _AXES, "") for one in _PAIR))

# First element of each pair of blocks in the error; coordinates stand one further, for the quaternion has four.
GYRO, ACCELEROMETER, ARM, AXIS = 3, 9, 15, 21
_QUATERNION_EXTRA = 1

NOISE = (
    "rate_noise_rad_s_sqrt_hz",
    "rate_noise_share_sqrt_hz",
    "hidden_rate_stddev_rad_s",
    "gyro_bias_walk_rad_s_sqrt_s",
    "accelerometer_error_stddev_m_s2",
    "accelerometer_error_time_s",
)
"""Parameters of the IMUs that a step's noise comes from, in the order in which the kernels take them."""
_UNKNOWN_ANGLE_RAD = 1.0
"""A rotation that is less certain than this is not known at all."""


@njit(cache=True)
def part(mean: Array, block: int, link: int) -> Array:
    """(3,) of a pair of blocks, that of link 0 (proximal) or 1 (distal)."""
    first = block + 3 * link + _QUATERNION_EXTRA
    return mean[first : first + 3].copy()


@njit(cache=True)
def crossing(v: Array) -> Array:
    """(3, 3) matrix of the cross product with v from the left."""
    return skew(v[0], v[1], v[2])


@njit(cache=True)
def rotation(mean: Array) -> Array:
    """(3, 3) R of a state."""
    return rotation_matrix(mean[0], mean[1], mean[2], mean[3])


@njit(cache=True)
def _turned(left: Array, quaternion: Array, right: Array) -> Array:
    """(4,) quaternion of Exp(left) R Exp(right)."""
    factors = np.empty((3, 4))
    factors[1] = quaternion
    for row, turn in ((0, left), (2, right)):
        half = 0.5 * np.sqrt(turn[0] ** 2 + turn[1] ** 2 + turn[2] ** 2)
        scale = 0.5 * (1.0 - half * half / 6.0) if half < 1e-4 else 0.5 * np.sin(half) / half
        factors[row, :3] = scale * turn
        factors[row, 3] = np.cos(half)
    product = factors[0].copy()
    for row in (1, 2):
        a, b = product.copy(), factors[row]
        product[:3] = a[3] * b[:3] + b[3] * a[:3] + np.cross(a[:3], b[:3])
        product[3] = a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]
    return product / np.sqrt(np.sum(product**2))


@njit(cache=True)
def move(mean: Array, turns: Array, seen: Array, step_s: float, memory: float) -> tuple[Array, Array]:
    """State a step on, and the Jacobian F (n, n) of its error.

    Parameters
    ----------
    mean
        (a,) state.
    turns
        (2, 3) what the gyros of both IMUs turned by, as they read, rad.
    seen
        (2,) 1 where the gyro did read, 0 where nothing is known of its turn.
    memory
        Share of the accelerometers' errors that is left after the step.
    """
    size = mean.shape[0] - _QUATERNION_EXTRA
    bias_1, bias_2 = part(mean, GYRO, 0), part(mean, GYRO, 1)
    turn_1, turn_2 = seen[0] * (turns[0] - step_s * bias_1), seen[1] * (turns[1] - step_s * bias_2)
    moved = mean.copy()
    moved[:4] = _turned(-turn_1, mean[:4], turn_2)
    first = ACCELEROMETER + _QUATERNION_EXTRA
    moved[first : first + 6] *= memory
    transition = np.eye(size)
    back = np.zeros(4)
    back[3] = 1.0
    transition[:3, :3] = rotation(_turned(-turn_2, back, np.zeros(3)))
    # To first order in a step's turn, which is a few degrees.
    transition[:3, GYRO : GYRO + 3] = seen[0] * step_s * rotation(moved).T
    for i in range(3):
        transition[i, GYRO + 3 + i] = -seen[1] * step_s
    for i in range(ACCELEROMETER, ACCELEROMETER + 6):
        transition[i, i] = memory
    return moved, transition


@njit(cache=True)
def move_through(
    mean: Array, covariance: Array, steps_s: Array, turns: Array, unseen_s: Array, stddev_rad: Array, noise: Array
) -> tuple[Array, Array]:
    """Moments K steps on.

    Parameters
    ----------
    steps_s
        (K,) durations.
    turns, unseen_s, stddev_rad
        (2, K, 3), (2, K), (2, K): see `readings.Turns`, of both IMUs.
    noise
        (6,) as `NOISE` names them.
    """
    size = covariance.shape[0]
    for k in range(steps_s.shape[0]):
        step_s, memory = steps_s[k], np.exp(-steps_s[k] / noise[5])
        seen, variance, hidden = np.ones(2), 0.0, 0.0
        for link in range(2):
            seen[link] = 0.0 if unseen_s[link, k] > 0.0 else 1.0
            variance += noise[0] ** 2 * step_s + stddev_rad[link, k] ** 2
            variance += noise[1] ** 2 * np.sum(turns[link, k] ** 2) / step_s
            hidden += (noise[2] * unseen_s[link, k]) ** 2
        largest = max(covariance[0, 0], covariance[1, 1], covariance[2, 2])
        variance += min(hidden, max(0.0, _UNKNOWN_ANGLE_RAD**2 - largest))
        mean, transition = move(mean, np.ascontiguousarray(turns[:, k]), seen, step_s, memory)
        covariance = transition @ covariance @ transition.T
        covariance = 0.5 * (covariance + covariance.T)
        for i in range(size):
            if i < GYRO:
                covariance[i, i] += variance
            elif i < ACCELEROMETER:
                covariance[i, i] += noise[3] ** 2 * step_s
            elif i < ARM:
                covariance[i, i] += noise[4] ** 2 * (1.0 - memory**2)
    return mean, covariance


@njit(cache=True)
def joint_acceleration(mean: Array, link: int, motion: Array) -> Array:
    """(3,) c_i: the joint's acceleration less gravity, as IMU `link` tells it in its frame, m/s^2.

    Parameters
    ----------
    motion
        (3, 3) rows as read: angular rate, acceleration, angular acceleration.
    """
    rate, arm = motion[0] - part(mean, GYRO, link), part(mean, ARM, link)
    acceleration = motion[1] - part(mean, ACCELEROMETER, link)
    return acceleration + np.cross(rate, np.cross(rate, arm)) + np.cross(motion[2], arm)


@njit(cache=True)
def joint_difference(mean: Array, proximal: Array, distal: Array) -> tuple[Array, Array]:
    """How far c_1 - R c_2 is from zero (3,), m/s^2, as an innovation, and H (3, n); the motions as above."""
    size = mean.shape[0] - _QUATERNION_EXTRA
    turn = rotation(mean)
    seen_1, seen_2 = joint_acceleration(mean, 0, proximal), joint_acceleration(mean, 1, distal)
    observation = np.zeros((3, size))
    observation[:, :3] = turn @ crossing(seen_2)
    for link in range(2):
        motion = proximal if link == 0 else distal
        rate, arm = motion[0] - part(mean, GYRO, link), part(mean, ARM, link)
        crossed = crossing(rate)
        into = np.eye(3) if link == 0 else -turn
        by_arm = crossed @ crossed + crossing(motion[2])
        by_bias = crossing(np.cross(rate, arm)) + crossed @ crossing(arm)
        for block, derivative in ((GYRO, by_bias), (ACCELEROMETER, -np.eye(3)), (ARM, by_arm)):
            first = block + 3 * link
            observation[:, first : first + 3] = into @ derivative
    return turn @ seen_2 - seen_1, observation


@njit(cache=True)
def joint_variance(
    mean: Array, covariance: Array, fine: Array, coarse: Array, acceleration_variances: Array, roughness_share: float
) -> float:
    """Variance of the joint's acceleration as compared, per axis, beside what differs always, (m/s^2)^2.

    By the roughness of the motion; by the noise of the angular accelerations at the lever arms, as far as these are
    known; and by what the linearised turn d of an acceleration a leaves out, d x (d x a) / 2. A turn about the
    acceleration itself does nothing to it.

    Parameters
    ----------
    fine, coarse
        (2, 3, 3) motions of both IMUs.
    acceleration_variances
        (2,) of the noise of their angular accelerations.
    """
    variance = 0.0
    for link in range(2):
        rough = joint_acceleration(mean, link, fine[link]) - joint_acceleration(mean, link, coarse[link])
        arm, first = part(mean, ARM, link), ARM + 3 * link
        square = np.sum(arm**2) + covariance[first, first]
        square += covariance[first + 1, first + 1] + covariance[first + 2, first + 2]
        variance += roughness_share**2 * np.sum(rough**2) + acceleration_variances[link] * square
    acceleration, turn = joint_acceleration(mean, 1, fine[1]), covariance[:3, :3].copy()
    total = np.trace(turn)
    return variance + 0.25 * total * (total * np.sum(acceleration**2) - np.sum(acceleration * (turn @ acceleration)))


@njit(cache=True)
def hinge_difference(mean: Array) -> tuple[Array, Array]:
    """How far R j_2 is from j_1, across j_1 (2,), rad, as an innovation, and H (2, n)."""
    size = mean.shape[0] - _QUATERNION_EXTRA
    turn = rotation(mean)
    axis_1, axis_2 = part(mean, AXIS, 0), part(mean, AXIS, 1)
    least = np.zeros(3)
    least[np.argmin(np.abs(axis_1))] = 1.0
    across = np.empty((2, 3))
    across[0] = np.cross(axis_1, least)
    across[0] /= np.sqrt(np.sum(across[0] ** 2))
    across[1] = np.cross(axis_1, across[0])
    observation = np.zeros((2, size))
    observation[:, :3] = -across @ turn @ crossing(axis_2)
    observation[:, AXIS : AXIS + 3] = -across
    observation[:, AXIS + 3 : AXIS + 6] = across @ turn
    return across @ (axis_1 - turn @ axis_2), observation
