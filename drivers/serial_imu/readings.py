"""From bytes of the serial line to stamped readings in SI units, with what is wrong counted.

Frames and their checks are those of `drivers.serial_frames`, scales those that the device tells itself, times the
device's, mapped to the host's. What came before the device told its ranges cannot be scaled, and is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drivers.serial_frames import (
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
from onboard_estimation.measurement import Measurement
from onboard_estimation.simulation import STANDARD_GRAVITY_M_S2
from onboard_estimation.timing.device_clock import DeviceClock

LOW_G, HIGH_G = "imu/low_g", "imu/high_g"
CLOCK_TICK_S, CLOCK_WRAP = 1e-6, 1 << 32

_SEQUENCES = 256
_G = STANDARD_GRAVITY_M_S2

_LOW_BANDWIDTH_HZ = (260.0, 184.0, 94.0, 44.0, 21.0, 10.0, 5.0, 260.0)
_GYRO_BANDWIDTH_HZ = (256.0, 188.0, 98.0, 42.0, 20.0, 10.0, 5.0, 256.0)
"""Of the MPU-6050's low-pass filter, by its code."""
_LOW_DENSITY_M_S2 = 400e-6 * _G
_GYRO_DENSITY_RAD_S = math.radians(0.005)
_HIGH_DENSITY_M_S2 = 15e-3 * _G
"""Noise densities by the data sheets, per square root of Hz."""


@dataclass(frozen=True)
class Scales:
    """What a count is, by the device's own settings; noise by the sensors' data sheets.

    Attributes
    ----------
    low_g, gyro_deg_s, high_g
        g a count, deg/s a count, g a digit of 16 counts.
    low_variance, gyro_variance, high_variance
        Of a reading, (m/s^2)^2 and (rad/s)^2.
    """

    low_g: float
    gyro_deg_s: float
    high_g: float
    low_variance: float
    gyro_variance: float
    high_variance: float

    @classmethod
    def of(cls, settings: Settings) -> Scales:
        """By the ranges and filter that the device tells."""
        digit_m_s2 = HIGH_G_G_PER_DIGIT[settings.high_g_range] * _G
        return cls(
            low_g=1.0 / LOW_G_COUNTS_PER_G[settings.low_g_range],
            gyro_deg_s=1.0 / GYRO_COUNTS_PER_DEG_S[settings.gyro_range],
            high_g=HIGH_G_G_PER_DIGIT[settings.high_g_range],
            low_variance=_LOW_DENSITY_M_S2**2 * _LOW_BANDWIDTH_HZ[settings.low_pass],
            gyro_variance=_GYRO_DENSITY_RAD_S**2 * _GYRO_BANDWIDTH_HZ[settings.low_pass],
            high_variance=_HIGH_DENSITY_M_S2**2 * settings.rate_hz / 2.0 + digit_m_s2**2 / 12.0,
        )


class SerialReadings:
    """Reads one device's bytes, in pieces of any length.

    Parameters
    ----------
    latency_s
        Least time from a reading to its arrival, known beforehand.

    Attributes
    ----------
    clock
        Of the device.
    settings, scales
        What it told last; None before.
    samples, lost, before_ranges
        Valid samples; missing by their numbers; left out for want of ranges.
    unread
        By sensor, samples that the device itself could not read.
    temperature_celsius
        Of the low-g sensor, at its last reading; NaN before.
    """

    def __init__(self, latency_s: float = 0.0) -> None:
        self.clock = DeviceClock(CLOCK_TICK_S, CLOCK_WRAP, latency_s)
        self.settings: Settings | None = None
        self.scales: Scales | None = None
        self.samples = self.lost = self.before_ranges = 0
        self.unread = {LOW_G: 0, HIGH_G: 0}
        self.temperature_celsius = math.nan
        self._frames = FrameReader()
        self._last: tuple[int, int] | None = None  # sequence number and jumps of the clock then

    @property
    def faults(self) -> dict[str, int]:
        """Stretches of bytes that were no frames, by fault."""
        return {fault.name.lower(): self._frames.faults[fault] for fault in Fault}

    def feed(self, data: bytes, received_ns: int) -> list[Measurement]:
        """The readings that these bytes complete, in the order of their stamps: high-g, then low-g.

        Parameters
        ----------
        received_ns
            When the bytes were there, ns since the epoch.
        """
        found: list[Measurement] = []
        for frame in self._frames.feed(data):
            stamp_ns = self.clock.stamp_ns(frame.time_us, received_ns)
            if stamp_ns is None:
                continue
            self._count_lost(frame.sequence)
            if isinstance(frame, Settings):
                self._take_settings(frame)
            else:
                self.samples += 1
                self._take_sample(frame, stamp_ns, found)
        return found

    def _count_lost(self, sequence: int) -> None:
        jumps = self.clock.jumps
        if self._last is not None and self._last[1] == jumps:  # a restarted device counts from anew
            self.lost += (sequence - self._last[0] - 1) % _SEQUENCES
        self._last = sequence, jumps

    def _take_settings(self, settings: Settings) -> None:
        self.settings, self.scales = settings, Scales.of(settings)

    def _take_sample(self, sample: Sample, stamp_ns: int, found: list[Measurement]) -> None:
        scales = self.scales
        if scales is None:
            self.before_ranges += 1
            return
        if sample.status & HIGH_G_MISSING:
            self.unread[HIGH_G] += 1
        else:
            values = [math.nan] * 3 + [count // COUNTS_PER_DIGIT * scales.high_g * _G for count in sample.high_g]
            found.append(Measurement(stamp_ns, HIGH_G, np.array(values)))
        if sample.status & LOW_G_MISSING:
            self.unread[LOW_G] += 1
        else:
            values = [math.radians(count * scales.gyro_deg_s) for count in sample.gyro]
            values += [count * scales.low_g * _G for count in sample.low_g]
            found.append(Measurement(stamp_ns, LOW_G, np.array(values)))
            self.temperature_celsius = sample.temperature / 340.0 + 36.53
