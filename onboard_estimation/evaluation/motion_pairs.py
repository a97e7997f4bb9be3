"""The motion of a tracked body and of an IMU in the same terms, for `delay_fit`: turned angles, and travelled ways."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_simpson, cumulative_trapezoid
from scipy.spatial.transform import Rotation

from onboard_estimation.evaluation.delay_fit import Motion, Sensed

Rows = NDArray[np.float64]

_TURN_WINDOW_S, _TURN_DEGREE = 5.0, 2
_WAY_WINDOW_S, _WAY_DEGREE = 3.0, 3
_LARGEST_TURN_RAD = 0.3
"""Between two poses further apart than this, the way that a body turned is not known."""


def body_turns(times_s: Rows, quaternions: Rows) -> Motion:
    """Angles (K, 3) that a body has turned about its own axes, rad: the integral of its angular velocity.

    Each step between two poses is exact where the axis of the turn holds still within it; the noise of the poses does
    not add up, but for the part that the body turns meanwhile. `quaternions` (K, 4) x y z w, body to world.
    """
    steps = _steps(quaternions)
    breaks = np.zeros(len(times_s), dtype=np.bool_)
    breaks[1:] = np.linalg.norm(steps, axis=1) > _LARGEST_TURN_RAD
    values = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
    return Motion(times_s, values, breaks, _TURN_WINDOW_S, _TURN_DEGREE, one_frame=True)


def gyro_turns(times_s: Rows, rates: Rows) -> Sensed:
    """Angles (N, k) that a gyro with k axes has turned, rad, from its rates (N, k), rad/s."""
    return Sensed(times_s, cumulative_simpson(rates, x=times_s, axis=0, initial=0.0), rates)


def body_ways(times_s: Rows, positions: Rows) -> Motion:
    """Positions (K, 3) of a body, m, to be compared with `imu_ways`."""
    return Motion(times_s, positions, np.zeros(len(times_s), dtype=np.bool_), _WAY_WINDOW_S, _WAY_DEGREE, False)


def imu_ways(times_s: Rows, rates: Rows, forces: Rows) -> Sensed:
    """Twice integrated specific force, m, in a frame that the gyro keeps from the start on, but for drift; (N, 12).

    What gravity adds is a parabola in each window; what the frame drifts within it, a cubic. The last nine columns are
    the IMU's axes in that frame: along them lies the lever arm to the body's origin, whatever it is.
    """
    turned = strapdown(times_s, rates)
    forces = turned.apply(forces)
    forces -= forces.mean(axis=0)
    speeds = cumulative_trapezoid(forces, x=times_s, axis=0, initial=0.0)
    speeds -= np.polynomial.polynomial.polyval(times_s - times_s[0], _line(times_s, speeds)).T
    ways = cumulative_simpson(speeds, x=times_s, axis=0, initial=0.0)
    axes = turned.as_matrix()
    turning = np.einsum("nij,njk->nik", axes, _crossing(rates))
    return Sensed(times_s, np.hstack([ways, axes.reshape(-1, 9)]), np.hstack([speeds, turning.reshape(-1, 9)]))


def _crossing(rates: Rows) -> Rows:
    """(N, 3, 3) so that each times a vector is the cross product of the rate and it."""
    out = np.zeros((len(rates), 3, 3))
    x, y, z = rates.T
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -z, y, -x
    crossing: Rows = out - np.swapaxes(out, 1, 2)
    return crossing


def _line(times_s: Rows, values: Rows) -> Rows:
    """Straight lines through the columns, which no window sees: it keeps the numbers small."""
    found: Rows = np.polynomial.polynomial.polyfit(times_s - times_s[0], values, 1)
    return found


def _steps(quaternions: Rows) -> Rows:
    rotations = Rotation.from_quat(quaternions)
    steps: Rows = (rotations[:-1].inv() * rotations[1:]).as_rotvec()
    return steps


def strapdown(times_s: Rows, rates: Rows) -> Rotation:
    """Attitude at each time against that at the first."""
    steps = 0.5 * (rates[1:] + rates[:-1]) * np.diff(times_s)[:, None]
    # Doubling: products of 1, 2, 4, ... steps, without a loop over all of them.
    product = Rotation.concatenate([Rotation.identity(1), Rotation.from_rotvec(steps)])
    reach = 1
    while reach < len(times_s):
        product = Rotation.concatenate([product[:reach], product[:-reach] * product[reach:]])
        reach *= 2
    return product
