"""Fuzzing of what reads bytes that nobody vouches for: kept inputs, changed, against properties of readers.

The inputs that `test/fuzz_corpus` keeps, a line of hexadecimal digits each, were found under the guidance of coverage
(atheris): what is changed here begins where that ended.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.drivers.bus_targets import DESCRIPTION, ETHERCAT
from benchmarks.drivers.network_targets import NATNET, SERIALIZED, VICON
from benchmarks.drivers.serial_targets import FRAMES, LOG, READINGS
from benchmarks.fuzzing import CASES, Fuzzer, change_bytes, row
from benchmarks.fuzzing import fuzz as fuzzed

TARGETS = {
    "ethercat": ETHERCAT,
    "ethercat_description": DESCRIPTION,
    "natnet": NATNET,
    "serial_frames": FRAMES,
    "serial_log": LOG,
    "serial_readings": READINGS,
    "serialized_readings": SERIALIZED,
    "vicon": VICON,
}
CORPUS = Path(__file__).parents[2] / "test" / "fuzz_corpus"


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a target."""
    table = "Changed inputs, each held against the reader's properties"
    return [row(name, fuzzed(name, 400 if quick else 10 * CASES), table) for name in TARGETS]


@cache
def kept(name: str) -> tuple[bytes, ...]:
    """Of a target."""
    return tuple(bytes.fromhex(line) for line in (CORPUS / f"{name}.hex").read_text().splitlines())


def fuzzer(name: str) -> Fuzzer:
    """Of a target: whether its properties hold for a changed input."""
    target, inputs = TARGETS[name], kept(name)

    def judged(number: int) -> str:
        rng = Random(f"{name} {number}")
        data = change_bytes(rng.choice(inputs), rng, inputs)
        target.check((target.mend(data, rng) if rng.random() < 0.5 else data)[: target.longest])
        return "held"

    return judged
