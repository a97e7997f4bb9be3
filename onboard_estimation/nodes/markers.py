"""Draws a robot's estimate and truth: markers for RViz, and the tf of its bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from visualization_msgs.msg import MarkerArray

from onboard_estimation.base.configuration import bounded, parameter
from onboard_estimation.base.measurement import Estimate, Vector
from onboard_estimation.contract.reported import poses_of_bodies
from onboard_estimation.contract.robot import find_robot
from onboard_estimation.live.followed import FollowedRobot, Moment, Subject
from onboard_estimation.live.messages import new
from onboard_estimation.nodes.parameters import NodeParameters, SteadyNode
from onboard_estimation.nodes.transforms import tf_message, tf_publisher
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.ros.markers import Scene
from onboard_estimation.ros.measurements import MessageFault
from onboard_estimation.ros.transforms import AUTOMATIC, MAP, between_bodies, resolved_prefix, truth_to_body

_WAY_LENGTH = 1000


@dataclass(frozen=True)
class MarkerHost:
    """What the node itself wants to know, beside the robot's configuration."""

    robot: str = parameter("salp", "whose estimate and truth are drawn")
    estimator: str = parameter("", 'which of the robot\'s estimators is drawn; "" for its first')
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of all frames but world; "auto": the node\'s namespace')
    rate_hz: float = bounded(10.0, 0.1, 60.0, "pictures a second", "Hz")
    publish_body_tf: bool = parameter(True, "publish link_1 -> link_2 -> ...; false where robot_state_publisher does")
    publish_truth_tf: bool = parameter(True, "publish world -> truth/<body>")


class MarkerNode(SteadyNode):
    """Publishes `markers` (MarkerArray) and tf of the bodies from `state`, `state_covariance` and the ground truth.

    Estimates are drawn in `map`, the truth in `world`: tf puts them side by side. Parameters: the robot's configuration
    and `MarkerHost`.
    """

    def __init__(self) -> None:
        super().__init__("markers")
        named = self.get_parameter("robot").value if self.has_parameter("robot") else MarkerHost().robot
        robot = find_robot(str(named))
        settings: NodeParameters[Any, MarkerHost] = NodeParameters(self, robot.configuration_type, MarkerHost)
        configuration, self._host = settings.configuration, settings.host
        space = robot.estimator(configuration, self._host.estimator or robot.estimators[0]).space
        self._prefix = resolved_prefix(self._host.frame_prefix, self.get_namespace())
        self._scene = Scene(new, robot, configuration, space, self._prefix, MAP)
        self._subject = Subject(self.get_namespace(), robot, configuration, space)
        self._drawn_ns = -1
        self._tf = tf_publisher(self)
        self._picture, self._frames = (Aside(name, self.get_logger().error) for name in ("markers", "tf"))
        self._output = self.create_publisher(MarkerArray, "markers", 2)
        # Only the newest is drawn, and not more of them kept than that.
        namespace, period_s = self.get_namespace().rstrip("/"), 1.0 / self._host.rate_hz
        self._followed = FollowedRobot(self, namespace, self._subject, 0.0, 0.5 * period_s, _WAY_LENGTH, self._refuse)
        self.every(period_s, self._draw)

    def _refuse(self, topic: str, error: MessageFault) -> None:
        what = topic if "/" in topic else "estimate of another robot? It"
        self.get_logger().warning(f"{what} {error}", throttle_duration_sec=5.0)

    def _draw(self) -> None:
        """Picture and transforms of the latest estimate, once."""
        record = self._followed.record()
        if record is None:
            return
        moment = record.at(-1)
        estimate, stamp_ns = moment.estimate, moment.estimate.stamp_ns
        if stamp_ns == self._drawn_ns:
            return
        markers = self._scene.clear(stamp_ns) if stamp_ns < self._drawn_ns else []  # a bag played again
        self._drawn_ns = stamp_ns
        if self._output.get_subscription_count() > 0:
            self._picture(self._publish_markers, moment, markers)
        self._frames(self._publish_tf, estimate, moment.bodies)

    def _publish_markers(self, moment: Moment, markers: list[Any]) -> None:
        markers += self._scene.picture(moment.estimate, moment.bodies, self._followed.ways(), moment.truth)
        markers += self._scene.legend(moment.estimate, bool(moment.bodies))
        self._output.publish(self._scene.array(markers))

    def _publish_tf(self, estimate: Estimate, truth: Mapping[str, Vector]) -> None:
        if self._tf is None:
            return
        transforms, subject = [], self._subject
        if self._host.publish_body_tf:
            poses = poses_of_bodies(subject.robot, subject.configuration, subject.space, estimate.mean[None])
            transforms += between_bodies(new, estimate.stamp_ns, poses, self._prefix)
        if self._host.publish_truth_tf:
            transforms += [
                truth_to_body(new, estimate.stamp_ns, body, pose, self._prefix) for body, pose in truth.items()
            ]
        if transforms:
            self._tf.publish(tf_message(transforms))
