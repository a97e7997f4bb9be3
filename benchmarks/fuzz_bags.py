"""Bags with changed bytes: our reader against the readers of `mcap`, `rosbags` and sqlite3, every message compared.

    python -m benchmarks.fuzz_bags                                    # all formats, 100,000 mutations each
    python -m benchmarks.fuzz_bags --format mcap --mutations 5000 --seed 3 --jobs 2
    python -m benchmarks.fuzz_bags --format ros1 --case 4711 --keep x # one case again, its files kept in folder x

What is changed is in `fuzz_bags_cases`, what has to hold in `fuzz_bags_judge`. Cases run in worker processes with
bounded memory; one that dies is a finding, and another one goes on behind it. The result of 100,000 mutations or more
is kept.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import multiprocessing
import re
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from benchmarks.fuzz_bags_cases import FORMATS, Case, make_case
from benchmarks.fuzz_bags_judge import CLASSES, Judgement, Ours, judge, read_in_pieces, read_ours
from benchmarks.fuzz_bags_references import Message, Reading, read_references
from benchmarks.fuzz_bags_seeds import scratch_folder, seeds
from benchmarks.kept import keep_rows

MUTATIONS = 100_000
SEED = 1

_MEMORY_BYTES = 2 * 2**30
_SLOW_S = 1.0
_LARGE_BYTES = 128 * 2**20
_HANG_S = 60.0
_GUARDED_AT_ONCE = 50  # cases; the watchdog is a thread, and its start takes longer than a case
_DEEP_EVERY, _IN_PIECES_EVERY, _MEASURED_EVERY = 64, 8, 8
_REPORT_EVERY = 200
_EXAMPLES_KEPT, _EXAMPLES_SHOWN = 1000, 5


@dataclass
class Tally:
    """Counts of a run, or of a part of it; `examples` are the numbers of the first cases of each kind of finding."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    slowest_s: float = 0.0
    slowest_case: int = -1
    memory_bytes: int = 0

    def add(self, number: int, judgement: Judgement, seconds: float, memory_bytes: int) -> None:
        self.cases += 1
        self.outcomes[judgement.outcome] += 1
        for kind, detail in judgement.findings.items():
            self.findings[kind] += 1
            self.examples.setdefault(kind, []).append((number, detail))
        if seconds > self.slowest_s:
            self.slowest_s, self.slowest_case = seconds, number
        self.memory_bytes = max(self.memory_bytes, memory_bytes)

    def merge(self, other: Tally) -> None:
        self.cases += other.cases
        self.outcomes += other.outcomes
        self.findings += other.findings
        for kind, examples in other.examples.items():
            self.examples[kind] = (self.examples.get(kind, []) + examples)[:_EXAMPLES_KEPT]
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest_case = other.slowest_s, other.slowest_case
        self.memory_bytes = max(self.memory_bytes, other.memory_bytes)


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


def read_case(case: Case, folder: Path, deep: bool = False) -> tuple[Ours, list[Reading]]:
    """What we and the references read; `folder` is emptied before and after."""
    files, copies = _emptied(folder / "files"), _emptied(folder / "copies")
    ours = read_ours(case.write(files), deep)
    references = read_references(case, files, copies)
    return ours, references


def run_case(case: Case, folder: Path) -> tuple[Judgement, float, int]:
    """The judgement, and what our reader needed: seconds of CPU, and bytes of memory more than before."""
    files, copies = _emptied(folder / "files"), _emptied(folder / "copies")
    path = case.write(files)
    deep, in_pieces = case.number % _DEEP_EVERY == 0, case.number % _IN_PIECES_EVERY == 0
    measured = case.number % _MEASURED_EVERY == 0
    memory, start = _memory_mark() if measured else 0, time.process_time()
    try:
        ours = read_ours(path, deep)
        seconds = time.process_time() - start
        memory = _memory_peak() - memory if measured else 0
        other = read_in_pieces(path) if in_pieces else None
    except Exception as error:  # whatever our reader let through
        return Judgement("failed", {_place(error): repr(error)[:300]}), time.process_time() - start, 0
    written = originals(case.bag_format)[case.seed.name]
    judgement = judge(case, ours, read_references(case, files, copies), written)
    if other is not None and _differ(ours, other, len(written)):
        readings = (reading.damage or reading.refused or "whole" for reading in (ours, other))
        judgement.findings["small pieces give something else"] = " / ".join(readings)
    if ours.block_messages is not None and ours.block_messages != ours.messages and not ours.refused:
        judgement.findings["blocks hold something else than messages"] = ""
    if seconds > _SLOW_S:
        judgement.findings["slow"] = f"{seconds:.1f} s"
    if memory > _LARGE_BYTES:
        judgement.findings["large"] = f"{memory / 1e6:.0f} MB"
    return judgement, seconds, memory


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


def _place(error: Exception) -> str:
    """Which exception, and where in our code it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "onboard_estimation" in Path(frame.filename).parts] or frames
    return f"{type(error).__name__} in {Path(ours[-1].filename).name}: {ours[-1].name}"


def _memory_mark() -> int:
    """Resident bytes now; the peak is counted anew from here."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return sys.maxsize  # not on this system: nothing is measured
    return _status("VmRSS")


def _memory_peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


def _work(bag_format: str, run_seed: int, numbers: list[int], current: Any, sink: Connection) -> None:
    """A worker: judges the cases, and sends a tally now and then; at last None, or what went wrong in the judging."""
    try:
        _judge_cases(bag_format, run_seed, numbers, current, sink)
    except Exception:
        sink.send(f"case {current.value}: {traceback.format_exc()}")


def _judge_cases(bag_format: str, run_seed: int, numbers: list[int], current: Any, sink: Connection) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, hard))
    tally = Tally()
    originals(bag_format)
    gc.freeze()  # what is there by now stays, and need not be looked through again and again
    with scratch_folder() as folder:
        tempfile.tempdir = str(folder)
        for number in numbers:
            current.value = number
            if not tally.cases % _GUARDED_AT_ONCE:
                faulthandler.dump_traceback_later(_HANG_S, exit=True)
            case = make_case(bag_format, number, run_seed, folder / "scratch")
            tally.add(number, *run_case(case, folder))
            if tally.cases >= _REPORT_EVERY:
                sink.send(tally)
                tally = Tally()
        faulthandler.cancel_dump_traceback_later()
    sink.send(tally)
    sink.send(None)


class _Worker:
    """A process that judges a range of cases, and is started again behind one that it dies of."""

    def __init__(self, bag_format: str, run_seed: int, numbers: range) -> None:
        self._format, self._seed, self._left = bag_format, run_seed, list(numbers)
        self._context = multiprocessing.get_context("spawn")
        self._current = self._context.Value("q", numbers.start)
        self._start()

    def _start(self) -> None:
        self.source, sink = self._context.Pipe(duplex=False)
        arguments = (self._format, self._seed, self._left, self._current, sink)
        self._process = self._context.Process(target=_work, args=arguments)
        self._process.start()
        sink.close()

    def receive(self) -> tuple[Tally, bool]:
        """What came, and whether the worker goes on."""
        try:
            tally = self.source.recv()
        except EOFError:
            return self._bury()
        if isinstance(tally, str):
            raise RuntimeError(tally)
        if tally is None:
            self._process.join()
            return Tally(), False
        del self._left[: tally.cases]
        return tally, True

    def _bury(self) -> tuple[Tally, bool]:
        """A worker has died: count the case that it died of, and judge the others that it did not report again."""
        self._process.join()
        number, code = self._current.value, self._process.exitcode or 0
        kind = f"died of signal {-code}" if code < 0 else "hangs"
        tally = Tally()
        tally.add(number, Judgement("failed", {kind: f"exit code {code}"}), 0.0, 0)
        self._left.remove(number)
        if not self._left:
            return tally, False
        self._current.value = self._left[0]
        self._start()
        return tally, True


def fuzz(bag_format: str, mutations: int, run_seed: int, jobs: int, first: int = 0) -> Tally:
    """Judge that many mutations of a format; progress goes to the standard error stream."""
    originals(bag_format)  # or nothing is started
    workers = [_Worker(bag_format, run_seed, range(first + job, first + mutations, jobs)) for job in range(jobs)]
    sources = {worker.source: worker for worker in workers}
    total, start, shown = Tally(), time.monotonic(), time.monotonic()
    while sources:
        for source in wait(list(sources)):
            worker = sources.pop(cast(Connection, source))
            tally, more = worker.receive()
            total.merge(tally)
            if more:
                sources[worker.source] = worker
        if time.monotonic() - shown > 10.0:
            shown = time.monotonic()
            rate = total.cases / (shown - start)
            found = sum(total.findings.values())
            print(
                f"{bag_format}: {total.cases:,} of {mutations:,}, {rate:.0f} a second, {found} findings",
                file=sys.stderr,
            )
    return total


def row(bag_format: str, tally: Tally, run_seed: int) -> dict[str, Any]:
    """The run's figures, as `table` shows them."""
    died = sum(count for kind, count in tally.findings.items() if kind.startswith("died"))
    hangs = tally.findings["hangs"]
    cells = {
        "format": bag_format,
        "mutations": f"{tally.cases:,}",
        **{name: f"{tally.outcomes[name]:,}" for name in CLASSES},
        "disagreements": f"{sum(tally.findings.values()) - died - hangs}",
        "crashes": f"{died}",
        "hangs": f"{hangs}",
        "slowest, ms of CPU": f"{1e3 * tally.slowest_s:.0f}",
        "most memory, MB": f"{tally.memory_bytes / 1e6:.1f}",
    }
    return {
        "case": bag_format,
        "table": "Bags with changed bytes, against the reference readers",
        "cells": cells,
        "seed": run_seed,
        "findings": {kind: [number for number, _ in examples] for kind, examples in tally.examples.items()},
        "slowest_case": tally.slowest_case,
    }


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a format."""
    return [row(name, fuzz(name, 500 if quick else MUTATIONS, SEED, 1), SEED) for name in FORMATS]


def _print_case(bag_format: str, number: int, run_seed: int, folder_kept: Path | None) -> None:
    with scratch_folder() as folder:
        case = make_case(bag_format, number, run_seed, folder / "scratch")
        if folder_kept is not None:
            folder_kept.mkdir(parents=True, exist_ok=True)
            case.write(folder_kept)
        judgement, seconds, _ = run_case(case, folder)
        print(f"{bag_format} {number}, from {case.seed.name}: {judgement.outcome}, {1e3 * seconds:.1f} ms")
        try:
            ours, references = read_case(case, folder)
        except Exception:
            traceback.print_exc()
            return
        print(f"  originals: {len(originals(bag_format)[case.seed.name])} messages")
        print(f"  ours: {len(ours.messages)} messages; {ours.damage or ours.refused}")
        for reading in references:
            print(f"  {reading.reader}: {len(reading.messages)} messages of {reading.declared}; {reading.error}")
        for kind, detail in judgement.findings.items():
            print(f"  {kind}: {detail}")


def main() -> None:
    """The command; exit code 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz_bags", description="Fuzzes the reader of bags.")
    parser.add_argument("--format", choices=FORMATS, action="append", help="may repeat (default: all)")
    parser.add_argument("--mutations", type=int, default=MUTATIONS, help="of each format")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--case", type=int, action="append", help="only this mutation; may repeat")
    parser.add_argument("--keep", type=Path, help="folder for the files of --case")
    options = parser.parse_args()
    rows = []
    for name in options.format or FORMATS:
        if options.case is not None:
            for number in options.case:
                _print_case(name, number, options.seed, options.keep)
            continue
        tally = fuzz(name, options.mutations, options.seed, options.jobs, options.first)
        rows.append(row(name, tally, options.seed))
        print(json.dumps(rows[-1], indent=1))
        for kind, count in tally.findings.most_common():
            print(f"{count:6} {kind}: {tally.examples[kind][:_EXAMPLES_SHOWN]}", flush=True)
    if rows and options.mutations >= MUTATIONS:
        keep_rows("fuzz_bags", __doc__ or "", rows, FORMATS)
    sys.exit(1 if any(row["findings"] for row in rows) else 0)


if __name__ == "__main__":
    main()
