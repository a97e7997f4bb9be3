"""Bags with changed bytes: our reader against the readers of `mcap`, `rosbags` and sqlite3, every message compared.

Valid bags of every format and kind, and those of `test/onboard/bags/corpus`, which a fuzzer that knew the formats
has made sound but odd, are changed without a look at what the bytes mean; what lies compressed is changed within.
What has to hold is in `bag_judge`.
"""

from __future__ import annotations

import traceback
from collections import Counter
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from benchmarks.core.bag_cases import Case, make_case, scratch_folder, seeds
from benchmarks.core.bag_judge import CLASSES, Judgement, Ours, judge, read_in_pieces, read_ours
from benchmarks.core.bag_references import Message, Reading, read_references
from benchmarks.fuzzing import CASES, PLACES, Fuzzer, fuzz, tally_row
from benchmarks.measuring import Row

FORMATS = PLACES[__name__]
_DEEP_EVERY, _IN_PIECES_EVERY = 64, 8


def run(quick: bool) -> list[Row]:
    """A row a format."""
    table = "Bags with changed bytes, against the reference readers"
    return [tally_row(name, fuzz(name, 500 if quick else CASES), table, CLASSES) for name in FORMATS]


@cache
def originals(bag_format: str) -> dict[str, list[Message]]:
    """The messages of every valid bag, by its name; all readers have to agree on them."""
    found = {}
    with scratch_folder() as folder:
        for name, seed in seeds(bag_format).items():
            ours, references = read_case(Case(bag_format, 0, seed, seed.files), folder, deep=True)
            for reference in references:
                same = Counter(reference.messages) == Counter(ours.messages) and not reference.error
                if not same and not any(one.endswith(("-wal", "-journal")) for one in seed.files):
                    raise ValueError(f"{bag_format} {name} is not valid to {reference.reader}: {reference.error}")
            found[name] = references[0].messages
    return found


def read_case(case: Case, folder: Path, deep: bool = False) -> tuple[Ours, list[Reading]]:
    """What we and the references read; `folder` is emptied before."""
    files, copies = _emptied(folder / "files"), _emptied(folder / "copies")
    ours = read_ours(case.write(files), deep)
    return ours, read_references(case, files, copies)


def run_case(case: Case, folder: Path) -> Judgement:
    """What our reader makes of it, in several ways, and whether that is right."""
    deep, in_pieces = case.number % _DEEP_EVERY == 0, case.number % _IN_PIECES_EVERY == 0
    try:
        path = case.write(_emptied(folder / "files"))
        other = read_in_pieces(path) if in_pieces else None
        ours, references = read_case(case, folder, deep)
    except Exception as error:  # whatever our reader let through
        return Judgement("failed", {"an exception": "".join(traceback.format_exception(error))})
    written = originals(case.bag_format)[case.seed.name]
    judgement = judge(case, ours, references, written)
    if other is not None and _differ(ours, other, len(written)):
        readings = (reading.damage or reading.refused or "whole" for reading in (ours, other))
        judgement.findings["small pieces give something else"] = " / ".join(readings)
    if ours.block_messages is not None and ours.block_messages != ours.messages and not ours.refused:
        judgement.findings["blocks hold something else than messages"] = ""
    return judgement


def _differ(ours: Ours, other: Ours, written: int) -> bool:
    """Whether the other reading has other messages, or says nothing of lost ones."""
    if ours.messages != other.messages or bool(ours.refused) != bool(other.refused):
        return True
    return bool(ours.damage) != bool(other.damage) and len(ours.messages) < written


def _emptied(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    return folder


@cache
def _scratch() -> Path:
    """One folder a process."""
    return _STACK.enter_context(scratch_folder())


_STACK = ExitStack()


def fuzzer(bag_format: str) -> Fuzzer:
    """Of a format: raises where a rule is broken."""

    def judged(number: int) -> str:
        judgement = run_case(make_case(bag_format, number), _scratch())
        assert not judgement.findings, "; ".join(f"{kind}: {detail}" for kind, detail in judgement.findings.items())
        return judgement.outcome

    return judged
