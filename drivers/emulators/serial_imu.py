"""A microcontroller with two inertial sensors at the other end of a pseudo-terminal, with faults on request.

It holds what the chips hold, counts within their ranges, stamps them by a clock of its own that runs fast or slow, and
writes frames as the firmware does. A pseudo-terminal has no baud rate: the frames go out when they are due.
"""

from __future__ import annotations

import fcntl
import os
import tty
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from drivers.serial_imu.frames import (
    CLOCK_WRAP,
    COUNTS_PER_DIGIT,
    GYRO_COUNTS_PER_DEG_S,
    HIGH_G_G_PER_DIGIT,
    HIGH_G_MISSING,
    LOW_G_COUNTS_PER_G,
    LOW_G_MISSING,
    Sample,
    Settings,
    encode_sample,
    encode_settings,
)
from onboard_estimation.base.configuration import bounded, non_negative, parameter
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import IMU, NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2

_G = STANDARD_GRAVITY_M_S2
_SETTINGS_EVERY_S = 1.0
_BUFFERED_BYTES = 1 << 16
"""What Linux holds of a serial port for a late program (`tty_buffer_set_limit`); of a pseudo-terminal, 4 KiB."""
_ROOM_TEMPERATURE = round((25.0 - 36.53) * 340.0)


@dataclass(frozen=True)
class SerialFaults:
    """What goes wrong on the way; nothing by default."""

    byte_error_rate: float = bounded(0.0, 0.0, 0.5, "share of the bytes that arrive as others")
    frame_drop_rate: float = bounded(0.0, 0.0, 1.0, "share of the frames that are not sent")
    batch_s: float = non_negative(
        0.0, "frames go out together so often, as of USB adapters (0.016); 0: each when due", "s"
    )
    clock_skew_ppm: float = parameter(0.0, "by how much the device's clock runs fast", unit="ppm", minimum=-1000.0)
    restart_every_s: float = parameter(0.0, "the device restarts so often: its clock and count begin anew; 0: never")
    first_time_us: int = parameter(0, "of its clock at the start; it wraps at 4294967296", unit="us", minimum=0)


@dataclass(frozen=True)
class Reading:
    """What both chips measure at one instant; None: that one cannot be read.

    Attributes
    ----------
    due_ns
        On a clock without skew, from the start.
    low, high
        (6,) gyro rad/s and specific force m/s^2; the high-g chip has no gyro.
    """

    due_ns: int
    low: Vector | None
    high: Vector | None


class SerialDevice:
    """The device and its end of the line.

    Parameters
    ----------
    link
        Where the other end is to be found, as `/dev/ttyUSB0` would be: a symbolic link that is made, and removed.
    settings
        Ranges and rate that it tells; sequence and time in it do not count.
    seed
        Of the faults.

    Attributes
    ----------
    port
        Of the pseudo-terminal itself.
    sent, dropped, unsent
        Frames that were to go out; that were dropped on request; of those sent, that nobody took: the line was full.
    clipped
        Readings beyond a chip's range: of accelerometer, gyro and high-g accelerometer each.
    """

    def __init__(self, link: Path | None, settings: Settings, faults: SerialFaults, seed: int = 0) -> None:
        self._settings, self._faults = settings, faults
        self._rng = np.random.default_rng(seed)
        self._master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.port = os.ttyname(slave)
        self._slave = slave  # held open, so that the line outlives a driver that comes and goes
        self._link = link
        if link is not None:
            _make_link(link, self.port)
        self.sent = self.dropped = self.unsent = self.clipped = 0
        self._sequence = 0
        self._since_ns = 0  # of the device's clock
        self._settings_due_ns = 0
        self._batch = bytearray()
        self._batch_due_ns = 0

    def is_taken(self) -> bool:
        """Whether a program has the port for itself, as `serial_imu` has."""
        try:
            fcntl.flock(self._slave, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._slave, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Take the line away."""
        if self._link is not None:
            with suppress(OSError):
                if self._link.is_symlink() and str(self._link.readlink()) == self.port:
                    self._link.unlink()
        os.close(self._slave)
        os.close(self._master)

    def send(self, readings: Iterable[Reading]) -> None:
        """Send what is due."""
        for reading in readings:
            faults = self._faults
            if faults.restart_every_s and reading.due_ns - self._since_ns >= 1e9 * faults.restart_every_s:
                self._since_ns, self._sequence, self._settings_due_ns = reading.due_ns, 0, reading.due_ns
            if reading.due_ns >= self._settings_due_ns:
                self._settings_due_ns = reading.due_ns + round(_SETTINGS_EVERY_S * NANOSECONDS_PER_SECOND)
                told = replace(self._settings, sequence=self._next(), time_us=self._time_us(reading.due_ns))
                self._frame(encode_settings(told))
            self._frame(encode_sample(self._sample(reading)))
            if reading.due_ns >= self._batch_due_ns:
                self._batch_due_ns = reading.due_ns + round(faults.batch_s * NANOSECONDS_PER_SECOND)
                self.flush()

    def _sample(self, reading: Reading) -> Sample:
        told, low, high = self._settings, reading.low, reading.high
        status = (LOW_G_MISSING if low is None else 0) | (HIGH_G_MISSING if high is None else 0)
        gyro = force = shock = np.zeros(3)
        if low is not None:
            force = low[IMU.linear_acceleration] / _G * LOW_G_COUNTS_PER_G[told.low_g_range]
            gyro = np.rad2deg(low[IMU.angular_velocity]) * GYRO_COUNTS_PER_DEG_S[told.gyro_range]
        if high is not None:
            shock = high[IMU.linear_acceleration] / _G / HIGH_G_G_PER_DIGIT[told.high_g_range]
        x, y, z = self._counts(shock, 2047)
        digits = (COUNTS_PER_DIGIT * x, COUNTS_PER_DIGIT * y, COUNTS_PER_DIGIT * z)
        low_counts, rate_counts = self._counts(force, 32767), self._counts(gyro, 32767)
        time_us = self._time_us(reading.due_ns)
        return Sample(self._next(), time_us, low_counts, rate_counts, _ROOM_TEMPERATURE, digits, status)

    def _counts(self, value: Vector, largest: int) -> tuple[int, int, int]:
        """(3,) as a chip counts: whole numbers, no more than it can."""
        counts = [round(number) for number in value.tolist()]
        x, y, z = held = [max(-largest - 1, min(largest, count)) for count in counts]
        self.clipped += held != counts
        return x, y, z

    def _next(self) -> int:
        sequence, self._sequence = self._sequence, (self._sequence + 1) % 256
        return sequence

    def _time_us(self, due_ns: int) -> int:
        """By the device's clock, which a restart sets to zero."""
        passed_us = 1e-3 * (due_ns - self._since_ns) * (1.0 + 1e-6 * self._faults.clock_skew_ppm)
        first_us = self._faults.first_time_us if self._since_ns == 0 else 0
        return (first_us + round(passed_us)) % CLOCK_WRAP

    def _frame(self, frame: bytes) -> None:
        faults = self._faults
        if faults.frame_drop_rate and self._rng.random() < faults.frame_drop_rate:
            self.dropped += 1
            return
        if faults.byte_error_rate:
            content = np.frombuffer(frame, dtype=np.uint8).copy()
            hit = self._rng.random(len(content)) < faults.byte_error_rate
            content[hit] = self._rng.integers(0, 256, np.count_nonzero(hit))
            frame = content.tobytes()
        self._batch += frame
        self.sent += 1

    def flush(self) -> None:
        """Let out what waits; what neither line nor system takes is lost, as behind a microcontroller."""
        data, self._batch = bytes(self._batch), bytearray()
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                kept = 0
                if self.is_taken():  # no system buffers for a port that nobody opened
                    kept = len(data) if len(data) <= _BUFFERED_BYTES else data.rfind(0, 0, _BUFFERED_BYTES) + 1
                self.unsent += data.count(0, kept)
                self._batch = bytearray(data[:kept])
                return


def _make_link(link: Path, port: str) -> None:
    try:
        if link.is_symlink():
            if link.exists():
                raise UserError(f"{link} is there already, and leads to {link.readlink()}: name another, or remove it")
            link.unlink()  # of an emulator that was killed
        link.symlink_to(port)
    except OSError as error:
        raise UserError(f"the link {link} cannot be made: {error.strerror}") from error
