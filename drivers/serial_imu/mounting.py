"""From readings along a sensor's own axes to what the robot's estimators take: how it sits, its errors, its range."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drivers.at_rest import HIGH_G, LOW_G
from drivers.calibration.parameter_file import load_calibration
from drivers.serial_imu.readings import Scales
from onboard_estimation.base.configuration import bounded, non_negative, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, Matrix, Measurement, Vector
from onboard_estimation.ros.transforms import AUTOMATIC

_DIRECTIONS = {
    name: sign * row
    for axis, row in zip("xyz", np.eye(3), strict=True)
    for name, sign in ((axis, 1.0), (f"+{axis}", 1.0), (f"-{axis}", -1.0))
}


def axes_matrix(text: str) -> Matrix:
    """(3, 3) from the sensor's to the body's axes.

    Parameters
    ----------
    text
        Which of the sensor's axes points along the body's x, y and z, e.g. `-y x z`.

    Raises
    ------
    UserError
        They are not three different axes, or make a left-handed frame.
    """
    words = text.replace(",", " ").split()
    if strange := [word for word in words if word not in _DIRECTIONS]:
        raise UserError(
            f"axes {text!r}: {strange[0]!r} is no axis; three of x, y, z, -x, -y, -z are needed, e.g. '-y x z'"
        )
    matrix = np.array([_DIRECTIONS[word] for word in words])
    if len(words) != 3 or np.linalg.matrix_rank(matrix) < 3:
        raise UserError(f"axes {text!r}: three different axes are needed, e.g. '-y x z'")
    if np.linalg.det(matrix) < 0.0:
        raise UserError(f"axes {text!r} make a left-handed frame: turn one of them round")
    return matrix


@dataclass(frozen=True)
class Mounting:
    """How the sensors sit on the body."""

    low_g_axes: str = parameter("x y z", "which of the low-g sensor's axes point along the body's x, y, z: '-y x z'")
    high_g_axes: str = parameter("x y z", "the same of the high-g sensor")
    low_g_calibration: str = parameter("", "file that `calibrate imu` wrote of the low-g sensor; empty: none")
    high_g_calibration: str = parameter("", "the same of the high-g sensor")

    def faults(self) -> list[str]:
        """Axes that are none."""
        found = []
        for name in ("low_g_axes", "high_g_axes"):
            try:
                axes_matrix(getattr(self, name))
            except UserError as error:
                found.append(f"{name}: {error}")
        return found


_ALIKE = 0.05
_SETTINGS = ("LOW_G_RANGE", "GYRO_RANGE", "HIGH_G_RANGE", "RATE_HZ", "LOW_PASS")
"""Of the firmware, in the order of what is expected of them."""


@dataclass(frozen=True)
class Expected:
    """What the robot's estimators take the device to be set to (the hopper's); 0: they know nothing of it."""

    low_g_m_s2: float = non_negative(156.9, "range of the low-g accelerometer, as in sensors.low_range_m_s2", "m/s^2")
    gyro_rad_s: float = non_negative(34.9, "range of its gyro, as in sensors.gyro_range_rad_s", "rad/s")
    high_g_m_s2: float = non_negative(1961.0, "range of the high-g sensor, as in sensors.high_range_m_s2", "m/s^2")
    rate_hz: float = non_negative(840.0, "samples a second", "Hz")
    low_g_bandwidth_hz: float = non_negative(260.0, "of the low-g accelerometer's filter", "Hz")

    @property
    def ends(self) -> dict[str, Vector]:
        """By sensor, (6,) ends of the ranges, rad/s and m/s^2; the high-g sensor has no gyro."""
        low, high = (self.gyro_rad_s, self.low_g_m_s2), (0.0, self.high_g_m_s2)
        return {LOW_G: np.repeat(low, 3), HIGH_G: np.repeat(high, 3)}

    def difference(self, told: Scales) -> str:
        """A sentence on what the device tells of itself, and is not so; empty where all is."""
        gyro, low = told.ends[LOW_G][[0, 3]].tolist()
        values = (low, gyro, told.ends[HIGH_G][3], told.rate_hz, told.low_bandwidth_hz)
        found = [
            f"its {setting} is {is_told:.4g}, and expected.{name} {expected:g}"
            for (name, expected), is_told, setting in zip(vars(self).items(), values, _SETTINGS, strict=True)
            if expected and abs(is_told - expected) > _ALIKE * expected
        ]
        way_out = "change firmware/settings.py, or `expected` and what the robot's estimators take for it"
        return f"the device is set to others than expected: {'; '.join(found)}: {way_out}" if found else ""


@dataclass(frozen=True)
class SerialImu:
    """What is known of the device, and what the node itself wants to know."""

    port: str = parameter("/dev/ttyUSB0", "serial port of the device")
    baud: int = bounded(921600, 1200, 10_000_000, "bits a second; 115200 are too few for 840 samples")
    raw_log: str = parameter("", "file to keep all bytes in, for `convert serial_log FILE`; empty: none")
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of frames; "auto": the node\'s namespace')
    mounting: Mounting = Mounting()
    expected: Expected = Expected()
    accept_clones: bool = parameter(
        False, "take another chip's readings as if it were an MPU-6050, an H3LIS331DL: one that says it is none"
    )
    latency_s: float = bounded(
        0.0, 0.0, 1.0, "least time from a reading to its arrival, which cannot be seen from here", "s"
    )


class Mounted:
    """Readings as the robot's estimators take them.

    An axis at the end of the device's range may have been far beyond it. Estimators know such readings by the range
    that they are told: there they are put, whatever range the device is set to and whatever a calibration makes of it.

    Raises
    ------
    UserError
        A calibration cannot be read.
    """

    def __init__(self, mounting: Mounting, expected: Expected) -> None:
        self._axes = {LOW_G: axes_matrix(mounting.low_g_axes), HIGH_G: axes_matrix(mounting.high_g_axes)}
        self._turned = {name for name, axes in self._axes.items() if not np.array_equal(axes, np.eye(3))}
        files = {LOW_G: mounting.low_g_calibration, HIGH_G: mounting.high_g_calibration}
        self._calibrations = {name: load_calibration(Path(file)) for name, file in files.items() if file}
        self._expected_ends, self._ends = expected.ends, {name: np.full(6, np.inf) for name in files}

    def tell(self, scales: Scales) -> None:
        """What the device's ranges are."""
        self._ends = scales.ends

    def __call__(self, reading: Measurement) -> None:
        """Change a reading, which is new."""
        value, name = reading.value, reading.sensor
        clipped = np.abs(value) >= self._ends[name]
        if name in self._calibrations:  # of the sensor's own axes
            value[:] = self._calibrations[name].apply(value)
        axes = self._axes[name]
        if name in self._turned:
            value[IMU.angular_velocity] = axes @ value[IMU.angular_velocity]
            value[IMU.linear_acceleration] = axes @ value[IMU.linear_acceleration]
        if np.count_nonzero(clipped):
            ends = self._expected_ends[name]
            at_end = (clipped.reshape(2, 3) @ np.abs(axes).T).ravel() * (ends > 0.0) > 0.0
            value[at_end] = np.copysign(ends, value)[at_end]
