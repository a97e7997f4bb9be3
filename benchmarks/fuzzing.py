"""The engine of the fuzzers: changed inputs, made again from their number, judged in processes of bounded memory.

A fuzzer is a function of this number that raises where a property does not hold (a finding) and returns what came out.

    python -m benchmarks.fuzzing serial_frames --cases 10_000_000 --jobs 2 --seconds 600
    python -m benchmarks.fuzzing ros1 --case 4711       # one again
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.measuring import Row, cells_row

Fuzzer = Callable[[int], str]


def unchanged(data: bytes, random: Random) -> bytes:
    """For formats without a checksum."""
    return data


class Target(NamedTuple):
    """One reader of bytes.

    Attributes
    ----------
    check
        Raises where a property does not hold for the input. The first bytes of an input may choose how the others come:
        where they are cut, when they arrive.
    mend
        Puts right what random changes hardly ever do (framing, checksums, lengths), of half of the inputs. What it
        mends of an input is for the random numbers to choose.
    longest
        Bytes of an input.
    """

    check: Callable[[bytes], None]
    mend: Callable[[bytes, Random], bytes] = unchanged
    longest: int = 512


PLACES = {
    "benchmarks.drivers.fuzz": ("serial_frames", "serial_log", "serial_readings", "serialized_readings"),
    "benchmarks.core.fuzz_bags": ("mcap", "sqlite3", "ros1"),
}
"""Modules with a function `fuzzer(name)`, and its names."""
CASES = 100_000
MEMORY_BYTES = 2 * 2**30
HANG_S = 60.0
_CHUNK = 200
_EXTREME = (
    *(0, 1, 2, 3, 9, 127, 128, 255, 256, 4096, 65_535),
    *(2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63),
)
_LONGEST_BLOCK = 64


@dataclass
class Tally:
    """Counts of a run; `findings` are the numbers of the cases by what was wrong."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[int]] = field(default_factory=dict)
    slowest_s: float = 0.0
    slowest_case: int = -1
    memory_mb: float = 0.0

    def add(self, other: Tally) -> None:
        """The counts of another part of the run."""
        self.cases += other.cases
        self.outcomes += other.outcomes
        for kind, numbers in other.findings.items():
            self.findings.setdefault(kind, []).extend(numbers)
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest_case = other.slowest_s, other.slowest_case
        self.memory_mb = max(self.memory_mb, other.memory_mb)


def fuzz(name: str, cases: int, jobs: int = 1, seconds: float = 0.0) -> Tally:
    """Judge that many cases, or until so long has passed; progress goes to the standard error stream."""
    total, begin_s = Tally(), time.monotonic()
    chunks = [range(at, min(at + _CHUNK, cases)) for at in range(0, cases, _CHUNK)]
    while chunks:
        part, chunks = chunks[: 10 * jobs], chunks[10 * jobs :]
        for tally in _judged(name, part, jobs):
            total.add(tally)
        gone_s = time.monotonic() - begin_s
        found = sum(map(len, total.findings.values()))
        print(f"{name}: {total.cases:,} of {cases:,} in {gone_s:.0f} s, {found} findings", file=sys.stderr)
        if seconds and gone_s > seconds:
            break
    return total


def _judged(name: str, chunks: Sequence[range], jobs: int) -> Iterator[Tally]:
    """By as many processes; where one dies, its chunk is judged again, case by case."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(judge, name, chunk): chunk for chunk in chunks}
        for future in as_completed(futures):
            with suppress(BrokenProcessPool):
                yield future.result()
    for future, chunk in futures.items():
        if future.exception() and len(chunk) > 1:
            for number in chunk:
                yield from _judged(name, [range(number, number + 1)], 1)
        elif future.exception():
            yield Tally(1, Counter(failed=1), {"died or hangs": list(chunk)})


def judge(name: str, numbers: range) -> Tally:
    """Some cases in this process."""
    fuzzer, tally = fuzzer_of(name), Tally()
    if multiprocessing.parent_process() is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for number in numbers:
        if multiprocessing.parent_process() is not None and not tally.cases % 50:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
        begin_s = time.process_time()
        try:
            tally.outcomes[fuzzer(number)] += 1
        except Exception as error:
            tally.outcomes["failed"] += 1
            tally.findings.setdefault(place_of(error), []).append(number)
        tally.cases += 1
        if (took_s := time.process_time() - begin_s) > tally.slowest_s:
            tally.slowest_s, tally.slowest_case = took_s, number
    faulthandler.cancel_dump_traceback_later()
    tally.memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return tally


def place_of(error: Exception) -> str:
    """Which exception, where it came from, and what it says."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}: {frame.name}: {str(error)[:80]}"


def fuzzer_of(name: str) -> Fuzzer:
    """By its name."""
    place = next(place for place, names in PLACES.items() if name in names)
    found: Fuzzer = import_module(place).fuzzer(name)
    return found


def tally_row(name: str, tally: Tally, table: str, outcomes: Sequence[str] = ()) -> Row:
    """A run's figures; findings are counted apart from crashes."""
    died = len(tally.findings.get("died or hangs", ()))
    cells = {
        "of": name,
        "changed inputs": f"{tally.cases:,}",
        **{one: f"{tally.outcomes[one]:,}" for one in outcomes},
        "findings": f"{sum(map(len, tally.findings.values())) - died}",
        "crashes, hangs": f"{died}",
        "slowest, ms of CPU": f"{1e3 * tally.slowest_s:.0f}",
        "most memory, MB": f"{tally.memory_mb:.0f}",
    }
    return cells_row(table, name, cells, findings=tally.findings, slowest_case=tally.slowest_case)


def change_bytes(data: bytes, rng: Random, others: Sequence[bytes] = ()) -> bytes:
    """One to three changes: bits, bytes and numbers set, blocks removed, doubled, swapped, of others, an early end."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if changed:
            _change(changed, rng.randrange(len(changed)), rng, others)
    return bytes(changed)


def _change(data: bytearray, place: int, rng: Random, others: Sequence[bytes]) -> None:
    length = rng.choice((1, 2, 4, 8, 16, 512, rng.randint(1, _LONGEST_BLOCK)))
    kind = rng.randrange(13)
    if kind < 3:
        data[place] ^= 1 << rng.randrange(8)
    elif kind < 5:
        data[place] = rng.choice((0, 1, 255, rng.randrange(256)))
    elif kind < 8:  # a number that is likely to be wrong: far out, or beside the one that is there
        size, order = min(rng.choice((1, 2, 4, 8)), len(data) - place), "big" if rng.random() < 0.3 else "little"
        now = int.from_bytes(data[place : place + size], order)  # type: ignore[arg-type]
        value = rng.choice((*_EXTREME, 2 ** (8 * size) - 1, now + 1, now - 1, now * 2, now // 2)) % 2 ** (8 * size)
        data[place : place + size] = value.to_bytes(size, order)  # type: ignore[arg-type]
    elif kind == 8:
        del data[place:]
    elif kind == 9:
        del data[place : place + length]
    elif kind == 10:
        data[place:place] = data[rng.randrange(len(data)) :][:length]
    elif kind == 11:
        data[place : place + length] = rng.choice((rng.randbytes, bytes))(min(length, len(data) - place))
    else:
        other = rng.choice(others or (bytes(data),))
        data[place : place + length] = other[place : place + length]


def main() -> None:
    """The command; exit code 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzzing", description="Changed inputs, judged.")
    parser.add_argument("name", choices=[name for names in PLACES.values() for name in names])
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seconds", type=float, default=0.0, help="end after so long (default: never)")
    parser.add_argument("--case", type=int, help="only this one, in this process, its exception shown")
    options = parser.parse_args()
    if options.case is not None:
        print(fuzzer_of(options.name)(options.case))
        return
    tally = fuzz(options.name, options.cases, options.jobs, options.seconds)
    print(tally)
    sys.exit(1 if tally.findings else 0)


if __name__ == "__main__":
    main()
