"""An inertial sensor that lies still, by a second or so of its readings: whether it does, and whether it can be right.

Faults are one sentence each, empty where there is none. What a driver asks of its sensors, and what is to be done, it
says itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from onboard_estimation.base.measurement import IMU, Matrix, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

LOW_G, HIGH_G = "imu/low_g", "imu/high_g"
"""Both sensors of a serial line, `drivers.serial_imu.frames`."""
LEAST_READINGS = 100
_STILL_M_S2 = 1.5
_STILL_RAD_S = 0.05
_LARGEST_OFFSET_M_S2 = 1.5
_LARGEST_ZERO_RATE_DEG_S = 20.0
"""Zero offset of a cheap gyro by its data sheet (MPU-6050, table 6.1); better ones have less."""
_LEAST_RATE = 0.7


def lies_still(values: Matrix) -> bool:
    """Whether (K, 6) readings vary no more than noise; a part that the sensor has not (NaN) tells nothing."""
    spread = values.std(axis=0)
    rate, force = spread[IMU.angular_velocity].max(), spread[IMU.linear_acceleration].max()
    return not (rate > _STILL_RAD_S or force > _STILL_M_S2)


def rate_fault(name: str, count: int, seconds: float, expected_hz: float, remedy: str) -> str:
    """Of readings that are too few for the rate that there should be.

    Parameters
    ----------
    remedy
        Who tells the rate, and what may be wrong.
    """
    rate_hz = count / seconds
    return f"{name}: {rate_hz:.0f} readings a second, {remedy}" if rate_hz < _LEAST_RATE * expected_hz else ""


def resting_faults(name: str, values: Matrix, gravity_remedy: str, upright_remedy: str) -> Iterator[str]:
    """Of readings (K, 6) that do not vary: a gyro that reads more than an offset, a specific force that is not gravity.

    Parameters
    ----------
    gravity_remedy
        What is to be done where it is not of gravity's size.
    upright_remedy
        The same where it is not along z most of all; empty: it need not be.
    """
    rate = np.rad2deg(values[:, IMU.angular_velocity].mean(axis=0))
    if np.abs(rate).max() > _LARGEST_ZERO_RATE_DEG_S:
        yield (
            f"{name} turns evenly by x {rate[0]:.1f}, y {rate[1]:.1f}, z {rate[2]:.1f} deg/s, or its gyro is at fault: "
            f"at rest it reads less than {_LARGEST_ZERO_RATE_DEG_S:g}"
        )
    force = values[:, IMU.linear_acceleration].mean(axis=0)
    size, axis, read = float(np.linalg.norm(force)), int(np.argmax(np.abs(force))), f"at rest {name} reads"
    if abs(size - STANDARD_GRAVITY_M_S2) > _LARGEST_OFFSET_M_S2:
        yield f"{read} {written(force)}, {size:.2f} in all, not gravity: {gravity_remedy}"
    elif upright_remedy and math.isfinite(size) and force[2] != np.abs(force).max():
        where = f"{'' if force[axis] > 0.0 else '-'}{'xyz'[axis]}"
        yield f"{read} {written(force)}: gravity along {where}, {upright_remedy}"


def written(force: Vector, digits: int = 2) -> str:
    """Three specific forces."""
    return f"x {force[0]:.{digits}f}, y {force[1]:.{digits}f}, z {force[2]:.{digits}f} m/s^2"


# Of both sensors at rest: whether they can be right when they have just started. The H3LIS331DL's data sheet allows a
# zero offset of +-1 g on each axis, that of the MPU-6050 +-0.08 g.

_LARGEST_HIGH_OFFSET_M_S2 = 15.0
"""Of the H3LIS331DL: half more than its data sheet's +-1 g."""


def faults(readings: Mapping[str, Matrix], seconds: float, told_hz: float) -> Iterator[str]:
    """Sentences on what cannot be right; none where all is well, or where the sensors move and nothing can be said.

    Parameters
    ----------
    readings
        (K, 6) of each sensor that there should be, along the body's axes; the high-g one has no gyro.
    seconds
        That they are from.
    told_hz
        The device's own rate.
    """
    for name, values in readings.items():
        if len(values) < LEAST_READINGS:
            yield f"{name}: {len(values)} readings in {seconds:.1f} s; is it wired, and powered?"
            continue
        remedy = f"the device tells {told_hz:.0f}: is the line too slow?"
        if fault := rate_fault(name, len(values), seconds, told_hz, remedy):
            yield fault
    low, high = (readings.get(name, np.empty((0, 6))) for name in (LOW_G, HIGH_G))
    if len(low) < LEAST_READINGS or not lies_still(low):
        return
    upright = "where it has to be along z of a robot that stands; set axes"
    yield from resting_faults(LOW_G, low, "calibrate it, or look at its ranges", upright)
    if len(high) >= LEAST_READINGS:
        force, other = (values[:, IMU.linear_acceleration].mean(axis=0) for values in (low, high))
        apart = float(np.abs(other - force).max())
        if apart > _LARGEST_HIGH_OFFSET_M_S2:
            found = f"at rest {HIGH_G} reads {written(other, 1)}, {apart:.1f} from {LOW_G}"
            yield f"{found}: other axes? set high_g_axes"
