"""A plain zero-velocity filter, to be compared with: what the strapdown filter must not be worse than.

Nine error states (position, velocity, attitude), no biases, no gates, no heights; still where the likelihood-ratio
detector of Skog, Handel, Nilsson and Rantakokko, "Zero-velocity detection - an algorithm evaluation", 2010, eq. (13),
says so. Constants are those of OpenShoe and of Wagstaff's PyShoe.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from benchmarks.measuring import Array
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.filtering.manifold_kernels import skew
from strapdown_estimation.estimators.alignment import level

THRESHOLD = 0.3e5
"""Of OpenShoe, about 0.3 rad/s."""
_WINDOW = 5
_DETECTED_M_S2, _DETECTED_RAD_S = 0.01, np.deg2rad(0.1)
_FORCE_STDDEV_M_S2, _RATE_STDDEV_RAD_S, _SPEED_STDDEV_M_S = 0.5, np.deg2rad(0.5), 0.01
_ALIGNED_S, _TILT_STDDEV_RAD = 0.5, np.deg2rad(0.1)


def still(readings: Array, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """(K,) whether the IMU stands at each of its readings (K, 6), by the `_WINDOW` of them that end there."""
    windows = np.lib.stride_tricks.sliding_window_view(readings, _WINDOW, axis=0)  # (K - W + 1, 6, W)
    up = windows[:, 3:].mean(axis=2, keepdims=True)
    deviation = windows[:, 3:] - STANDARD_GRAVITY_M_S2 * up / np.linalg.norm(up, axis=1, keepdims=True)
    squares = (deviation**2).sum(axis=1) / _DETECTED_M_S2**2 + (windows[:, :3] ** 2).sum(axis=1) / _DETECTED_RAD_S**2
    return np.append(np.zeros(_WINDOW - 1, dtype=bool), squares.mean(axis=1) < threshold)


def plain_positions(stamps_ns: NDArray[np.int64], readings: Array, threshold: float = THRESHOLD) -> Array:
    """Positions (K, 3), m, from the first of the readings (K, 6), at which the IMU rests at the origin."""
    times_s = (stamps_ns - stamps_ns[0]) / NANOSECONDS_PER_SECOND
    stands, turns = still(readings, threshold), Rotation.from_rotvec(readings[1:, :3] * np.diff(times_s)[:, None])
    turn = level(readings[times_s <= _ALIGNED_S, 3:].mean(axis=0))
    position, velocity, positions = np.zeros(3), np.zeros(3), np.zeros((len(stamps_ns), 3))
    covariance = np.diag(np.repeat([1e-10, 1e-10, _TILT_STDDEV_RAD**2], 3))
    for k, dt in enumerate(np.diff(times_s).tolist(), 1):
        turn = turn * turns[k - 1]
        force = turn.apply(readings[k, 3:])
        acceleration = force - [0.0, 0.0, STANDARD_GRAVITY_M_S2]
        position, velocity = position + velocity * dt + 0.5 * acceleration * dt**2, velocity + acceleration * dt
        move = np.eye(9)
        move[:3, 3:6], move[3:6, 6:] = dt * np.eye(3), -dt * skew(*force)
        noise = np.repeat([0.0, _FORCE_STDDEV_M_S2 * dt, _RATE_STDDEV_RAD_S * dt], 3)
        covariance = move @ covariance @ move.T + np.diag(noise**2)
        if stands[k]:
            gain = covariance[:, 3:6] @ np.linalg.inv(covariance[3:6, 3:6] + _SPEED_STDDEV_M_S**2 * np.eye(3))
            error = -gain @ velocity
            position, velocity = position + error[:3], velocity + error[3:6]
            turn = Rotation.from_rotvec(error[6:]) * turn
            covariance = covariance - gain @ covariance[3:6]
            covariance = 0.5 * (covariance + covariance.T)
        positions[k] = position
    return positions
