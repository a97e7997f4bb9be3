"""A robot of the live graph: its estimates and their truth, of the last seconds, for those who draw them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Vector
from onboard_estimation.base.series import truth_channel
from onboard_estimation.contract.reported import planar_position
from onboard_estimation.contract.robot import Robot
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.live.messages import interface_class
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.ros.estimates import EstimateReader
from onboard_estimation.ros.measurements import MessageFault, message_value, stamp_ns

Rows = NDArray[np.float64]
STATE, COVARIANCE = "state", "state_covariance"

_WAY_PERIOD_NS = NANOSECONDS_PER_SECOND // 5
_TOGETHER_NS = NANOSECONDS_PER_SECOND // 20
"""Truth counts as of the estimate's instant within this."""
_TRUTH_LENGTH, ROWS_BACK = 30, 5
"""Poses of a body that are kept for the next estimate, estimates that the next pose is offered to."""
_QUEUE = 1000


@dataclass(frozen=True, eq=False)
class Subject:
    """A robot that is shown.

    Attributes
    ----------
    namespace
        Of its topics, e.g. `/salp`: its name in the picture.
    """

    namespace: str
    robot: Robot
    configuration: Any
    space: StateSpace

    def true_parts(self, bodies: Mapping[str, Rows]) -> dict[str, Rows]:
        """Parts of the true state (K, d) of poses (K, 7) or positions (K, 3); NaN where not all bodies are seen."""
        wanted = self.robot.truth_specification(self.configuration).bodies
        if not wanted or any(body not in bodies for body in wanted):
            return {}
        known = np.all([np.isfinite(bodies[body]).all(axis=1) for body in wanted], axis=0)
        if not known.any():
            return {}
        parts = {}
        seen = {body: bodies[body][known] for body in wanted}
        for name, values in self.robot.true_parts(self.configuration, seen).items():
            parts[name] = np.full((len(known), values.shape[1]), np.nan)
            parts[name][known] = values
        return parts


@dataclass(frozen=True, eq=False)
class Moment:
    """An estimate and the truth of its instant.

    Attributes
    ----------
    bodies
        Poses (7,) or positions (3,) of the bodies that motion capture saw.
    truth
        Blocks of the true state by name; None where not all bodies were seen.
    """

    estimate: Estimate
    bodies: Mapping[str, Vector] = field(default_factory=dict)
    truth: Mapping[str, Vector] | None = None


@dataclass(frozen=True, eq=False)
class ShownRun:
    """K instants of one robot.

    Attributes
    ----------
    stamps_ns, means, covariances
        (K,), (K, a), (K, n, n).
    bodies, truth
        As in `Moment`, a row per instant; NaN where nothing was seen.
    """

    subject: Subject
    stamps_ns: NDArray[np.int64]
    means: Rows
    covariances: Rows
    bodies: Mapping[str, Rows] = field(default_factory=dict)
    truth: Mapping[str, Rows] = field(default_factory=dict)

    @property
    def time_s(self) -> Vector:
        """(K,) seconds since the first estimate."""
        return (self.stamps_ns - self.stamps_ns[0]) / NANOSECONDS_PER_SECOND

    def at(self, index: int) -> Moment:
        """The instant of that number."""
        bodies = {name: rows[index] for name, rows in self.bodies.items() if np.isfinite(rows[index]).all()}
        truth = {name: rows[index] for name, rows in self.truth.items() if np.isfinite(rows[index]).all()}
        estimate = Estimate(int(self.stamps_ns[index]), self.means[index], self.covariances[index])
        return Moment(estimate, bodies, truth or None)

    def errors(self) -> dict[str, Rows]:
        """Estimate minus truth (K, d) of each part that has a truth, in its tangent space; NaN where there is none."""
        out = {}
        for name, true in self.truth.items():
            part = self.subject.space.part(name)
            known = np.isfinite(true).all(axis=1)
            error = np.full((len(true), part.dimension), np.nan)
            if known.any():
                error[known] = part.minus(self.means[known][:, self.subject.space.coordinates(name)], true[known])
            out[name] = error
        return out


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


class FollowedRobot:
    """The last seconds of one robot, as its topics tell them.

    Parameters
    ----------
    node
        Whose executor calls back, in whatever thread.
    namespace
        Of the topics: `/salp`, or empty.
    window_s, period_s
        How far estimates are kept back from the newest, and how far apart they are at least, by their stamps, s.
    way_length
        Positions that are kept of the way.
    refuse
        Takes the topic, relative to the namespace, of a message that cannot be read, and why.
    """

    def __init__(
        self,
        node: Any,
        namespace: str,
        subject: Subject,
        window_s: float,
        period_s: float,
        way_length: int,
        refuse: Callable[[str, MessageFault], None],
    ) -> None:
        self.subject, self._refuse = subject, refuse
        self._window_ns, self._period_ns = (round(one * NANOSECONDS_PER_SECOND) for one in (window_s, period_s))
        self._lock = threading.Lock()
        self._reader = EstimateReader(subject.space)
        self._rows: deque[_Row] = deque()
        self._ways: tuple[deque[Vector], deque[Vector]] = (deque(maxlen=way_length), deque(maxlen=way_length))
        self._way_ns = 0
        self._truth: dict[str, deque[tuple[int, Vector]]] = {}
        self._subscribe(node, namespace)

    def _subscribe(self, node: Any, namespace: str) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        # Best effort: whoever looks must not slow the estimator down.
        qos = QoSProfile(depth=_QUEUE, reliability=ReliabilityPolicy.BEST_EFFORT)

        def listen(topic: str, message_type: str, take: Callable[[Any], None]) -> None:
            aside = Aside(f"the picture of {namespace}/{topic}", node.get_logger().error)

            def call(message: Any) -> None:
                try:
                    take(message)
                except MessageFault as error:
                    self._refuse(topic, error)

            node.create_subscription(
                interface_class(message_type), f"{namespace}/{topic}", lambda message: aside(call, message), qos
            )

        for topic, read in ((STATE, self._reader.take_state), (COVARIANCE, self._reader.take_covariance)):
            listen(topic, "sensor_msgs/msg/JointState", partial(self._take, read))
        for body in self.subject.robot.truth_specification(self.subject.configuration).bodies:
            channel = truth_channel(body)
            listen(channel.topic, channel.message_type, partial(self._take_truth, body, channel))

    def _take(self, read: Callable[[Any], Estimate | None], message: Any) -> None:
        estimate = read(message)
        if estimate is None:
            return
        with self._lock:
            last_ns = self._rows[-1].estimate.stamp_ns if self._rows else estimate.stamp_ns - self._period_ns
            if estimate.stamp_ns < last_ns:  # a bag played again
                self._rows.clear()
                self._truth.clear()
                self._way_ns = 0
                for way in self._ways:
                    way.clear()
            elif estimate.stamp_ns - last_ns < self._period_ns:
                return
            row = _Row(estimate)
            for body, poses in self._truth.items():
                for at_ns, pose in reversed(poses):
                    row.offer(body, at_ns, pose)
                    if at_ns <= estimate.stamp_ns:
                        break  # those before are farther
            self._rows.append(row)
            while self._rows[0].estimate.stamp_ns < estimate.stamp_ns - self._window_ns:
                self._rows.popleft()
            self._go_on(row)

    def _take_truth(self, body: str, channel: Channel, message: Any) -> None:
        at_ns, pose = stamp_ns(message), message_value(channel, message)
        if np.isfinite(pose).all() and abs(pose[3:] @ pose[3:] - 1.0) < 0.02:
            with self._lock:
                self._truth.setdefault(body, deque(maxlen=_TRUTH_LENGTH)).append((at_ns, pose))
                # Estimates may come before the truth of their instant.
                for row in islice(reversed(self._rows), ROWS_BACK):
                    row.offer(body, at_ns, pose)

    def _go_on(self, row: _Row) -> None:
        estimate = row.estimate
        columns = planar_position(self.subject.space)
        if columns is None or estimate.stamp_ns - self._way_ns < _WAY_PERIOD_NS:
            return
        self._way_ns = estimate.stamp_ns
        self._ways[0].append(estimate.mean[columns])
        parts = self.subject.true_parts({body: pose[None] for body, pose in row.bodies.items()})
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
            self.subject,
            np.array([estimate.stamp_ns for estimate in estimates], dtype=np.int64),
            np.array([estimate.mean for estimate in estimates]),
            np.array([estimate.covariance for estimate in estimates]),
            bodies,
            self.subject.true_parts(bodies),
        )

    def ways(self) -> tuple[Rows, Rows]:
        """Estimated and true positions (k, 2) of the last minutes."""
        with self._lock:
            first, second = (np.array(way) for way in self._ways)
        return first.reshape(-1, 2), second.reshape(-1, 2)
