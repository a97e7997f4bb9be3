"""Poses in a bag that no name tells to be the truth: those that may be, and those in a form that is not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rosbags.interfaces import Nodetype
from rosbags.typesys.store import Typestore

from onboard_estimation.bags.bag import Bag
from onboard_estimation.bags.topics import TREE_TYPES, truth_channels
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.ros.measurements import value_types

_POSES = {f"geometry_msgs/msg/{name}" for name in ("Pose", "Pose2D", "Transform")}
_NAMED_POSES = re.compile(r"(?!trajectory_msgs).*(Pose|Position|Odometry|RigidBod|Mocap|MoCap|Vicon|Motion)")
_MAPS = re.compile(r"(nav|map|octomap|grid_map)_msgs/msg/(?!Path|Odometry).*")
_SHOWN = 8


def possible_truth(bag: Bag) -> str:
    """A sentence with the options that take a topic, or a frame of transforms, for the truth of a body; or empty."""
    found = [
        f"--topic {one.topic}={printable(topic)}"
        for topic, kind in bag.types.items()
        if topic not in bag.topics or bag.topics[topic].count
        for one in truth_channels("BODY")
        if one.message_type == kind
    ]
    return f"No ground truth by its name; poses that may be it: {first_of(found, _SHOWN)}." if found else ""


def unread_poses(bag: Bag) -> str:
    """A sentence that names the topics which look like poses and cannot be read as such; or empty."""
    found = [
        f"{printable(name)} ({topic.message_type}, {why})"
        for name, topic in bag.topics.items()
        if topic.count and (why := _why(bag, name))
    ]
    if not found:
        return ""
    said = first_of(found, _SHOWN, "; ", "; and {} more")
    return (
        f"Poses that cannot be read as they are: {said}. Publish those of the body alone, with the stamps of their "
        "measurement, as geometry_msgs/msg/PoseStamped, TransformStamped or on /tf."
    )


def _why(bag: Bag, topic: str) -> str:
    """Why the poses on a topic cannot be read; empty where they can, or where it holds none."""
    kind = bag.topics[topic].message_type
    if kind in (*value_types(), *TREE_TYPES) or _MAPS.fullmatch(kind):
        return ""
    store = bag.store(topic)
    if isinstance(store, UserError):
        return "a type that the bag does not define" if _NAMED_POSES.match(kind) else ""
    holding = [in_list for name, in_list in _held(store, kind) if name in _POSES]
    if holding and all(holding):
        return "several in a message"
    if not holding and not _NAMED_POSES.match(kind):
        return ""
    return "a type of its own" if bag.has_header(topic) else "without a stamp"


def _held(store: Typestore, message_type: str, in_list: bool = False) -> Iterator[tuple[str, bool]]:
    """A type and those of all messages within its own, and whether they stand in a list."""
    yield message_type, in_list
    fields: Any = store.fielddefs[message_type][1]
    for _, (kind, content) in fields:
        in_row = kind in {Nodetype.ARRAY, Nodetype.SEQUENCE}
        inner, name = content[0] if in_row else (kind, content)
        if inner == Nodetype.NAME:
            yield from _held(store, name, in_list or in_row)
