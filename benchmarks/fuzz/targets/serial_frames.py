"""`drivers.serial_frames.FrameReader`: how it is cut does not matter, and what is found is what the format allows.

The first eight bytes of an input are the lengths of as many pieces; the rest is one more.
"""

from __future__ import annotations

import pickle
from random import Random

from benchmarks.fuzz.serial_stream import is_frame, mended, pieces, streams
from benchmarks.fuzz.target import Target
from drivers.serial_frames import FrameReader, Sample, encode_sample, encode_settings

_CUTS = 8
_MOST_UNFINISHED, _MOST_KEPT = 40, 1000


def check(data: bytes) -> None:
    """Frames, counts and what is kept."""
    stream = data[_CUTS:]
    at_once, reader = FrameReader(), FrameReader()
    expected, frames = at_once.feed(stream), []
    for piece in pieces(stream, data[:_CUTS]):
        frames += reader.feed(piece)
        assert reader.unfinished <= _MOST_UNFINISHED
    assert frames == expected
    assert vars(reader) == vars(at_once)
    assert len(pickle.dumps(reader)) <= _MOST_KEPT  # everything it holds
    stretches = [stretch for stretch in stream.split(b"\0")[:-1] if stretch]
    valid = [stretch + b"\0" for stretch in stretches if is_frame(stretch)]
    assert [encode_sample(one) if isinstance(one, Sample) else encode_settings(one) for one in frames] == valid
    assert sum(reader.faults.values()) + reader.partial == len(stretches) - len(valid)


def _mended(data: bytes, random: Random) -> bytes:
    return data[:_CUTS] + mended(data[_CUTS:], random)


TARGET = Target(check, lambda: [b"\7\0\x21\1\x22\x46\1\1" + stream for stream in streams()], _mended)
