"""Which topics of a bag belong to a robot: found by their relative names, under whatever namespace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onboard_estimation.errors import UserError
from onboard_estimation.measurement import Channel
from onboard_estimation.robots import Robot

POSE = "geometry_msgs/msg/PoseStamped"
POINT = "geometry_msgs/msg/PointStamped"


@dataclass(frozen=True)
class TopicMatch:
    """A robot's channels in a bag.

    Attributes
    ----------
    namespace
        What stands before the relative names, e.g. `/salp`.
    channels
        Channel of each topic found.
    truth
        Channel of each ground-truth topic found; its sensor is the body's name.
    missing
        Channels that were not found, required or not.
    missing_bodies
        Bodies without ground truth.
    """

    namespace: str
    channels: Mapping[str, Channel]
    truth: Mapping[str, Channel]
    missing: tuple[Channel, ...]
    missing_bodies: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """All required channels are there."""
        return not any(channel.required for channel in self.missing)


def truth_channels(body: str) -> tuple[Channel, Channel]:
    """Topics that may hold a body's ground truth: with orientation or without."""
    return (
        Channel(f"ground_truth/{body}/pose", POSE, body, required=False),
        Channel(f"ground_truth/{body}/position", POINT, body, required=False),
    )


def match_topics(
    robot: Robot, configuration: Any, topics: Iterable[str], renamed: Mapping[str, str] | None = None
) -> TopicMatch:
    """The namespace in which most of the robot's topics are found, and what is found there.

    Parameters
    ----------
    renamed
        Relative name to a topic of the bag, where names differ.
    """
    topics = list(topics)
    renamed = dict(renamed or {})
    for relative, topic in renamed.items():
        if topic not in topics:
            raise UserError(f"--topic {relative}={topic}: the bag has no {topic}; it has {', '.join(topics)}")
    bodies = robot.truth_specification(configuration).bodies
    channels = robot.channels(configuration)
    wanted = [channel.topic for channel in channels]
    wanted += [channel.topic for body in bodies for channel in truth_channels(body)]
    unknown = [relative for relative in renamed if relative not in wanted]
    if unknown:
        raise UserError(f"--topic {unknown[0]}=...: {robot.name} has no such topic; it listens to {', '.join(wanted)}")
    namespaces = {topic[: -len(name) - 1] for topic in topics for name in wanted if topic.endswith("/" + name)} | {""}
    score = {space: sum(f"{space}/{name}" in topics for name in wanted) for space in namespaces}
    namespace = max(sorted(namespaces), key=lambda space: score[space])

    def place(relative: str) -> str | None:
        name = renamed.get(relative, f"{namespace}/{relative}")
        return name if name in topics else None

    found = {there: channel for channel in channels if (there := place(channel.topic)) is not None}
    truth: dict[str, Channel] = {}
    for body in bodies:
        for channel in truth_channels(body):
            if (there := place(channel.topic)) is not None:
                truth[there] = channel
                break
    with_truth = {channel.sensor for channel in truth.values()}
    return TopicMatch(
        namespace,
        found,
        truth,
        tuple(channel for channel in channels if channel not in found.values()),
        tuple(body for body in bodies if body not in with_truth),
    )


def guess_robot(candidates: Mapping[str, TopicMatch], topics: Mapping[str, str]) -> str:
    """Name of the one robot all of whose required topics are in the bag.

    Raises
    ------
    UserError
        None fits (says what the nearest lacks), or several fit equally well.
    """
    fitting = {name: match for name, match in candidates.items() if match.complete and match.channels}
    if not fitting:
        nearest = max(candidates, key=lambda name: len(candidates[name].channels), default=None)
        if nearest is None or not candidates[nearest].channels:
            listed = ", ".join(f"{topic} ({kind})" for topic, kind in topics.items())
            raise UserError(f"no installed robot ({', '.join(candidates)}) knows a topic of this bag: {listed}")
        raise missing_topics(nearest, candidates[nearest], topics)
    most = max(len(match.channels) + len(match.truth) for match in fitting.values())
    best = [name for name, match in fitting.items() if len(match.channels) + len(match.truth) == most]
    if len(best) > 1:
        raise UserError(f"this bag fits several robots; choose: {' or '.join(f'--robot {name}' for name in best)}")
    return best[0]


def missing_topics(robot: str, match: TopicMatch, topics: Mapping[str, str]) -> UserError:
    """Error that names what is missing, what is there instead, and the options to paste."""
    parts = []
    for channel in match.missing:
        if not channel.required:
            continue
        same_type = [
            topic for topic, kind in topics.items() if kind == channel.message_type and topic not in match.channels
        ]
        there = f"of that type there are {', '.join(same_type)}" if same_type else "no other topic has that type"
        options = [f"--topic {channel.topic}={same_type[0]}"] if same_type else []
        options.append(f"--drop {channel.sensor}")
        parts.append(
            f"{match.namespace}/{channel.topic} ({channel.message_type}) is missing; {there} ({' or '.join(options)})"
        )
    listed = ", ".join(topics)
    return UserError(f"{robot}: {'; '.join(parts)}. Topics in the bag: {listed}")
