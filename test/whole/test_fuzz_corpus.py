"""Targets of the fuzzers on the inputs that are kept, and on hundreds of changed ones."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.drivers.fuzz import is_frame, mended
from benchmarks.fuzzing import INPUTS, PLACES, Session, Tally, Target, judge, target_of
from drivers.motion_capture.optitrack_protocol import VERSIONS
from drivers.serial_imu.frames import FrameReader, Settings, encode_settings

SMALL = [name for place, names in PLACES.items() for name in names if "bags" not in place]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", SMALL)
def test_readers_hold_what_they_promise_for_changed_inputs(name: str) -> None:
    sessions = len(VERSIONS) if name == "natnet" else 1  # each is of another version
    tally = judge(name, range(20_261_123, 20_261_123 + sessions))
    assert tally.findings == {}
    assert tally.inputs == sessions * INPUTS
    refused = sum(count for outcome, count in tally.outcomes.items() if outcome.startswith("refused"))
    assert name == "ros_messages" or refused


@pytest.mark.parametrize("name", ["serial_frames", "serial_log", "ros_messages"])
def test_properties_hold_for_all_that_was_kept(name: str) -> None:
    session = target_of(name).session(0)
    assert len(session.seeds) >= 20
    for data in (b"", *session.seeds):
        session.take(data)


class Liar(Session):
    """A reader that is wrong about one byte in the third input."""

    seeds = (b"abc",)

    def __init__(self, _: int = 0) -> None:
        self._count = 0

    def take(self, data: bytes) -> str:
        self._count += 1
        if self._count % 3 == 0:
            raise ArithmeticError(f"input {self._count}")
        return "refused: x"


def test_what_is_wrong_is_found_with_all_that_led_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.fuzzing.target_of", lambda _: Target(Liar, ()))
    tally = judge("liar", range(2))
    assert [*tally.findings.values()] == [2 * (INPUTS // 3)]
    assert [len(one) for one in tally.reproducers.values()] == [4]  # the session, and three inputs
    total = Tally()
    total.add(tally)
    total.add(tally)
    assert (total.inputs, total.found) == (4 * INPUTS, 4 * (INPUTS // 3))


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
