"""Transforms of tf from estimates and from motion capture, without ROS.

    world -> [prefix]map -> [prefix]odom -> [prefix]base_link -> [prefix]link_1 -> [prefix]link_2 -> ...
    world -> [prefix]truth/link_1, [prefix]truth/link_2, ...

A pose is (7,) float64: position (m) and unit quaternion x, y, z, w. Bodies are what `Robot.body_poses` gives: names in
the order of their frames. Each transform has one function here, so that each can have one publisher. `new` makes a
message from its type's name and fields, as for `EstimateMessages`; `prefix` is as `frames.resolved_prefix` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Estimate, Vector
from onboard_estimation.filtering.manifold_kernels import SE2, SO3, rotation_matrix
from onboard_estimation.filtering.planar import HEIGHT, is_vertical, planar_poses, point_dimension
from onboard_estimation.filtering.state_space import StateSpace, se2, so3
from onboard_estimation.ros.sensor_messages import New, axes, header

WORLD, MAP, ODOM, BASE = "world", "map", "odom", "base_link"
TRUTH = "truth/"

_PLANE, _TURNS = StateSpace(se2("pose")), StateSpace(so3("attitude"))

Bodies = Mapping[str, NDArray[np.float64]]


def world_to_map(new: New, stamp_ns: int, values: Sequence[float], prefix: str = "") -> Any:
    """Where the robot's map lies in the world: x, y, z (m), roll, pitch, yaw (rad)."""
    return transform(new, stamp_ns, WORLD, prefix + MAP, from_roll_pitch_yaw(values))


def estimate_transforms(
    space: StateSpace, mean: Vector, odom: Vector, bodies: Bodies, prefix: str = ""
) -> dict[tuple[str, str], Vector]:
    """Pose (7,) by names of parent and child: `map` to `odom`, to `base_link`, to the body that the others hang on.

    Nothing where the state has no pose, and no body where the base is the whole robot.

    Parameters
    ----------
    mean
        (a,) of the estimate, given in `odom`.
    odom
        (3,) x, y (m), heading (rad) of `odom` in `map`.
    bodies
        At the estimate.
    """
    base = base_pose(space, mean)
    if base is None:
        return {}
    poses = {(prefix + MAP, prefix + ODOM): _planar(odom), (prefix + ODOM, prefix + BASE): base}
    if bodies:
        name, (first, *_) = next(iter(bodies.items()))
        poses[prefix + BASE, prefix + name] = relative(base, first)
    return poses


def between_bodies(new: New, stamp_ns: int, bodies: Bodies, prefix: str = "") -> list[Any]:
    """From each body to the next, `link_1` to `link_2` and so on: what `robot_state_publisher` gives where it runs."""
    return [
        transform(new, stamp_ns, prefix + parent, prefix + child, relative(bodies[parent][0], bodies[child][0]))
        for parent, child in pairwise(bodies)
    ]


def truth_to_body(new: New, stamp_ns: int, body: str, pose: Vector, prefix: str = "") -> Any:
    """A body where motion capture has it in the world."""
    return transform(new, stamp_ns, WORLD, f"{prefix}{TRUTH}{body}", pose)


def transform(new: New, stamp_ns: int, parent: str, child: str, pose: ArrayLike) -> Any:
    """`geometry_msgs/msg/TransformStamped` of the frame `child` in `parent`."""
    values = np.asarray(pose, dtype=np.float64).tolist()
    translation, rotation = axes(new, "Vector3", values[:3]), axes(new, "Quaternion", values[3:])
    return new(
        "geometry_msgs/msg/TransformStamped",
        header=header(new, stamp_ns, parent),
        child_frame_id=child,
        transform=new("geometry_msgs/msg/Transform", translation=translation, rotation=rotation),
    )


def base_pose(space: StateSpace, mean: Vector) -> Vector | None:
    """Pose of the base at a state (a,); None without any.

    Upright over the origin of one that has only a height; along the fixed axes of one that has only a place.
    """
    kinds = {block.name: block.kind for block in space.blocks}
    if kinds.get("pose") == SE2:
        return _planar(mean[space.coordinates("pose")])
    if "position" in kinds and kinds.get("attitude") == SO3:
        return np.concatenate([mean[space.coordinates("position")], mean[space.coordinates("attitude")]])
    if is_vertical(space):
        return np.array([0.0, 0.0, mean[space.coordinates(HEIGHT).start], 0.0, 0.0, 0.0, 1.0])
    if dimension := point_dimension(space):
        return np.concatenate([mean[space.coordinates("position")], np.zeros(6 - dimension), [1.0]])
    return None


def _planar(pose: Vector) -> Vector:
    """The pose of x, y (m), heading (rad)."""
    return planar_poses(pose[:2], pose[2])


def from_roll_pitch_yaw(values: Sequence[float]) -> Vector:
    """The pose of x, y, z (m), roll, pitch, yaw (rad): turns about the fixed x, y and z axes, in this order."""
    turn = _TURNS.origin()
    for axis in (2, 1, 0):
        turn = _TURNS.plus(turn, values[3 + axis] * np.eye(3)[axis])
    return np.concatenate([values[:3], turn])


def relative(parent: Vector, child: Vector) -> Vector:
    """Pose of `child` in the frame `parent`, both given in one frame."""
    turn = _TURNS.plus(_TURNS.origin(), _TURNS.minus(child[3:], parent[3:]))
    return np.concatenate([(child[:3] - parent[:3]) @ rotation_matrix(*parent[3:]), turn])


def composed(first: Vector, second: Vector) -> Vector:
    """The pose `second`, given in the frame `first`, in the frame of `first`."""
    turn = _TURNS.plus(first[3:], _TURNS.minus(second[3:], _TURNS.origin()))
    return np.concatenate([first[:3] + rotation_matrix(*first[3:]) @ second[:3], turn])


# Names of a robot's frames, and the transform from `map` to `odom` that takes up what is set from outside.

AUTOMATIC = "auto"


def resolved_prefix(asked: str, namespace: str) -> str:
    """What goes before the names of frames: what was asked for, `auto` meaning the node's namespace; with a slash."""
    prefix = namespace if asked == AUTOMATIC else asked
    prefix = prefix.strip("/")
    return f"{prefix}/" if prefix else ""


class MapToOdom:
    """Planar transform from `map` to `odom`: the identity until a pose is set.

    Parameters
    ----------
    space
        Of the estimates; only those with a planar `pose` can be moved, all others stay.
    """

    def __init__(self, space: StateSpace) -> None:
        planar = any(block.name == "pose" and block.kind == SE2 for block in space.blocks)
        self._pose = space.coordinates("pose") if planar else None
        self.reset()

    def reset(self) -> None:
        """Back to the identity."""
        self.pose: Vector = np.zeros(3)  # x, y (m), heading (rad) of odom in map
        self._last: Vector | None = None  # of the base in odom
        self._waiting = False

    @property
    def can_move(self) -> bool:
        """Whether a pose that is set moves it: a height has no pose in the plane, and is set in `odom` itself."""
        return self._pose is not None

    def take_up_next(self) -> None:
        """The next estimate has jumped: keep the base where it is in `odom`."""
        self._waiting = self._pose is not None and self._last is not None

    def __call__(self, estimate: Estimate) -> Estimate:
        """The estimate in `odom`; its covariance, a body-frame one, stays."""
        if self._pose is None:
            return estimate
        base = estimate.mean[self._pose]
        if self._waiting and self._last is not None:
            self.pose = _PLANE.plus(base, _PLANE.minus(_PLANE.origin(), self._last))
            self._waiting = False
        if not self.pose.any():  # none was ever set
            self._last = base
            return estimate
        mean = estimate.mean.copy()
        mean[self._pose] = self._last = _PLANE.plus(_PLANE.origin(), _PLANE.minus(base, self.pose))
        return replace(estimate, mean=mean)
