"""The high-g sensor's zero offset against the low-g sensor, measured at rest and taken off.

The H3LIS331DL's data sheet allows +-1 g on each axis, that of the MPU-6050 +-0.08 g: who goes from one sensor to the
other sees a step by the difference. In one attitude an offset looks as axes would that are a quarter turn off; where
that may be it is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drivers.rest import refuse_unless_still
from drivers.serial_imu.readings import HIGH_G, LOW_G
from drivers.serial_imu.start_check import LARGEST_HIGH_OFFSET_M_S2
from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.reading_parts import IMU
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2

STILL_HIGH_M_S2 = 10.0
"""Standard deviation at rest, at most: three times the data sheet's noise at 840 Hz, twice the hopper's."""
_BATCHES = 25


@dataclass(frozen=True)
class HighGOffset:
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
    refuse_unless_still(HIGH_G, high, STILL_HIGH_M_S2)
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
            _refuse_implausible(found)
        except UserError as error:
            self.waits_for = str(error) if self.waits_for else ""
            raise
        self.offset_m_s2, self.waits_for = found.mean_m_s2, ""
        size = float(np.linalg.norm(found.mean_m_s2))
        sentence = f"{HIGH_G} reads more than {LOW_G} by {found}, taken off"
        if size < STANDARD_GRAVITY_M_S2:
            return sentence
        return (
            f"{sentence}; {size:.1f} in all is more than gravity: are axes a quarter turn off? lay the robot on its "
            "side and ask again: an offset stays as it is"
        )


def _refuse_implausible(found: HighGOffset) -> None:
    largest = float(np.abs(found.mean_m_s2).max())
    if largest > LARGEST_HIGH_OFFSET_M_S2:
        raise UserError(
            f"{HIGH_G} reads more than {LOW_G} by {found}: {largest:.1f} is no offset, of which the data sheet allows "
            f"{STANDARD_GRAVITY_M_S2:.1f} and this driver {LARGEST_HIGH_OFFSET_M_S2:g}; other axes? set "
            "mounting.high_g_axes; another chip or range?"
        )


def _mean(values: Matrix) -> tuple[Vector, Vector]:
    """(3,) mean of the specific forces, and its standard deviation by the means of batches.

    So that noise counts as it is, where readings that follow each other are alike: a low-pass filter, a chip that is
    read more often than it measures.
    """
    batches = np.array_split(values[:, IMU.linear_acceleration], _BATCHES)
    means = np.array([batch.mean(axis=0) for batch in batches])
    return means.mean(axis=0), means.std(axis=0, ddof=1) / math.sqrt(_BATCHES)
