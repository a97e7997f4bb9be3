"""What a user may say of a calibration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from onboard_estimation.judging.options import option, within


@dataclass(frozen=True)
class Procedure:
    """How a sensor was calibrated, where that is in its logs, and what they do not tell.

    Attributes
    ----------
    sensor
        Which one, where a log holds several: topic, or `imu/low_g`.
    sections
        Where the positions and turns are (JSON); otherwise they are found.
    turn_deg
        Angle of each turn, deg.
    turn_stddev_deg
        Its standard deviation, deg.
    tilt_deg
        Standard deviation of a position's tilt, deg: 2 by hand, 0.1 in a cube.
    gravity
        Gravity at the place, m/s^2.
    rest
        Long rest for the noise; otherwise the longest one in the logs.
    rate_hz
        Readings per second of a table without a column `time_s`.
    accelerometer_unit
        Of a table.
    gyro_unit
        Of a table.
    """

    sensor: str | None = option(None, metavar="NAME", other_flags=("--topic",))
    sections: Path | None = option(None, metavar="FILE")
    turn_deg: float = option(360.0, metavar="DEG", **within(30.0, 36_000.0))
    turn_stddev_deg: float = option(2.0, metavar="DEG", **within(0.0, 90.0))
    tilt_deg: float = option(2.0, metavar="DEG", **within(0.01, 15.0))
    gravity: float = option(9.80665, metavar="G", **within(9.7, 9.9))
    rest: Path | None = option(None, metavar="LOG")
    rate_hz: float | None = option(None, metavar="HZ", **within(0.1, 1e6))
    accelerometer_unit: Literal["m/s2", "g"] = option("m/s2")
    gyro_unit: Literal["rad/s", "deg/s"] = option("rad/s")
