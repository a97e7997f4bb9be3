"""Pose and shape of a chain as an rclpy node."""

from __future__ import annotations

from onboard_estimation.nodes.estimator import EstimatorNode
from onboard_estimation.nodes.simulator import SimulatorNode
from salp_estimation.robot import ROBOT


class SalpPoseShapeNode(EstimatorNode):
    """Pose and joint angles of a chain from its commands and one gyro a link.

    Subscribes to `actuators/command` (JointState, wheel velocities in rad/s), `imu/<link>/data_raw` (Imu) and
    `set_pose` (PoseWithCovarianceStamped in `map`: RViz's "2D Pose Estimate"). See `EstimatorNode` for what it
    publishes, and `onboard-estimation config salp` for its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "salp_estimator")


# Simulated LandSalp as an rclpy node.


class SalpSimulatorNode(SimulatorNode):
    """A LandSalp that swims its gait for ever: publishes commands, gyros and ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "salp_simulator")
