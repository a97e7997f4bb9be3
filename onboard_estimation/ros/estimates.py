"""Estimates as ROS messages: odometry, joint states with standard deviations, and the whole covariance by name.

What is published follows from the blocks of the state space:

| blocks | message |
|---|---|
| `pose` (SE(2)), or `position`, `attitude` and `velocity` | `nav_msgs/Odometry` on `odometry` |
| `position` without an attitude, and `velocity` | the same, along the fixed axes; how it is turned is unknown |
| `height` and `vertical_velocity`, one number each | the same: z and the velocity along z, all else unknown |
| `joint_angles`, or `headings` of links | `sensor_msgs/JointState` on `joint_states` and `joint_states_stddev` |
| `masses` and `inertias` | `sensor_msgs/JointState` on `inertial_parameters` and `inertial_parameters_stddev` |
| all others, and all coordinates | `sensor_msgs/JointState` on `state`: one name per coordinate |
| covariance | `sensor_msgs/JointState` on `state_covariance`: upper triangle, names `a:b` |

The functions take `new`, which makes a message from its type's name and fields, so that they serve rclpy's messages and
those of a bag alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.planar import HEIGHT, VERTICAL_VELOCITY, is_vertical, point_dimension
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Estimate, Matrix, Vector

New = Callable[..., Any]

_NAMED = "sensor_msgs/msg/JointState"

_PARAMETERS = {"masses", "inertias"}

UNKNOWN_VARIANCE = 1e6
"""Of a dimension that is not estimated."""
CONSTRAINED_VARIANCE = 1e-9
"""Of a dimension that the robot cannot move in: z, roll and pitch in the plane."""


class Output(NamedTuple):
    """A message for a topic."""

    topic: str
    message_type: str
    message: Any


class Numbers(NamedTuple):
    """What varies in the messages of one topic beside the stamp: K messages of m numbers, in the message's order."""

    topic: str
    message_type: str
    values: NDArray[np.float64]


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
        self._kinds = {block.name: block.kind for block in space.blocks}
        self._part: _VerticalOdometry | _PointOdometry | _PlanarOdometry | None = None
        if is_vertical(space):
            self._part = _VerticalOdometry(space)
        elif dimension := point_dimension(space):
            self._part = _PointOdometry(space, dimension)
        elif self._kinds.get("pose") == SE2:
            self._part = _PlanarOdometry(space)
        rows, columns = np.triu_indices(space.dimension)
        self._triangle = rows, columns
        self._names: dict[str, list[str]] = {}
        if "joint_angles" in self._kinds:
            names = list(joint_names or space.block("joint_angles").names)
            self._names = {"joint_states": names, "joint_states_stddev": names}
        elif "headings" in self._kinds:
            count = space.block("headings").dimension
            names = list(joint_names or (f"joint_{joint}" for joint in range(1, count)))
            self._names = {"joint_states": names, "joint_states_stddev": names}
        if self._kinds.keys() >= _PARAMETERS:
            names = [name for name in coordinate_names(space) if name.partition(".")[0] in _PARAMETERS]
            self._names |= {"inertial_parameters": names, "inertial_parameters_stddev": names}
        self._names["state"] = coordinate_names(space)
        self._names["state_covariance"] = [
            f"{space.names[i]}:{space.names[j]}" for i, j in zip(rows, columns, strict=True)
        ]

    def __call__(self, estimate: Estimate, wanted: Collection[str] | None = None) -> Iterator[Output]:
        """The messages of one estimate, with its stamp; only those for the topics `wanted`, where given."""
        for topic, message_type, values in self.numbers(estimate.mean[None], estimate.covariance[None], wanted):
            yield Output(topic, message_type, self.message(topic, estimate.stamp_ns, values[0]))

    def types(self) -> dict[str, str]:
        """Type of message by topic, of all topics there are for this state space."""
        topics = {}
        whole = "position" in self._kinds and self._kinds.get("attitude") == SO3
        if self._kinds.get("pose") == SE2 or whole or self._part is not None:
            topics["odometry"] = "nav_msgs/msg/Odometry"
        return topics | dict.fromkeys(self._names, _NAMED)

    def numbers(
        self,
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        wanted: Collection[str] | None = None,
    ) -> list[Numbers]:
        """What the messages of K estimates hold, by topic: means (K, a), covariances (K, n, n)."""
        out = []
        for topic, message_type in self.types().items():
            if wanted is None or topic in wanted:
                out.append(Numbers(topic, message_type, self._values(topic, means, covariances)))
        return out

    def _values(self, topic: str, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        """(K, m) numbers of the messages of a topic."""
        if topic == "odometry" and self._part is not None:
            return self._part(means, covariances)
        if topic == "odometry":
            position, quaternion, covariance = self._poses(means, covariances)
            return np.hstack([position, quaternion, covariance, *self._velocities(means, covariances, quaternion)])
        if topic == "joint_states":
            return self._joints(means)
        if topic == "joint_states_stddev":
            return self._joint_stddevs(covariances)
        if topic in ("inertial_parameters", "inertial_parameters_stddev"):
            values = means if topic == "inertial_parameters" else _stddevs(covariances)
            where = self.space.coordinates if topic == "inertial_parameters" else self.space.tangent
            return np.hstack([values[:, where(name)] for name in ("masses", "inertias")])
        return means if topic == "state" else covariances[:, self._triangle[0], self._triangle[1]]

    def _joints(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        if "joint_angles" in self._kinds:
            return means[:, self.space.coordinates("joint_angles")]
        turned = np.diff(means[:, self.space.coordinates("headings")], axis=1)
        return np.arctan2(np.sin(turned), np.cos(turned))

    def _joint_stddevs(self, covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        if "joint_angles" in self._kinds:
            return _stddevs(covariances)[:, self.space.tangent("joint_angles")]
        rows = self.space.tangent("headings")
        headings = covariances[:, rows, rows]
        variances = np.diagonal(headings, axis1=1, axis2=2)
        shared = np.diagonal(headings, offset=1, axis1=1, axis2=2)
        return np.sqrt(np.maximum(variances[:, 1:] + variances[:, :-1] - 2.0 * shared, 0.0))

    def message(self, topic: str, stamp_ns: int, values: Vector) -> Any:
        """The message of a topic from its numbers (m,)."""
        if topic == "odometry":
            return self._odometry(stamp_ns, values)
        header, names = self._header(stamp_ns, ""), self._names[topic]
        return self._new(_NAMED, header=header, name=names, position=np.array(values))

    def _header(self, stamp_ns: int, frame_id: str) -> Any:
        seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS_PER_SECOND)
        stamp = self._new("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)
        return self._new("std_msgs/msg/Header", stamp=stamp, frame_id=frame_id)

    def _poses(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> tuple[Matrix, Matrix, Matrix]:
        """Of a body in space: positions (K, 3), quaternions (K, 4), covariances (K, 36) along the fixed axes."""
        space, count = self.space, len(means)
        quaternion = means[:, space.coordinates("attitude")]
        rows = np.r_[space.tangent("position"), space.tangent("attitude")]
        # The attitude's error is in the body frame, the message's along the fixed axes.
        turn = np.tile(np.eye(6), (count, 1, 1))
        turn[:, 3:, 3:] = _rotations(quaternion).as_matrix()
        covariance = turn @ covariances[:, rows[:, None], rows] @ turn.transpose(0, 2, 1)
        return means[:, space.coordinates("position")], quaternion, covariance.reshape(count, 36)

    def _velocities(
        self, means: NDArray[np.float64], covariances: NDArray[np.float64], quaternions: Matrix
    ) -> tuple[Matrix, Matrix]:
        """Twists (K, 6) in the child frame and their covariances (K, 36); what is not estimated is zero and unknown."""
        count = len(means)
        twist, covariance = np.zeros((count, 6)), np.tile(UNKNOWN_VARIANCE * np.eye(6), (count, 1, 1))
        if "velocity" in self._kinds:
            to_body = _rotations(quaternions).inv().as_matrix()
            tangent = self.space.tangent("velocity")
            twist[:, :3] = np.einsum("kij,kj->ki", to_body, means[:, self.space.coordinates("velocity")])
            covariance[:, :3, :3] = to_body @ covariances[:, tangent, tangent] @ to_body.transpose(0, 2, 1)
        return twist, covariance.reshape(count, 36)

    def _odometry(self, stamp_ns: int, values: Vector) -> Any:
        new = self._new
        position, quaternion, covariance, twist, twist_covariance = np.split(values, [3, 7, 43, 49])
        pose = new(
            "geometry_msgs/msg/Pose",
            position=_axes(new, "geometry_msgs/msg/Point", position),
            orientation=_axes(new, "geometry_msgs/msg/Quaternion", quaternion),
        )
        velocity = new(
            "geometry_msgs/msg/Twist",
            linear=_axes(new, "geometry_msgs/msg/Vector3", twist[:3]),
            angular=_axes(new, "geometry_msgs/msg/Vector3", twist[3:]),
        )
        return new(
            "nav_msgs/msg/Odometry",
            header=self._header(stamp_ns, self._frame_id),
            child_frame_id=self._child_frame_id,
            pose=new("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=covariance),
            twist=new("geometry_msgs/msg/TwistWithCovariance", twist=velocity, covariance=twist_covariance),
        )


class _VerticalOdometry:
    """Numbers of odometry of which only z and the velocity along it are known; its axes are the fixed ones.

    A template with four numbers to fill in: at 840 Hz, the general way costs a live node some percent of a processor.
    """

    def __init__(self, space: StateSpace) -> None:
        unknown = (UNKNOWN_VARIANCE * np.eye(6)).ravel()
        self._template = np.concatenate([np.zeros(3), [0.0, 0.0, 0.0, 1.0], unknown, np.zeros(6), unknown])
        self._coordinates = [space.coordinates(name).start for name in (HEIGHT, VERTICAL_VELOCITY)]
        self._rows = [space.tangent(name).start for name in (HEIGHT, VERTICAL_VELOCITY)]

    def __call__(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> Matrix:
        """(K, 85) of means (K, a) and covariances (K, n, n)."""
        values = np.empty((len(means), len(self._template)))
        values[:] = self._template
        z = 2  # among x, y, z
        covariance_start, twist_start = 7, 7 + 36
        values[:, [z, twist_start + z]] = means[:, self._coordinates]
        values[:, [covariance_start + 7 * z, twist_start + 6 + 7 * z]] = covariances[:, self._rows, self._rows]
        return values


class _PlanarOdometry:
    """Numbers of odometry of a pose in the plane, without a velocity; the pose's axes are the fixed ones."""

    def __init__(self, space: StateSpace) -> None:
        constrained = np.diag([0.0, 0.0, CONSTRAINED_VARIANCE, CONSTRAINED_VARIANCE, CONSTRAINED_VARIANCE, 0.0])
        unknown = (UNKNOWN_VARIANCE * np.eye(6)).ravel()
        self._template = np.concatenate([np.zeros(7), constrained.ravel(), np.zeros(6), unknown])
        self._coordinates, self._tangent = space.coordinates("pose"), space.tangent("pose")

    def __call__(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> Matrix:
        """(K, 85) of means (K, a) and covariances (K, n, n)."""
        values = np.empty((len(means), len(self._template)))
        values[:] = self._template
        pose = means[:, self._coordinates]
        heading = pose[:, 2]
        values[:, :2] = pose[:, :2]
        values[:, 5], values[:, 6] = np.sin(0.5 * heading), np.cos(0.5 * heading)
        c, s = np.cos(heading), np.sin(heading)
        body = covariances[:, self._tangent, self._tangent]
        xx, xy, yy, xt, yt = body[:, 0, 0], body[:, 0, 1], body[:, 1, 1], body[:, 0, 2], body[:, 1, 2]
        # Along the body's axes to along the fixed ones, about which the covariance stands row by row from 7 on.
        values[:, 7] = c * c * xx - 2.0 * c * s * xy + s * s * yy
        values[:, 8] = values[:, 13] = c * s * (xx - yy) + (c * c - s * s) * xy
        values[:, 14] = s * s * xx + 2.0 * c * s * xy + c * c * yy
        values[:, 12] = values[:, 37] = c * xt - s * yt
        values[:, 18] = values[:, 38] = s * xt + c * yt
        values[:, 42] = body[:, 2, 2]
        return values


class _PointOdometry:
    """Numbers of odometry of a place without an attitude, in the plane or not; the child's axes are the fixed ones."""

    def __init__(self, space: StateSpace, dimension: int) -> None:
        self._space, self._dimension = space, dimension
        self._moves = any(block.name == "velocity" for block in space.blocks)
        # One in the plane does not leave it, and turns about z only.
        others = [CONSTRAINED_VARIANCE] * 3 + [UNKNOWN_VARIANCE] if dimension == 2 else [UNKNOWN_VARIANCE] * 3
        constrained = np.diag([0.0] * dimension + others)
        self._template = np.concatenate([[0.0] * 6, [1.0], constrained.ravel(), [0.0] * 6, constrained.ravel()])
        if not self._moves:
            self._template[-36:] = (UNKNOWN_VARIANCE * np.eye(6)).ravel()

    def __call__(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> Matrix:
        """(K, 85) of means (K, a) and covariances (K, n, n)."""
        values = np.empty((len(means), len(self._template)))
        values[:] = self._template
        for name, start in (("position", 0), ("velocity", 43)):
            if name == "velocity" and not self._moves:
                continue
            values[:, start : start + self._dimension] = means[:, self._space.coordinates(name)]
            rows = self._space.tangent(name)
            matrix = start + (7 if name == "position" else 6)
            for row in range(self._dimension):
                first = matrix + 6 * row
                values[:, first : first + self._dimension] = covariances[:, rows.start + row, rows]
        return values


def _stddevs(covariances: NDArray[np.float64]) -> NDArray[np.float64]:
    """(K, n) of covariances (K, n, n)."""
    deviations: NDArray[np.float64] = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return deviations


def _axes(new: New, message_type: str, values: Vector) -> Any:
    return new(message_type, **dict(zip("xyzw", values.tolist(), strict=False)))


def coordinate_names(space: StateSpace) -> list[str]:
    """Name of every coordinate of a state, e.g. `pose.x`, as on `state`."""
    return [name for block in space.blocks for name in _coordinate_names(block)]


def _coordinate_names(block: Block) -> list[str]:
    names = ("x", "y", "z", "w") if block.kind == SO3 else block.names
    return [f"{block.name}.{element}" for element in names]


def _rotations(quaternions: NDArray[np.float64]) -> Any:
    """scipy's rotations of quaternions (K, 4) x, y, z, w; imported late, planar robots start faster without."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternions)
