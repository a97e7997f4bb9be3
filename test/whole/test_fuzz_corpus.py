"""The fuzzer's targets on the inputs that it kept, without the fuzzer: `python -m benchmarks.fuzz` makes new ones."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz import __main__ as command
from benchmarks.fuzz import corpus, session
from benchmarks.fuzz.serial_stream import is_frame, mended, streams
from benchmarks.fuzz.target import load, names
from drivers.serial_frames import FrameReader

MOST_BYTES = 100_000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", names())
def test_properties_hold_for_all_that_was_kept(name: str) -> None:
    target, kept = load(name), corpus.kept(name)
    assert len(kept) >= 20
    for data in (b"", *target.seeds(), *kept):
        target.check(data)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", names())
def test_properties_hold_for_kept_inputs_changed_and_mended(name: str) -> None:
    target, random = load(name), Random(20_261_123)
    inputs = [*target.seeds(), *corpus.kept(name)]
    for _ in range(300):
        data = bytearray(random.choice(inputs))
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.randrange(256)
        target.check(target.mend(bytes(data), random)[: target.longest])


def test_kept_inputs_are_few_and_of_targets_that_are_there() -> None:
    files = list(corpus.FOLDER.iterdir())
    assert {path.name for path in files} == {f"{name}.hex" for name in names()}
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


def test_an_input_is_replayed_without_the_fuzzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "input"
    path.write_bytes(streams()[0])
    monkeypatch.setattr(sys, "argv", ["fuzz", "serial_frames", "--replay", str(path)])
    command.main()
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "serial_frames", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="pip install atheris"):
        command.main()
