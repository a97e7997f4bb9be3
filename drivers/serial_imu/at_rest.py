"""Of both sensors at rest: whether they can be right when they have just started, and the offset between them.

The H3LIS331DL's data sheet allows a zero offset of +-1 g on each axis, that of the MPU-6050 +-0.08 g: who goes from one
sensor to the other sees a step by the difference. It is measured and taken off the high-g one. In one attitude an
offset looks as axes would that are a quarter turn off; where that may be it is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from drivers.at_rest import (
    LEAST_READINGS,
    gravity_fault,
    lies_still,
    rate_fault,
    refuse_unless_still,
    stuck_fault,
    upright_fault,
    written,
    zero_rate_fault,
)
from drivers.serial_imu.readings import HIGH_G, LOW_G
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.reading_parts import IMU
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

_LARGEST_HIGH_OFFSET_M_S2 = 15.0
"""Of the H3LIS331DL: half more than its data sheet's +-1 g."""
_STILL_HIGH_M_S2 = 10.0
"""Standard deviation at rest, at most: three times the data sheet's noise at 840 Hz, twice the hopper's."""
_BATCHES = 25


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
    for name, values in ((LOW_G, low), (HIGH_G, high)):
        if len(values) < LEAST_READINGS:
            yield f"{name}: {len(values)} readings in {seconds:.1f} s; is it wired, and powered?"
            continue
        remedy = f"the device tells {told_hz:.0f}: is the line too slow?"
        if fault := rate_fault(name, len(values), seconds, told_hz, remedy) or stuck_fault(name, values):
            yield fault
    if len(low) < LEAST_READINGS or not lies_still(low):
        return
    force = low[:, IMU.linear_acceleration].mean(axis=0)
    yield from filter(
        None,
        (
            zero_rate_fault(LOW_G, low),
            gravity_fault(LOW_G, force, "calibrate it, or look at its ranges"),
            upright_fault(LOW_G, force, "where it has to be along z of a robot that stands; set axes"),
        ),
    )
    if len(high) >= LEAST_READINGS:
        other = high[:, IMU.linear_acceleration].mean(axis=0)
        apart = float(np.abs(other - force).max())
        if apart > _LARGEST_HIGH_OFFSET_M_S2:
            found = f"at rest {HIGH_G} reads {written(other, 1)}, {apart:.1f} from {LOW_G}"
            yield f"{found}: other axes? set high_g_axes"


class HighGOffset(NamedTuple):
    """What the high-g sensor reads more than the low-g one.

    Attributes
    ----------
    mean_m_s2, stddev_m_s2
        (3,) along the body's axes; standard deviation of that mean.
    """

    mean_m_s2: Vector
    stddev_m_s2: Vector

    def __str__(self) -> str:
        parts = zip("xyz", self.mean_m_s2, self.stddev_m_s2, strict=True)
        return ", ".join(f"{axis} {mean:.2f} +- {stddev:.2f}" for axis, mean, stddev in parts) + " m/s^2"


def high_g_offset(low: Matrix, high: Matrix) -> HighGOffset:
    """Of readings of one second at rest.

    Parameters
    ----------
    low, high
        (K, 6) and (L, 6) along the body's axes.

    Raises
    ------
    UserError
        A sensor is missing, hangs or moves.
    """
    refuse_unless_still(LOW_G, low)
    refuse_unless_still(HIGH_G, high, _STILL_HIGH_M_S2)
    hangs = np.ptp(high[:, IMU.linear_acceleration], axis=0) == 0.0
    if hangs.any():
        axes = ", ".join(axis for axis, one in zip("xyz", hangs, strict=True) if one)
        raise UserError(f"{HIGH_G} reads the same all the time along {axes}: its chip hangs; power it off and on")
    (low_mean, low_stddev), (high_mean, high_stddev) = _mean(low), _mean(high)
    return HighGOffset(high_mean - low_mean, np.hypot(high_stddev, low_stddev))


class HighGAlignment:
    """What is taken off the high-g sensor's readings.

    Parameters
    ----------
    at_start
        Whether it is to be measured without being asked, once.

    Attributes
    ----------
    offset_m_s2
        (3,) along the body's axes, zero until it is measured.
    waits_for
        Why it has not been measured yet though it is to be; else empty.
    """

    def __init__(self, at_start: bool) -> None:
        self.offset_m_s2: Vector = np.zeros(3)
        self.waits_for = "they have not both been there for a second yet" if at_start else ""

    def align(self, low: Matrix, high: Matrix) -> str:
        """Measure the offset; a sentence on it.

        Parameters
        ----------
        low, high
            (K, 6) and (L, 6) readings of the last second along the body's axes; the high-g ones without the offset
            measured before.

        Raises
        ------
        UserError
            It cannot be measured, or is none of this sensor; what is taken off stays as it was.
        """
        try:
            left = high_g_offset(low, high)
            found = HighGOffset(self.offset_m_s2 + left.mean_m_s2, left.stddev_m_s2)
            sentence, largest = f"{HIGH_G} reads more than {LOW_G} by {found}", float(np.abs(found.mean_m_s2).max())
            if largest > _LARGEST_HIGH_OFFSET_M_S2:
                raise UserError(
                    f"{sentence}: {largest:.1f} is no offset, of which the data sheet allows "
                    f"{STANDARD_GRAVITY_M_S2:.1f} and this driver {_LARGEST_HIGH_OFFSET_M_S2:g}; other axes? set "
                    "mounting.high_g_axes; another chip or range?"
                )
        except UserError as error:
            self.waits_for = str(error) if self.waits_for else ""
            raise
        self.offset_m_s2, self.waits_for = found.mean_m_s2, ""
        size = float(np.linalg.norm(found.mean_m_s2))
        if size < STANDARD_GRAVITY_M_S2:
            return f"{sentence}, taken off"
        return (
            f"{sentence}, taken off; {size:.1f} in all is more than gravity: are axes a quarter turn off? lay the "
            "robot on its side and ask again: an offset stays as it is"
        )


def _mean(values: Matrix) -> tuple[Vector, Vector]:
    """(3,) mean of the specific forces, and its standard deviation by the means of batches.

    So that noise counts as it is, where readings that follow each other are alike: a low-pass filter, a chip that is
    read more often than it measures.
    """
    batches = np.array_split(values[:, IMU.linear_acceleration], _BATCHES)
    means = np.array([batch.mean(axis=0) for batch in batches])
    return means.mean(axis=0), means.std(axis=0, ddof=1) / math.sqrt(_BATCHES)
