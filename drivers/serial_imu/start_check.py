"""Whether sensors that have just started can be right: their rate, and, where they lie still, gravity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drivers.rest import LEAST_READINGS, STILL_M_S2, STILL_RAD_S
from onboard_estimation.measurement import Matrix
from onboard_estimation.reading_parts import IMU
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

LARGEST_LOW_OFFSET_M_S2 = 1.5
LARGEST_HIGH_OFFSET_M_S2 = 15.0
_LEAST_RATE = 0.7
_STUCK = 1e-9


def faults(low: Matrix, high: Matrix, seconds: float, told_hz: float) -> Iterator[str]:
    """Sentences on what cannot be right; none where all is well, or where the sensors move and nothing can be said.

    Parameters
    ----------
    low, high
        (K, 6) and (L, 6) readings of both sensors along the body's axes; the high-g one has no gyro.
    seconds
        That they are from.
    told_hz
        The device's own rate.
    """
    for name, values in (("imu/low_g", low), ("imu/high_g", high)):
        if len(values) < LEAST_READINGS:
            yield f"{name}: {len(values)} readings in {seconds:.1f} s; is it wired, and powered?"
        elif len(values) < _LEAST_RATE * told_hz * seconds:
            rate_hz = len(values) / seconds
            yield f"{name}: {rate_hz:.0f} readings a second, the device tells {told_hz:.0f}: is the line too slow?"
        elif np.nanmax(values.std(axis=0)) < _STUCK:
            yield f"{name} reads the same all the time: its chip hangs; power it off and on"
    if len(low) < LEAST_READINGS or low[:, IMU.angular_velocity].std(axis=0).max() > STILL_RAD_S:
        return
    force = low[:, IMU.linear_acceleration].mean(axis=0)
    size = float(np.linalg.norm(force))
    if low[:, IMU.linear_acceleration].std(axis=0).max() > STILL_M_S2:
        return
    found = f"at rest imu/low_g reads x {force[0]:.2f}, y {force[1]:.2f}, z {force[2]:.2f} m/s^2"
    if abs(size - STANDARD_GRAVITY_M_S2) > LARGEST_LOW_OFFSET_M_S2:
        yield f"{found}, {size:.2f} in all, not gravity: calibrate it, or look at its ranges"
    axis = int(np.argmax(np.abs(force)))
    if (axis, force[axis] > 0.0) != (2, True):
        where = f"{'' if force[axis] > 0.0 else '-'}{'xyz'[axis]}"
        yield f"{found}: gravity along {where}, where it has to be along z of a robot that stands; set axes"
    if len(high) >= LEAST_READINGS:
        other = high[:, IMU.linear_acceleration].mean(axis=0)
        apart = float(np.abs(other - force).max())
        if apart > LARGEST_HIGH_OFFSET_M_S2:
            reads = f"x {other[0]:.1f}, y {other[1]:.1f}, z {other[2]:.1f} m/s^2"
            yield f"at rest imu/high_g reads {reads}, {apart:.1f} from imu/low_g: other axes? set high_g_axes"
