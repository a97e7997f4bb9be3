"""Tip and stiffness of a soft robot as an rclpy node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard_estimation.nodes.estimator import EstimatorNode
from onboard_estimation.nodes.simulator import SimulatorNode
from softrobot_estimation.model.description import StiffnessSurface
from softrobot_estimation.robot import ROBOT


class SoftRobotNode(EstimatorNode):
    """Tip and stiffness of a soft segment from the pressures in its chambers and the wrench at its base.

    Subscribes to `pressure/<chamber>` (FluidPressure, absolute) and `wrench` (WrenchStamped, in the sensor's frame).
    Publishes `odometry` of the tip in the base's frame beside the rest that `EstimatorNode` names, and, where particles
    learn it, `stiffness_map` (Marker) for RViz; `onboard-estimation config softrobot` lists its parameters.
    """

    def __init__(self) -> None:
        super().__init__(ROBOT, "softrobot_estimator")
        self.offer_marker("stiffness_map", self._stiffness_map)

    def _stiffness_map(self, new: Any) -> Callable[[], Any]:
        surface = StiffnessSurface(new, self.configuration, self.map_frame)

        def marker() -> Any:
            if self.latest is None:
                return None
            learned = self.pipeline.learned
            return None if learned is None else surface.marker(learned, self.latest)

        return marker


# Simulated soft robot as an rclpy node.


class SoftRobotSimulatorNode(SimulatorNode):
    """A soft robot that follows set points for ever: publishes pressures, wrench, ground truth. See `SimulatorNode`."""

    def __init__(self) -> None:
        super().__init__(ROBOT, "softrobot_simulator")
