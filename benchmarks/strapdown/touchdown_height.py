"""The simplest height filter of an IMU that touches the ground: two states, position updates at touchdown.

    [z, vz]' = [vz, a],    a = (R f)_z - g

is KF1 of "Optimized Kalman Filter based State Estimation and Height Control in Hopping Robots" (eqs. 1 to 7) with the
vertical acceleration `a` as input; at a touchdown the height is that of the ground (position update). The paper's KF3
is this alone; with `stance_speed_stddev_m_s` the point of contact stands still as well (velocity update). The attitude
has to come from elsewhere.

It is here to be compared with: `estimator` uses more of what contact tells.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND


@dataclass(frozen=True)
class TouchdownHeight:
    """Parameters.

    Attributes
    ----------
    acceleration_density
        Noise density of the vertical acceleration, with the errors of tilt and scale, m/s^2/sqrt(Hz).
    ground_stddev_m
        How well the ground's height is known, and how high the IMU is above it at touchdown.
    stance_speed_stddev_m_s
        Vertical speed at touchdown; None: it tells nothing.
    """

    acceleration_density: float = 0.05
    ground_stddev_m: float = 0.01
    stance_speed_stddev_m_s: float | None = None


def filter_height(
    stamps_ns: NDArray[np.int64],
    acceleration_m_s2: NDArray[np.float64],
    touchdowns_ns: NDArray[np.int64],
    parameters: TouchdownHeight | None = None,
) -> NDArray[np.float64]:
    """Height and its standard deviation (K, 2), m, from the first stamp on, where the IMU rests at height zero.

    Parameters
    ----------
    stamps_ns, acceleration_m_s2
        (K,) stamps and vertical accelerations without gravity, upwards.
    touchdowns_ns
        (M,) stamps of the readings that showed a touchdown: the foot still stands there. The update comes with the
        first reading at or after each.

    Raises
    ------
    UserError
        Stamps that do not increase, or arrays that differ in length.
    """
    p = parameters or TouchdownHeight()
    if len(stamps_ns) != len(acceleration_m_s2):
        raise UserError(f"{len(acceleration_m_s2)} accelerations for {len(stamps_ns)} stamps")
    steps = np.diff(stamps_ns) / NANOSECONDS_PER_SECOND
    if (steps <= 0.0).any():
        raise UserError(f"stamps must increase; {np.count_nonzero(steps <= 0.0)} of {len(steps)} steps do not")
    updated = np.zeros(len(stamps_ns), dtype=bool)
    places = np.searchsorted(stamps_ns, touchdowns_ns)
    updated[places[places < len(stamps_ns)]] = True
    mean, covariance = np.zeros(2), np.zeros((2, 2))
    heights: NDArray[np.float64] = np.zeros((len(stamps_ns), 2))
    for k in range(1, len(stamps_ns)):
        dt = float(steps[k - 1])
        move = np.array([[1.0, dt], [0.0, 1.0]])
        acceleration = 0.5 * (acceleration_m_s2[k - 1] + acceleration_m_s2[k])
        noise = p.acceleration_density**2 * np.array([[dt**3 / 3.0, dt**2 / 2.0], [dt**2 / 2.0, dt]])
        mean = move @ mean + np.array([0.5 * dt**2, dt]) * acceleration
        covariance = move @ covariance @ move.T + noise
        if updated[k]:
            mean, covariance = _updated(mean, covariance, 0, p.ground_stddev_m)
            if p.stance_speed_stddev_m_s is not None:
                mean, covariance = _updated(mean, covariance, 1, p.stance_speed_stddev_m_s)
        heights[k] = mean[0], np.sqrt(covariance[0, 0])
    return heights


def _updated(
    mean: NDArray[np.float64], covariance: NDArray[np.float64], element: int, stddev: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance (Joseph's form) after one element of the state is measured as zero."""
    gain = covariance[:, element] / (covariance[element, element] + stddev**2)
    keep = np.eye(2)
    keep[:, element] -= gain
    return mean - gain * mean[element], keep @ covariance @ keep.T + stddev**2 * np.outer(gain, gain)
