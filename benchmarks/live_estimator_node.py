"""`salp_estimator` or `hopper_estimator`, for a Python that has no console scripts: the robot's name comes first."""

from __future__ import annotations

import sys
from importlib import import_module

if __name__ == "__main__":
    robot = sys.argv.pop(1)
    import_module(f"{robot}_estimation.nodes.main").estimator()
