"""`hopper_estimation.serial_log`: a raw log is converted, or refused in one sentence, in blocks of any length.

The first byte of an input is the length of the blocks that the file is read in, the second time.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.fuzz.serial_stream import is_frame, mended, streams
from benchmarks.fuzz.target import Target
from hopper_estimation import serial_log
from onboard_estimation.converters import Converted
from onboard_estimation.errors import UserError

_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz_serial_log_")
_PIECE_BYTES = serial_log._PIECE_BYTES


def check(data: bytes) -> None:
    """Series, counts, and that blocks do not matter."""
    path, stream = Path(_FOLDER.name) / "log.bin", data[1:]
    path.write_bytes(stream)
    whole, in_pieces = _read(path, _PIECE_BYTES), _read(path, data[0] if data and data[0] else 1)
    samples = sum(is_frame(one) and len(one) == 33 for one in stream.split(b"\0")[:-1])
    if isinstance(whole, str) or isinstance(in_pieces, str):
        assert whole == in_pieces
        assert isinstance(whole, str)
        assert f"{samples} valid samples" in whole
        return
    assert (whole.counts, whole.notes) == (in_pieces.counts, in_pieces.notes)
    counts = whole.counts
    assert counts["samples"] == samples
    told = counts["used"] + counts["before_ranges"]
    # A restart is seen at its second frame; the first one is left out.
    assert told <= samples <= told + counts["repeated"] + counts["implausible_time"] + counts["restarts"]
    assert min(counts.values()) >= 0
    for one, other in zip(whole.recording.sensors, in_pieces.recording.sensors, strict=True):
        np.testing.assert_array_equal(one.stamps_ns, other.stamps_ns)
        np.testing.assert_array_equal(one.values, other.values)
        assert one.values.shape == (len(one.stamps_ns), 6)
        assert len(one.stamps_ns) <= counts["used"]
        assert (np.diff(one.stamps_ns) > 0).all()
        assert np.isfinite(one.values[:, 3:]).all()


def _read(path: Path, piece_bytes: int) -> Converted | str:
    serial_log._PIECE_BYTES = piece_bytes
    try:
        return serial_log.read_serial_log(path)
    except UserError as error:
        return str(error)
    finally:
        serial_log._PIECE_BYTES = _PIECE_BYTES


def _mended(data: bytes, random: Random) -> bytes:
    return data[:1] + mended(data[1:], random)


TARGET = Target(check, lambda: [b"\7" + stream for stream in streams()], _mended)
