"""Draws a robot's estimate and truth: markers for RViz, and the tf of its bodies."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import rclpy.clock
from geometry_msgs.msg import PoseStamped
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import JointState
from visualization_msgs.msg import MarkerArray

from onboard_estimation.capabilities.drawn import poses_of_bodies
from onboard_estimation.configuration import parameter
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Vector
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.nodes.transforms import tf_message, tf_publisher
from onboard_estimation.robots import find_robot
from onboard_estimation.ros.estimates import EstimateReader
from onboard_estimation.ros.frames import AUTOMATIC, resolved_prefix
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns
from onboard_estimation.ros.transforms import MAP, between_bodies, truth_to_body
from onboard_estimation.simulation import truth_channel

_TOGETHER_NS = NANOSECONDS_PER_SECOND // 20
"""Truth counts as of the estimate's instant within this."""
_REMEMBERED = 100
_PATH_PERIOD_NS = NANOSECONDS_PER_SECOND // 5
_PATH_LENGTH = 1000


@dataclass(frozen=True)
class MarkerHost:
    """What the node itself wants to know, beside the robot's configuration."""

    robot: str = parameter("salp", "whose estimate and truth are drawn")
    estimator: str = parameter("", 'which of the robot\'s estimators is drawn; "" for its first')
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of all frames but world; "auto": the node\'s namespace')
    rate_hz: float = parameter(10.0, "pictures a second", unit="Hz", minimum=0.1, maximum=60.0)
    publish_body_tf: bool = parameter(True, "publish link_1 -> link_2 -> ...; false where robot_state_publisher does")
    publish_truth_tf: bool = parameter(True, "publish world -> truth/<body>")


class MarkerNode(Node):
    """Publishes `markers` (MarkerArray) and tf of the bodies from `state`, `state_covariance` and the ground truth.

    Estimates are drawn in `map`, the truth in `world`: tf puts them side by side. Parameters: the robot's configuration
    and `MarkerHost`.
    """

    def __init__(self) -> None:
        super().__init__("markers", automatically_declare_parameters_from_overrides=True)
        named = self.get_parameter("robot").value if self.has_parameter("robot") else MarkerHost().robot
        self._robot = find_robot(str(named))
        settings: NodeParameters[Any, MarkerHost] = NodeParameters(self, self._robot.configuration_type, MarkerHost)
        self._configuration, host = settings.configuration, settings.host
        name = host.estimator or self._robot.estimators[0]
        self._space = self._robot.estimator(self._configuration, name).space
        self._prefix = resolved_prefix(host.frame_prefix, self.get_namespace())
        self._host = host
        self._scene = Scene(new, self._robot, self._configuration, self._space, self._prefix, MAP)
        self._reader = EstimateReader(self._space)
        self._estimate: Estimate | None = None
        self._drawn_ns = -1
        self._truth: dict[str, deque[tuple[int, Vector]]] = {}
        self._ways: tuple[deque[Vector], deque[Vector]] = (deque(maxlen=_PATH_LENGTH), deque(maxlen=_PATH_LENGTH))
        self._way_ns = -_PATH_PERIOD_NS
        self._tf = tf_publisher(self)
        self._output = self.create_publisher(MarkerArray, "markers", QoSProfile(depth=2))
        self._listen()
        # The node's own time may stand still, or run faster: pictures are for people.
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(1.0 / host.rate_hz, self._draw, clock=steady)

    def _listen(self) -> None:
        qos = QoSProfile(depth=100)
        self.create_subscription(JointState, "state", partial(self._take, self._reader.take_state), qos)
        self.create_subscription(JointState, "state_covariance", partial(self._take, self._reader.take_covariance), qos)
        for body in self._robot.truth_specification(self._configuration).bodies:
            channel = truth_channel(body)
            self._truth[body] = deque(maxlen=_REMEMBERED)
            take = partial(self._take_truth, body, channel)
            self.create_subscription(PoseStamped, channel.topic, take, qos_profile_sensor_data)

    def _take(self, read: Any, message: Any) -> None:
        try:
            estimate = read(message)
        except MessageFault as error:
            self.get_logger().warning(f"estimate of another robot? It {error}", throttle_duration_sec=5.0)
            return
        if estimate is not None:
            self._estimate = estimate

    def _take_truth(self, body: str, channel: Channel, message: Any) -> None:
        try:
            at_ns, pose = stamp_ns(message), message_value(channel, message)
        except MessageFault as error:
            self.get_logger().warning(f"{channel.topic} {error}", throttle_duration_sec=5.0)
            return
        if np.isfinite(pose).all() and np.any(pose[3:]):
            self._truth[body].append((at_ns, pose))

    def _draw(self) -> None:
        """Picture and transforms of the latest estimate, once."""
        estimate = self._estimate
        if estimate is None or estimate.stamp_ns == self._drawn_ns:
            return
        markers = []
        if estimate.stamp_ns < self._drawn_ns:  # a bag played again
            markers += self._scene.clear(estimate.stamp_ns)
            self._forget()
        self._drawn_ns = estimate.stamp_ns
        truth = self._truth_at(estimate.stamp_ns)
        parts = self._true_parts(truth)
        self._go_on(estimate, parts)
        if self._output.get_subscription_count() > 0:
            markers += self._scene.estimate(estimate)
            markers += self._scene.truth(estimate.stamp_ns, truth)
            for way, is_truth in zip(self._ways, (False, True), strict=True):
                markers += self._scene.path(estimate.stamp_ns, np.array(way), is_truth)
            markers += self._scene.text(estimate, parts)
            markers += self._scene.legend(estimate, bool(truth))
            self._output.publish(self._scene.array(markers))
        self._publish_tf(estimate, truth)

    def _publish_tf(self, estimate: Estimate, truth: Mapping[str, Vector]) -> None:
        if self._tf is None:
            return
        transforms = []
        if self._host.publish_body_tf:
            poses = poses_of_bodies(self._robot, self._configuration, self._space, estimate.mean[None])
            transforms += between_bodies(new, estimate.stamp_ns, poses, self._prefix)
        if self._host.publish_truth_tf:
            transforms += [
                truth_to_body(new, estimate.stamp_ns, body, pose, self._prefix) for body, pose in truth.items()
            ]
        if transforms:
            self._tf.publish(tf_message(transforms))

    def _truth_at(self, at_ns: int) -> dict[str, Vector]:
        """Pose of each body at the instant nearest to a stamp, if that is near enough."""
        near = {}
        for body, poses in self._truth.items():
            best = min(poses, key=lambda row: abs(row[0] - at_ns), default=None)
            if best is not None and abs(best[0] - at_ns) <= _TOGETHER_NS:
                near[body] = best[1]
        return near

    def _true_parts(self, truth: Mapping[str, Vector]) -> dict[str, Vector] | None:
        """Parts of the true state, where all bodies are seen."""
        if not self._truth or len(truth) < len(self._truth):
            return None
        rows = {body: pose[None] for body, pose in truth.items()}
        return {name: part[0] for name, part in self._robot.true_parts(self._configuration, rows).items()}

    def _go_on(self, estimate: Estimate, parts: Mapping[str, Vector] | None) -> None:
        """Add to the ways of estimate and truth."""
        if estimate.stamp_ns - self._way_ns < _PATH_PERIOD_NS:
            return
        self._way_ns = estimate.stamp_ns
        for name in ("pose", "position"):
            if any(block.name == name and block.dimension > 1 for block in self._space.blocks):
                self._ways[0].append(estimate.mean[self._space.coordinates(name)][:2])
                if parts is not None and name in parts:
                    self._ways[1].append(parts[name][:2])

    def _forget(self) -> None:
        self._way_ns = -_PATH_PERIOD_NS
        for way in self._ways:
            way.clear()
        for poses in self._truth.values():
            poses.clear()
