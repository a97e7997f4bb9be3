"""Executables of the two chains: `salp_estimator`, `salp_simulator`, `thruster_chain_estimator` and its simulator."""

from __future__ import annotations

from onboard_estimation.nodes.run import NodeExecutable

estimator = NodeExecutable("salp_estimation.nodes.estimator:SalpPoseShapeNode")
simulator = NodeExecutable("salp_estimation.nodes.estimator:SalpSimulatorNode")
thruster_chain_estimator = NodeExecutable("salp_estimation.nodes.thruster_chain:ThrusterChainNode")
thruster_chain_simulator = NodeExecutable("salp_estimation.nodes.thruster_chain:ThrusterChainSimulatorNode")
