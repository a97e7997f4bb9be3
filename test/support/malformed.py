"""Serialised messages that are none: what a hostile or broken sender publishes as bytes."""

from __future__ import annotations

import random
from collections.abc import Iterator


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
    """A payload that holds more than the message."""
    return valid + bytes(-len(valid) % 4 + 64)
