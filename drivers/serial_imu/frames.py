"""Frames of the two inertial sensors (MPU-6050 and H3LIS331DL) on the serial line: what is sent, encoded and decoded.

On the wire a frame is COBS-encoded and ends with a zero byte, which stands nowhere else. In it, little-endian, the last
four bytes are the CRC-32 (`binascii.crc32`) of all before them:

sample (type 1)
    type u8, sequence u8, device time u32 (us, wraps every 71.6 min), low-g accelerometer 3 x i16, gyro 3 x i16,
    temperature i16, high-g accelerometer 3 x i16, status u16
settings (type 2)
    type u8, sequence u8, device time u32, accelerometer range u8, gyro range u8, high-g range u8, low-pass code u8,
    rate u16 (Hz), identity of the low-g and of the high-g sensor (WHO_AM_I) 2 x u8, firmware version 3 x u8,
    device id 8 bytes

Both count in one sequence. Readings are the sensors' own counts; the range codes in the settings frame are those of the
sensors' registers (AFS_SEL, FS_SEL, and FS1 FS0 of CTRL_REG4). It is sent at start and every second. Status bits: 0 the
low-g sensor could not be read, 1 the high-g sensor could not be read; the others are zero.

Nothing that arrives is trusted: a frame has to decode, to match its CRC, to be of a known type and of that type's
length, with known codes. What does not is counted by its first fault.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from drivers.at_rest import HIGH_G, LOW_G
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Measurement
from onboard_estimation.base.series import STANDARD_GRAVITY_M_S2
from onboard_estimation.pipeline.device_clock import DeviceClock

try:
    from cobs import cobs  # type: ignore[import-untyped]
except ImportError as error:
    raise UserError(
        "the device's frames need the package `cobs`: pip install 'onboard_estimation[serial]' (or pip install cobs)"
    ) from error

SAMPLE, SETTINGS = 1, 2
LOW_G_MISSING, HIGH_G_MISSING = 1, 2

MPU_6050_IDENTITY, H3LIS331DL_IDENTITY = 0x68, 0x32
NOT_FOUND = 0
"""In the place of an identity: the device has not found that sensor yet, and the other one counts all the same."""

LOW_G_COUNTS_PER_G = {0: 16384.0, 1: 8192.0, 2: 4096.0, 3: 2048.0}
"""By AFS_SEL: +-2, 4, 8, 16 g."""
GYRO_COUNTS_PER_DEG_S = {0: 131.0, 1: 65.5, 2: 32.8, 3: 16.4}
"""By FS_SEL: +-250, 500, 1000, 2000 deg/s."""
HIGH_G_G_PER_DIGIT = {0: 0.049, 1: 0.098, 3: 0.195}
"""By FS1 FS0: +-100, 200, 400 g."""
COUNTS_PER_DIGIT = 16
"""Of the high-g sensor, whose 12 bits are left-justified."""

_SAMPLE = struct.Struct("<BBI10hH")
_SETTINGS = struct.Struct("<BBI4BH2B3B8s")
_CRC = struct.Struct("<I")
_LENGTHS = {SAMPLE: _SAMPLE.size, SETTINGS: _SETTINGS.size}
# The longest frame with its CRC and the byte that COBS adds: what is longer is no frame, however long it goes on.
_LONGEST = max(_LENGTHS.values()) + _CRC.size + 1


class Sample(NamedTuple):
    """One reading of both sensors, in counts."""

    sequence: int
    time_us: int
    low_g: tuple[int, int, int]
    gyro: tuple[int, int, int]
    temperature: int
    high_g: tuple[int, int, int]
    status: int


@dataclass(frozen=True)
class Settings:
    """What is needed to scale the counts, and what device it is; ranges as codes of the registers."""

    sequence: int
    time_us: int
    low_g_range: int
    gyro_range: int
    high_g_range: int
    low_pass: int
    rate_hz: int
    low_g_identity: int = MPU_6050_IDENTITY
    high_g_identity: int = H3LIS331DL_IDENTITY
    firmware: tuple[int, int, int] = (0, 0, 0)
    device_id: bytes = bytes(8)

    @property
    def ranges(self) -> tuple[int, int, int]:
        """Of low-g accelerometer, gyro and high-g accelerometer."""
        return self.low_g_range, self.gyro_range, self.high_g_range


class Fault(Enum):
    """Why a stretch of bytes between two zero bytes is no frame."""

    COBS = "not COBS"
    CRC = "wrong CRC"
    LENGTH = "wrong length"
    TYPE = "unknown type"
    CODE = "unknown code"


def encode_sample(sample: Sample) -> bytes:
    """The frame as it is on the wire, with the zero byte at its end."""
    sequence, time_us, low_g, gyro, temperature, high_g, status = sample
    return _framed(_SAMPLE.pack(SAMPLE, sequence, time_us, *low_g, *gyro, temperature, *high_g, status))


def encode_settings(settings: Settings) -> bytes:
    """The frame as it is on the wire, with the zero byte at its end."""
    *numbers, firmware, device_id = vars(settings).values()
    return _framed(_SETTINGS.pack(SETTINGS, *numbers, *firmware, device_id))


def decode(stretch: bytes) -> Sample | Settings | Fault:
    """What the bytes between two zero bytes hold."""
    if len(stretch) > _LONGEST:
        return Fault.LENGTH
    try:
        content = cobs.decode(stretch)
    except cobs.DecodeError:
        return Fault.COBS
    if len(content) <= _CRC.size:
        return Fault.LENGTH
    payload = content[: -_CRC.size]
    if _CRC.unpack_from(content, len(payload))[0] != binascii.crc32(payload):
        return Fault.CRC
    kind = payload[0]
    if kind not in _LENGTHS:
        return Fault.TYPE
    if len(payload) != _LENGTHS[kind]:
        return Fault.LENGTH
    return _sample(payload) if kind == SAMPLE else _settings(payload)


def _sample(payload: bytes) -> Sample | Fault:
    _, sequence, time_us, *numbers, status = _SAMPLE.unpack(payload)
    if status & ~(LOW_G_MISSING | HIGH_G_MISSING):
        return Fault.CODE
    ax, ay, az, gx, gy, gz, temperature, hx, hy, hz = numbers
    return Sample(sequence, time_us, (ax, ay, az), (gx, gy, gz), temperature, (hx, hy, hz), status)


def _settings(payload: bytes) -> Settings | Fault:
    _, *numbers, major, minor, patch, device = _SETTINGS.unpack(payload)
    values: tuple[Any, ...] = (*numbers, (major, minor, patch), device)
    found = Settings(*values)
    are_known = (
        found.low_g_range in LOW_G_COUNTS_PER_G
        and found.gyro_range in GYRO_COUNTS_PER_DEG_S
        and found.high_g_range in HIGH_G_G_PER_DIGIT
        and found.low_g_identity in (MPU_6050_IDENTITY, NOT_FOUND)
        and found.high_g_identity in (H3LIS331DL_IDENTITY, NOT_FOUND)
    )
    return found if are_known and found.low_pass <= 7 and found.rate_hz > 0 else Fault.CODE


class FrameReader:
    """Cuts a stream of bytes into frames, in pieces of any length.

    Attributes
    ----------
    faults
        How many stretches between zero bytes were no frames, by fault. What stands before the first zero byte is the
        rest of a frame whose begin was not heard, unless it is a frame: it is in `partial` and not among the faults.
    partial
        0 or 1.
    samples
        Frames that were one.
    """

    def __init__(self) -> None:
        self.faults: Counter[Fault] = Counter()
        self.partial = self.samples = 0
        self._rest = b""
        self._started = False
        self._overlong = False

    def feed(self, data: bytes) -> list[Sample | Settings]:
        """The frames that these bytes complete."""
        *stretches, rest = (self._rest + data).split(b"\0")
        frames = []
        for stretch in stretches:
            overlong, self._overlong = self._overlong, False
            frame = Fault.LENGTH if overlong else decode(stretch) if stretch else None
            if isinstance(frame, Fault):
                if self._started:
                    self.faults[frame] += 1
                else:
                    self.partial = 1
            elif frame is not None:
                frames.append(frame)
                self.samples += isinstance(frame, Sample)
            self._started = True
        # Without a zero byte for long: noise, of which no more is kept than tells that it is too long.
        self._overlong |= len(rest) > _LONGEST
        self._rest = rest if not self._overlong else b""
        return frames

    @property
    def unfinished(self) -> int:
        """Bytes after the last zero byte: a frame of which the end is still to come."""
        return len(self._rest)


def _framed(payload: bytes) -> bytes:
    return bytes(cobs.encode(payload + _CRC.pack(binascii.crc32(payload)))) + b"\0"


# From bytes of the serial line to stamped readings in SI units, with what is wrong counted.
#
# Scales are those that the device tells itself, times the device's, mapped to the host's. What came before the device
# told its ranges cannot be scaled, and is left out.

CLOCK_TICK_S, CLOCK_WRAP = 1e-6, 1 << 32

_SEQUENCES = 256
_FULL_COUNT, _FULL_DIGIT = 32_767, 2_047
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

    Attributes
    ----------
    frames
        What the bytes hold.
    settings, scales
        What it told last; None before.
    samples, lost, before_ranges
        Valid samples; missing by their numbers; left out for want of ranges.
    changes
        Of the ranges.
    unread
        By sensor, samples that the device itself could not read.
    at_end
        By what is measured, readings at the end of its range.
    temperature_celsius
        Of the low-g sensor, at its last reading; NaN before.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = DeviceClock(CLOCK_TICK_S, CLOCK_WRAP) if clock is None else clock
        self.frames = FrameReader()
        self.settings: Settings | None = None
        self.scales: Scales | None = None
        self.samples = self.lost = self.before_ranges = self.changes = 0
        self.unread = {LOW_G: 0, HIGH_G: 0}
        self.at_end = {f"{LOW_G} accelerometer": 0, f"{LOW_G} gyro": 0, f"{HIGH_G} accelerometer": 0}
        self.temperature_celsius = math.nan
        self._last: tuple[int, int] | None = None  # sequence number and jumps of the clock then

    @property
    def faults(self) -> dict[str, int]:
        """Stretches of bytes that were no frames, by fault."""
        return {fault.name.lower(): self.frames.faults[fault] for fault in Fault}

    def feed(self, data: bytes, received_ns: int) -> list[Measurement]:
        """The readings that these bytes complete, in the order of their stamps: high-g, then low-g.

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
        self.changes += self.settings is not None and self.settings.ranges != settings.ranges
        self.settings, self.scales = settings, Scales.of(settings)

    def _take_sample(self, sample: Sample, stamp_ns: int, found: list[Measurement]) -> None:
        scales = self.scales
        if scales is None:
            self.before_ranges += 1
            return
        if sample.status & HIGH_G_MISSING:
            self.unread[HIGH_G] += 1
        else:
            digits = [count // COUNTS_PER_DIGIT for count in sample.high_g]
            self._watch_end(f"{HIGH_G} accelerometer", digits, _FULL_DIGIT)
            values = [math.nan] * 3 + [digit * scales.high_g * _G for digit in digits]
            found.append(Measurement(stamp_ns, HIGH_G, np.array(values)))
        if sample.status & LOW_G_MISSING:
            self.unread[LOW_G] += 1
        else:
            self._watch_end(f"{LOW_G} accelerometer", sample.low_g, _FULL_COUNT)
            self._watch_end(f"{LOW_G} gyro", sample.gyro, _FULL_COUNT)
            values = [math.radians(count * scales.gyro_deg_s) for count in sample.gyro]
            values += [count * scales.low_g * _G for count in sample.low_g]
            found.append(Measurement(stamp_ns, LOW_G, np.array(values)))
            self.temperature_celsius = sample.temperature / 340.0 + 36.53

    def _watch_end(self, what: str, counts: Sequence[int], full: int) -> None:
        self.at_end[what] += max(counts) >= full or min(counts) <= -full
