"""Samples that no DDS library would send: RTPS packets in the name of a writer that exists and stays silent.

A library refuses to write what is no message of the topic's type; a hostile or broken sender does not. Readers match
the real writer, and take the packets for its own.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter
from collections.abc import Iterator

_DATA_LITTLE_ENDIAN = bytes([0x15, 0x05])
_PROTOCOL = b"RTPS" + bytes([2, 1, 1, 16])
_FIRST_PORT, _PORTS_PER_DOMAIN, _PARTICIPANTS = 7400, 250, 8


class Forger:
    """Sends payloads to every participant of a domain on this machine."""

    def __init__(self, domain: int) -> None:
        first = _FIRST_PORT + _PORTS_PER_DOMAIN * domain
        self._ports = [first + kind + 2 * index for index in range(_PARTICIPANTS) for kind in (10, 11)]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sent: Counter[bytes] = Counter()

    def send(self, writer_gid: bytes, payload: bytes) -> None:
        """One sample, encoding and data; its length is a multiple of four, as in all of RTPS."""
        assert payload
        assert len(payload) % 4 == 0
        self._sent[writer_gid] += 1
        sample = (
            struct.pack("<HH", 0, 16) + bytes(4) + writer_gid[12:16] + struct.pack("<iI", 0, self._sent[writer_gid])
        )
        submessage = _DATA_LITTLE_ENDIAN + struct.pack("<H", len(sample + payload)) + sample + payload
        for port in self._ports:
            self._socket.sendto(_PROTOCOL + writer_gid[:12] + submessage, ("127.0.0.1", port))

    def close(self) -> None:
        """Send no more."""
        self._socket.close()


def malformed(valid: bytes, seed: int) -> Iterator[bytes]:
    """What can be wrong with a payload: its length, its encoding, the lengths and flags in it, everything."""
    valid += bytes(-len(valid) % 4)
    for length in sorted({4, 8, len(valid) // 8 * 4, len(valid) - 4}):
        yield valid[: max(length, 4)]
    for encoding in (b"\0\7", b"\0\3", b"\0\x0b", b"\xff\xff"):
        yield encoding + valid[2:]
    words = list(range(4, len(valid), 4))
    for position in dict.fromkeys(words[:6] + words[-2:]):
        for word in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\1"):
            yield valid[:position] + word + valid[position + 4 :]
    generator = random.Random(seed)
    for size in (16, 200, 1000):
        yield valid[:4] + generator.randbytes(size)
    yield too_long(valid)


def too_long(valid: bytes) -> bytes:
    """A payload that CycloneDDS lets through to whoever reads it, and that is no message all the same."""
    return valid + bytes(-len(valid) % 4 + 64)
