"""Tip and stiffness of a soft robot as an rclpy node."""

from __future__ import annotations

import rclpy.clock
from rclpy.clock import ClockType
from rclpy.qos import QoSProfile
from visualization_msgs.msg import Marker

from onboard_estimation.live.messages import new
from onboard_estimation.nodes.estimator import EstimatorNode
from softrobot_estimation.robot import ROBOT
from softrobot_estimation.stiffness_surface import StiffnessSurface

_MAP_PERIOD_S = 1.0


class SoftRobotNode(EstimatorNode):
    """Tip and stiffness of a soft segment from the pressures in its chambers and the wrench at its base.

    Subscribes to `pressure/<chamber>` (FluidPressure, absolute) and `wrench` (WrenchStamped, in the sensor's frame).
    Publishes `odometry` of the tip in the base's frame beside the rest that `EstimatorNode` names, and, where particles
    learn it, `stiffness_map` (Marker) for RViz, once a second as long as somebody listens;
    `onboard-estimation config softrobot` lists its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "softrobot_estimator")
        self._surface = StiffnessSurface(new, self.configuration, self.map_frame)
        self._map_output = self.create_publisher(Marker, "stiffness_map", QoSProfile(depth=1))
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_MAP_PERIOD_S, self._publish_map, clock=steady)

    def _publish_map(self) -> None:
        if self.latest is None or not self._map_output.get_subscription_count():
            return
        learned = self.pipeline.learned
        if learned is not None:
            self._map_output.publish(self._surface.marker(learned, self.latest))
