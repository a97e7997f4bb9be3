"""Executables `markers` and `composed`."""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import takewhile

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import PACKAGE, entry_point
from onboard_estimation.nodes.run import NodeExecutable, run

markers = NodeExecutable("onboard_estimation.nodes.markers:MarkerNode")

_USAGE = "composed [PACKAGE/]EXECUTABLE... [--ros-args ...], e.g. composed hopper_simulator hopper_estimator"


def composed() -> None:
    """Run the nodes of several executables in one process: what a driver measures reaches its estimator directly."""
    run(_named_targets)


def _named_targets() -> list[str]:
    names = list(takewhile(lambda word: word != "--ros-args", sys.argv[1:]))
    if not names:
        raise UserError(f"which nodes? {_USAGE}")
    return [_target(name) for name in names]


def _target(name: str) -> str:
    package, _, executable = name.rpartition("/")
    module, _, attribute = entry_point(executable, package or PACKAGE).partition(":")
    found = getattr(import_module(module), attribute, None)
    if not isinstance(found, NodeExecutable):
        raise UserError(f"{name} cannot run in one process with others: it is a program of its own, not a single node")
    return found.target
