"""What IMUs on the links read: the paper's model, and that of a real accelerometer.

`paper` is equations (21), (32) and (33) of `multilink_inertial_parameters`: the acceleration that the external forces
alone would give the link, in the room's frame. It leaves out the forces in the joints, which no accelerometer does: it
is there for comparison with the paper's figures, and fails on data of real sensors.

`physical` is the specific force at the IMU's place on the link, along the IMU's own axes: the link's true acceleration
with joint forces, less gravity's part in the plane. It is the same whatever the room's x is: the heading of a chain
that floats on a level plane cannot be seen in it, only differences of headings.

A link's reading is acceleration x, y (m/s^2) and turning rate (rad/s). As in `forces`, all is analytic.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import njit

from salp_estimation.thruster_chain import chain_model as m
from salp_estimation.thruster_chain.forces import Array, Number, accelerate_under_forces


class ImuModel(IntEnum):
    """Which of the two."""

    PAPER = 0
    PHYSICAL = 1


@njit(cache=True, error_model="numpy")
def moved_to(
    ax: Number, ay: Number, cosine: Number, sine: Number, rate: Number, angular: Number, x: float, y: float
) -> tuple[Number, Number]:
    """Acceleration at the place (x, y) of a link whose centre of mass has (ax, ay), in the room's frame, eq. (20)."""
    rx, ry = cosine * x - sine * y, sine * x + cosine * y
    square = rate * rate
    return ax - square * rx - angular * ry, ay - square * ry + angular * rx


@njit(cache=True, error_model="numpy")
def along_axes(
    ax: Number, ay: Number, cosine: Number, sine: Number, mounted_cosine: float, mounted_sine: float
) -> tuple[Number, Number]:
    """A vector of the room along the axes of an IMU that is mounted turned on a link."""
    bx, by = cosine * ax + sine * ay, cosine * ay - sine * ax
    return mounted_cosine * bx + mounted_sine * by, mounted_cosine * by - mounted_sine * bx


@njit(cache=True, error_model="numpy")
def imu_readings(
    physical: bool,
    links: Array,
    gravity: Array,
    pivoted: bool,
    heading: Array,
    rate: Array,
    centre: Array,
    mass: Array,
    inertia: Array,
    thrust: Array,
    readings: Array,
) -> None:
    """Into `readings` (N, 3) what the IMUs read in one state; for the other arguments see `accelerate_under_forces`."""
    count = links.shape[0]
    angular, linear = np.empty(count, readings.dtype), np.empty((count, 2), readings.dtype)
    force = np.empty((count, 2), readings.dtype)
    accelerate_under_forces(
        links, gravity, pivoted, heading, rate, centre, mass, inertia, thrust, angular, linear, force
    )
    for i in range(count):
        c, s = np.cos(heading[i]), np.sin(heading[i])
        if physical:
            ax, ay = linear[i, 0] - gravity[0], linear[i, 1] - gravity[1]
        else:
            ax, ay = force[i, 0] / mass[i], force[i, 1] / mass[i]
        ax, ay = moved_to(ax, ay, c, s, rate[i], angular[i], links[i, m.IMU_X], links[i, m.IMU_Y])
        if physical:
            ax, ay = along_axes(ax, ay, c, s, links[i, m.IMU_COSINE], links[i, m.IMU_SINE])
        readings[i, 0], readings[i, 1], readings[i, 2] = ax, ay, rate[i]
