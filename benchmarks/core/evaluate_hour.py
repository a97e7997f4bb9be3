"""`evaluate` on an hour of a robot with 840 Hz IMUs, as a user types it: a new process, kernels compiled before.

The bag is simulated and written anew, once in each format: about 4 GB, and a minute and a half each. Beside the time
stands the most memory that the process had.

    python -m benchmarks --only evaluate_hour
    python -m benchmarks.core.evaluate_hour ROBOT [ESTIMATOR...]     # another robot, or several estimators; only printed
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.table import case_lines
from benchmarks.timing import case

_ROBOT = "hopper"
_HOUR_S, _QUICK_S = 3600.0, 300.0
_TARGET_S = 30.0
_MOST_MEMORY_GB = 4.0


def run(quick: bool, robot: str = _ROBOT, estimators: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Two rows a format: seconds, and memory."""
    rows = []
    duration_s = _QUICK_S if quick else _HOUR_S
    for storage in ("mcap", "sqlite3"):
        with tempfile.TemporaryDirectory() as folder:
            bag = Path(folder) / "hour"
            recorded = ["--duration", str(duration_s), "--storage", storage]
            _command("simulate", robot, "--output", str(bag), *recorded)
            chosen = [word for name in estimators for word in ("--estimator", name)]
            words = ["evaluate", str(bag), "--robot", robot, *chosen]
            _command(*words, "--output", str(Path(folder) / "warm"))
            seconds, peaks = [], []
            for repetition in range(1 if quick else 3):
                start = time.perf_counter()
                peaks.append(_command(*words, "--output", str(Path(folder) / f"run_{repetition}")))
                seconds.append(time.perf_counter() - start)
        name = f"{robot}, {duration_s:g} s of 840 Hz, {storage}"
        rows.append(case(name, {"evaluate": np.array(seconds)}, "evaluate", target_s=_TARGET_S))
        peak_gb = max(peaks)
        rows.append(
            {
                "case": f"{name}: most memory",
                "figure": f"{peak_gb:.1f} GB",
                "target": f"<= {_MOST_MEMORY_GB:g} GB",
                "met": peak_gb <= _MOST_MEMORY_GB,
            }
        )
    return rows


def _command(*words: str) -> float:
    """Run a command in a process of its own; the most memory that it had, GB."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onboard_estimation", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    error = process.stderr.read().decode(errors="replace")
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: {error.strip()}")
    return usage.ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0) / 1e9


if __name__ == "__main__":
    print("\n".join(case_lines({"cases": run(False, *sys.argv[1:2], sys.argv[2:])})))
