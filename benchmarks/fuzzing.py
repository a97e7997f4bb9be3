"""The engine of the fuzzers: changed inputs, made again from a number, judged in processes of bounded memory and time.

A session is a reader that is begun anew, a whole client for instance, and `INPUTS` inputs, one after the other. Parts
go on where the last one ended, and add up in `results/fuzz.json` until the code that reads is another.

    python -m benchmarks.fuzzing natnet vicon --seconds 600
    python -m benchmarks.fuzzing natnet --inputs 10_000_000    # until so many are kept
    python -m benchmarks.fuzzing natnet --session 4711         # one again, in this process, its exception shown
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import multiprocessing
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measuring import Row, cells_row
from benchmarks.run import RESULTS, conditions, git, keep, parts

Draw = Sequence[int]
"""`DRAWS` random numbers of 32 bits, of which an input is made."""
DRAWS, INPUTS = 26, 100
_CHANGES, _FOR_SESSION = 6, 22

PLACES = {
    "benchmarks.drivers.fuzz_streams": ("natnet", "vicon", "ethercat"),
    "benchmarks.drivers.fuzz": ("serial", "serial_frames", "serial_log", "ros_messages"),
    "benchmarks.core.fuzz_files": ("trajectory", "model", "calibration", "parameters", "device_description"),
    "benchmarks.core.fuzz_bags": ("mcap", "sqlite3", "ros1"),
}
"""Modules with `TARGETS` by these names."""
_ROOT = Path(__file__).parents[1]
MEMORY_BYTES, MOST_GROWTH_MB = 3 * 2**30, 256
HANG_S, SLOWEST_S = 30.0, 5.0
_CHUNK_S, _PART_S = 4.0, 300.0
_MOST_REASONS, _LONGEST_HEX = 60, 20_000
_EXTREME = (
    *(0, 1, 2, 3, 9, 127, 128, 255, 256, 4096, 65_535),
    *(2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 1, 0x3F800000, 0x4B000000),  # floats: infinite, NaN, largest
    *(0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0x7FF << 52) - 1, 1 << 63, 0x3FF << 52, 0x433 << 52),
)
_LONGEST_BLOCK = 64
WORDS = (
    *b"nan NaN inf -inf .nan .inf 1e400 -1e400 1e308 1e-320 0 -0 -1 1_0 0x10 1e5 0.1.2 9223372036854775807".split(b" "),
    *b"18446744073709551616 -9223372036854775809 true null ~ [] {} \" ' : , ; # - & * ! | > \\ \x00 \xff x".split(b" "),
    *b"\xc3\xa9 \xef\xbb\xbf \xd9\xa3".split(b" "),
    *(b"", b" ", b"\n", b"\r", b"\t", b"9" * 5000, b"[" * 300, b"{a: " * 100),
)
"""In place of words, in texts."""
_WORD = re.compile(rb"[^\s,;:\[\]{}\"']+")


class Session:
    """A reader, and inputs for it.

    Attributes
    ----------
    seeds
        Valid inputs, which are changed.
    is_text
        Words are replaced, too.
    longest
        Bytes of an input.
    """

    seeds: Sequence[bytes] = ()
    is_text = False
    longest = 4096

    def make(self, draw: Draw) -> Any:
        """An input, of random numbers."""
        data = self.seeds[draw[0] % len(self.seeds)]
        if self.is_text and draw[1] % 4:
            data = change_words(data, draw[1:])
        else:
            data = change_bytes(data, draw[1:], self.seeds)
        return (self.mended(data, draw[_FOR_SESSION:]) if draw[-1] % 4 else data)[: self.longest]

    def mended(self, data: bytes, draw: Draw) -> bytes:
        """With that put right which random changes hardly ever do: checksums, lengths, times. Of most inputs."""
        return data

    @abstractmethod
    def take(self, data: Any) -> str:
        """What came of an input, in words; raises where a property does not hold."""

    def close(self) -> None:
        """Give back what was taken."""


class Target(NamedTuple):
    """What is fuzzed: makes the session of a number; files of the code that reads; how many inputs are aimed at."""

    session: Callable[[int], Session]
    code: tuple[str, ...]
    inputs: int = 1_000_000


@dataclass
class Tally:
    """Counts; of each finding the first session, and its inputs that lead there, as hexadecimal digits."""

    sessions: int = 0
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    reproducers: dict[str, list[str]] = field(default_factory=dict)
    slowest_s: float = 0.0
    slowest_session: int = -1
    growth_mb: float = 0.0
    cpu_s: float = 0.0

    def add(self, other: Tally) -> None:
        """The counts of another part of the run."""
        self.sessions += other.sessions
        self.inputs += other.inputs
        self.cpu_s += other.cpu_s
        for reason, count in other.outcomes.items():
            known = reason in self.outcomes or len(self.outcomes) < _MOST_REASONS
            self.outcomes[reason if known else "refused: others"] += count
        self.findings += other.findings
        self.reproducers = {**other.reproducers, **self.reproducers}
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest_session = other.slowest_s, other.slowest_session
        self.growth_mb = max(self.growth_mb, other.growth_mb)

    def find(self, kind: str, session: int, inputs: Sequence[Any] = ()) -> None:
        """Note a finding."""
        self.findings[kind] += 1
        if kind not in self.reproducers:
            told = [one.hex() for one in inputs if isinstance(one, bytes)]
            self.reproducers[kind] = [f"session {session}", *(told if sum(map(len, told)) <= _LONGEST_HEX else [])]

    @property
    def found(self) -> int:
        """How many findings."""
        return sum(self.findings.values())


class Hang(BaseException):
    """A session that takes too long; no `except Exception` keeps it."""


def judge(name: str, numbers: range) -> Tally:
    """Some sessions, in this process."""
    target, tally = target_of(name), Tally()
    is_child = multiprocessing.parent_process() is not None
    if is_child:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
        signal.signal(signal.SIGALRM, _hangs)
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # numbers that are none, which nobody looked for
        _judge(target, numbers[0], Tally())  # imports, caches
    begin_mb, begin_s = _peak_mb(), time.process_time()
    for number in numbers:
        if is_child:
            signal.setitimer(signal.ITIMER_REAL, HANG_S)
            faulthandler.dump_traceback_later(2.0 * HANG_S, exit=True)  # where C code does not come back
        try:
            _judge(target, number, tally)
        except Hang:
            tally.find(f"hangs for {HANG_S:g} s", number)
        tally.sessions += 1
    if is_child:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        faulthandler.cancel_dump_traceback_later()
    tally.cpu_s, tally.growth_mb = time.process_time() - begin_s, _peak_mb() - begin_mb
    if tally.growth_mb > MOST_GROWTH_MB:
        tally.find(f"memory grew by more than {MOST_GROWTH_MB} MB", numbers[0])
    return tally


def _hangs(*_: object) -> None:
    raise Hang


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def _judge(target: Target, number: int, tally: Tally) -> None:
    session, taken = target.session(number), []
    try:
        for draw in draws(number):
            data = session.make(draw)
            taken.append(data)
            begin_s = time.process_time()
            try:
                outcome = session.take(data)
            except Exception as error:
                outcome = "failed"
                tally.find(place_of(error), number, _shortest(target, number, taken, error))
                session.close()
                session, taken = target.session(number), []
            took_s = time.process_time() - begin_s
            if took_s > tally.slowest_s:
                tally.slowest_s, tally.slowest_session = took_s, number
                if took_s > SLOWEST_S:
                    tally.find(f"takes more than {SLOWEST_S:g} s", number, [data])
            tally.outcomes[outcome] += 1
            tally.inputs += 1
    finally:
        session.close()


def draws(number: int) -> Iterator[Draw]:
    """Of each input of a session."""
    found: list[list[int]] = np.random.default_rng(number).integers(0, 2**32, (INPUTS, DRAWS)).tolist()
    return iter(found)


def _shortest(target: Target, number: int, taken: Sequence[Any], error: Exception) -> Sequence[Any]:
    """The last input where it does alone what all of them did."""
    session = target.session(number)
    try:
        session.take(taken[-1])
    except Exception as other:
        return taken[-1:] if place_of(other) == place_of(error) else taken
    finally:
        session.close()
    return taken


def place_of(error: Exception) -> str:
    """Which exception, where it came from, and what it says."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}: {frame.name}: {reason(error, 80)}"


def reason(error: Exception | str, most: int = 50) -> str:
    """What it says, without numbers and names."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|/\S+", "..", " ".join(str(error).split()))
    return re.sub(r"-?\d[\d,._]*", "#", text)[:most]


class _Judge:
    """A process that judges; where it dies, another one judges what it had, session by session."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begin()

    def _begin(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def __call__(self, numbers: range) -> Tally:
        try:
            return self._pool.submit(judge, self._name, numbers).result()
        except BrokenProcessPool:
            self.close()
            self._begin()
        total = Tally()
        for number in numbers if len(numbers) > 1 else ():
            total.add(self(range(number, number + 1)))
        if len(numbers) == 1:
            total.sessions = 1
            total.find("died or hangs", numbers[0])
        return total

    def close(self) -> None:
        self._pool.shutdown()


def fuzz(name: str, inputs: int, seconds: float = 0.0, first: int = 0) -> Tally:
    """Judge so many inputs, or until so long has passed; progress goes to the standard error stream."""
    total, begin_s, size, one = Tally(), time.monotonic(), 1, _Judge(name)
    try:
        while total.inputs < inputs and not 0.0 < seconds <= time.monotonic() - begin_s:
            number = first + total.sessions
            total.add(one(range(number, number + min(size, -(-(inputs - total.inputs) // INPUTS)))))
            size = max(1, round(_CHUNK_S * total.sessions / max(total.cpu_s, 1e-3)))
            rate = total.inputs / max(total.cpu_s, 1e-3)
            print(f"{name}: {total.inputs:,} inputs, {rate:,.0f} a second, {total.found} findings", file=sys.stderr)
    finally:
        one.close()
    return total


@cache
def target_of(name: str) -> Target:
    """By its name."""
    found: Target = import_module(_place(name)).TARGETS[name]
    return found


def _place(name: str) -> str:
    return next(place for place, names in PLACES.items() if name in names)


# What is kept.


def code_hash(name: str) -> str:
    """Of the code that reads, and of its sessions: the first sixteen digits of a SHA-256."""
    sessions = _ROOT / f"{_place(name).replace('.', '/')}.py"
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in [*_code(name), sessions])).hexdigest()[:16]


def _code(name: str) -> list[Path]:
    return sorted(path for one in target_of(name).code for path in _ROOT.glob(one))


def add_part(name: str, seconds: float, inputs: int | None = None) -> Row:
    """Judge for so long, or until so many are kept, and keep the sum."""
    total = _kept(name)
    left = 10**12 if inputs is None else inputs - total.inputs
    total.add(fuzz(name, left, seconds, total.sessions))
    row = tally_row(name, total)
    rows = {one["case"]: one for one in kept_rows()} | {name: row}
    cases = [rows[one] for names in PLACES.values() for one in names if one in rows]
    keep({**conditions(parts()["fuzz"]), "cases": cases})
    return row


def add_until(name: str, inputs: int) -> Row:
    """Part after part, so that little is lost where it is stopped."""
    while (row := add_part(name, _PART_S, inputs))["tally"]["inputs"] < inputs:
        pass
    return row


def kept_rows() -> list[Row]:
    """Of all that was fuzzed."""
    path = RESULTS / "fuzz.json"
    rows: list[Row] = json.loads(path.read_text())["cases"] if path.exists() else []
    return [row for row in rows if "tally" in row]


def _kept(name: str) -> Tally:
    """Of the code as it is now."""
    for row in kept_rows():
        if (row["case"], row["code"]) == (name, code_hash(name)):
            counted = {one: Counter(row["tally"][one]) for one in ("outcomes", "findings")}
            return Tally(**{**row["tally"], **counted})
    return Tally()


def tally_row(name: str, tally: Tally) -> Row:
    """A run's figures."""
    refused = sum(count for one, count in tally.outcomes.items() if one.startswith("refused"))
    cells = {
        "of": name,
        "changed inputs": f"{tally.inputs:,}",
        "aimed at": f"{target_of(name).inputs:,}",
        "refused": f"{refused:,}",
        "findings": f"{tally.found}",
        "a second of CPU": f"{tally.inputs / max(tally.cpu_s, 1e-9):,.0f}",
        "slowest, ms": f"{1e3 * tally.slowest_s:.0f}",
        "memory grew by, MB": f"{tally.growth_mb:.0f}",
    }
    further = {"code": code_hash(name), "at": git("describe", "--always", "--dirty", "--exclude=*")}
    return cells_row("Changed inputs, each held against the reader's properties", name, cells, **further) | {
        "tally": vars(tally)
    }


# How inputs are changed.


def change_words(data: bytes, draw: Draw) -> bytes:
    """One to three words of a text replaced, by odd ones or others of the text; or lines doubled, left out, swapped."""
    for first in range(1, 1 + 3 * (1, 1, 1, 2, 3)[draw[0] % 5], 3):
        kind, place, value = draw[first : first + 3]
        if kind % 8 == 0:
            lines = data.split(b"\n")
            at = place % len(lines)
            lines[at : at + 1] = [[], [lines[at]] * 2, [lines[value % len(lines)]], [b""]][value % 4]
            data = b"\n".join(lines)
        elif words := _words(data):
            start, stop = words[place % len(words)]
            other = WORDS[value % len(WORDS)] if kind % 8 < 6 else data[slice(*words[value % len(words)])]
            data = data[:start] + other + data[stop:]
    return data


@cache
def _words_of_seed(data: bytes) -> list[tuple[int, int]]:
    return [one.span() for one in _WORD.finditer(data)]


def _words(data: bytes) -> list[tuple[int, int]]:
    if _words_of_seed.cache_info().currsize > 500:
        _words_of_seed.cache_clear()
    return _words_of_seed(data)


def change_bytes(data: bytes, draw: Draw, others: Sequence[bytes] = ()) -> bytes:
    """One to three changes: bits, bytes and numbers set, blocks removed, doubled, swapped, of others, an early end."""
    changed = bytearray(data)
    for first in range(1, 1 + _CHANGES * (1, 1, 1, 2, 3)[draw[0] % 5], _CHANGES):
        if changed:
            _change(changed, draw[first : first + _CHANGES], others)
    return bytes(changed)


def _change(data: bytearray, draw: Draw, others: Sequence[bytes]) -> None:
    kind, at, value, long, order, other = draw
    kind, at = kind % 13, at % len(data)
    length = (1, 2, 4, 8, 16, 512, 1 + long % _LONGEST_BLOCK)[other % 7]
    if kind < 3:
        data[at] ^= 1 << value % 8
    elif kind < 5:
        data[at] = (0, 1, 255, long % 256)[value % 4]
    elif kind < 8:  # a number that is likely to be wrong: far out, or beside the one that is there
        size = min((1, 2, 4, 8)[long % 4], len(data) - at)
        now = int.from_bytes(data[at : at + size], ends := "big" if order % 10 < 3 else "little")
        wrong = (2 ** (8 * size) - 1, now + 1, now - 1, now * 2, now // 2)
        chosen = value % (len(_EXTREME) + 5)
        number = wrong[chosen] if chosen < 5 else _EXTREME[chosen - 5]
        data[at : at + size] = (number % 2 ** (8 * size)).to_bytes(size, ends)
    elif kind == 8:
        del data[at:]
    elif kind == 9:
        del data[at : at + length]
    elif kind == 10:
        data[at:at] = data[value % len(data) :][:length]
    elif kind == 11:
        length = min(length, len(data) - at)
        noise = (value * 0x9E3779B97F4A7C15 % 2**64).to_bytes(8, "little") if value % 2 else bytes(8)
        data[at : at + length] = (noise * (length // 8 + 1))[:length]
    else:
        source = others[value % len(others)] if others else bytes(data)
        data[at : at + length] = source[at : at + length]


def main() -> None:
    """The command; exit code 1 where something was found."""
    known = [name for names in PLACES.values() for name in names]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzzing", description="Changed inputs, judged.")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*known, []], help=f"of {', '.join(known)}")
    parser.add_argument("--seconds", type=float, default=0.0, help="a part of so long of each")
    parser.add_argument("--inputs", type=int, help="until so many of each are kept (default: what is aimed at)")
    parser.add_argument("--session", type=int, help="only this one, in this process, its exception shown")
    options = parser.parse_args()
    names = options.names or known
    if options.session is not None:
        session = target_of(names[0]).session(options.session)
        print(Counter(session.take(session.make(draw)) for draw in draws(options.session)))
        return
    found = []
    for name in names:
        inputs = options.inputs or target_of(name).inputs
        row = add_part(name, options.seconds) if options.seconds else add_until(name, inputs)
        found += [name] if row["tally"]["findings"] else []
    sys.exit(f"findings: {', '.join(found)}" if found else 0)


if __name__ == "__main__":
    main()
