"""Robots of the live graph, found by their topics: their last seconds, how they do, in Markdown."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from onboard_estimation.contract.robot import Robot, estimator_name, find_robot
from onboard_estimation.judging.options import EvaluateOptions
from onboard_estimation.judging.sources import known_channels, load_configuration
from onboard_estimation.live.followed import COVARIANCE, ROWS_BACK, STATE, FollowedRobot, Subject
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import place
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.ros.measurements import MessageFault

WINDOW_S = 30.0

_PERIOD_S = 0.05
"""Between two estimates that are kept."""
_WAY_LENGTH = 1500
_LOOK_PERIOD_S = 1.0
_LEVELS = {0: "ok", 1: "warning", 2: "error", 3: "stale"}
_MOST_STATUSES = 30


class LiveGraph:
    """Follows all robots of the graph, or those of one namespace.

    Parameters
    ----------
    node
        An rclpy node that is spun in another thread.
    options
        Robot, configuration and namespace, where the user names them.

    Attributes
    ----------
    robots
        Found so far, by their namespaces.
    """

    def __init__(self, node: Any, options: EvaluateOptions) -> None:
        self._node, self._options = node, options
        self.robots: dict[str, LiveRobot] = {}
        self._looked = -_LOOK_PERIOD_S
        self._health: dict[str, tuple[str, str]] = {}
        diagnostics = interface_class("diagnostic_msgs/msg/DiagnosticArray")
        health = Aside("the picture of /diagnostics", node.get_logger().error)
        node.create_subscription(diagnostics, "/diagnostics", lambda message: health(self._take_health, message), 10)

    def look_for_robots(self) -> None:
        """Subscribe to robots that have come; the graph is asked once a second."""
        if time.monotonic() - self._looked < _LOOK_PERIOD_S:
            return
        self._looked = time.monotonic()
        topics = {name: types[0] for name, types in self._node.get_topic_names_and_types() if types}
        for namespace, subject in subjects(topics, self._options, self.robots):
            self.robots[namespace] = LiveRobot(self._node, namespace, subject)

    def status(self) -> str:
        """What is there and how it does, as Markdown."""
        if not self.robots:
            asked = f" in {self._options.namespace}" if self._options.namespace else ""
            return f"Waiting for an estimator{asked}: no topics `state` and `state_covariance` in {place()}."
        lines = [robot.sentence() for robot in self.robots.values()]
        return "\n".join(lines) + health_table(self._health)

    def _take_health(self, message: Any) -> None:
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            nis = values.get("mean_nis", "nan")
            level = status.level[0] if isinstance(status.level, bytes) else status.level
            text = status.message if level == 0 else f"**{_LEVELS.get(level, '?')}**: {status.message}"
            name = _cell(status.name)
            if name in self._health or len(self._health) < _MOST_STATUSES:
                self._health[name] = _cell(text), _rounded(nis)


def namespaces_with_estimates(topics: Mapping[str, str]) -> list[str]:
    """Namespaces in which an estimator publishes its whole state, of topics with their types."""
    suffix, kind = f"/{COVARIANCE}", "sensor_msgs/msg/JointState"
    spaces = [topic[: -len(suffix)] for topic in topics if topic.endswith(suffix) and topics[topic] == kind]
    return sorted(space for space in spaces if topics.get(f"{space}/{STATE}") == kind)


def subjects(
    topics: Mapping[str, str], options: EvaluateOptions, known: Container[str] = ()
) -> Iterator[tuple[str, Subject]]:
    """Robots by their namespaces, of topics with their types; not those that are known already."""
    for namespace in namespaces_with_estimates(topics):
        wanted = options.namespace is None or options.namespace.strip("/") == namespace.strip("/")
        if not wanted or namespace in known or (robot := _robot_of(namespace, topics, options)) is None:
            continue
        configuration = load_configuration(robot, options)
        estimator = robot.estimator(configuration, estimator_name(robot, options.estimator))
        yield namespace, Subject(namespace or "/", robot, configuration, estimator.space)


def _robot_of(namespace: str, topics: Mapping[str, str], options: EvaluateOptions) -> Robot | None:
    """The robot of a namespace: the one asked for, else that of the namespace's name, else the one whose topics fit."""
    if options.robot is not None:
        return find_robot(options.robot)
    known = known_channels()
    if (name := namespace.rpartition("/")[2]) in known:
        return find_robot(name)
    fits = {
        name: sum(topics.get(f"{namespace}/{one.topic}") == one.message_type for one in channels)
        for name, channels in known.items()
    }
    return find_robot(max(fits, key=lambda name: fits[name])) if any(fits.values()) else None


def health_table(health: Mapping[str, tuple[str, str]]) -> str:
    """Rates, or what is wrong, of all parts as Markdown: a table for each node under its name; empty without any.

    Parameters
    ----------
    health
        State and mean NIS of each part by its name (`node: part`), as Markdown of one line.
    """
    nodes: dict[str, list[str]] = {}
    for name, (text, nis) in sorted(health.items())[:_MOST_STATUSES]:
        node, _, part = name.rpartition(": ")
        nodes.setdefault(node, []).append(f"| {part} | {text} | {nis} |")
    meaning = "messages per second of each sensor, or what is wrong; mean NIS: 1 is expected"
    heading = "| sensor | rate or state | mean NIS |\n|---|---|---|\n"
    return "".join(f"\n\n**{node}**: {meaning}\n\n{heading}" + "\n".join(rows) for node, rows in nodes.items())


class LiveRobot(FollowedRobot):
    """The last seconds of one robot, what there is of it in words, and its drawing, which may fail for itself."""

    def __init__(self, node: Any, namespace: str, subject: Subject) -> None:
        self._fault = ""
        self.aside = Aside(f"the picture of {namespace}", node.get_logger().error)
        super().__init__(node, namespace, subject, WINDOW_S, _PERIOD_S, _WAY_LENGTH, self._note)

    def _note(self, topic: str, error: MessageFault) -> None:
        if "/" not in topic:  # an estimate
            self._fault = f"estimate of another robot, or another configuration (--config)? It {error}"

    def sentence(self) -> str:
        """What there is of it, as Markdown."""
        name = f"**{self.subject.namespace}** ({self.subject.robot.name})"
        if fault := self.aside.trouble or self._fault:
            return f"{name}: {_cell(fault)}"
        record = self.record()
        if record is None:
            return f"{name}: no estimate yet"
        bodies = [one for one, poses in record.bodies.items() if np.isfinite(poses[-ROWS_BACK:]).any()]
        truth = f"truth of {len(bodies)} bodies" if bodies else "no truth"
        return f"{name}: the last {record.time_s[-1]:.0f} s, {truth}"


def _rounded(number: str) -> str:
    """To two decimals; empty where it is none."""
    try:
        value = float(number)
    except ValueError:
        return ""
    return f"{value:.2f}" if np.isfinite(value) else ""


def _cell(text: str) -> str:
    """Text of others for a table: no markup, no line breaks, not too long."""
    plain = "".join(letter if letter.isprintable() else " " for letter in str(text))[:120]
    for mark in ("\\", "|", "<", "`", "[", "!"):
        plain = plain.replace(mark, {"<": "&lt;"}.get(mark, f"\\{mark}"))
    return plain
