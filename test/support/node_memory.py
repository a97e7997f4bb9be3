"""What a live estimator node holds once it has started: modules, memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from onboard_estimation.base.kernel_cache import configure

# In place of spinning: by then the node has made all it needs, and has been through every kind of measurement.
CODE = """
import json, os, sys
import rclpy
from pathlib import Path
from onboard_estimation.nodes import run

class Tells:
    def add_node(self, node):
        pass

    def spin_until_future_complete(self, never, timeout_s):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        resident_mb = 1e-6 * pages * os.sysconf("SC_PAGE_SIZE")
        print(json.dumps([sorted(sys.modules), resident_mb]), flush=True)
        rclpy.shutdown()

run.new_executor = Tells
run.NodeExecutable(sys.argv[1])(["--ros-args", "-r", "__ns:=/" + sys.argv[2], "--log-level", "warn"])
"""

NEVER = (
    "evo", "jinja2", "lz4", "matplotlib", "mcap", "pandas", "rich", "rosbags", "sqlite3", "typer", "viser",
    "onboard_estimation.cli", "onboard_estimation.commands", "onboard_estimation.bags", "onboard_estimation.judging",
    "onboard_estimation.inspection", "onboard_estimation.trajectories", "onboard_estimation.report",
    "onboard_estimation.campaigns", "onboard_estimation.view", "onboard_estimation.realtime",
    "onboard_estimation.learning.optimisation", "onboard_estimation.contract.picture", "onboard_estimation.testing",
)  # fmt: skip
"""Packages for evaluation, training, plots and the command line; no node needs them."""


class Started(NamedTuple):
    """A node that has started."""

    modules: frozenset[str]
    resident_mb: float

    def loaded(self, *packages: str) -> list[str]:
        """Which of these packages or modules it has loaded."""
        return [name for name in packages if name in self.modules]

    def scipy(self) -> list[str]:
        """scipy's packages; what numba looks at to find out whether there is scipy at all does not count."""
        names = (name.split(".") for name in self.modules if name.startswith("scipy."))
        return sorted({second for _, second, *_ in names if not second.startswith("_")} - {"version"})


def started(robot: str, target: str) -> Started:
    """A robot's estimator node; a second time where it has compiled, which takes all of numba."""
    folder = configure()
    before, found = _kernels(folder), _start(robot, target)
    return found if _kernels(folder) == before else _start(robot, target)


def _start(robot: str, target: str) -> Started:
    done = subprocess.run(
        [sys.executable, "-c", CODE, target, robot],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modules, resident_mb = json.loads(done.stdout.splitlines()[-1])
    return Started(frozenset(modules), resident_mb)


def _kernels(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.kernel"))
