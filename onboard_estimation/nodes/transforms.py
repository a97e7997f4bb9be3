"""The estimator's part of tf: `world` -> `map` (static), `map` -> `odom` -> `base_link` -> the robot's first body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rclpy.node import Node
from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster

from onboard_estimation.capabilities.drawn import poses_of_bodies
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Vector
from onboard_estimation.robots import Robot
from onboard_estimation.ros.transforms import base_to_first_body, map_to_odom, odom_to_base, world_to_map

_PERIOD_NS = NANOSECONDS_PER_SECOND // 50


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
        self._broadcaster = TransformBroadcaster(node)
        self._static = StaticTransformBroadcaster(node)
        stamp_ns = node.get_clock().now().nanoseconds
        self._static.sendTransform(world_to_map(new, stamp_ns, world_to_map_m_rad, prefix))
        self._last_ns = 0
        # A kernel of the robot's picture that compiles, or is read from disk, at the first estimate holds it up.
        poses_of_bodies(robot, configuration, space, space.origin()[None])

    def publish(self, estimate: Estimate, odom: Vector) -> None:
        """Publish those of an estimate in `odom`; `odom` is the planar pose (3,) of that frame in `map`."""
        if 0 <= estimate.stamp_ns - self._last_ns < _PERIOD_NS:
            return
        self._last_ns = estimate.stamp_ns
        base = odom_to_base(new, self._space, estimate, self._prefix)
        bodies = poses_of_bodies(self._robot, self._configuration, self._space, estimate.mean[None])
        first = base_to_first_body(new, self._space, estimate, bodies, self._prefix)
        if base:
            odometry_frame = map_to_odom(new, estimate.stamp_ns, odom, self._prefix)
            self._broadcaster.sendTransform([odometry_frame, *base, *first])
