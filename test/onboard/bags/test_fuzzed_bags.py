"""Changed bags: those that our reader once read wrongly, and some hundred new ones, against the reference readers.

`python -m benchmarks --only fuzz_bags` does the same at length; its counts are in docs/bags.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.core.bag_cases import Case, kept_cases, scratch_folder, seeds
from benchmarks.core.bag_references import read_references
from benchmarks.core.fuzz_bags import FORMATS, originals, read_ours, run_case
from benchmarks.core.fuzz_bags import judge as held
from benchmarks.fuzzing import judge


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        yield path


@pytest.mark.parametrize("case", [one for name in FORMATS for one in kept_cases(name)], ids=lambda case: case.name)
def test_what_was_once_read_wrongly(case: Case, folder: Path) -> None:
    assert run_case(case, folder).findings == {}


@pytest.mark.parametrize("bag_format", FORMATS)
def test_new_changes_are_read_as_the_references_read_them(bag_format: str) -> None:
    tally = judge(bag_format, range(250))
    assert tally.findings == {}
    assert min(tally.outcomes[name] for name in ("as reference", "said damaged", "refused")) > 10


def test_the_judge_finds_a_message_that_is_lost_changed_or_doubled(folder: Path) -> None:
    seed = seeds("mcap")["lz4"]
    case = Case("mcap", 1, seed, seed.files)
    (folder / "files").mkdir()
    ours = read_ours(case.write(folder / "files"), False)
    references, written = read_references(case, folder / "files", folder), originals("mcap")["lz4"]
    assert held(case, ours, references, written).findings == {}
    whole = ours.messages
    (topic, stamp, data), rest = whole[5], whole[:5] + whole[6:]
    changed, moved = (topic, stamp, data[:-1] + b"!"), ("/other", stamp, data)
    for wrong in (
        rest,
        *([*whole[:5], one, *whole[6:]] for one in (changed, moved)),
        *([*whole[:6], *whole[5:]], [*rest, whole[5]]),  # doubled, late
    ):
        ours.messages = wrong
        assert held(case, ours, references, written).findings
    ours.messages, ours.damage = rest, "it is damaged; readable are 23 of 24 (100.0%) messages"
    assert "claims 100 % with messages lost" in held(case, ours, references, written).findings
