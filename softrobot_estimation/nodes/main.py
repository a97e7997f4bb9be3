"""Executables `softrobot_estimator` and `softrobot_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the estimator of tip and stiffness."""
    run("softrobot_estimation.nodes.estimator:SoftRobotNode")


def simulator() -> None:
    """Run the simulated robot."""
    run("softrobot_estimation.nodes.simulator:SoftRobotSimulatorNode")
