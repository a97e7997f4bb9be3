"""Poses that somebody else's filter made: cleaned, as a record that can be judged as our own, and what is their truth.

A state is a planar `pose`, a `position` with an `attitude`, or a `position` alone, as for our robots, so that figures
have the same names. Covariances come as messages have them, along the fixed axes of the frame of the poses, and are
taken into the tangent space of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.bags.bag import Bag
from onboard_estimation.bags.bulk import Column, read_channels
from onboard_estimation.bags.topics import TRUTH, listed, nearest_name
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import POSE, Channel
from onboard_estimation.contract.tracks import BodyTrack, clock_parts
from onboard_estimation.filtering.planar import planar_pose
from onboard_estimation.filtering.state_space import StateSpace, se2, so3, vector
from onboard_estimation.inspection.inspect import is_truth
from onboard_estimation.inspection.report import TopicReport
from onboard_estimation.judging.replay import EstimateSeries
from onboard_estimation.ros.estimates import UNKNOWN_VARIANCE
from onboard_estimation.ros.measurements import UNIT_TOLERANCE

Rows = NDArray[np.float64]
Kind = Literal["planar", "pose", "position", "planar position"]

SPACES = {
    "planar": StateSpace(se2("pose")),
    "pose": StateSpace(vector("position", ("x", "y", "z"), "m"), so3("attitude")),
    "position": StateSpace(vector("position", ("x", "y", "z"), "m")),
    "planar position": StateSpace(vector("position", ("x", "y"), "m")),
}
_IN_PLANE = 1e-6
_SYMMETRIC = 1e-6
_YAW = 5

POSE_TYPES = (
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/PointStamped",
)
"""Types of messages that a trajectory may be made of; the first two with a covariance."""
_WITH_COVARIANCE = POSE_TYPES[:2]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses over time.

    Attributes
    ----------
    name
        File or topic.
    stamps_ns
        (K,) int64, strictly increasing.
    poses
        (K, 7) position and unit quaternion x, y, z, w, from the body to the frame of the positions.
    covariances
        (K, 6, 6) of x, y, z and rotations about the fixed axes; NaN where nothing is said. None: nowhere.
    turns
        There are orientations; else all quaternions are one.
    planar
        It lies in a plane z = constant, turned about the vertical only.
    notes
        What was left out of it, one sentence each.
    left_out
        How many poses that was.
    """

    name: str
    stamps_ns: NDArray[np.int64]
    poses: Rows
    covariances: Rows | None
    turns: bool
    planar: bool
    notes: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def kept_ratio(self) -> float:
        """Share of the poses that were read."""
        return len(self.stamps_ns) / (len(self.stamps_ns) + self.left_out)


def cleaned(
    name: str,
    stamps_ns: NDArray[np.int64],
    values: Rows,
    covariances: Rows | None,
    lines: NDArray[np.int64] | None = None,
    planar: bool = False,
) -> Trajectory:
    """Trajectory of poses (K, 7) or positions (K, 3) in any order.

    Parameters
    ----------
    lines
        (K,) line of each in its file, for the notes.
    planar
        Heights are not known.

    Raises
    ------
    UserError
        Nothing is left.
    """
    notes = []
    turns = values.shape[1] == 7
    rows = np.arange(len(stamps_ns))

    def leave_out(which: ArrayLike, why: str) -> None:
        nonlocal rows
        bad = np.asarray(which, dtype=np.bool_)
        if bad.any():
            where = f" (the first in line {lines[rows[bad][0]]})" if lines is not None else ""
            notes.append(f"{name}: {np.count_nonzero(bad)} of {len(stamps_ns)} poses left out, {why}{where}.")
            rows = rows[~bad]

    leave_out(~np.isfinite(values[rows]).all(axis=1), "not finite")
    if turns:
        leave_out(np.abs(np.sum(values[rows, 3:] ** 2, axis=1) - 1.0) > UNIT_TOLERANCE, "no unit quaternion")
    back = np.flatnonzero(np.diff(stamps_ns[rows]) < 0)
    if len(back):
        where = f", first in line {lines[rows[back[0] + 1]]}" if lines is not None else ""
        notes.append(f"{name}: sorted by stamps, which go back {len(back)} times{where}.")
        rows = rows[np.argsort(stamps_ns[rows], kind="stable")]
    leave_out(np.append(np.diff(stamps_ns[rows]) == 0, False)[: len(rows)], "their stamps repeat, the last one counts")
    if not len(rows):
        raise UserError(f"{name} has no pose that can be used{': ' if notes else ''}{' '.join(notes).rstrip('.')}")
    poses = np.zeros((len(rows), 7))
    poses[:, 6] = 1.0
    poses[:, : values.shape[1]] = values[rows]
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1)[:, None]
    chosen = None if covariances is None else covariances[rows]
    if turns and chosen is not None and np.all(np.diagonal(chosen[:, 3:, 3:], axis1=1, axis2=2) >= UNKNOWN_VARIANCE):
        notes.append(f"{name}: all rotations have a variance of {UNKNOWN_VARIANCE:g} or more, not estimated.")
        turns, poses[:, 3:] = False, [0.0, 0.0, 0.0, 1.0]
    flat = np.ptp(poses[:, 2]) <= _IN_PLANE and np.abs(poses[:, 3:5]).max() <= _IN_PLANE
    planar = planar or bool(flat and len(rows) > 1)
    left_out = len(stamps_ns) - len(rows)
    return Trajectory(name, stamps_ns[rows], poses, chosen, turns, planar, tuple(notes), left_out)


def as_record(trajectory: Trajectory, kind: Kind) -> tuple[StateSpace, EstimateSeries, list[str]]:
    """What is compared of a trajectory, and sentences on its covariances; where there is none they are NaN."""
    space, poses = SPACES[kind], trajectory.poses
    means = _coordinates(kind, poses)
    size = space.dimension
    if trajectory.covariances is None:
        nothing = np.full((len(poses), size, size), np.nan)
        said = (
            f"{trajectory.name} has no covariance: its errors are judged, and not how sure it is of itself (no NEES)."
        )
        return space, EstimateSeries(trajectory.stamps_ns, means, nothing), [said]
    axes = [0, 1, _YAW] if kind == "planar" else list(range(size))
    fixed = trajectory.covariances[:, axes][:, :, axes]
    covariances, notes = _usable(trajectory.name, space, fixed)
    turn = np.tile(np.eye(size), (len(poses), 1, 1))
    if kind == "planar":  # the error is a twist in the body's frame
        heading = means[:, 2]
        cosine, sine = np.cos(heading), np.sin(heading)
        turn[:, 0, 0], turn[:, 0, 1], turn[:, 1, 0], turn[:, 1, 1] = cosine, sine, -sine, cosine
    elif kind == "pose":
        turn[:, 3:, 3:] = Rotation.from_quat(poses[:, POSE.orientation]).inv().as_matrix()
    known = np.isfinite(covariances)
    turned = turn @ np.where(known, covariances, 0.0) @ turn.transpose(0, 2, 1)
    return space, EstimateSeries(trajectory.stamps_ns, means, np.where(known, turned, np.nan)), notes


def _usable(name: str, space: StateSpace, covariances: Rows) -> tuple[Rows, list[str]]:
    """Covariances (K, n, n), by block NaN where they are none, and what the reader must know of them."""
    out = np.full_like(covariances, np.nan)
    notes = []
    for block in space.blocks:
        rows = space.tangent(block.name)
        values = covariances[:, rows, rows]
        finite = np.asarray(np.isfinite(values).all(axis=(1, 2)), dtype=np.bool_)
        zero = finite & ~np.any(values, axis=(1, 2))
        sound = finite & _definite(np.where(finite[:, None, None], values, 0.0))
        out[sound, rows, rows] = values[sound]
        words = block.name
        if zero.any():
            notes.append(f"{name}: the covariance of the {words} is all zero in {_share(zero)}: taken as not known.")
        if (wrong := finite & ~zero & ~sound).any():
            notes.append(
                f"{name}: the covariance of the {words} is not symmetric and positive definite in {_share(wrong)}: "
                "taken as not known."
            )
        if (absent := ~finite).any():
            notes.append(f"{name}: there is no covariance of the {words} in {_share(absent)}.")
        if sound.sum() > 1 and not np.ptp(values[sound], axis=0).any():
            notes.append(f"{name}: the covariance of the {words} never changes: it is a setting, no estimate.")
        if not sound.any():
            notes.append(f"Without a covariance of the {words} there is no NEES and no coverage of it.")
    if len(space.blocks) > 1:  # cross-covariances only where both of their blocks are known
        known = np.asarray(np.isfinite(np.diagonal(out, axis1=1, axis2=2)).all(axis=1), dtype=np.bool_)
        whole = np.asarray(known & _definite(np.nan_to_num(covariances)), dtype=np.bool_)
        out[whole] = covariances[whole]
    return out, notes


def _share(where: NDArray[np.bool_]) -> str:
    return f"{np.count_nonzero(where)} of {len(where)} poses"


def _definite(values: Rows) -> NDArray[np.bool_]:
    """(K,) which of the matrices (K, n, n) are symmetric and positive definite, whatever their units."""
    deviations = np.sqrt(np.maximum(np.diagonal(values, axis1=1, axis2=2), 0.0))
    positive = np.asarray((deviations > 0.0).all(axis=1), dtype=np.bool_)
    scale = np.where(positive[:, None], deviations, 1.0)
    scaled = values / (scale[:, :, None] * scale[:, None, :])
    symmetric = np.abs(scaled - scaled.transpose(0, 2, 1)).max(axis=(1, 2)) <= _SYMMETRIC
    least = np.linalg.eigvalsh(0.5 * (scaled + scaled.transpose(0, 2, 1)))[:, 0]
    return positive & symmetric & (least > values.shape[1] * np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class TrackedTruth:
    """A body's track, whether heights are unknown, and what the reader must know of it."""

    track: BodyTrack
    planar: bool = False
    notes: tuple[str, ...] = ()

    def kind(self, trajectory: Trajectory) -> Kind:
        """What both it and a trajectory tell."""
        turns = trajectory.turns and self.track.values.shape[1] == 7
        if trajectory.planar or self.planar:
            return "planar" if turns else "planar position"
        return "pose" if turns else "position"


def topic_trajectory(bag: Bag, topic: str) -> Trajectory:
    """The poses on a topic of a bag.

    Raises
    ------
    UserError
        There is no such topic, or its type is none of `POSE_TYPES`; says what there is.
    """
    found = bag.topics.get(topic) or bag.topics.get(f"/{topic}")
    there = [f"--trajectory {printable(one)}" for one in pose_topics(bag) if not is_truth(bag.topics[one])]
    if found is None or found.message_type not in POSE_TYPES:
        what = "is no topic of the bag that holds poses"
        if found is not None:
            what = f"is {found.message_type}, which holds no pose with a stamp"
        others = (
            f"these do: {', '.join(there[:20])}" if there else f"none of its topics does: {listed(list(bag.topics))}"
        )
        raise UserError(f"--trajectory {topic} {what}; {others}")
    column = _column(bag, found.name, found.message_type)
    values = column.values[:, : 3 if column.values.shape[1] == 3 else 7]
    kept, notes = _longest(column)
    covariances = column.values[kept, 7:].reshape(-1, 6, 6) if column.values.shape[1] == 43 else None
    one = cleaned(printable(found.name), column.stamps_ns[kept], values[kept], covariances)
    return replace(one, notes=(*column.notes(printable(found.name)), *notes, *one.notes))


def pose_topics(bag: Bag) -> list[str]:
    """Topics that hold poses."""
    return [name for name, topic in bag.topics.items() if topic.message_type in POSE_TYPES and topic.count]


def foreign_topics(topics: Iterable[TopicReport]) -> list[str]:
    """Of the topics that `inspect` found, those on which a filter published poses with how sure it is of them."""
    return [one.name for one in topics if one.message_type in _WITH_COVARIANCE and one.count]


def body_truth(bag: Bag, body: str | None, topics: Mapping[str, str], judged: str | None) -> TrackedTruth:
    """The ground truth of the one body that is there or asked for.

    Parameters
    ----------
    topics
        What the user says: `ground_truth` to a topic of the bag.
    judged
        The topic of the same bag that is judged; None: it comes from elsewhere.

    Raises
    ------
    UserError
        None is there, or several: says which, as options to be pasted.
    """
    if others := [name for name in topics if name != TRUTH]:
        raise UserError(
            f"--topic {others[0]}=...: of a trajectory only {TRUTH}=TOPIC can be given, or name its --robot"
        )
    candidates = [name for name in pose_topics(bag) if name.lstrip("/") != (judged or "").lstrip("/")]
    named = {_body(name): name for name in candidates if is_truth(bag.topics[name])}
    bodies = ", ".join(f"--body {one}" for one in named) or "none"
    offers = ", ".join(f"--topic {TRUTH}={printable(name)}" for name in candidates) or "none"
    if (topic := topics.get(TRUTH)) is not None:
        if topic not in candidates:
            raise UserError(f"--topic {TRUTH}={topic}: that is no other topic with poses; there are {offers}")
        return _tracked(bag, topic, topic)
    if body is not None:
        if body not in named:
            nearest = f", the nearest is --body {nearest_name(body, named)}" if named else ""
            raise UserError(f"--body {body}: {bag.path} has no ground truth of it; it has {bodies}{nearest}")
        return _tracked(bag, body, named[body])
    if len(named) == 1:
        ((name, topic),) = named.items()
        return _tracked(bag, name, topic)
    if named:
        raise UserError(f"{bag.path} has the ground truth of {len(named)} bodies; choose: {bodies}")
    if judged is None and len(candidates) == 1:
        found = _tracked(bag, candidates[0], candidates[0])
        note = f"Truth: {printable(candidates[0])}, the only topic of {bag.path.name} that holds poses."
        return TrackedTruth(found.track, found.planar, (note, *found.notes))
    raise UserError(
        f"{bag.path} has no topic {TRUTH}/BODY/pose; of its topics that hold poses choose: {offers}"
        + ("" if candidates else f"; its topics are {listed(list(bag.topics))}")
    )


def file_truth(trajectory: Trajectory) -> TrackedTruth:
    """A trajectory taken as the truth."""
    values = trajectory.poses if trajectory.turns else trajectory.poses[:, :3]
    return TrackedTruth(BodyTrack(trajectory.name, trajectory.stamps_ns, values), trajectory.planar, trajectory.notes)


def true_parts(kind: Kind, values: Rows) -> dict[str, Rows]:
    """Parts of the state by name from poses (K, 7) or positions (K, 3)."""
    space, state = SPACES[kind], _coordinates(kind, values)
    return {block.name: state[:, space.coordinates(block.name)] for block in space.blocks}


def _coordinates(kind: Kind, values: Rows) -> Rows:
    """(K, a) in the state space of that kind, from poses (K, 7) or positions (K, 3)."""
    return planar_pose(values) if kind == "planar" else values[:, : SPACES[kind].coordinate_count]


def kind_of_parts(robot: str, parts: Iterable[str], dimensions: int, trajectory: Trajectory) -> Kind:
    """What a robot's truth tells of a trajectory; `dimensions` are those of its position.

    Raises
    ------
    UserError
        It has neither a pose nor a position, or a pose and the trajectory no orientation.
    """
    names = set(parts)
    if "pose" in names:
        if not trajectory.turns:
            raise UserError(f"{trajectory.name} holds positions alone; the truth of --robot {robot} is a pose")
        return "planar"
    if "position" in names:
        if dimensions == 2:
            return "planar position"
        return "pose" if "attitude" in names and trajectory.turns else "position"
    what = ", ".join(names) or "nothing"
    raise UserError(f"the truth of --robot {robot} tells {what}: no pose or position to compare with; name a --body")


def _body(topic: str) -> str:
    parts = topic.split("/")
    return "/".join(parts[parts.index(TRUTH) + 1 : -1]) or parts[-1]


def _column(bag: Bag, topic: str, message_type: str) -> Column:
    return read_channels(bag, {topic: Channel(topic, message_type, topic)})[topic]


def _longest(column: Column) -> tuple[slice, list[str]]:
    """The longest part of a clock that jumps back, and a sentence on what is lost."""
    parts = clock_parts(column.stamps_ns, np.zeros(len(column.stamps_ns), dtype=np.int64), longest_gap_s=np.inf)
    if len(parts.starts) < 2:
        return slice(None), []
    start, stop = parts.longest()
    return slice(start, stop), [f"The clock jumps back: the longest of {len(parts.starts)} parts is judged."]


def _tracked(bag: Bag, name: str, topic: str) -> TrackedTruth:
    column = _column(bag, topic, bag.topics[topic].message_type)
    track = BodyTrack.clean(printable(name), column.stamps_ns, column.values[:, :7])
    notes = tuple(column.notes(printable(topic)))
    if not len(track.stamps_ns):
        why = f" ({' '.join(notes)})" if notes else ""
        raise UserError(f"none of the {bag.topics[topic].count} messages on {printable(topic)} is a pose{why}")
    return TrackedTruth(track, notes=notes)


def is_trajectory_file(path: Path) -> bool:
    """Whether a path is a trajectory file rather than a bag."""
    return path.is_file() and path.suffix.lower() not in (".mcap", ".db3", ".bag", ".zstd")
