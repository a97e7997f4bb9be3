"""Error of the distance that an optical-flow sensor measures with an estimated height; S17 and S18 of the paper.

The sensor looks straight down while it moves parallel to a flat surface at the height z, and sees the surface move by
d_image on its image plane behind the focal length f. By similar triangles d_image / f = d / z, so

    d_true + d_error = (d_image / f) (z + z_error) = (d_image / f) z (1 + e),   e = z_error / z             (S17)
    (d_true + d_error) / d_true = 1 + e                                                                     (S18)

A constant relative error of the height is the relative error of the distance. The paper takes for it M1, the mean size
of the height's error over the mean height. With a height that changes, what counts is the mean of e along the way, with
its sign: `distance_error_ratio`. Errors of both signs cancel, so that it is often less than M1; but errors near the
ground weigh more than in M1, since they are divided by the height there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.errors import UserError

Array = NDArray[np.float64]


def distance_ratio(true_height_m: ArrayLike, estimated_height_m: ArrayLike) -> Array:
    """Distance as measured over true distance, while both heights hold: 1 + e; S18."""
    true = np.asarray(true_height_m, float)
    if np.any(true <= 0.0):
        raise UserError(f"the sensor is {np.min(true):g} m above the surface; it must be above 0 m")
    return np.asarray(np.asarray(estimated_height_m, float) / true)


def distance_error_ratio(
    time_s: ArrayLike, true_height_m: ArrayLike, estimated_height_m: ArrayLike, speed_m_s: ArrayLike = 1.0
) -> float:
    """Error of the distance over a run, with its sign, over the distance: the mean of e, weighted with the speed.

    Parameters
    ----------
    time_s, true_height_m, estimated_height_m
        (K,) times in order and heights above the surface.
    speed_m_s
        Horizontal speed, a number or (K,); a constant cancels.
    """
    time = np.asarray(time_s, float)
    if time.size < 2:
        raise UserError(f"a distance needs at least 2 heights over time, not {time.size}")
    ratio = distance_ratio(true_height_m, estimated_height_m)
    speed = np.broadcast_to(np.asarray(speed_m_s, float), time.shape)
    distance = _integral(time, speed)
    if distance == 0.0:
        raise UserError("the distance is 0 m: the error as a share of it is not defined")
    return _integral(time, speed * (ratio - 1.0)) / distance


def _integral(time: Array, rate: Array) -> float:
    return float(np.sum(np.diff(time) * (rate[1:] + rate[:-1])) / 2.0)
