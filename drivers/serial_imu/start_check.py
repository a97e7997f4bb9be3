"""Whether two sensors that have just started can be right: their rate, and, where they lie still, gravity."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drivers.rest import LEAST_READINGS, lies_still
from drivers.serial_imu.readings import HIGH_G, LOW_G
from drivers.start_check import gravity_fault, rate_fault, stuck_fault, upright_fault, written, zero_rate_fault
from onboard_estimation.measurement import Matrix
from onboard_estimation.reading_parts import IMU

LARGEST_HIGH_OFFSET_M_S2 = 15.0
"""Of the H3LIS331DL: half more than its data sheet's +-1 g."""


def faults(low: Matrix, high: Matrix, seconds: float, told_hz: float) -> list[str]:
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
    return [sentence for sentence in _sentences(low, high, seconds, told_hz) if sentence]


def _sentences(low: Matrix, high: Matrix, seconds: float, told_hz: float) -> Iterator[str]:
    for name, values in ((LOW_G, low), (HIGH_G, high)):
        if len(values) < LEAST_READINGS:
            yield f"{name}: {len(values)} readings in {seconds:.1f} s; is it wired, and powered?"
            continue
        remedy = f"the device tells {told_hz:.0f}: is the line too slow?"
        yield rate_fault(name, len(values), seconds, told_hz, remedy) or stuck_fault(name, values)
    if len(low) < LEAST_READINGS or not lies_still(low):
        return
    force = low[:, IMU.linear_acceleration].mean(axis=0)
    yield zero_rate_fault(LOW_G, low)
    yield gravity_fault(LOW_G, force, "calibrate it, or look at its ranges")
    yield upright_fault(LOW_G, force, "where it has to be along z of a robot that stands; set axes")
    if len(high) >= LEAST_READINGS:
        other = high[:, IMU.linear_acceleration].mean(axis=0)
        apart = float(np.abs(other - force).max())
        if apart > LARGEST_HIGH_OFFSET_M_S2:
            found = f"at rest {HIGH_G} reads {written(other, 1)}, {apart:.1f} from {LOW_G}"
            yield f"{found}: other axes? set high_g_axes"
