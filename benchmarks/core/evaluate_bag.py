"""`evaluate` on a bag of a minute, as a user types it: a new process, kernels compiled before.

Two simulated bags of 60 s, and the longest of the recorded walks (61 s) where the recordings are there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recordings import recordings
from benchmarks.timing import case
from onboard_estimation.errors import UserError

RUNS_UNASKED = ("evaluate_bag",)
_TARGET_S = 5.0
_WALK = "2018-02-09-11-16-53"


def run(quick: bool) -> list[dict[str, Any]]:
    """A row a bag."""
    with tempfile.TemporaryDirectory() as folder:
        return [_row(name, bag, Path(folder), 1 if quick else 3) for name, bag in _bags(Path(folder))]


def _bags(folder: Path) -> Iterator[tuple[str, Path]]:
    for robot in ("salp", "strapdown"):
        _command("simulate", robot, "--output", str(folder / robot))
        yield f"{robot}, simulated, 60 s", folder / robot
    try:
        walk = recordings("pyshoe_vicon") / f"{_WALK}.mat"
    except UserError as error:
        print(error)
        return
    _command("convert", "pyshoe", str(walk), "--output", str(folder / "walk"))
    yield "strapdown, recorded, 61 s", folder / "walk"


def _row(name: str, bag: Path, folder: Path, repetitions: int) -> dict[str, Any]:
    _command("evaluate", str(bag), "--output", str(folder / f"{bag.name}_warm"))
    seconds = []
    for repetition in range(repetitions):
        start = time.perf_counter()
        _command("evaluate", str(bag), "--output", str(folder / f"{bag.name}_{repetition}"))
        seconds.append(time.perf_counter() - start)
    return case(name, {"evaluate": np.array(seconds)}, "evaluate", target_s=_TARGET_S)


def _command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "onboard_estimation", *words], check=True, stdout=subprocess.DEVNULL)
