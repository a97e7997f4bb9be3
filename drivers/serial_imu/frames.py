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
import struct
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from drivers.at_rest import HIGH_G, LOW_G
from onboard_estimation.base.installed import optional

cobs = optional("cobs.cobs", "cobs", "serial")

CLOCK_TICK_S, CLOCK_WRAP = 1e-6, 1 << 32
SAMPLE, SETTINGS = 1, 2
LOW_G_MISSING, HIGH_G_MISSING = 1, 2

MPU_6050_IDENTITY, H3LIS331DL_IDENTITY = 0x68, 0x32
CHIPS = {LOW_G: ("MPU-6050", MPU_6050_IDENTITY), HIGH_G: ("H3LIS331DL", H3LIS331DL_IDENTITY)}
"""That the scales are of, with what they answer to WHO_AM_I; a clone answers otherwise."""
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

    @property
    def scaling(self) -> tuple[int, ...]:
        """Ranges, low-pass code and rate."""
        return *self.ranges, self.low_pass, self.rate_hz

    @property
    def clones(self) -> dict[str, int]:
        """Identity of each sensor that is another chip than the one that this driver knows."""
        told = {LOW_G: self.low_g_identity, HIGH_G: self.high_g_identity}
        return {name: one for name, one in told.items() if one not in (NOT_FOUND, CHIPS[name][1])}


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
    is_known = (
        found.low_g_range in LOW_G_COUNTS_PER_G
        and found.gyro_range in GYRO_COUNTS_PER_DEG_S
        and found.high_g_range in HIGH_G_G_PER_DIGIT
        and found.low_pass <= 7
        and found.rate_hz > 0
    )
    return found if is_known else Fault.CODE


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
