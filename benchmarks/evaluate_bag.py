"""The command `evaluate` on bags of a minute, as a process of its own, compiled kernels on disk: wall time and stages.

A simulated LandSalp (60 s), and the longest of the recorded walks (61 s at 200 Hz) where the recorded data are there:
in `../shared/data` or the folder that `ONBOARD_ESTIMATION_DATA` names.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import case, rounded, spread

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET_S = 5.0
WALK = Path("pyshoe_vicon") / "2018-02-09-11-16-53.mat"


def run(quick: bool) -> list[dict[str, Any]]:
    """A case for each bag, followed by its stages."""
    repetitions = 2 if quick else 9
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bags = _bags(scratch)
        walls: dict[str, list[float]] = {name: [] for name in bags}
        users: dict[str, list[float]] = {name: [] for name in bags}
        stages: dict[str, list[dict[str, float]]] = {name: [] for name in bags}
        for repetition in range(-1, repetitions):  # the first one compiles
            for name, bag in bags.items():
                run_folder = scratch / f"run-{name.replace(' ', '_')}-{repetition}"
                wall, user, _ = _command(
                    ["-m", "onboard_estimation", "evaluate", str(bag), "-o", f"{run_folder}"], scratch
                )
                staged = ["-m", "benchmarks.evaluate_stages", str(bag), f"{run_folder}-staged", str(time.time())]
                _, _, output = _command(staged, scratch)
                if repetition >= 0:
                    walls[name].append(wall)
                    users[name].append(user)
                    stages[name].append(json.loads(output))
    rows = []
    for name in bags:
        user = spread(np.array(users[name]), "s")
        samples = {"evaluate": np.array(walls[name])}
        rows.append(case(name, samples, "evaluate", target_s=TARGET_S, user_median_s=user["median_s"]))
        total = sum(float(np.median([one[stage] for one in stages[name]])) for stage in stages[name][0])
        for stage in stages[name][0]:
            median = float(np.median([one[stage] for one in stages[name]]))
            share = median / total
            figure = f"{median:.2f} s ({100.0 * share:.0f} %)"
            rows.append(
                {"case": f"{name}: {stage}", "figure": figure, "median_s": rounded(median), "share": rounded(share)}
            )
    return rows


def _bags(scratch: Path) -> dict[str, Path]:
    """Bags to evaluate, by what they are."""
    bags = {"salp, 60 s, simulated": scratch / "salp"}
    options = ["--scenario", "ideal", "--gait", "forward", "--duration", "60", "--seed", "3"]
    _command(["-m", "onboard_estimation", "simulate", "salp", *options, "--output", str(scratch / "salp")], scratch)
    named = os.environ.get("ONBOARD_ESTIMATION_DATA")
    walk = (Path(named) if named else REPOSITORY.parent / "shared" / "data") / WALK
    if walk.exists():
        bags["walk, 61 s at 200 Hz, recorded"] = scratch / "walk"
        command = ["-m", "onboard_estimation", "convert", "pyshoe", str(walk), "--output", str(scratch / "walk")]
        _command(command, scratch)
    return bags


def _command(arguments: list[str], folder: Path) -> tuple[float, float, str]:
    """Wall time and user time of a Python process, s, and what it printed; RuntimeError where it failed."""
    # The threads of a linear algebra library are the program's own affair: `run` fixes them for this process only.
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment["PYTHONPATH"] = str(REPOSITORY)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    wall = time.perf_counter() - start
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, done.stdout
