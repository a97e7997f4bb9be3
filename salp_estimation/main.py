"""Executables `salp_estimator` and `salp_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("salp_estimation.nodes:SalpPoseShapeNode")
simulator = NodeExecutable("salp_estimation.nodes:SalpSimulatorNode")
