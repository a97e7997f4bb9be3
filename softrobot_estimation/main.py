"""Executables `softrobot_estimator` and `softrobot_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("softrobot_estimation.nodes:SoftRobotNode")
simulator = NodeExecutable("softrobot_estimation.nodes:SoftRobotSimulatorNode")
