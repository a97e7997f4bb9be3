"""Simulated soft robot as an rclpy node."""

from __future__ import annotations

from onboard_estimation.nodes.simulator import SimulatorNode
from softrobot_estimation.robot import ROBOT


class SoftRobotSimulatorNode(SimulatorNode):
    """A soft robot that follows set points for ever: publishes pressures, wrench, ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "softrobot_simulator")
