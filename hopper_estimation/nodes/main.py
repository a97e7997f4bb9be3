"""Executables `hopper_estimator` and `hopper_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the estimator of phase and height."""
    run("hopper_estimation.nodes.estimator:HopperEstimatorNode")


def simulator() -> None:
    """Run the simulated robot."""
    run("hopper_estimation.nodes.simulator:HopperSimulatorNode")
