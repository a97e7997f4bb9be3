"""Bags with changed bytes: our reader against the readers of `mcap`, `rosbags` and sqlite3, every message compared.

Valid bags of every format and kind, and those of `test/onboard/bags/corpus`, which a fuzzer that knew the formats
has made sound but odd, are changed without a look at what the bytes mean; what lies compressed is changed within.
What has to hold is in `bag_judge`.
"""

from __future__ import annotations

import bz2
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from benchmarks.core.bag_judge import CLASSES, Judgement, Ours, judge, read_in_pieces, read_ours
from benchmarks.core.bag_references import Message, Reading, read_references
from benchmarks.core.bag_seeds import METADATA, Case, Files, scratch_folder, seeds
from benchmarks.fuzzing import CASES, PLACES, Fuzzer, change_bytes, fuzz, row

CORPUS = Path(__file__).parents[2] / "test" / "onboard" / "bags" / "corpus"
"""Folders `format/seed/what is wrong`: the files of a changed bag, as a fuzzer found or a person made them."""
FORMATS = PLACES[__name__]
_LONE_SHARE, _METADATA_SHARE, _KEPT_SHARE, _WITHIN_SHARE = 0.6, 0.4, 0.3, 0.5
_DEEP_EVERY, _IN_PIECES_EVERY = 64, 8
_WORDS = (
    *(b"", b"0", b"-1", b".nan", b"9" * 5000, b"[]", b"{a: b}", b"null", b'"\\e[31m\\n"', b"!!binary AAAA", b"&a [*a]"),
    *(b"../../etc/passwd", b"a.mcap", b"a.db3", b"message", b"file", b"zstd"),
)
_PACKED: dict[bytes, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    b"\x28\xb5\x2f\xfd": (zstandard.decompress, zstandard.compress),
    b"\x04\x22\x4d\x18": (lz4.frame.decompress, lz4.frame.compress),
    b"BZh": (bz2.decompress, bz2.compress),
}


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a format."""
    table = "Bags with changed bytes, against the reference readers"
    return [row(name, fuzz(name, 500 if quick else CASES), table, CLASSES) for name in FORMATS]


@cache
def originals(bag_format: str) -> dict[str, list[Message]]:
    """The messages of every valid bag, by its name; all readers have to agree on them."""
    found = {}
    with scratch_folder() as folder:
        for seed in seeds(bag_format):
            ours, references = read_case(Case(bag_format, 0, seed, seed.files), folder, deep=True)
            for reference in references:
                same = Counter(reference.messages) == Counter(ours.messages) and not reference.error
                if not same and not any(name.endswith(("-wal", "-journal")) for name in seed.files):
                    raise ValueError(f"{bag_format} {seed.name} is not valid to {reference.reader}: {reference.error}")
            found[seed.name] = references[0].messages
    return found


def kept_cases(bag_format: str) -> list[Case]:
    """Bags that were once read wrongly."""
    by_name = {seed.name: seed for seed in seeds(bag_format)}
    folders = sorted(path for path in CORPUS.glob(f"{bag_format}/*/*") if path.is_dir())
    return [
        Case(
            bag_format,
            0,
            by_name[one.parent.name],
            {path.name: path.read_bytes() for path in sorted(one.iterdir())},
            one.relative_to(CORPUS).as_posix(),
        )
        for one in folders
    ]


def make_case(bag_format: str, number: int) -> Case:
    """Case `number`."""
    rng = Random(f"{bag_format} {number}")
    lone = [seed for seed in seeds(bag_format) if seed.entry]  # a folder's metadata.yaml takes longer than its messages
    seed = rng.choice(lone if rng.random() < _LONE_SHARE else seeds(bag_format))
    case = Case(bag_format, number, seed, seed.files)
    if rng.random() < _KEPT_SHARE:
        case = rng.choice(_kept(bag_format))
    return Case(bag_format, number, case.seed, _changed(case.files, rng, [*seed.files.values()]))


@cache
def _kept(bag_format: str) -> list[Case]:
    return kept_cases(bag_format)


def _changed(files: Files, rng: Random, others: list[bytes]) -> Files:
    if METADATA in files and rng.random() < _METADATA_SHARE:
        lines = files[METADATA].splitlines()
        place = rng.randrange(len(lines))
        lines[place] = lines[place].partition(b": ")[0] + b": " + rng.choice(_WORDS)
        changed = b"\n".join(lines) if rng.random() < 0.5 else change_bytes(files[METADATA], rng)
        return {**files, METADATA: changed}
    name = rng.choice([name for name in files if name != METADATA])
    if len(files) > 1 and rng.random() < 0.05:  # gone, or under another name
        rest = {one: content for one, content in files.items() if one != name}
        return rest if rng.random() < 0.5 else {**rest, rng.choice(("other", "a\nb", "x" * 100)) + name: files[name]}
    content = _changed_within(files[name], rng) if rng.random() < _WITHIN_SHARE else None
    return {**files, name: content or change_bytes(files[name], rng, others)}


def _changed_within(content: bytes, rng: Random) -> bytes | None:
    """A block that is compressed, changed and put back where its length stays; None: there is none."""
    begins = [
        (place, *both)
        for sign, both in _PACKED.items()
        for place in range(len(content))
        if content.startswith(sign, place)
    ]
    if not begins:
        return None
    start, unpack, pack = rng.choice(begins)
    for stop in range(len(content), start, -1):
        try:
            raw = unpack(content[start:stop])
        except Exception:  # not its end
            continue
        packed = pack(change_bytes(raw, rng))
        return content[:start] + packed[: stop - start].ljust(stop - start, b"\0") + content[stop:]
    return None


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
    if folder.exists():
        for file in folder.iterdir():
            file.unlink()
    folder.mkdir(exist_ok=True)
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
        if judgement.findings:
            raise AssertionError("; ".join(f"{kind}: {detail}" for kind, detail in judgement.findings.items()))
        return judgement.outcome

    return judged
