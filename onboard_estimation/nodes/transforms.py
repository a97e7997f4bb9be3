"""The estimator's part of tf: `world` -> `map` (static), `map` -> `odom` -> `base_link` -> the robot's first body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from onboard_estimation.base.measurement import Estimate, Vector
from onboard_estimation.contract.reported import poses_of_bodies
from onboard_estimation.contract.robot import Robot
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.live.messages import new, serialized
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.thinning import Thinning
from onboard_estimation.ros.transforms import estimate_transforms, transform, world_to_map

_RATE_HZ = 50.0


def tf_publisher(node: Node, static: bool = False) -> Any:
    """Publisher of `/tf` or `/tf_static`; None, which is said once a node, where tf2_msgs is not installed.

    PyPI's wheels of ROS 2 have none; RViz, which needs tf, comes with an installation that has it.
    """
    try:
        from tf2_msgs.msg import TFMessage
    except ImportError:
        node.get_logger().info("no tf: tf2_msgs is not installed; RViz, which needs it, brings it along", once=True)
        return None
    latched = DurabilityPolicy.TRANSIENT_LOCAL if static else DurabilityPolicy.VOLATILE
    qos = QoSProfile(depth=1 if static else 100, durability=latched)
    return node.create_publisher(TFMessage, "/tf_static" if static else "/tf", qos)


def tf_message(transforms: Sequence[Any]) -> Any:
    """A tf2_msgs/TFMessage of geometry_msgs/TransformStamped."""
    return new("tf2_msgs/msg/TFMessage", transforms=list(transforms))


class EstimateTransforms:
    """Publishes the transforms of estimates, at most 50 times a second and once for each stamp.

    Parameters
    ----------
    prefix
        Before the names of all frames but `world`.
    world_to_map_m_rad
        x, y, z (m), roll, pitch, yaw (rad).
    """

    def __init__(
        self,
        node: Node,
        robot: Robot,
        configuration: Any,
        space: StateSpace,
        prefix: str,
        world_to_map_m_rad: Sequence[float],
    ) -> None:
        self._robot, self._configuration, self._space, self._prefix = robot, configuration, space, prefix
        self._output = tf_publisher(node)
        self._template: MessageTemplate | None = None
        self._static = tf_publisher(node, static=True)
        if self._static is not None:
            stamp_ns = node.get_clock().now().nanoseconds
            self._static.publish(tf_message([world_to_map(new, stamp_ns, world_to_map_m_rad, prefix)]))
        self._thinning = Thinning(_RATE_HZ)
        # A kernel of the robot's picture that compiles, or is read from disk, at the first estimate holds it up.
        poses_of_bodies(robot, configuration, space, space.origin()[None])

    def publish(self, estimate: Estimate, odom: Vector) -> None:
        """Publish those of an estimate in `odom`; `odom` is the planar pose (3,) of that frame in `map`."""
        if self._output is None or not self._thinning.passes(estimate.stamp_ns):
            return
        if self._output.get_subscription_count() == 0:
            return
        bodies = poses_of_bodies(self._robot, self._configuration, self._space, estimate.mean[None])
        poses = estimate_transforms(self._space, estimate.mean, odom, bodies, self._prefix)
        if not poses:
            return
        values = np.concatenate(list(poses.values()))
        if self._template is None:
            self._template = MessageTemplate(partial(_message, list(poses)), serialized, len(values))
        self._output.publish(self._template.message(estimate.stamp_ns, values))


def _message(frames: Sequence[tuple[str, str]], stamp_ns: int, values: Vector) -> Any:
    """Transforms from the first to the second of each two frames, with poses (7,) one after another."""
    poses = values.reshape(len(frames), 7)
    return tf_message([transform(new, stamp_ns, *names, pose) for names, pose in zip(frames, poses, strict=True)])
