"""Executables of the two chains: `salp_estimator`, `salp_simulator`, `thruster_chain_estimator` and its simulator."""

from __future__ import annotations

from onboard_estimation.nodes.run import run


def estimator() -> None:
    """Run the salp's pose-and-shape estimator."""
    run("salp_estimation.nodes.estimator:SalpPoseShapeNode")


def simulator() -> None:
    """Run the simulated salp."""
    run("salp_estimation.nodes.simulator:SalpSimulatorNode")


def thruster_chain_estimator() -> None:
    """Run the thruster chain's estimator."""
    run("salp_estimation.nodes.thruster_chain:ThrusterChainNode")


def thruster_chain_simulator() -> None:
    """Run the simulated thruster chain."""
    run("salp_estimation.nodes.thruster_chain:ThrusterChainSimulatorNode")
