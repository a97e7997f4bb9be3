"""Targets of the fuzzers on the inputs that are kept, and on hundreds of changed ones."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.drivers.fuzz import TARGETS, is_frame, kept, mended
from benchmarks.fuzzing import judge
from drivers.serial_imu.frames import FrameReader, Settings, encode_settings


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TARGETS)
def test_properties_hold_for_all_that_was_kept_and_for_that_changed_and_mended(name: str) -> None:
    assert len(kept(name)) >= 20
    for data in (b"", *kept(name)):
        TARGETS[name].check(data)
    tally = judge(name, range(20_261_123, 20_261_323))
    assert (tally.findings, tally.outcomes) == ({}, {"held": 200})


def test_mended_streams_come_past_the_checksum() -> None:
    random, accepted, refused = Random(1), 0, set()
    for _ in range(500):
        reader = FrameReader()
        noise = random.randbytes(30) + b"\0" + random.randbytes(40)
        accepted += len(reader.feed(b"\0" + mended(noise, random) + b"\0"))
        refused |= set(reader.faults)
    assert accepted > 300
    assert len(refused) == 5  # every fault


def test_the_format_s_own_reader_knows_a_frame_from_a_damaged_one() -> None:
    told = Settings(0, 0, low_g_range=2, gyro_range=1, high_g_range=3, low_pass=2, rate_hz=1000)
    stretch = encode_settings(told)[:-1]
    assert is_frame(stretch)
    for place in range(len(stretch)):
        assert not is_frame(stretch[:place] + bytes([stretch[place] ^ 1]) + stretch[place + 1 :])
        assert not is_frame(stretch[:place])
