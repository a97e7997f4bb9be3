"""Phase and height of a hopping robot as an rclpy node."""

from __future__ import annotations

from hopper_estimation.robot import ROBOT
from hopper_estimation.topics import LOW_G
from onboard_estimation.nodes.estimator import EstimatorNode


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
