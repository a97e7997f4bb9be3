"""Changed bags: those that our reader once read wrongly, and some hundred new ones, against the reference readers.

`python -m benchmarks.fuzz_bags` does the same at length; its counts are in docs/bags.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.fuzz_bags import Tally, originals, run_case
from benchmarks.fuzz_bags_cases import FORMATS, Case, make_case
from benchmarks.fuzz_bags_judge import judge, read_ours
from benchmarks.fuzz_bags_references import read_references
from benchmarks.fuzz_bags_seeds import scratch_folder, seeds

CORPUS = Path(__file__).parent / "corpus"
"""Folders `format/seed/what is wrong`: the files of a changed bag, as the fuzzer found or a person made them."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as path:
        yield path


def kept_cases() -> list[Path]:
    return sorted(path for path in CORPUS.glob("*/*/*") if path.is_dir())


@pytest.mark.parametrize("kept", kept_cases(), ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_what_was_once_read_wrongly(kept: Path, folder: Path) -> None:
    bag_format, seed_name = kept.relative_to(CORPUS).parts[:2]
    seed = next(seed for seed in seeds(bag_format) if seed.name == seed_name)
    case = Case(bag_format, 0, seed, {path.name: path.read_bytes() for path in kept.iterdir()})
    judgement, _, _ = run_case(case, folder)
    assert judgement.findings == {}


@pytest.mark.parametrize("bag_format", FORMATS)
def test_new_changes_are_read_as_the_references_read_them(bag_format: str, folder: Path) -> None:
    tally = Tally()
    for number in range(250):
        case = make_case(bag_format, number, run_seed=20_261_122, scratch=folder / "scratch")
        tally.add(number, *run_case(case, folder))
    assert {kind: tally.examples[kind] for kind in tally.findings if kind != "slow"} == {}
    assert min(tally.outcomes[name] for name in ("as reference", "said damaged", "refused")) > 10


def test_the_judge_finds_a_message_that_is_lost_changed_or_doubled(folder: Path) -> None:
    seed = next(seed for seed in seeds("mcap") if seed.name == "lz4")
    written = originals("mcap")["lz4"]
    case = Case("mcap", 1, seed, seed.files)
    (folder / "files").mkdir()
    ours = read_ours(case.write(folder / "files"), False)
    whole = ours.messages
    (topic, stamp, data), rest = whole[5], whole[:5] + whole[6:]
    wrong = {
        "lost": rest,
        "changed": [*whole[:5], (topic, stamp, data[:-1] + b"!"), *whole[6:]],
        "on another topic": [*whole[:5], ("/other", stamp, data), *whole[6:]],
        "doubled": [*whole[:6], *whole[5:]],
        "late": [*rest, whole[5]],
    }
    references = read_references(case, folder / "files", folder)
    assert judge(case, ours, references, written).findings == {}
    for what, messages in wrong.items():
        ours.messages = messages
        assert judge(case, ours, references, written).findings, what
    ours.messages, ours.damage = rest, "it is damaged; readable are 23 of 24 (100.0%) messages"
    assert "claims 100 % with messages lost" in judge(case, ours, references, written).findings
