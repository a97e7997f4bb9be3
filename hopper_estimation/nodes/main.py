"""Executables `hopper_estimator` and `hopper_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("hopper_estimation.nodes.estimator:HopperEstimatorNode")
simulator = NodeExecutable("hopper_estimation.nodes.simulator:HopperSimulatorNode")
