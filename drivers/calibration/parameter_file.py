"""What is known of an inertial sensor's errors, as a ROS 2 parameter file, and how readings are corrected by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.configuration import bounded, load, non_negative, parameter, positive
from onboard_estimation.base.measurement import IMU

Triple = tuple[float, float, float]
Nine = tuple[float, float, float, float, float, float, float, float, float]
Measured = Literal["nothing", "bias", "bias and matrix"]

MOST_FROM_IDENTITY = 0.2
"""Of a matrix's elements: a sensor that is further off is broken, or its axes or units are mixed up."""

_IDENTITY: Nine = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
_MATRIX = "gain and misalignment, row by row: corrected = matrix * (reading - bias)"


def _triple_or_none(doc: str, unit: str) -> tuple[float, ...]:
    return non_negative((), f"{doc}, x y z; empty: not known", unit)


def _lengths(section: object, **allowed: int) -> Iterator[str]:
    for name, length in allowed.items():
        found = len(getattr(section, name))
        if found not in (0, length):
            yield f"{name}: {found} numbers; has to be {length}, or none where it is not known"


@dataclass(frozen=True)
class _Errors:
    """Of three axes."""

    measured: Measured = parameter("nothing", "what the log allowed to measure; the rest is neutral")
    matrix: Nine = parameter(_IDENTITY, _MATRIX)
    matrix_stddev: tuple[float, ...] = non_negative((), "its standard deviations; empty: not known")

    def faults(self) -> Iterator[str]:
        """What is wrong across parameters."""
        uncertain = [name for name in vars(self) if "stddev" in name]
        yield from _lengths(self, **{name: 9 if name.startswith("matrix") else 3 for name in uncertain})
        off = np.abs(np.subtract(self.matrix, _IDENTITY))
        if off.max() > MOST_FROM_IDENTITY:
            place = int(off.argmax())
            yield (
                f"matrix: element {place + 1} is {self.matrix[place]:g}, {off[place]:.2f} from the identity's; "
                f"at most {MOST_FROM_IDENTITY:g} is believed: are axes or units mixed up?"
            )


@dataclass(frozen=True)
class AccelerometerErrors(_Errors):
    """Accelerometer, in the sensor's frame."""

    bias_m_s2: Triple = parameter((0.0, 0.0, 0.0), "bias, x y z", unit="m/s^2")
    bias_stddev_m_s2: tuple[float, ...] = _triple_or_none("its standard deviation", "m/s^2")


@dataclass(frozen=True)
class GyroErrors(_Errors):
    """Gyro, in the sensor's frame."""

    bias_rad_s: Triple = parameter((0.0, 0.0, 0.0), "bias, x y z", unit="rad/s")
    bias_stddev_rad_s: tuple[float, ...] = _triple_or_none("its standard deviation", "rad/s")


@dataclass(frozen=True)
class Noise:
    """Noise by the Allan deviation of a rest (IEEE Std 952)."""

    accelerometer_density_m_s2_sqrt_hz: tuple[float, ...] = _triple_or_none("white noise N", "m/s^2/sqrt(Hz)")
    accelerometer_instability_m_s2: tuple[float, ...] = _triple_or_none("bias instability B", "m/s^2")
    accelerometer_random_walk_m_s2_sqrt_s: tuple[float, ...] = _triple_or_none("random walk K", "m/s^2/sqrt(s)")
    gyro_density_rad_s_sqrt_hz: tuple[float, ...] = _triple_or_none("white noise N", "rad/s/sqrt(Hz)")
    gyro_instability_rad_s: tuple[float, ...] = _triple_or_none("bias instability B", "rad/s")
    gyro_random_walk_rad_s_sqrt_s: tuple[float, ...] = _triple_or_none("random walk K", "rad/s/sqrt(s)")

    def faults(self) -> Iterator[str]:
        """What is wrong across parameters."""
        yield from _lengths(self, **dict.fromkeys(vars(self), 3))


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from."""

    log: str = parameter("", "names of the logs")
    recorded: str = parameter("", "time in the first log, UTC; empty where it tells none")
    sensor: str = parameter("", "sensor in the log")
    versions: str = parameter("", "of the programs")
    positions: int = bounded(0, 0, 6, "resting positions used")
    turns: int = parameter(0, "turns used", minimum=0)
    gravity_m_s2: float = positive(9.80665, "gravity that the gains rest on", "m/s^2")
    residual_before_m_s2: tuple[float, ...] = parameter((), "RMS of |f| - g over all rests", unit="m/s^2")
    residual_after_m_s2: tuple[float, ...] = parameter((), "the same, corrected", unit="m/s^2")


@dataclass(frozen=True)
class ImuCalibration:
    """Errors of one inertial sensor; without arguments it changes nothing."""

    accelerometer: AccelerometerErrors = AccelerometerErrors()
    gyro: GyroErrors = GyroErrors()
    noise: Noise = Noise()
    provenance: Provenance = Provenance()

    def apply(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Readings without the sensor's errors.

        Parameters
        ----------
        value
            (6,) or (K, 6): gyro x y z (rad/s), accelerometer x y z (m/s^2), in the sensor's frame.

        Returns
        -------
        The same shape, units and frame; a gyro that is not there (NaN) stays NaN.
        """
        out = np.empty_like(value, dtype=np.float64)
        for part, bias, matrix in (
            (IMU.angular_velocity, self.gyro.bias_rad_s, self.gyro.matrix),
            (IMU.linear_acceleration, self.accelerometer.bias_m_s2, self.accelerometer.matrix),
        ):
            out[..., part] = (value[..., part] - np.array(bias)) @ np.reshape(matrix, (3, 3)).T
        return out


def load_calibration(path: Path) -> ImuCalibration:
    """A file that `calibrate imu` wrote, or a laboratory by hand; what it leaves out changes nothing.

    Raises
    ------
    UserError
        The file cannot be read, or has faults; all of them are listed.
    """
    return load(ImuCalibration, path)
