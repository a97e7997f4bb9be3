"""Robots of the live graph: their estimates, truth and health of the last seconds, taken from topics."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from onboard_estimation.capabilities.drawn import planar_position
from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.live.session import place
from onboard_estimation.live.types import interface_class
from onboard_estimation.live.view_recorded import (
    COVARIANCE,
    STATE,
    Rows,
    ShownRun,
    Subject,
    namespaces_with_estimates,
    subject_of,
)
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Vector
from onboard_estimation.ros.estimates import EstimateReader
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns
from onboard_estimation.simulation import truth_channel

WINDOW_S = 30.0

_PERIOD_NS = NANOSECONDS_PER_SECOND // 20
"""Between two estimates that are kept."""
_WAY_PERIOD_NS = NANOSECONDS_PER_SECOND // 5
_WAY_LENGTH = 1500
_TOGETHER_NS = NANOSECONDS_PER_SECOND // 20
"""Truth counts as of the estimate's instant within this."""
_TRUTH_LENGTH, _ROWS_BACK = 30, 5
"""Poses of a body that are kept for the next estimate, estimates that the next pose is offered to."""
_QUEUE = 1000
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
        node.create_subscription(diagnostics, "/diagnostics", self._take_health, 10)

    def look_for_robots(self) -> None:
        """Subscribe to robots that have come; the graph is asked once a second."""
        if time.monotonic() - self._looked < _LOOK_PERIOD_S:
            return
        self._looked = time.monotonic()
        topics = {name: types[0] for name, types in self._node.get_topic_names_and_types() if types}
        wanted = self._options.namespace
        for namespace in namespaces_with_estimates(topics):
            if namespace in self.robots or (wanted is not None and wanted.strip("/") != namespace.strip("/")):
                continue
            subject = subject_of(namespace, topics, self._options)
            if subject is not None:
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
            if status.name in self._health or len(self._health) < _MOST_STATUSES:
                self._health[_cell(status.name)] = _cell(text), _rounded(nis)


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
    lines = []
    for node, rows in nodes.items():
        lines += [
            "",
            "",
            f"**{node}**: messages per second of each sensor, or what is wrong; mean NIS: 1 is expected",
            "",
        ]
        lines += ["| sensor | rate or state | mean NIS |", "|---|---|---|", *rows]
    return "\n".join(lines)


@dataclass
class _Row:
    """An estimate and the nearest truth of each body so far: how far off in time, and the pose."""

    estimate: Estimate
    nearest: dict[str, tuple[int, Vector]] = field(default_factory=dict)

    def offer(self, body: str, at_ns: int, pose: Vector) -> None:
        """Take a pose that is nearer than what is there."""
        distance_ns = abs(at_ns - self.estimate.stamp_ns)
        if distance_ns <= min(_TOGETHER_NS, self.nearest.get(body, (_TOGETHER_NS,))[0]):
            self.nearest[body] = distance_ns, pose

    @property
    def bodies(self) -> dict[str, Vector]:
        return {body: pose for body, (_, pose) in self.nearest.items()}


class LiveRobot:
    """The last seconds of one robot; its callbacks run in the executor's thread."""

    def __init__(self, node: Any, namespace: str, subject: Subject) -> None:
        self._subject = subject
        self._lock = threading.Lock()
        self._reader = EstimateReader(subject.space)
        self._rows: deque[_Row] = deque()
        self._ways: tuple[deque[Vector], deque[Vector]] = (deque(maxlen=_WAY_LENGTH), deque(maxlen=_WAY_LENGTH))
        self._way_ns = 0
        self._truth: dict[str, deque[tuple[int, Vector]]] = {}
        self._fault = ""
        self._subscribe(node, namespace)

    def _subscribe(self, node: Any, namespace: str) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        # Best effort: whoever looks must not slow the estimator down.
        qos = QoSProfile(depth=_QUEUE, reliability=ReliabilityPolicy.BEST_EFFORT)
        kind = interface_class("sensor_msgs/msg/JointState")
        for topic, take in ((STATE, self._reader.take_state), (COVARIANCE, self._reader.take_covariance)):
            node.create_subscription(kind, f"{namespace}/{topic}", partial(self._take, take), qos)
        for body in self._subject.robot.truth_specification(self._subject.configuration).bodies:
            channel = truth_channel(body)
            node.create_subscription(
                interface_class(channel.message_type),
                f"{namespace}/{channel.topic}",
                partial(self._take_truth, body, channel),
                qos,
            )

    def _take(self, read: Any, message: Any) -> None:
        try:
            estimate = read(message)
        except MessageFault as error:
            self._fault = f"estimate of another robot, or another configuration (--config)? It {error}"
            return
        if estimate is None:
            return
        with self._lock:
            last_ns = self._rows[-1].estimate.stamp_ns if self._rows else estimate.stamp_ns - _PERIOD_NS
            if estimate.stamp_ns < last_ns:  # a bag played again
                self._rows.clear()
                self._truth.clear()
                self._way_ns = 0
                for way in self._ways:
                    way.clear()
            elif estimate.stamp_ns - last_ns < _PERIOD_NS:
                return
            row = _Row(estimate)
            for body, poses in self._truth.items():
                for at_ns, pose in poses:
                    row.offer(body, at_ns, pose)
            self._rows.append(row)
            oldest_ns = estimate.stamp_ns - round(WINDOW_S * NANOSECONDS_PER_SECOND)
            while self._rows[0].estimate.stamp_ns < oldest_ns:
                self._rows.popleft()
            self._go_on(row)

    def _take_truth(self, body: str, channel: Channel, message: Any) -> None:
        try:
            at_ns, pose = stamp_ns(message), message_value(channel, message)
        except MessageFault:
            return
        if np.isfinite(pose).all() and abs(np.linalg.norm(pose[3:]) - 1.0) < 0.01:
            with self._lock:
                self._truth.setdefault(body, deque(maxlen=_TRUTH_LENGTH)).append((at_ns, pose))
                # Estimates may come before the truth of their instant.
                for row in islice(reversed(self._rows), _ROWS_BACK):
                    row.offer(body, at_ns, pose)

    def _go_on(self, row: _Row) -> None:
        estimate = row.estimate
        columns = planar_position(self._subject.space)
        if columns is None or estimate.stamp_ns - self._way_ns < _WAY_PERIOD_NS:
            return
        self._way_ns = estimate.stamp_ns
        self._ways[0].append(estimate.mean[columns])
        parts = self._subject.true_parts({body: pose[None] for body, pose in row.bodies.items()})
        true = next((parts[name][0, :2] for name in ("pose", "position") if name in parts), None)
        if true is not None:
            self._ways[1].append(true)

    def record(self) -> ShownRun | None:
        """The last seconds; None before the first estimate."""
        with self._lock:
            rows = [(row.estimate, row.bodies) for row in self._rows]
        if not rows:
            return None
        estimates = [estimate for estimate, _ in rows]
        names = {name for _, near in rows for name in near}
        unknown = np.full(7, np.nan)
        bodies = {name: np.array([near.get(name, unknown) for _, near in rows]) for name in names}
        return ShownRun(
            self._subject,
            np.array([estimate.stamp_ns for estimate in estimates], dtype=np.int64),
            np.array([estimate.mean for estimate in estimates]),
            np.array([estimate.covariance for estimate in estimates]),
            bodies,
            self._subject.true_parts(bodies),
        )

    def ways(self) -> tuple[Rows, Rows]:
        """Estimated and true positions (k, 2) of the last minutes."""
        with self._lock:
            first, second = (np.array(way) for way in self._ways)
        return first.reshape(-1, 2), second.reshape(-1, 2)

    def sentence(self) -> str:
        """What there is of it, as Markdown."""
        name = f"**{self._subject.namespace}** ({self._subject.robot.name})"
        if self._fault:
            return f"{name}: {_cell(self._fault)}"
        with self._lock:
            if not self._rows:
                return f"{name}: no estimate yet"
            latest, start_ns = self._rows[-1].estimate, self._rows[0].estimate.stamp_ns
            bodies = {body for row in islice(reversed(self._rows), _ROWS_BACK) for body in row.nearest}
        truth = f"truth of {len(bodies)} bodies" if bodies else "no truth"
        shown_s = (latest.stamp_ns - start_ns) / NANOSECONDS_PER_SECOND
        return f"{name}: the last {shown_s:.0f} s, {truth}"


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
