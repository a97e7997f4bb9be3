"""Logs of the serial line of the hopping robot's inertial sensors: raw bytes, as `drivers.serial_frames` describes.

Counts become SI units with the ranges that the device itself told last; what it sent before it told any is left out.
Nothing is trusted: what is no valid frame is counted, and so is a time that cannot follow the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drivers.serial_frames import (
    COUNTS_PER_DIGIT,
    GYRO_COUNTS_PER_DEG_S,
    HIGH_G_G_PER_DIGIT,
    HIGH_G_MISSING,
    LOW_G_COUNTS_PER_G,
    LOW_G_MISSING,
    FrameReader,
    Sample,
    Settings,
)
from onboard_estimation.converters import Converted
from onboard_estimation.errors import UserError
from onboard_estimation.series import Recording, Series
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2, imu_channel

LOW_G, HIGH_G = imu_channel("low_g"), imu_channel("high_g")

_WRAP_US = 1 << 32
_LONGEST_GAP_US = 60_000_000
# After a restart the device's clock says nothing of the time between.
_RESTART_GAP_US = 1_000_000
_PIECE_BYTES = 1 << 20
_FULL_COUNT = 32_767
_FULL_DIGIT = 2_047
_ROW = 14
_HIGH_G_RANGE = {0: 100, 1: 200, 3: 400}
_NANOSECONDS_PER_MICROSECOND = 1000


@dataclass
class DeviceClock:
    """The device's wrapping time as time from its first frame on.

    A frame whose time cannot follow (60 s or more ahead, or behind) is set aside. If the next one agrees with it, the
    device has restarted: then one second is taken to have passed, for want of anything that tells.

    Attributes
    ----------
    restarts, implausible, repeated
        How often: the device restarted, a time was set aside, a frame had the time of the one before.
    """

    restarts: int = 0
    implausible: int = 0
    repeated: int = 0
    _last: int | None = None
    _aside: int | None = None
    _elapsed: int = 0

    def elapsed_us(self, time_us: int) -> int | None:
        """Microseconds since the first frame; None: the time cannot be trusted, or it is the same frame again."""
        if self._last is None:
            self._last = time_us
            return 0
        step = (time_us - self._last) % _WRAP_US
        if step == 0:
            self.repeated += 1
            return None
        if step >= _LONGEST_GAP_US:
            aside, self._aside = self._aside, time_us
            if aside is None or not 0 < (time_us - aside) % _WRAP_US < _LONGEST_GAP_US:
                self.implausible += 1
                return None
            self.restarts += 1
            # It was the first frame after the restart that had been set aside.
            self.implausible -= 1
            step = _RESTART_GAP_US
        self._aside = None
        self._last = time_us
        self._elapsed += step
        return self._elapsed


@dataclass
class _Content:
    """What the frames of a log say.

    `blocks` hold a row a sample used: time (us), nine counts, status, and the codes of the three ranges.
    """

    samples: int = 0
    lost: int = 0
    unscaled: int = 0
    changes: int = 0
    settings: Settings | None = None
    blocks: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def rows(self) -> NDArray[np.int64]:
        """(K, 14)."""
        return np.concatenate([np.empty((0, _ROW), dtype=np.int64), *self.blocks])


def read_serial_log(path: Path, as_recorded: bool = False) -> Converted:
    """Raw bytes from the serial line of the low-g and high-g sensors (MPU-6050, H3LIS331DL).

    Corrupted frames are left out and counted; ranges are those that the device tells. Stamps are the device's time
    from the first valid frame on. The high-g sensor has no gyro.

    Raises
    ------
    UserError
        The file cannot be read, or holds no samples that can be scaled; or it is asked for as recorded.
    """
    if as_recorded:
        raise UserError("--as-recorded: a serial log has neither a ground truth nor a second clock to leave as it is")
    frames, clock = FrameReader(), DeviceClock()
    content = _content(path, frames, clock)
    corrupted = sum(frames.faults.values())
    faults = ", ".join(f"{count} {fault.value}" for fault, count in frames.faults.items())
    settings, rows = content.settings, content.rows
    if settings is None or not len(rows):
        reason = "no frame tells the ranges" if settings is None else "none follows a frame that tells the ranges"
        raise UserError(
            f"{path}: {content.samples} valid samples, {reason}; {corrupted} corrupted frames"
            + (f" ({faults})" if faults else "")
        )
    counts = {
        "samples": content.samples,
        "used": len(rows),
        "corrupted": corrupted,
        **{f"corrupted_{fault.name.lower()}": count for fault, count in frames.faults.items()},
        "lost": content.lost,
        "before_ranges": content.unscaled,
        "repeated": clock.repeated,
        "implausible_time": clock.implausible,
        "restarts": clock.restarts,
        "changes_of_range": content.changes,
        "bytes_unfinished": frames.unfinished,
    }
    notes = [_device(settings)]
    if corrupted:
        notes.append(f"{corrupted} corrupted frames left out: {faults}.")
    notes += [
        sentence.format(counts[name])
        for name, sentence in (
            ("lost", "At least {} frames are missing by their sequence numbers (corrupted ones are among them)."),
            ("before_ranges", "{} samples left out: they came before the device had told its ranges."),
            ("repeated", "{} frames left out: they have the device time of the one before."),
            ("implausible_time", "{} frames left out: their device time cannot follow the one before."),
            ("restarts", "The device restarted {} times; each time one second is taken to have passed."),
            ("changes_of_range", "The device changed its ranges {} times; the counts are scaled accordingly."),
            ("bytes_unfinished", "{} bytes at the end are no whole frame."),
        )
        if counts[name]
    ]
    low_g, high_g, more = _series(rows)
    return Converted(recording=Recording((low_g, high_g), ()), notes=(*notes, *more), counts=counts)


def _content(path: Path, frames: FrameReader, clock: DeviceClock) -> _Content:
    found = _Content()
    sequence: int | None = None
    restarts = 0
    for piece in _pieces(path):
        rows = []
        for frame in frames.feed(piece):
            is_sample = isinstance(frame, Sample)
            found.samples += is_sample
            elapsed = clock.elapsed_us(frame.time_us)
            if elapsed is None:
                continue
            # A restarted device counts from anew.
            if sequence is not None and clock.restarts == restarts:
                found.lost += (frame.sequence - sequence - 1) % 256
            sequence, restarts = frame.sequence, clock.restarts
            if isinstance(frame, Settings):
                found.changes += found.settings is not None and _ranges(frame) != _ranges(found.settings)
                found.settings = frame
            elif found.settings is None:
                found.unscaled += 1
            else:
                counts = (*frame.low_g, *frame.gyro, *frame.high_g)
                rows.append((elapsed, *counts, frame.status, *_ranges(found.settings)))
        if rows:
            found.blocks.append(np.array(rows, dtype=np.int64))
    return found


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def _ranges(settings: Settings) -> tuple[int, int, int]:
    return settings.low_g_range, settings.gyro_range, settings.high_g_range


def _series(rows: NDArray[np.int64]) -> tuple[Series, Series, list[str]]:
    """Low-g and high-g readings in SI units, and sentences on them."""
    stamps = rows[:, 0] * _NANOSECONDS_PER_MICROSECOND
    low_g, gyro, high_g, status, ranges = rows[:, 1:4], rows[:, 4:7], rows[:, 7:10], rows[:, 10], rows[:, 11:]
    per_g = 1.0 / _lookup(LOW_G_COUNTS_PER_G, ranges[:, 0])
    per_deg_s = 1.0 / _lookup(GYRO_COUNTS_PER_DEG_S, ranges[:, 1])
    per_digit = _lookup(HIGH_G_G_PER_DIGIT, ranges[:, 2])
    # Left-justified: the shift keeps the sign.
    digits = high_g // COUNTS_PER_DIGIT
    low_values = np.hstack([np.deg2rad(gyro * per_deg_s[:, None]), low_g * per_g[:, None] * STANDARD_GRAVITY_M_S2])
    high_values = np.hstack([np.full(high_g.shape, np.nan), digits * per_digit[:, None] * STANDARD_GRAVITY_M_S2])
    notes = []
    kept = []
    for name, missing in (("low_g", status & LOW_G_MISSING), ("high_g", status & HIGH_G_MISSING)):
        kept.append(missing == 0)
        if missing.any():
            notes.append(
                f"imu/{name}: {np.count_nonzero(missing)} of {len(rows)} left out, the device could not read it."
            )
    low_kept, high_kept = kept
    for name, beyond in (
        ("imu/low_g accelerometer", low_kept & (np.abs(low_g).max(axis=1) >= _FULL_COUNT)),
        ("imu/low_g gyro", low_kept & (np.abs(gyro).max(axis=1) >= _FULL_COUNT)),
        ("imu/high_g accelerometer", high_kept & (np.abs(digits).max(axis=1) >= _FULL_DIGIT)),
    ):
        if beyond.any():
            notes.append(f"{name}: {np.count_nonzero(beyond)} of {len(rows)} readings at the end of the range.")
    return (
        Series(LOW_G, stamps[low_kept], low_values[low_kept]),
        Series(HIGH_G, stamps[high_kept], high_values[high_kept]),
        notes,
    )


def _lookup(table: dict[int, float], codes: NDArray[np.int64]) -> NDArray[np.float64]:
    values: NDArray[np.float64] = np.full(max(table) + 1, np.nan)
    values[list(table)] = list(table.values())
    scales: NDArray[np.float64] = values[codes]
    return scales


def _device(settings: Settings) -> str:
    """What the device says of itself."""
    low_g, gyro, high_g = 2 << settings.low_g_range, 250 << settings.gyro_range, _HIGH_G_RANGE[settings.high_g_range]
    return (
        f"Ranges as the device tells them: low-g {low_g} g and {gyro} deg/s, high-g {high_g} g, {settings.rate_hz} Hz; "
        f"firmware {'.'.join(map(str, settings.firmware))}, device {settings.device_id.hex()}."
    )
