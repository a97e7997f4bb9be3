"""Which topics of a bag belong to a robot: found by their relative names, under whatever namespace."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.measurement import Channel
from onboard_estimation.contract.robot import Robot

POSE = "geometry_msgs/msg/PoseStamped"
TRANSFORM = "geometry_msgs/msg/TransformStamped"
TREE_TYPES = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
STATIC = "_static"
POINT = "geometry_msgs/msg/PointStamped"
TRUTH = "ground_truth"

_NAMES_SHOWN = 30


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
    rivals
        Other namespaces under which all required channels are there too: another robot of the kind.
    notes
        What the reader must know of the choice, one sentence each.
    held
        Channel of each topic found of what else is known of the truth, see `TruthSpecification`.
    unheard
        Channel of each topic found to which nobody listens: what becomes of its messages is said all the same.
    """

    namespace: str
    channels: Mapping[str, Channel]
    truth: Mapping[str, Channel]
    missing: tuple[Channel, ...]
    missing_bodies: tuple[str, ...]
    rivals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    held: Mapping[str, Channel] = field(default_factory=dict)
    unheard: Mapping[str, Channel] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """All required channels are there."""
        return not any(channel.required for channel in self.missing)


def truth_channels(body: str) -> tuple[Channel, ...]:
    """Topics that may hold a body's ground truth: with orientation or without."""
    kinds = {"pose": POSE, "transform": TRANSFORM, "position": POINT}
    return tuple(Channel(f"{TRUTH}/{body}/{name}", kind, body, required=False) for name, kind in kinds.items())


def relative_names(robot: Robot, configuration: Any) -> list[str]:
    """Names, within its namespace, of all topics that a robot may be estimated and judged from."""
    bodies = robot.truth_specification(configuration).bodies
    truth = [channel.topic for body in bodies for channel in truth_channels(body)]
    truth += [channel.topic for channel in robot.truth_specification(configuration).held]
    return [*(channel.topic for channel in robot.channels(configuration)), *truth]


def names_in(namespace: str, topics: Iterable[str]) -> list[str]:
    """Names, relative to a namespace, of the topics in it."""
    inside = (topic for topic in topics if topic.startswith(f"{namespace}/") or not namespace)
    return [topic.removeprefix(namespace).lstrip("/") for topic in inside]


def is_frame(topic: str, topics: Iterable[str]) -> bool:
    """Whether a name is that of a frame on one of the topics, see `transform_trees`."""
    tree, colon, frame = topic.partition(":")
    return bool(colon and frame) and tree in topics


def refuse_absent(renamed: Mapping[str, str], topics: Sequence[str]) -> None:
    """Raise UserError where a topic that the user names is not in the bag."""
    for relative, topic in renamed.items():
        if topic not in topics and not is_frame(topic, topics):
            raise UserError(f"--topic {relative}={topic}: the bag has no {topic}; it has {listed(topics)}")


def match_topics(
    robot: Robot,
    configuration: Any,
    topics: Iterable[str],
    renamed: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> TopicMatch:
    """What is found of a robot in a namespace; by default in the one that holds most of its topics.

    Parameters
    ----------
    renamed
        Relative name to a topic of the bag, where names differ.

    Raises
    ------
    UserError
        A renamed topic or the namespace is not in the bag, or the robot has no such topic.
    """
    topics = list(topics)
    renamed = dict(renamed or {})
    refuse_absent(renamed, topics)
    specification = robot.truth_specification(configuration)
    bodies = specification.bodies
    channels = robot.channels(configuration)
    wanted = relative_names(robot, configuration)
    unknown = [relative for relative in renamed if relative not in wanted]
    if unknown:
        raise UserError(f"--topic {unknown[0]}=...: {robot.name} has no such topic; it listens to {', '.join(wanted)}")
    spaces = sorted({topic[: -len(name) - 1] for topic in topics for name in wanted if topic.endswith("/" + name)})
    if namespace is None:
        chosen = max(["", *spaces], key=lambda space: sum(f"{space}/{name}" in topics for name in wanted))
    else:
        asked = [space for space in spaces if space.strip("/") == namespace.strip("/")]
        if not asked:
            there = f"there are some in {listed([space or '/' for space in spaces])}" if spaces else "nor anywhere else"
            raise UserError(f"--namespace {namespace}: no topic of {robot.name} is there, {there}")
        chosen = asked[0]

    def place(relative: str) -> str | None:
        # Recorders other than ROS leave out the slash at the beginning.
        names = [f"{chosen}/{relative}", f"{chosen}/{relative}".lstrip("/")]
        return renamed.get(relative) or next((name for name in names if name in topics), None)

    found = {place_in_bag: channel for channel in channels if (place_in_bag := place(channel.topic)) is not None}
    truth: dict[str, Channel] = {}
    for body in bodies:
        options = [channel for channel in truth_channels(body) if place(channel.topic) is not None]
        # What the user names goes before what is found.
        options.sort(key=lambda channel: channel.topic not in renamed)
        if options:
            truth[str(place(options[0].topic))] = options[0]
    with_truth = {channel.sensor for channel in truth.values()}
    required = [channel.topic for channel in channels if channel.required and channel.topic not in renamed]
    others = [space for space in spaces if space != chosen]
    rivals = [space for space in others if required and all(f"{space}/{name}" in topics for name in required)]
    return TopicMatch(
        chosen,
        found,
        truth,
        tuple(channel for channel in channels if channel not in found.values()),
        tuple(body for body in bodies if body not in with_truth),
        tuple(rivals),
        held={topic: one for one in specification.held if (topic := place(one.topic)) is not None},
    )


def guess_robot(candidates: Mapping[str, TopicMatch], topics: Mapping[str, str]) -> str:
    """Name of the one robot all of whose required topics are in the bag.

    Raises
    ------
    UserError
        None fits (says what the nearest lacks), or several fit equally well.
    """
    fitting = fitting_robots(candidates)
    if not fitting:
        nearest = max(candidates, key=lambda name: len(candidates[name].channels), default=None)
        if nearest is None or not candidates[nearest].channels:
            there = listed([f"{topic} ({kind})" for topic, kind in topics.items()])
            robots = ", ".join(candidates)
            lines = suggested_options(candidates, topics)
            advice = f"; by their types it may be one of these, try: {', or: '.join(lines)}" if lines else ""
            raise UserError(f"no installed robot ({robots}) knows a topic of this bag: {there}{advice}")
        raise missing_topics(nearest, candidates[nearest], topics)
    most = max(_found(candidates[name]) for name in fitting)
    best = [name for name in fitting if _found(candidates[name]) == most]
    if len(best) > 1:
        raise UserError(f"this bag fits several robots; choose: {' or '.join(f'--robot {name}' for name in best)}")
    return best[0]


def fitting_robots(candidates: Mapping[str, TopicMatch]) -> list[str]:
    """Names of the robots all of whose required topics are in the bag."""
    return [name for name, match in candidates.items() if match.complete and match.channels]


def _found(match: TopicMatch) -> int:
    return len(match.channels) + len(match.truth)


def suggested_options(candidates: Mapping[str, TopicMatch], topics: Mapping[str, str]) -> list[str]:
    """Options that take the topics of a bag for those of a robot, as far as types allow it, one line a robot.

    Parameters
    ----------
    candidates
        What was found of each robot by names.
    topics
        Types of the bag's topics.

    Returns
    -------
    As a shell takes them: `--robot strapdown --topic imu/foot/data_raw=/imu/data`. None of a robot that would still
    lack what it needs.
    """
    lines = []
    for robot, match in candidates.items():
        free, words, lacking = FreeTopics(match, topics), [f"--robot {robot}"], False
        required = [channel for channel in match.missing if channel.required]
        # Of the truth a pose rather than a position; of what else is optional, nothing is guessed.
        bodies = [truth_channels(body) for body in match.missing_bodies]
        for choices in [*((channel,) for channel in required), *bodies]:
            found = next((option for one in choices if (option := free.option(one))), None)
            words += [found] if found else []
            lacking |= not found and choices[0].required
        if required and not lacking:
            lines.append(" ".join(words))
    return lines


class FreeTopics:
    """Topics of a bag that may be taken for channels of a robot that were not found by name; each once."""

    def __init__(self, match: TopicMatch, topics: Mapping[str, str]) -> None:
        taken = {*match.channels, *match.truth}
        self._free = {topic: kind for topic, kind in topics.items() if topic not in taken}
        self._namespace = match.namespace

    def of_type(self, message_type: str) -> list[str]:
        """Those of a type."""
        return [topic for topic, kind in self._free.items() if kind == message_type]

    def option(self, channel: Channel, name: str | None = None) -> str | None:
        """Takes the topic that is named most like the channel, or like `name`, as an option to paste; None: none is."""
        same_type = self.of_type(channel.message_type)
        if not same_type:
            return None
        of_body = [topic for topic in same_type if channel.sensor in topic.replace(":", "/").split("/")]
        nearest = nearest_name(name or f"{self._namespace}/{channel.topic}", of_body or same_type)
        del self._free[nearest]
        return f"--topic {_quoted(f'{channel.topic}={nearest}')}"


def missing_topics(robot: str, match: TopicMatch, topics: Mapping[str, str]) -> UserError:
    """Error that names what is missing, what is there instead, and the options to paste."""
    free, parts = FreeTopics(match, topics), []
    for channel in match.missing:
        if not channel.required:
            continue
        same_type = free.of_type(channel.message_type)
        there = f"of that type there are {listed(same_type)}" if same_type else "no other topic has that type"
        options = " or ".join(filter(None, [free.option(channel), f"--drop {channel.sensor}"]))
        parts.append(f"{match.namespace}/{channel.topic} ({channel.message_type}) is missing; {there} ({options})")
    return UserError(f"{robot}: {'; '.join(parts)}. Topics in the bag: {listed(list(topics))}")


def refuse_wrong_types(robot: str, match: TopicMatch, topics: Mapping[str, str]) -> None:
    """Raise UserError that names all topics of another type than needed, with the options to paste."""
    free, parts = FreeTopics(match, topics), []
    for topic, channel in {**match.channels, **match.truth}.items():
        kind = topics.get(topic, TRANSFORM)  # of a frame that comes late
        if kind == channel.message_type:
            continue
        dropped = f"--drop {f'{TRUTH}/{channel.sensor}' if topic in match.truth else channel.sensor}"
        others = truth_channels(channel.sensor) if topic in match.truth else ()
        right = [f"--topic {_quoted(f'{one.topic}={topic}')}" for one in others if one.message_type == kind]
        options = " or ".join(filter(None, [*right, None if right else free.option(channel, topic), dropped]))
        parts.append(f"{printable(topic)} is {kind}, not {channel.message_type} ({options})")
    if parts:
        raise UserError(f"{robot}: {'; '.join(parts)}")


def nearest_name(wanted: str, names: Iterable[str]) -> str:
    """Of the names the one most like the wanted one; there has to be one."""
    return max(names, key=lambda name: difflib.SequenceMatcher(None, wanted, name).ratio())


def listed(names: Sequence[str]) -> str:
    """Names for a message, the first of many."""
    return first_of([printable(name) for name in names], _NAMES_SHOWN)


def _quoted(text: str) -> str:
    """As a shell takes it; letters of other alphabets need no quotes."""
    plain = all(character.isalnum() or character in "/_=.-~:@" for character in text)
    return text if plain else "'" + text.replace("'", "'\"'\"'") + "'"
