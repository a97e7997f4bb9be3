"""Executable `strapdown_estimator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the estimator of position, velocity and attitude."""
    run("strapdown_estimation.nodes.estimator:StrapdownEstimatorNode")
