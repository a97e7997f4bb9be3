"""Executables `thruster_chain_estimator` and `thruster_chain_simulator`."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("thruster_chain_estimation.nodes:ThrusterChainNode")
simulator = NodeExecutable("thruster_chain_estimation.nodes:ThrusterChainSimulatorNode")
