"""From bytes of the serial line to stamped readings in SI units, with what is wrong counted.

Scales are those that the device tells itself, times the device's, mapped to the host's, less what its filters are late
by. What came before the device told its ranges cannot be scaled, and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from drivers.at_rest import HIGH_G, LOW_G
from drivers.serial_imu.frames import (
    CLOCK_TICK_S,
    CLOCK_WRAP,
    COUNTS_PER_DIGIT,
    GYRO_COUNTS_PER_DEG_S,
    HIGH_G_G_PER_DIGIT,
    HIGH_G_MISSING,
    LOW_G_COUNTS_PER_G,
    LOW_G_MISSING,
    Fault,
    FrameReader,
    Sample,
    Settings,
)
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Measurement
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.pipeline.device_clock import DeviceClock

_SEQUENCES = 256
_FULL_COUNT, _FULL_DIGIT = 32_767, 2_047
_G = STANDARD_GRAVITY_M_S2

_LOW_PASS = (
    (260.0, 0.0, 256.0, 0.98e-3),
    (184.0, 2.0e-3, 188.0, 1.9e-3),
    (94.0, 3.0e-3, 98.0, 2.8e-3),
    (44.0, 4.9e-3, 42.0, 4.8e-3),
    (21.0, 8.5e-3, 20.0, 8.3e-3),
    (10.0, 13.8e-3, 10.0, 13.4e-3),
    (5.0, 19.0e-3, 5.0, 18.6e-3),
    (260.0, 0.0, 256.0, 0.98e-3),
)
"""Of the MPU-6050's filter, by its code (register map, DLPF_CFG): bandwidth and delay, of accelerometer and of gyro."""
_HIGH_DELAY_S = 1.0 / (2.0 * math.pi * 780.0)
"""Of the H3LIS331DL's, 780 Hz at 1 kHz by its data sheet, taken for one of first order."""
_LOW_DENSITY_M_S2 = 400e-6 * _G
_GYRO_DENSITY_RAD_S = math.radians(0.005)
_HIGH_DENSITY_M_S2 = 15e-3 * _G
"""Noise densities by the data sheets, per square root of Hz."""
_LOW_ALIKE, _HIGH_ALIKE = 5, 8
"""So many readings in a row are hardly ever (1 in 10^10) alike by chance, be noise half as much, and ranges widest."""


def short(sensor: str) -> str:
    """Its name in names of counts."""
    return sensor.removeprefix("imu/")


_COUNTED = (
    *("samples", "lost", "before_ranges", "changes_of_range"),
    *(f"{why}_{short(sensor)}" for why in ("unread", "unknown_chip") for sensor in (LOW_G, HIGH_G)),
    *("clipped_low_g_accelerometer", "clipped_low_g_gyro", "clipped_high_g_accelerometer"),
)


class Scales:
    """What a count is, by the device's own settings; noise by the sensors' data sheets.

    Attributes
    ----------
    low_g, gyro_deg_s, high_g
        g a count, deg/s a count, g a digit of 16 counts.
    variances
        By sensor and part of an `Imu`, of a reading, (rad/s)^2 and (m/s^2)^2.
    rate_hz, low_bandwidth_hz
        That the device reads at; of the low-g accelerometer's filter.
    delay_ns
        By sensor, that its filter is late by; of the low-g one, whose gyro has the same stamp, the accelerometer's.
    gyro_late_s
        By how much the gyro is later than that.
    ends
        By sensor, (6,) what is read at the end of the range, rad/s and m/s^2; infinite of the gyro that is none.
    equal_by_chance
        By sensor, so many readings in a row may equal the one before, and the chip lives.
    """

    def __init__(self, settings: Settings) -> None:
        self.low_g = 1.0 / LOW_G_COUNTS_PER_G[settings.low_g_range]
        self.gyro_deg_s = 1.0 / GYRO_COUNTS_PER_DEG_S[settings.gyro_range]
        self.high_g = HIGH_G_G_PER_DIGIT[settings.high_g_range]
        self.rate_hz = settings.rate_hz
        self.low_bandwidth_hz, low_delay_s, gyro_hz, gyro_delay_s = _LOW_PASS[settings.low_pass]
        self.gyro_late_s = gyro_delay_s - low_delay_s
        low_variance, gyro_variance = _LOW_DENSITY_M_S2**2 * self.low_bandwidth_hz, _GYRO_DENSITY_RAD_S**2 * gyro_hz
        high_variance = _HIGH_DENSITY_M_S2**2 * self.rate_hz / 2.0 + (self.high_g * _G) ** 2 / 12.0
        self.variances = {
            LOW_G: {"angular_velocity": gyro_variance, "linear_acceleration": low_variance},
            HIGH_G: {"linear_acceleration": high_variance},
        }
        delays_s = {LOW_G: low_delay_s, HIGH_G: _HIGH_DELAY_S}
        self.delay_ns = {name: round(delay_s * NANOSECONDS_PER_SECOND) for name, delay_s in delays_s.items()}
        gyro, low = math.radians(_FULL_COUNT * self.gyro_deg_s), _FULL_COUNT * self.low_g * _G
        high = _FULL_DIGIT * self.high_g * _G
        self.ends = {LOW_G: np.repeat([gyro, low], 3), HIGH_G: np.repeat([math.inf, high], 3)}
        # What is filtered does not change at once.
        slowed = math.ceil(self.rate_hz / (2.0 * self.low_bandwidth_hz))
        self.equal_by_chance = {LOW_G: _LOW_ALIKE * slowed, HIGH_G: _HIGH_ALIKE}


class Clock(Protocol):
    """Time of the device as that of stamps; `jumps`: how often it began anew, since the device restarted."""

    jumps: int

    def stamp_ns(self, ticks: int, received_ns: int, /) -> int | None:
        """Of microseconds of the device that arrived then; None: they cannot be right."""


class SerialReadings:
    """Reads one device's bytes, in pieces of any length.

    Parameters
    ----------
    clock
        Of the device; by default one that maps its times to the host's.
    accepts_clones
        Whether readings of another chip than the known one are taken as if they were its.

    Attributes
    ----------
    frames
        What the bytes hold.
    settings, scales
        What it told last; None before.
    left_out
        Identity of each sensor whose readings are left out: those of another chip.
    temperature_celsius
        Of the low-g sensor, at its last reading; NaN before.
    """

    def __init__(self, clock: Clock | None = None, accepts_clones: bool = True) -> None:
        self.clock = DeviceClock(CLOCK_TICK_S, CLOCK_WRAP) if clock is None else clock
        self._accepts_clones = accepts_clones
        self.frames = FrameReader()
        self.settings: Settings | None = None
        self.scales: Scales | None = None
        self._counts = dict.fromkeys(_COUNTED, 0)
        self.left_out: dict[str, int] = {}
        self.temperature_celsius = math.nan
        self._last: tuple[int, int, int] | None = None  # sequence number, device time, and jumps of the clock then
        self._frames, self._frames_us = 0, 0  # that followed each other, and in what time: which is a frame's
        self._measured_ns = dict.fromkeys((LOW_G, HIGH_G), -(1 << 62))

    @property
    def counts(self) -> dict[str, int]:
        """Valid samples, and by name what was wrong with some.

        Missing by numbers and times (`lost`), left out for want of ranges (`before_ranges`), read by another range than
        the one before (`changes_of_range`); by sensor what the device itself could not read (`unread`), what is left
        out as another chip's (`unknown_chip`), what is at the end of its range (`clipped`); stretches of bytes that
        were no frames, by fault (`corrupted`).
        """
        return self._counts | {f"corrupted_{fault.name.lower()}": self.frames.faults[fault] for fault in Fault}

    def feed(self, data: bytes, received_ns: int) -> list[Measurement]:
        """The readings that these bytes complete, of each sensor in the order of their stamps: when it measured.

        Parameters
        ----------
        received_ns
            When the bytes were there, ns since the epoch.
        """
        found: list[Measurement] = []
        for frame in self.frames.feed(data):
            stamp_ns = self.clock.stamp_ns(frame.time_us, received_ns)
            if stamp_ns is None:
                continue
            self._count_lost(frame.sequence, frame.time_us)
            if isinstance(frame, Settings):
                self._take_settings(frame)
            else:
                self._counts["samples"] += 1
                self._take_sample(frame, stamp_ns, found)
        return found

    def _count_lost(self, sequence: int, time_us: int) -> None:
        """By the numbers, and by the time how often they have gone round."""
        jumps = self.clock.jumps
        if self._last is not None and self._last[2] == jumps:  # a restarted device counts from anew
            lost, step_us = (sequence - self._last[0] - 1) % _SEQUENCES, (time_us - self._last[1]) % CLOCK_WRAP
            if self._frames_us:
                frames = step_us * self._frames / self._frames_us
                lost = max(0, lost + _SEQUENCES * round((frames - 1 - lost) / _SEQUENCES))
            if lost:
                self._counts["lost"] += lost
            else:
                self._frames, self._frames_us = self._frames + 1, self._frames_us + step_us
        self._last = sequence, time_us, jumps

    def _take_settings(self, settings: Settings) -> None:
        before, self.settings = self.settings, settings
        self._counts["changes_of_range"] += before is not None and before.ranges != settings.ranges
        if before is None or before.scaling != settings.scaling:
            self.scales = Scales(settings)
            self._frames, self._frames_us = settings.rate_hz + 1, round(1.0 / CLOCK_TICK_S)
        self.left_out = {} if self._accepts_clones else settings.clones

    def _take_sample(self, sample: Sample, stamp_ns: int, found: list[Measurement]) -> None:
        scales = self.scales
        if scales is None:
            self._counts["before_ranges"] += 1
            return
        if self._is_read(HIGH_G, sample.status & HIGH_G_MISSING):
            digits = [count // COUNTS_PER_DIGIT for count in sample.high_g]
            self._watch_end("clipped_high_g_accelerometer", digits, _FULL_DIGIT)
            values = [math.nan] * 3 + [digit * scales.high_g * _G for digit in digits]
            found.append(Measurement(self._measured(HIGH_G, stamp_ns, scales), HIGH_G, np.array(values)))
        if self._is_read(LOW_G, sample.status & LOW_G_MISSING):
            self._watch_end("clipped_low_g_accelerometer", sample.low_g, _FULL_COUNT)
            self._watch_end("clipped_low_g_gyro", sample.gyro, _FULL_COUNT)
            values = [math.radians(count * scales.gyro_deg_s) for count in sample.gyro]
            values += [count * scales.low_g * _G for count in sample.low_g]
            found.append(Measurement(self._measured(LOW_G, stamp_ns, scales), LOW_G, np.array(values)))
            self.temperature_celsius = sample.temperature / 340.0 + 36.53

    def _is_read(self, sensor: str, is_missing: int) -> bool:
        """Whether a sample holds a reading of this sensor that counts."""
        why = "unread" if is_missing else "unknown_chip" if sensor in self.left_out else ""
        if why:
            self._counts[f"{why}_{short(sensor)}"] += 1
        return not why

    def _measured(self, sensor: str, stamp_ns: int, scales: Scales) -> int:
        """When what was read then was measured; later than the one before, also where the filter was changed."""
        measured_ns, last_ns = stamp_ns - scales.delay_ns[sensor], self._measured_ns[sensor]
        if 0 <= last_ns - measured_ns < NANOSECONDS_PER_SECOND // 2:  # more: the host's clock was set back
            measured_ns = last_ns + 1
        self._measured_ns[sensor] = measured_ns
        return measured_ns

    def _watch_end(self, what: str, counts: Sequence[int], full: int) -> None:
        self._counts[what] += max(counts) >= full or min(counts) <= -full
