"""Logs of the serial line of the hopping robot's inertial sensors: raw bytes, as `drivers.serial_imu.frames` describes.

Counts become SI units with the ranges that the device itself told last; what it sent before it told any is left out.
Nothing is trusted: what is no valid frame is counted, and so is a time that cannot follow the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drivers.serial_imu.frames import CHIPS, CLOCK_WRAP, Settings
from drivers.serial_imu.readings import SerialReadings
from onboard_estimation.base.bounded_file import open_regular, reading
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.series import Recording, Series, imu_channel
from onboard_estimation.contract.converters import Converted

_LONGEST_GAP_US = 60_000_000
# After a restart the device's clock says nothing of the time between.
_RESTART_GAP_US = 1_000_000
_PIECE_BYTES = 1 << 20
_HIGH_G_RANGE = {0: 100, 1: 200, 3: 400}
_NANOSECONDS_PER_MICROSECOND = 1000


_SAID = {
    "corrupted": "{} corrupted frames left out: {faults}.",
    "lost": "{} frames are missing by their numbers and times (corrupted ones are among them).",
    "before_ranges": "{} samples left out: they came before the device had told its ranges.",
    "repeated": "{} frames left out: they have the device time of the one before.",
    "implausible_time": "{} frames left out: their device time cannot follow the one before.",
    "restarts": "The device restarted {} times; each time one second is taken to have passed.",
    "changes_of_range": "The device changed its ranges {} times; the counts are scaled accordingly.",
    "bytes_unfinished": "{} bytes at the end are no whole frame.",
    "unread_low_g": "imu/low_g: {} of {used} left out, the device could not read it.",
    "unread_high_g": "imu/high_g: {} of {used} left out, the device could not read it.",
    "clipped_low_g_accelerometer": "imu/low_g accelerometer: {} of {used} readings at the end of the range.",
    "clipped_low_g_gyro": "imu/low_g gyro: {} of {used} readings at the end of the range.",
    "clipped_high_g_accelerometer": "imu/high_g accelerometer: {} of {used} readings at the end of the range.",
}
"""By the name of a count that is not zero."""


@dataclass
class LogClock:
    """The device's wrapping time as time from its first frame on.

    A frame whose time cannot follow (60 s or more ahead, or behind) is set aside. If the next one agrees with it, the
    device has restarted: then one second is taken to have passed, for want of anything that tells.

    Attributes
    ----------
    jumps, implausible, repeated
        How often: the device restarted, a time was set aside, a frame had the time of the one before.
    """

    jumps: int = 0
    implausible: int = 0
    repeated: int = 0
    _last: int | None = None
    _aside: int | None = None
    _elapsed_us: int = 20_000  # room for what the filters are late by

    def stamp_ns(self, time_us: int, _: int = 0) -> int | None:
        """Nanoseconds since 20 ms before the first frame; None: it cannot be trusted, or it is the same frame again."""
        if self._last is None:
            self._last = time_us
            return _NANOSECONDS_PER_MICROSECOND * self._elapsed_us
        step = (time_us - self._last) % CLOCK_WRAP
        if step == 0:
            self.repeated += 1
            return None
        if step >= _LONGEST_GAP_US:
            aside, self._aside = self._aside, time_us
            if aside is None or not 0 < (time_us - aside) % CLOCK_WRAP < _LONGEST_GAP_US:
                self.implausible += 1
                return None
            self.jumps += 1
            # It was the first frame after the restart that had been set aside.
            self.implausible -= 1
            step = _RESTART_GAP_US
        self._aside = None
        self._last = time_us
        self._elapsed_us += step
        return _NANOSECONDS_PER_MICROSECOND * self._elapsed_us


def read_serial_log(path: Path, as_recorded: bool = False) -> Converted:
    """Raw bytes from the serial line of the low-g and high-g sensors (MPU-6050, H3LIS331DL).

    Corrupted frames are left out and counted; ranges are those that the device tells. Stamps are the device's time,
    20 ms at the first valid frame, less what the sensors' filters are late by. The high-g sensor has no gyro.

    Raises
    ------
    UserError
        The file cannot be read, or holds no samples that can be scaled; or it is asked for as recorded.
    """
    if as_recorded:
        raise UserError("--as-recorded: a serial log has neither a ground truth nor a second clock to leave as it is")
    clock = LogClock()
    readings = SerialReadings(clock)
    sensors = _series(path, readings)
    settings, found = readings.settings, readings.counts
    used = found["samples"] - found["before_ranges"]
    corrupted = readings.frames.faults.total()
    faults = ", ".join(f"{count} {fault.value}" for fault, count in readings.frames.faults.items())
    if settings is None or not used:
        reason = "no frame tells the ranges" if settings is None else "none follows a frame that tells the ranges"
        raise UserError(
            f"{path}: {readings.frames.samples} valid samples, {reason}; {corrupted} corrupted frames"
            + (f" ({faults})" if faults else "")
        )
    counts = found | {
        "samples": readings.frames.samples,
        "used": used,
        "corrupted": corrupted,
        "repeated": clock.repeated,
        "implausible_time": clock.implausible,
        "restarts": clock.jumps,
        "bytes_unfinished": readings.frames.unfinished,
    }
    clones = (f"{name} says it is 0x{one:02x}: scaled as an {CHIPS[name][0]}." for name, one in settings.clones.items())
    told = (sentence.format(counts[name], used=used, faults=faults) for name, sentence in _SAID.items() if counts[name])
    notes = (_device(settings), *clones, *told)
    return Converted(recording=Recording(sensors, ()), notes=notes, counts=counts)


def _series(path: Path, readings: SerialReadings) -> tuple[Series, ...]:
    """Low-g and high-g readings of a log."""
    channels = [imu_channel("low_g"), imu_channel("high_g")]
    parts = {one: [Series(one, np.empty(0, dtype=np.int64), np.empty((0, 6)))] for one in channels}
    for piece in _pieces(path):
        found = readings.feed(piece, 0)
        for channel, known in parts.items():
            rows = [one for one in found if one.sensor == channel.sensor]
            stamps_ns = np.array([one.stamp_ns for one in rows], dtype=np.int64)
            known.append(Series(channel, stamps_ns, np.array([one.value for one in rows]).reshape(-1, 6)))
    return tuple(
        Series(channel, np.concatenate([one.stamps_ns for one in of]), np.concatenate([one.values for one in of]))
        for channel, of in parts.items()
    )


def _pieces(path: Path) -> Iterator[bytes]:
    with reading(path), open_regular(path) as file:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _device(settings: Settings) -> str:
    """What the device says of itself."""
    low_g, gyro, high_g = 2 << settings.low_g_range, 250 << settings.gyro_range, _HIGH_G_RANGE[settings.high_g_range]
    return (
        f"Ranges as the device tells them: low-g {low_g} g and {gyro} deg/s, high-g {high_g} g, {settings.rate_hz} Hz; "
        f"firmware {'.'.join(map(str, settings.firmware))}, device {settings.device_id.hex()}."
    )
