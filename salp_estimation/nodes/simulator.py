"""Simulated LandSalp as an rclpy node."""

from __future__ import annotations

from onboard_estimation.nodes.simulator import SimulatorNode
from salp_estimation.robot import ROBOT


class SalpSimulatorNode(SimulatorNode):
    """A LandSalp that swims its gait for ever: publishes commands, gyros and ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "salp_simulator")
