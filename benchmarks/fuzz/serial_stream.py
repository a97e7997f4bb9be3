"""Streams of the serial line's frames: seeds, mending, cutting, and a reader by the text of the format alone."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Iterator
from random import Random

from cobs import cobs  # type: ignore[import-untyped]

from drivers.serial_frames import Sample, Settings, encode_sample, encode_settings

SAMPLE_BYTES, SETTINGS_BYTES = 28, 25
_STEPS_US = (0, 1, 1000, 1000, 1000, 16_000, 300_000, 1_000_000, 5_000_000, 59_000_000, 61_000_000, 2**31, 2**32 - 1000)


def streams() -> list[bytes]:
    """Valid ones to begin with."""
    told = Settings(0, 0, low_g_range=2, gyro_range=1, high_g_range=3, low_pass=2, rate_hz=1000)
    first, counts = encode_settings(told), (1, -2, 32767)
    steady = [Sample(k + 1, 1000 * (k + 1), counts, counts, -5, counts, k % 4) for k in range(8)]
    seconds = [Sample(k + 1, 1_000_000 * k % 2**32, counts, counts, 0, counts, 0) for k in range(4294, 4302)]
    turned = [Sample(one.sequence % 256, *one[1:]) for one in seconds]
    return [
        first,
        first + b"".join(map(encode_sample, steady)),
        first + b"".join(map(encode_sample, turned)),
        encode_sample(steady[3])[9:] + first + encode_sample(steady[0]) + b"\0\0" + encode_sample(steady[1])[:20],
        b"\1" * 200 + b"\0" + first,
        b"".join(b"\0" + _sealed(bytes([1, *range(1, length)])) for length in (27, 28, 29)) + b"\0",
        b"".join(b"\0" + _sealed(bytes([2, *range(1, length)])) for length in (24, 25, 26)) + b"\0",
    ]


def pieces(stream: bytes, lengths: bytes) -> Iterator[bytes]:
    """The stream cut into pieces of these lengths, which may be zero, and what is left."""
    place = 0
    for length in lengths:
        yield stream[place : place + length]
        place += length
    yield stream[place:]


def is_frame(stretch: bytes) -> bool:
    """Whether what stands between two zero bytes is a frame, as the format's description says; nothing of ours reads.

    A frame is shorter than 254 bytes, so that every block of COBS ends with a zero byte.
    """
    content, place = b"", 0
    while place < len(stretch):
        block = stretch[place + 1 : place + stretch[place]]
        if len(block) != stretch[place] - 1:
            return False
        content, place = content + block + b"\0", place + stretch[place]
    payload, crc = content[:-5], content[-5:-1]
    if crc != binascii.crc32(payload).to_bytes(4, "little"):
        return False
    if payload[:1] == b"\1" and len(payload) == SAMPLE_BYTES:
        return payload[-2] < 4 and not payload[-1]
    if payload[:1] == b"\2" and len(payload) == SETTINGS_BYTES:
        low, gyro, high, low_pass = payload[6:10]
        known = low < 4 and gyro < 4 and high in (0, 1, 3) and low_pass < 8 and any(payload[10:12])
        return known and payload[12] in (0, 0x68) and payload[13] in (0, 0x32)
    return False


def mended(stream: bytes, random: Random) -> bytes:
    """Most stretches made frames again: framing, CRC; often also length, codes, and a time that can follow."""
    time_us, found = random.choice((0, 2**32 - 50_000, random.getrandbits(32))), []
    for stretch in stream.split(b"\0"):
        if stretch and random.random() < 0.8:
            time_us = (time_us + random.choice(_STEPS_US)) % 2**32
            stretch = _frame(stretch, time_us, random)
        found.append(stretch)
    return b"\0".join(found)


def _frame(stretch: bytes, time_us: int, random: Random) -> bytes:
    try:
        payload = bytearray(cobs.decode(stretch)[:-4])
    except cobs.DecodeError:
        payload = bytearray(stretch[:32])
    wish = random.randrange(8)
    if wish < 3:
        payload = bytearray(b"\1" + payload[1:SAMPLE_BYTES].ljust(SAMPLE_BYTES - 1, b"\0"))
        if wish:
            payload[-2:] = bytes([payload[-2] & 3, 0])
    elif wish < 6:
        payload = bytearray(b"\2" + payload[1:SETTINGS_BYTES].ljust(SETTINGS_BYTES - 1, b"\0"))
        if wish > 3:
            payload[6:10] = bytes([payload[6] & 3, payload[7] & 3, (0, 1, 3)[payload[8] % 3], payload[9] & 7])
            payload[10] |= 1
            payload[12:14] = bytes([payload[12] & 1 and 0x68, payload[13] & 1 and 0x32])
    if len(payload) > 6 and random.random() < 0.7:
        payload[2:6] = struct.pack("<I", time_us)
    if random.random() < 0.15:  # the right checksum of a wrong length
        payload = payload[:-1] if random.random() < 0.5 else payload + b"\0"
    return _sealed(bytes(payload))


def _sealed(payload: bytes) -> bytes:
    """With its CRC, and without zeros."""
    return bytes(cobs.encode(payload + binascii.crc32(payload).to_bytes(4, "little")))
