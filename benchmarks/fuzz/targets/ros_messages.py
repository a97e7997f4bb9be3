"""CDR of other programs as the embedded runtime reads it: a ValueError, or a message that is written alike.

The first two bytes of an input choose the type, of all that the distribution has.
"""

from __future__ import annotations

from functools import cache
from random import Random

from benchmarks.fuzz.target import Target
from embedded_ros.messages import message_class, support
from embedded_ros.messages.definitions import definitions
from embedded_ros.messages.runs import HEADER_SIZE

_TYPE = 2


@cache
def _types() -> list[str]:
    known = definitions()
    return [f"{package}/msg/{name}" for package in sorted(known.packages()) for name in known.names(package, "msg")]


def check(data: bytes) -> None:
    """Read, from either byte order, written and read again: nothing is lost."""
    types = _types()
    name = types[int.from_bytes(data[:_TYPE], "little") % len(types)]
    ours = support(message_class(name))
    try:
        message = ours.deserialize(data[_TYPE:])
    except ValueError:
        return
    written = ours.serialize(message)
    assert ours.serialize(ours.deserialize(written)) == written


def _mended(data: bytes, random: Random) -> bytes:
    """An encoding that is read, and now and then a small count where a large one is refused."""
    changed = bytearray(data[:_TYPE].ljust(_TYPE, b"\0") + b"\0" + bytes([random.random() < 0.8]) + data[_TYPE + 2 :])
    for _ in range(random.randrange(3)):
        place = _TYPE + HEADER_SIZE + 4 * random.randrange(1 + len(changed) // 4)
        if place + 4 <= len(changed):
            changed[place : place + 4] = random.randrange(5).to_bytes(4, "little" if changed[_TYPE + 1] else "big")
    return bytes(changed)


def _seeds() -> list[bytes]:
    return [
        number.to_bytes(_TYPE, "little") + support(message_class(name)).serialize(message_class(name)())
        for number, name in enumerate(_types())
    ]


TARGET = Target(check, _seeds, _mended)
