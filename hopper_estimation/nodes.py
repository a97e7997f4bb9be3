"""Phase and height of a hopping robot as an rclpy node."""

from __future__ import annotations

from hopper_estimation.model.configuration import LOW_G
from hopper_estimation.model.phases import PHASES
from hopper_estimation.robot import ROBOT
from onboard_estimation.nodes.estimator import EstimatorNode
from onboard_estimation.nodes.simulator import SimulatorNode


class HopperEstimatorNode(EstimatorNode):
    """Hopping phase, height and vertical velocity from two accelerometers.

    Subscribes to `imu/low_g/data_raw` (Imu) and, where the robot has them, `imu/high_g/data_raw` and
    `imu/attitude/data` (Imu), `motors/command` (JointState, duty cycles), `commanded_height` (PointStamped),
    `leg/state` (JointState, for the baselines) and `set_pose` (PoseWithCovarianceStamped in `map`: the known height of
    the first drop). Publishes `odometry` (z and the velocity along z), `phase`, `phase_events`, `phase_state`
    and `apex` beside the rest that `EstimatorNode` names; `onboard-estimation config hopper` lists its parameters.
    """

    paced_by = LOW_G.sensor

    def __init__(self) -> None:
        super().__init__(ROBOT, "hopper_estimator")


# Simulated hopper as an rclpy node.


class HopperSimulatorNode(SimulatorNode):
    """A robot that hops for ever: publishes accelerometers, commands and ground truth. See `SimulatorNode`.

    With `control` set to `estimate` its height controller goes by what the live estimator publishes.
    """

    phases = PHASES
    node_name = "hopper_simulator"

    def __init__(self) -> None:
        super().__init__(ROBOT, self.node_name)
