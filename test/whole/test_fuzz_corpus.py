"""Targets of the fuzzers on the inputs that are kept, and on hundreds of changed ones."""

from __future__ import annotations

import sys
from random import Random

import pytest

from benchmarks import fuzzing
from benchmarks.drivers.fuzz import CORPUS, TARGETS, kept
from benchmarks.drivers.serial_targets import is_frame, mended, streams
from benchmarks.fuzzing import Tally, judge
from drivers.serial_imu.frames import FrameReader

MOST_BYTES = 100_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TARGETS)
def test_properties_hold_for_all_that_was_kept(name: str) -> None:
    target = TARGETS[name]
    assert len(kept(name)) >= 20
    for data in (b"", *kept(name)):
        target.check(data)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TARGETS)
def test_properties_hold_for_kept_inputs_changed_and_mended(name: str) -> None:
    tally = judge(name, range(20_261_123, 20_261_423))
    assert tally.findings == {}
    assert tally.outcomes == {"held": 300}


def test_kept_inputs_are_few_and_of_targets_that_are_there() -> None:
    files = list(CORPUS.iterdir())
    assert {path.name for path in files} == {f"{name}.hex" for name in TARGETS}
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


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
    for stretch in b"\0".join(streams()[:3]).split(b"\0"):
        assert is_frame(stretch) == bool(stretch)
        for place in range(len(stretch)):
            assert not is_frame(stretch[:place] + bytes([stretch[place] ^ 1]) + stretch[place + 1 :])
            assert not is_frame(stretch[:place])


def test_findings_are_counted_by_what_was_wrong_and_one_case_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def third(number: int) -> str:
        if number % 3 == 0:
            raise ValueError("divided by three")
        return "held"

    monkeypatch.setattr(fuzzing, "fuzzer_of", lambda name: third)
    total = Tally()
    for numbers in (range(5), range(5, 10)):
        total.add(judge("serial_frames", numbers))
    ((kind, numbers),) = total.findings.items()
    assert "divided by three" in kind
    assert (numbers, total.cases, total.outcomes) == ([0, 3, 6, 9], 10, {"held": 6, "failed": 4})
    monkeypatch.setattr(sys, "argv", ["fuzzing", "serial_frames", "--case", "4"])
    fuzzing.main()
    assert capsys.readouterr().out == "held\n"
    monkeypatch.setattr(sys, "argv", ["fuzzing", "serial_frames", "--case", "3"])
    with pytest.raises(ValueError, match="divided by three"):
        fuzzing.main()
