"""A robot's estimator, for a Python that has no console scripts: its name comes first.

`composed` before the name: with the simulator in the same process.
"""

from __future__ import annotations

import sys
from importlib import import_module

from onboard_estimation.nodes.run import run

if __name__ == "__main__":
    composed = sys.argv[1] == "composed"
    if composed:
        sys.argv.pop(1)
    executables = import_module(f"{sys.argv.pop(1)}_estimation.nodes.main")
    names = ["simulator", "estimator"] if composed else ["estimator"]
    run(lambda: [getattr(executables, name).target for name in names])
