"""Executable `markers`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def markers() -> None:
    """Run the node that draws a robot's estimate and truth."""
    run("onboard_estimation.nodes.markers:MarkerNode")
