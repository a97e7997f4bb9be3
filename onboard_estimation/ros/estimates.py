"""Estimates as ROS messages: odometry, joint states with standard deviations, and the whole covariance by name.

What is published follows from the blocks of the state space:

| blocks | message |
|---|---|
| `pose` (SE(2)), or `position`, `attitude` and `velocity` | `nav_msgs/Odometry` on `odometry` |
| `joint_angles` | `sensor_msgs/JointState` on `joint_states` and `joint_states_stddev` |
| all others, and all coordinates | `sensor_msgs/JointState` on `state`: one name per coordinate |
| covariance | `sensor_msgs/JointState` on `state_covariance`: upper triangle, names `a:b` |

The functions take `new`, which makes a message from its type's name and fields, so that they serve rclpy's messages and
those of a bag alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Vector

New = Callable[..., Any]

UNKNOWN_VARIANCE = 1e6
"""Of a dimension that is not estimated."""
CONSTRAINED_VARIANCE = 1e-9
"""Of a dimension that the robot cannot move in: z, roll and pitch in the plane."""


class Output(NamedTuple):
    """A message for a topic."""

    topic: str
    message_type: str
    message: Any


class EstimateMessages:
    """Turns estimates of one state space into messages.

    Parameters
    ----------
    space
        State space of the estimates.
    new
        Makes a message: `new("std_msgs/msg/Header", stamp=..., frame_id=...)`.
    frame_id, child_frame_id
        Of the odometry.
    joint_names
        Names of the joints in joint states; by default those of the state space.
    """

    def __init__(
        self,
        space: StateSpace,
        new: New,
        frame_id: str = "odom",
        child_frame_id: str = "base_link",
        joint_names: tuple[str, ...] | None = None,
    ) -> None:
        self.space = space
        self._new = new
        self._frame_id = frame_id
        self._child_frame_id = child_frame_id
        self._blocks = {block.name: block for block in space.blocks}
        self._joint_names = joint_names
        rows, columns = np.triu_indices(space.dimension)
        self._triangle = rows, columns
        self._covariance_names = [f"{space.names[i]}:{space.names[j]}" for i, j in zip(rows, columns, strict=True)]
        self._coordinate_names = [name for block in space.blocks for name in _coordinate_names(block.name, block)]

    def __call__(self, estimate: Estimate) -> Iterator[Output]:
        """All messages of one estimate, with its stamp."""
        pose = self._pose(estimate)
        if pose is not None:
            yield Output("odometry", "nav_msgs/msg/Odometry", self._odometry(estimate, *pose))
        if "joint_angles" in self._blocks:
            names = list(self._joint_names or self._blocks["joint_angles"].names)
            tangent = self.space.tangent("joint_angles")
            stddev = np.sqrt(np.diag(estimate.covariance)[tangent])
            angles = estimate.mean[self.space.coordinates("joint_angles")]
            yield self._named("joint_states", estimate.stamp_ns, names, angles)
            yield self._named("joint_states_stddev", estimate.stamp_ns, names, stddev)
        yield self._named("state", estimate.stamp_ns, self._coordinate_names, estimate.mean)
        triangle = estimate.covariance[self._triangle]
        yield self._named("state_covariance", estimate.stamp_ns, self._covariance_names, triangle)

    def _named(self, topic: str, stamp_ns: int, names: list[str], values: Vector) -> Output:
        message = self._new(
            "sensor_msgs/msg/JointState", header=self._header(stamp_ns, ""), name=names, position=np.array(values)
        )
        return Output(topic, "sensor_msgs/msg/JointState", message)

    def _header(self, stamp_ns: int, frame_id: str) -> Any:
        seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS_PER_SECOND)
        stamp = self._new("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
        return self._new("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)

    def _pose(self, estimate: Estimate) -> tuple[Vector, Vector, Matrix] | None:
        """Position (3,), quaternion x, y, z, w and covariance (6, 6) along the fixed axes; None without a pose."""
        if "pose" in self._blocks and self._blocks["pose"].kind == SE2:
            x, y, heading = estimate.mean[self.space.coordinates("pose")]
            body = estimate.covariance[self.space.tangent("pose"), self.space.tangent("pose")]
            turn = np.eye(3)
            turn[:2, :2] = [[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]]
            covariance = np.diag([0.0, 0.0, CONSTRAINED_VARIANCE, CONSTRAINED_VARIANCE, CONSTRAINED_VARIANCE, 0.0])
            covariance[np.ix_([0, 1, 5], [0, 1, 5])] = turn @ body @ turn.T
            quaternion = np.array([0.0, 0.0, np.sin(0.5 * heading), np.cos(0.5 * heading)])
            return np.array([x, y, 0.0]), quaternion, covariance
        if "position" in self._blocks and "attitude" in self._blocks and self._blocks["attitude"].kind == SO3:
            quaternion = estimate.mean[self.space.coordinates("attitude")]
            rows = np.r_[self.space.tangent("position"), self.space.tangent("attitude")]
            # The attitude's error is in the body frame, the message's along the fixed axes.
            turn = np.eye(6)
            turn[3:, 3:] = Rotation.from_quat(quaternion).as_matrix()
            covariance = turn @ estimate.covariance[np.ix_(rows, rows)] @ turn.T
            return estimate.mean[self.space.coordinates("position")], quaternion, covariance
        return None

    def _odometry(self, estimate: Estimate, position: Vector, quaternion: Vector, covariance: Matrix) -> Any:
        new = self._new
        pose = new(
            "geometry_msgs/msg/Pose",
            position=_xyz(new, "geometry_msgs/msg/Point", position),
            orientation=new("geometry_msgs/msg/Quaternion", **dict(zip("xyzw", map(float, quaternion), strict=True))),
        )
        velocity, twist_covariance = self._velocity(estimate, quaternion)
        twist = new("geometry_msgs/msg/Twist", linear=_xyz(new, "geometry_msgs/msg/Vector3", velocity))
        return new(
            "nav_msgs/msg/Odometry",
            header=self._header(estimate.stamp_ns, self._frame_id),
            child_frame_id=self._child_frame_id,
            pose=new("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=covariance.ravel()),
            twist=new("geometry_msgs/msg/TwistWithCovariance", twist=twist, covariance=twist_covariance.ravel()),
        )

    def _velocity(self, estimate: Estimate, quaternion: Vector) -> tuple[Vector, Matrix]:
        """Velocity (3,) in the child frame and the twist's covariance (6, 6)."""
        covariance = UNKNOWN_VARIANCE * np.eye(6)
        if "velocity" not in self._blocks:
            return np.zeros(3), covariance
        to_body = Rotation.from_quat(quaternion).as_matrix().T
        tangent = self.space.tangent("velocity")
        covariance[:3, :3] = to_body @ estimate.covariance[tangent, tangent] @ to_body.T
        return to_body @ estimate.mean[self.space.coordinates("velocity")], covariance


def _xyz(new: New, message_type: str, values: Vector) -> Any:
    return new(message_type, **dict(zip("xyz", map(float, values), strict=True)))


def _coordinate_names(name: str, block: Any) -> list[str]:
    names = ("x", "y", "z", "w") if block.kind == SO3 else block.names
    return [f"{name}.{element}" for element in names]
