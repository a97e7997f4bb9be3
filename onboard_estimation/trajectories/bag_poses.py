"""Poses on topics of a bag: as a trajectory to be judged, or as the truth that one is judged against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from onboard_estimation.bags.bag import Bag
from onboard_estimation.bags.other_poses import unread_poses
from onboard_estimation.bags.topics import TRANSFORM, TRUTH, is_frame, listed, nearest_name
from onboard_estimation.bags.transform_trees import read_topics
from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import Channel
from onboard_estimation.contract.tracks import clock_parts
from onboard_estimation.inspection.inspect import is_truth
from onboard_estimation.inspection.report import TopicReport
from onboard_estimation.trajectories.trajectory import Trajectory, cleaned

POSE_TYPES = (
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
    "geometry_msgs/msg/PoseStamped",
    "geometry_msgs/msg/TransformStamped",
    "geometry_msgs/msg/PointStamped",
)
"""Types of messages that a trajectory may be made of; the first two with a covariance."""
_WITH_COVARIANCE = POSE_TYPES[:2]


def topic_trajectory(bag: Bag, topic: str) -> Trajectory:
    """The poses on a topic of a bag.

    Raises
    ------
    UserError
        There is no such topic, or its type is none of `POSE_TYPES`; says what there is.
    """
    name = topic if topic in bag.types or topic.startswith("/") else f"/{topic}"
    kind = _pose_type(bag, name)
    there = [f"--trajectory {printable(one)}" for one in pose_topics(bag) if not is_truth(bag, one)]
    if kind not in POSE_TYPES:
        what = f"is {kind}, which is not read as poses" if kind else "is no topic of the bag that holds poses"
        others = f"these do: {', '.join(there[:20])}" if there else f"none of its topics does: {_all_topics(bag)}"
        raise UserError(f"--trajectory {topic} {what}; {others}")
    return _poses(bag, name, kind)


def _poses(bag: Bag, topic: str, kind: str) -> Trajectory:
    """The poses on a topic of that type; UserError where there is none."""
    column, name = read_topics(bag, {topic: Channel(topic, kind, topic)})[topic], printable(topic)
    parts = clock_parts(column.stamps_ns, np.zeros(len(column.stamps_ns), dtype=np.int64), longest_gap_s=np.inf)
    kept, several = slice(*parts.longest()), len(parts.starts) > 1
    values = column.values[:, : 3 if column.values.shape[1] == 3 else 7]
    covariances = column.values[kept, 7:].reshape(-1, 6, 6) if column.values.shape[1] == 43 else None
    lost = [f"{name}: its clock jumps back: the longest of {len(parts.starts)} parts is taken."] if several else []
    one = cleaned(name, column.stamps_ns[kept], values[kept], covariances)
    return replace(one, notes=(*column.notes(name), *lost, *one.notes))


def pose_topics(bag: Bag) -> list[str]:
    """Topics that hold poses, and frames of transforms."""
    empty = {name for name, topic in bag.topics.items() if not topic.count}
    return [name for name, kind in bag.types.items() if kind in POSE_TYPES and name not in empty]


def _pose_type(bag: Bag, topic: str) -> str:
    """Type of a topic, or of the poses of a frame; empty where there is neither."""
    return bag.types.get(topic) or (TRANSFORM if is_frame(topic, bag.topics) else "")


def _all_topics(bag: Bag) -> str:
    """All of them, and which of them look like poses."""
    return f"{listed(list(bag.topics))}. {unread_poses(bag)}".rstrip(". ")


def foreign_topics(topics: Iterable[TopicReport]) -> list[str]:
    """Of the topics that `inspect` found, those on which a filter published poses with how sure it is of them."""
    return [one.name for one in topics if one.message_type in _WITH_COVARIANCE and one.count]


def body_truth(bag: Bag, body: str | None, topics: Mapping[str, str], judged: str | None) -> Trajectory:
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
    named = {_body(name): name for name in candidates if is_truth(bag, name)}
    bodies = ", ".join(f"--body {one}" for one in named) or "none"
    offers = ", ".join(f"--topic {TRUTH}={printable(name)}" for name in candidates) or "none"
    if (topic := topics.get(TRUTH)) is not None:
        if topic not in candidates and not is_frame(topic, bag.topics):
            raise UserError(f"--topic {TRUTH}={topic}: that is no other topic with poses; there are {offers}")
        return _tracked(bag, topic, topic)
    if body is not None and body not in named:
        nearest = f", the nearest is --body {nearest_name(body, named)}" if named else ""
        raise UserError(f"--body {body}: {bag.path} has no ground truth of it; it has {bodies}{nearest}")
    if body is None and len(named) > 1:
        raise UserError(f"{bag.path} has the ground truth of {len(named)} bodies; choose: {bodies}")
    if named:
        name = body or next(iter(named))
        return _tracked(bag, name, named[name])
    if judged is None and len(candidates) == 1:
        found = _tracked(bag, candidates[0], candidates[0])
        note = f"Truth: {printable(candidates[0])}, the only topic of {bag.path.name} that holds poses."
        return replace(found, notes=(note, *found.notes))
    raise UserError(
        f"{bag.path} has no topic {TRUTH}/BODY/pose; of its topics that hold poses choose: {offers}"
        + ("" if candidates else f"; its topics are {_all_topics(bag)}")
    )


def _body(topic: str) -> str:
    parts = topic.split("/")
    return "/".join(parts[parts.index(TRUTH) + 1 : -1]) or parts[-1]


def _tracked(bag: Bag, name: str, topic: str) -> Trajectory:
    # A truth that happens to lie in a plane is none of a plane.
    return replace(_poses(bag, topic, _pose_type(bag, topic)), name=printable(name), planar=False)
