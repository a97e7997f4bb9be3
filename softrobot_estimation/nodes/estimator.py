"""Tip and stiffness of a soft robot as an rclpy node."""

from __future__ import annotations

from onboard_estimation.nodes.estimator import EstimatorNode
from softrobot_estimation.robot import ROBOT


class SoftRobotNode(EstimatorNode):
    """Tip and stiffness of a soft segment from the pressures in its chambers and the wrench at its base.

    Subscribes to `pressure/<chamber>` (FluidPressure, absolute) and `wrench` (WrenchStamped, in the sensor's frame).
    Publishes `odometry` of the tip in the base's frame beside the rest that `EstimatorNode` names;
    `onboard-estimation config softrobot` lists its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "softrobot_estimator")
