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

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Vector
from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.planar import (
    HEIGHT,
    PLANAR,
    VERTICAL_VELOCITY,
    about_vertical,
    is_vertical,
    planar_poses,
    point_dimension,
)
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.ros.measurements import MessageFault, stamp_ns
from onboard_estimation.ros.sensor_messages import New, axes, header, pose

_NAMED = "sensor_msgs/msg/JointState"

_PARAMETERS = ("masses", "inertias")

_Values = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
"""(K, m) numbers of K messages from means (K, a) and covariances (K, n, n)."""

# Of the 85 numbers of odometry.
_POSITION, _QUATERNION, _POSE_COVARIANCE = slice(0, 3), slice(3, 7), slice(7, 43)
_TWIST, _TWIST_COVARIANCE = slice(43, 46), slice(49, 85)

UNKNOWN_VARIANCE = 1e6
"""Of a dimension that is not estimated."""
CONSTRAINED_VARIANCE = 1e-9
"""Of a dimension that the robot cannot move in: z, roll and pitch in the plane."""
_UNKNOWN: Vector = np.full(6, UNKNOWN_VARIANCE)


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
    """

    def __init__(self, space: StateSpace, new: New, frame_id: str = "odom", child_frame_id: str = "base_link") -> None:
        self.space = space
        self._new = new
        self._frame_id = frame_id
        self._child_frame_id = child_frame_id
        self._names: dict[str, list[str]] = {}
        self._values: dict[str, _Values] = {}
        if (odometry := _odometry_of(space)) is not None:
            self._values["odometry"] = odometry
        kinds = {block.name for block in space.blocks}
        if "joint_angles" in kinds:
            self._add("joint_states", list(space.block("joint_angles").names), *_parts(space, "joint_angles"))
        elif "headings" in kinds:
            names = [f"joint_{joint}" for joint in range(1, space.block("headings").dimension)]
            self._add("joint_states", names, *_between_headings(space))
        if kinds >= set(_PARAMETERS):
            names = [name for name in coordinate_names(space) if name.partition(".")[0] in _PARAMETERS]
            self._add("inertial_parameters", names, *_parts(space, *_PARAMETERS))
        rows, columns = np.triu_indices(space.dimension)
        self._names |= {"state": coordinate_names(space), "state_covariance": _pair_names(space)}
        self._values["state"] = lambda means, _: means
        self._values["state_covariance"] = lambda _, covariances: covariances[:, rows, columns]

    def _add(self, topic: str, names: list[str], values: _Values, deviations: _Values) -> None:
        """A topic, and that of its standard deviations."""
        self._names |= {topic: names, f"{topic}_stddev": names}
        self._values |= {topic: values, f"{topic}_stddev": deviations}

    def __call__(self, estimate: Estimate, wanted: Collection[str] | None = None) -> Iterator[Output]:
        """The messages of one estimate, with its stamp; only those for the topics `wanted`, where given."""
        for topic, message_type, values in self.numbers(estimate.mean[None], estimate.covariance[None], wanted):
            yield Output(topic, message_type, self.message(topic, estimate.stamp_ns, values[0]))

    def types(self) -> dict[str, str]:
        """Type of message by topic, of all topics there are for this state space."""
        return {topic: "nav_msgs/msg/Odometry" if topic == "odometry" else _NAMED for topic in self._values}

    def numbers(
        self,
        means: NDArray[np.float64],
        covariances: NDArray[np.float64],
        wanted: Collection[str] | None = None,
    ) -> list[Numbers]:
        """What the messages of K estimates hold, by topic: means (K, a), covariances (K, n, n)."""
        topics = self.types().items()
        chosen = [(topic, kind) for topic, kind in topics if wanted is None or topic in wanted]
        return [Numbers(topic, kind, self._values[topic](means, covariances)) for topic, kind in chosen]

    def message(self, topic: str, stamp_ns: int, values: Vector) -> Any:
        """The message of a topic from its numbers (m,)."""
        if topic == "odometry":
            return self._odometry(stamp_ns, values)
        names = self._names[topic]
        return self._new(_NAMED, header=header(self._new, stamp_ns), name=names, position=np.array(values))

    def _odometry(self, stamp_ns: int, values: Vector) -> Any:
        new = self._new
        placed, covariance, twist, twist_covariance = np.split(values, [7, 43, 49])
        linear, angular = (axes(new, "Vector3", part.tolist()) for part in (twist[:3], twist[3:]))
        velocity = new("geometry_msgs/msg/Twist", linear=linear, angular=angular)
        return new(
            "nav_msgs/msg/Odometry",
            header=header(new, stamp_ns, self._frame_id),
            child_frame_id=self._child_frame_id,
            pose=new("geometry_msgs/msg/PoseWithCovariance", pose=pose(new, placed.tolist()), covariance=covariance),
            twist=new("geometry_msgs/msg/TwistWithCovariance", twist=velocity, covariance=twist_covariance),
        )


def _template(pose_variances: Sequence[float] | Vector, twist_variances: Sequence[float] | Vector) -> Vector:
    """(85,) numbers of odometry at the origin, of these variances along x, y, z and about them."""
    poses, twists = np.diag(pose_variances).ravel(), np.diag(twist_variances).ravel()
    return np.concatenate([np.zeros(6), [1.0], poses, np.zeros(6), twists])


_IN_THE_PLANE = _template([0.0, 0.0, *3 * [CONSTRAINED_VARIANCE], 0.0], _UNKNOWN)


def _planar_odometry(space: StateSpace, means: Matrix, covariances: NDArray[np.float64]) -> Matrix:
    """Numbers (K, 85) of odometry of a pose in the plane, without a velocity; the pose's axes are the fixed ones."""
    pose, tangent = means[:, space.coordinates("pose")], space.tangent("pose")
    values = _IN_THE_PLANE[None].repeat(len(means), axis=0)
    values[:, :7] = planar_poses(pose[:, :2], pose[:, 2])
    turn = about_vertical(pose[:, 2])
    # Along the body's axes to along the fixed ones.
    turned = turn @ covariances[:, tangent, tangent] @ turn.transpose(0, 2, 1)
    values[:, _POSE_COVARIANCE].reshape(-1, 6, 6)[:, PLANAR[:, None], PLANAR] = turned
    return values


def _parts(space: StateSpace, *names: str) -> tuple[_Values, _Values]:
    """What gives the coordinates of some blocks, and their standard deviations."""
    at = np.concatenate([np.r_[space.coordinates(name)] for name in names])
    tangent = np.concatenate([np.r_[space.tangent(name)] for name in names])
    return lambda means, _: means[:, at], lambda _, covariances: np.sqrt(covariances[:, tangent, tangent])


def _between_headings(space: StateSpace) -> tuple[_Values, _Values]:
    """What gives the angles between links of these headings, and their standard deviations."""
    at, rows = space.coordinates("headings"), space.tangent("headings")

    def angles(means: NDArray[np.float64], _: NDArray[np.float64]) -> NDArray[np.float64]:
        turned = np.diff(means[:, at], axis=1)
        return np.arctan2(np.sin(turned), np.cos(turned))

    def deviations(_: NDArray[np.float64], covariances: NDArray[np.float64]) -> NDArray[np.float64]:
        headings = covariances[:, rows, rows]
        variances = np.diagonal(headings, axis1=1, axis2=2)
        shared = np.diagonal(headings, offset=1, axis1=1, axis2=2)
        return np.sqrt(np.maximum(variances[:, 1:] + variances[:, :-1] - 2.0 * shared, 0.0))

    return angles, deviations


def _odometry_of(space: StateSpace) -> _Values | None:
    """What gives the numbers of odometry (K, 85); None of a state without a place."""
    kinds = {block.name: block.kind for block in space.blocks}
    if is_vertical(space):
        return _AxisOdometry(space, HEIGHT, VERTICAL_VELOCITY, slice(2, 3))
    if dimension := point_dimension(space):
        return _AxisOdometry(space, "position", "velocity", slice(0, dimension))
    if kinds.get("pose") == SE2:
        return partial(_planar_odometry, space)
    return partial(_spatial_odometry, space) if "position" in kinds and kinds.get("attitude") == SO3 else None


def _spatial_odometry(space: StateSpace, means: Matrix, covariances: NDArray[np.float64]) -> Matrix:
    """Numbers (K, 85) of odometry of a body in space, its twist in the child frame; zero and unknown without it."""
    from scipy.spatial.transform import Rotation  # late: planar robots start faster without

    rotations = Rotation.from_quat(means[:, space.coordinates("attitude")])
    values = np.zeros((len(means), 85))
    values[:, _POSITION] = means[:, space.coordinates("position")]
    values[:, _QUATERNION] = means[:, space.coordinates("attitude")]
    values[:, _TWIST_COVARIANCE] = (UNKNOWN_VARIANCE * np.eye(6)).ravel()
    rows = np.r_[space.tangent("position"), space.tangent("attitude")]
    # The attitude's error is in the body frame, the message's along the fixed axes.
    turn = np.tile(np.eye(6), (len(means), 1, 1))
    turn[:, 3:, 3:] = rotations.as_matrix()
    turned = turn @ covariances[:, rows[:, None], rows] @ turn.transpose(0, 2, 1)
    values[:, _POSE_COVARIANCE] = turned.reshape(-1, 36)
    if any(block.name == "velocity" for block in space.blocks):
        to_body, tangent = rotations.inv().as_matrix(), space.tangent("velocity")
        values[:, _TWIST] = np.einsum("kij,kj->ki", to_body, means[:, space.coordinates("velocity")])
        in_body = to_body @ covariances[:, tangent, tangent] @ to_body.transpose(0, 2, 1)
        values[:, _TWIST_COVARIANCE].reshape(-1, 6, 6)[:, :3, :3] = in_body
    return values


class _AxisOdometry:
    """Numbers of odometry of what is estimated along some of the fixed axes: a height, or a place without an attitude.

    A template with few numbers to fill in: at 840 Hz, the general way costs a live node some percent of a processor.

    Parameters
    ----------
    position, velocity
        Names of the state's parts; without the second, velocities are unknown.
    axes
        Which of x, y, z they are.
    """

    def __init__(self, space: StateSpace, position: str, velocity: str, axes: slice) -> None:
        variances = _UNKNOWN.copy()
        if axes == slice(0, 2):  # one in the plane does not leave it, and turns about z only
            variances[2:5] = CONSTRAINED_VARIANCE
        variances[axes] = 0.0
        moves = any(block.name == velocity for block in space.blocks)
        self._template = _template(variances, variances if moves else _UNKNOWN)
        self._parts = [(space.coordinates(position), space.tangent(position), _POSITION, _POSE_COVARIANCE)]
        if moves:
            self._parts.append((space.coordinates(velocity), space.tangent(velocity), _TWIST, _TWIST_COVARIANCE))
        self._axes = axes

    def __call__(self, means: NDArray[np.float64], covariances: NDArray[np.float64]) -> Matrix:
        """(K, 85) of means (K, a) and covariances (K, n, n)."""
        values = self._template[None].repeat(len(means), axis=0)
        for coordinates, tangent, numbers, matrix in self._parts:
            values[:, numbers][:, self._axes] = means[:, coordinates]
            values[:, matrix].reshape(-1, 6, 6)[:, self._axes, self._axes] = covariances[:, tangent, tangent]
        return values


def coordinate_names(space: StateSpace) -> list[str]:
    """Name of every coordinate of a state, e.g. `pose.x`, as on `state`."""
    elements = {block.name: ("x", "y", "z", "w") if block.kind == SO3 else block.names for block in space.blocks}
    return [f"{block}.{element}" for block, names in elements.items() for element in names]


def _pair_names(space: StateSpace) -> list[str]:
    """Of the upper triangle of a covariance, as on `state_covariance`."""
    return [f"{space.names[i]}:{space.names[j]}" for i, j in zip(*np.triu_indices(space.dimension), strict=True)]


class EstimateReader:
    """`EstimateMessages` inverted: estimates from `state` and `state_covariance`, whichever comes first.

    A message may hold more than is wanted, as that of a filter that also estimates biases: then numbers are taken by
    their names. Of several estimates with one stamp (three gyros at once) the last pair counts.

    Parameters
    ----------
    space
        State space of the estimates; messages with fewer elements are refused.
    """

    def __init__(self, space: StateSpace) -> None:
        self._space = space
        self._triangle = np.triu_indices(space.dimension)
        self._names, self._pairs = coordinate_names(space), _pair_names(space)
        self._mean: tuple[int, Vector] | None = None
        self._covariance: tuple[int, Matrix] | None = None

    def take_state(self, message: Any) -> Estimate | None:
        """Take a message of `state`; the estimate, once there is its covariance. Raises MessageFault."""
        self._mean = stamp_ns(message), _numbers(message, self._names)
        return self._together()

    def take_covariance(self, message: Any) -> Estimate | None:
        """Take a message of `state_covariance`; the estimate, once there is its mean. Raises MessageFault."""
        rows, columns = self._triangle
        values = _numbers(message, self._pairs)
        covariance = np.zeros((self._space.dimension, self._space.dimension))
        covariance[rows, columns] = covariance[columns, rows] = values
        self._covariance = stamp_ns(message), covariance
        return self._together()

    def _together(self) -> Estimate | None:
        if self._mean is None or self._covariance is None or self._mean[0] != self._covariance[0]:
            return None
        return Estimate(self._mean[0], self._mean[1], self._covariance[1])


def _numbers(message: Any, names: list[str]) -> Vector:
    values = np.array(message.position, dtype=np.float64)
    if len(values) > len(names) and len(message.name) == len(values):
        place = {name: k for k, name in enumerate(message.name)}
        if all(name in place for name in names):
            values = values[[place[name] for name in names]]
    if values.shape != (len(names),) or not np.isfinite(values).all():
        raise MessageFault(f"has {values.size} numbers, or some that are not finite; {len(names)} are needed")
    return values
