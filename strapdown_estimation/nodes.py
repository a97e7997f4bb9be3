"""Position, velocity and attitude of one IMU as an rclpy node."""

from __future__ import annotations

from onboard_estimation.nodes.estimator import EstimatorNode
from strapdown_estimation.robot import ROBOT


class StrapdownEstimatorNode(EstimatorNode):
    """Position, velocity and attitude of an IMU that stands on the ground at times.

    Subscribes to `imu/<name>/data_raw` (Imu). See `EstimatorNode` for what it publishes, and `onboard-estimation config
    strapdown` for its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "strapdown_estimator")
