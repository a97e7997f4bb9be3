"""`drivers.serial_frames.SerialReadings`, the bytes in pieces that arrive at any times, also before the last.

The first sixteen bytes of an input are eight times a piece's length and the code of how much later it arrives; the rest
is one piece more.
"""

from __future__ import annotations

import math
import pickle
from random import Random

from benchmarks.fuzz.serial_stream import mended, pieces, streams
from benchmarks.fuzz.target import Target
from drivers.serial_frames import HIGH_G, LOW_G, SerialReadings
from onboard_estimation.measurement import Measurement

_HEAD = 16
_EPOCH_NS, _LAST_NS, _SECOND_NS = 1_800_000_000 * 10**9, 2**62, 10**9
_LATER_NS = (
    0, 1, 1_000_000, 1_000_000, 16_000_000, 499_000_000, _SECOND_NS, 5 * _SECOND_NS, 61 * _SECOND_NS,
    4_294_967_296_000, -1, -1_000_000, -900_000_000, -1_100_000_000, -3600 * _SECOND_NS,
)  # fmt: skip
_MOST_KEPT = 6000


def check(data: bytes) -> None:
    """Readings, their stamps, counts and what is kept."""
    head, stream = data[:_HEAD], data[_HEAD:]
    live, received_ns = SerialReadings(), _EPOCH_NS
    last_ns = dict.fromkeys((LOW_G, HIGH_G), -(2**63))
    found = 0
    for number, piece in enumerate(pieces(stream, head[::2])):
        received_ns = _arrival(received_ns, head[2 * number + 1] if 2 * number + 1 < len(head) else 0)
        jumps, falls = live.clock.jumps, dict.fromkeys(last_ns, 0)
        for one in live.feed(piece, received_ns):
            _check_reading(one)
            if one.stamp_ns <= last_ns[one.sensor]:
                falls[one.sensor] += 1
                assert last_ns[one.sensor] - one.stamp_ns >= 0.9 * _SECOND_NS  # only if the host was set back
            last_ns[one.sensor] = one.stamp_ns
            found += 1
        assert max(falls.values()) <= live.clock.jumps - jumps
        assert live.frames.unfinished <= 40
    assert found + sum(live.unread.values()) == 2 * (live.samples - live.before_ranges)
    assert min(live.lost, live.clock.implausible, live.clock.jumps) >= 0
    assert len(pickle.dumps(live)) <= _MOST_KEPT


def _arrival(last_ns: int, code: int) -> int:
    """Also the first and the last time that there is."""
    if code >= 254:
        return 0 if code == 254 else _LAST_NS
    return min(max(last_ns + _LATER_NS[code % len(_LATER_NS)], 0), _LAST_NS)


def _check_reading(one: Measurement) -> None:
    assert isinstance(one.stamp_ns, int)
    assert -(2**63) <= one.stamp_ns < 2**63
    assert one.value.shape == (6,)
    gyro, force = one.value[:3].tolist(), one.value[3:].tolist()
    assert all(map(math.isnan if one.sensor == HIGH_G else math.isfinite, gyro))
    assert all(map(math.isfinite, force))


def _mended(data: bytes, random: Random) -> bytes:
    return data[:_HEAD] + mended(data[_HEAD:], random)


def _seeds() -> list[bytes]:
    heads = (
        bytes([33, 2] * 8),
        bytes([33, 6] * 8),
        bytes([1, 0] * 8),
        bytes([33, 6, 33, 7, 33, 8, 33, 13, 33, 254, 33, 5, 33, 255, 0, 1]),
    )
    return [head + stream for head in heads for stream in streams()]


TARGET = Target(check, _seeds, _mended, longest=1024)
