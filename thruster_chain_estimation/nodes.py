"""The thruster chain's rclpy nodes: its estimators, and a simulated one."""

from __future__ import annotations

from functools import partial

from onboard_estimation.nodes.estimator import EstimatorNode
from onboard_estimation.nodes.observability import ObservabilityOutputs
from onboard_estimation.nodes.simulator import SimulatorNode
from thruster_chain_estimation.judging.information import assumed_chain
from thruster_chain_estimation.judging.observability import observed_now
from thruster_chain_estimation.model.space import command_channel
from thruster_chain_estimation.robot import ROBOT


class ThrusterChainNode(EstimatorNode):
    """Headings, masses and inertias of a chain of links from the commands to its thrusters and one IMU a link.

    Subscribes to `thrusters/command` (JointState, efforts in N) and `imu/<link>/data_raw` (Imu). Beside what an
    `EstimatorNode` publishes, it tells on `observability` (the sides of Theorem 4, rank, smallest singular value) and
    `observability_forecast` (in words) what can be known at this moment and which push would tell most.
    `onboard-estimation config thruster_chain` prints its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "thruster_chain_estimator")
        chain = self.configuration.chain
        for sentence in chain.unobservable():
            self.get_logger().warning(sentence)
        assumed = assumed_chain(self.configuration, papers=self.estimator_name.startswith("paper"))
        ObservabilityOutputs(self, command_channel(chain.link_names), partial(observed_now, assumed, chain.link_names))


class ThrusterChainSimulatorNode(SimulatorNode):
    """A chain whose thrusters push it for ever: publishes commands, IMUs and ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "thruster_chain_simulator")
