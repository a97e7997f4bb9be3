"""The thruster chain's rclpy nodes: its estimators, and a simulated one."""

from __future__ import annotations

from onboard_estimation.nodes.estimator import EstimatorNode
from onboard_estimation.nodes.simulator import SimulatorNode
from salp_estimation.thruster_chain.robot import ROBOT


class ThrusterChainNode(EstimatorNode):
    """Headings, masses and inertias of a chain of links from the commands to its thrusters and one IMU a link.

    Subscribes to `thrusters/command` (JointState, efforts in N) and `imu/<link>/data_raw` (Imu). See `EstimatorNode`
    for what it publishes, and `onboard-estimation config thruster_chain` for its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "thruster_chain_estimator")


class ThrusterChainSimulatorNode(SimulatorNode):
    """A chain whose thrusters push it for ever: publishes commands, IMUs and ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "thruster_chain_simulator")
