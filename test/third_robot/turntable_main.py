"""Executable `turntable_estimator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the estimator."""
    run("turntable_node:TurntableNode")
