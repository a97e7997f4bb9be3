"""Simulated hopper as an rclpy node."""

from __future__ import annotations

from hopper_estimation.phases import PHASES
from hopper_estimation.robot import ROBOT
from onboard_estimation.nodes.simulator import SimulatorNode


class HopperSimulatorNode(SimulatorNode):
    """A robot that hops for ever: publishes accelerometers, commands and ground truth. See `SimulatorNode`.

    With `control` set to `estimate` its height controller goes by what the live estimator publishes.
    """

    phases = PHASES
    node_name = "hopper_simulator"

    def __init__(self) -> None:
        super().__init__(ROBOT, self.node_name)
