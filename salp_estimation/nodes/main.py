"""Executables `salp_estimator` and `salp_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the pose-and-shape estimator."""
    run("salp_estimation.nodes.estimator:SalpPoseShapeNode")


def simulator() -> None:
    """Run the simulated robot."""
    run("salp_estimation.nodes.simulator:SalpSimulatorNode")
