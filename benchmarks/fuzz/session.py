"""One run of the fuzzer on a target: starts the instrumented process, says how far it is, and takes its figures."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.fuzz import corpus
from benchmarks.fuzz.target import load
from onboard_estimation.errors import UserError

MEMORY_MB = 1024
_HANG_S = 20
_REPORT_EVERY_S = 10.0
_STATUS = re.compile(r"#(\d+)\s+\w+\s+cov: (\d+) ft: (\d+) corp: (\d+)/")
_STATISTIC = re.compile(r"stat::(\w+):\s+(\d+)")
_LAST_LINES = 40


@dataclass
class Figures:
    """What a run came to; `finding` is what was said of the input that broke a property, empty where none did."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    edges: int = 0
    features: int = 0
    corpus: int = 0
    memory_mb: int = 0
    finding: str = ""

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.inputs:,} inputs in {self.seconds:.0f} s, {self.edges} edges, {self.features} "
            f"features, corpus {self.corpus}, exceptions {int(bool(self.finding))}, peak memory {self.memory_mb} MB"
        )


def fuzz(name: str, inputs: int, seconds: int = 0, seed: int = 1, folder: Path | None = None) -> Figures:
    """Run a target on that many inputs, or until it breaks; progress goes to the standard error stream.

    Parameters
    ----------
    seconds
        After which it ends all the same; 0: never.
    folder
        Of the corpus, which grows there, and of inputs that break a property; None: one that is thrown away.
    """
    if find_spec("atheris") is None:
        raise UserError("fuzzing needs the package `atheris`: pip install atheris (CPython 3.11 to 3.13 on Linux)")
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return fuzz(name, inputs, seconds, seed, Path(scratch))
    target, found = load(name), folder / "corpus"
    _write((*target.seeds(), *corpus.kept(name)), found)
    flags = [
        str(found), f"-runs={inputs}", f"-seed={seed}", f"-max_len={target.longest}", f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={_HANG_S}", f"-max_total_time={seconds}", f"-artifact_prefix={folder}/", "-print_final_stats=1",
    ]  # fmt: skip
    figures, start, shown = Figures(name), time.monotonic(), 0.0
    last: deque[str] = deque(maxlen=_LAST_LINES)
    process = _started(name, flags)
    for line in _lines(process):
        last.append(line)
        if status := _STATUS.match(line):
            figures.inputs, figures.edges, figures.features, figures.corpus = map(int, status.groups())
        if statistic := _STATISTIC.match(line):
            figures.memory_mb = int(statistic[2]) if statistic[1] == "peak_rss_mb" else figures.memory_mb
            figures.inputs = int(statistic[2]) if statistic[1] == "number_of_executed_units" else figures.inputs
        figures.seconds = time.monotonic() - start
        if figures.seconds - shown > _REPORT_EVERY_S:
            shown = figures.seconds
            print(figures, file=sys.stderr, flush=True)
    if process.wait():
        figures.finding = "".join(last)
    return figures


def keep_least_corpus(name: str, folder: Path) -> Path:
    """Of what a run left in the folder, keep for the tests only inputs that together reach all that was reached."""
    with tempfile.TemporaryDirectory() as scratch:
        said = list(_lines(_started(name, ["-merge=1", scratch, str(folder / "corpus")])))
        least = [path.read_bytes() for path in Path(scratch).iterdir()]
    if not least:
        raise RuntimeError("".join(said[-_LAST_LINES:]))
    return corpus.keep(name, least)


def row(figures: Figures) -> dict[str, Any]:
    """As the benchmarks' table shows it."""
    return {
        "case": figures.target,
        "table": "Inputs made under the guidance of coverage, each held against the target's properties",
        "cells": {
            "target": figures.target,
            "inputs": f"{figures.inputs:,}",
            "minutes": f"{figures.seconds / 60.0:.1f}",
            "edges": f"{figures.edges}",
            "features": f"{figures.features}",
            "corpus": f"{figures.corpus}",
            "exceptions": f"{int(bool(figures.finding))}",
            "peak memory, MB": f"{figures.memory_mb}",
        },
    }


def _started(name: str, flags: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.fuzz.child", name, *flags]
    # Python tells of an exception on one stream, libFuzzer of everything else on the other.
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        cwd=Path(__file__).parents[2],
    )  # fmt: skip


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    with process.stdout:
        yield from process.stdout


def _write(inputs: tuple[bytes, ...], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs):
        (folder / f"seed_{number}").write_bytes(data)
