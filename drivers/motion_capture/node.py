"""The node of any motion capture system: reads its stream, publishes bodies, says how it fares."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import rclpy.clock
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile

from drivers.motion_capture.frames import UP_AXES, CaptureFrame, named_faults
from drivers.motion_capture.outputs import BodyOutputs
from onboard_estimation.configuration import parameter
from onboard_estimation.live.messages import new
from onboard_estimation.nodes.pacing import LONGEST_STAY_S
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.diagnostics import ERROR, OK, WARN, status
from onboard_estimation.ros.frames import AUTOMATIC, resolved_prefix
from onboard_estimation.ros.sensor_messages import header

_PERIOD_S = 0.0005
_LOOK_S = 1.0
_SILENT_S = 5.0


class Stream(Protocol):
    """A motion capture system's stream; connects, and connects again, by itself."""

    @property
    def trouble(self) -> str:
        """Why there are no frames; empty: there is a connection."""

    @property
    def words(self) -> str:
        """What it is connected to: name, version; empty before."""

    def read(self, timeout_s: float) -> Sequence[CaptureFrame]:
        """What has arrived, as soon as there is anything; empty after the timeout."""

    def counts(self) -> Mapping[str, float]:
        """What happened since the start: `frames`, `lost`, `malformed`, `reconnections`, skew of the clock, ..."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class CaptureOutputs:
    """What is published; part of each system's parameters."""

    bodies: tuple[str, ...] = parameter(
        (), "which bodies, and their names on topics, as in 'Robot 1=link_1'; empty: all, under their own names"
    )
    up_axis: str = parameter("z", "axis of the stream that points up", choices=UP_AXES)
    publish_tf: bool = parameter(False, "publish world -> truth/<body>; the markers node does so too")
    frame_prefix: str = parameter(AUTOMATIC, 'before the names of frames; "auto": the node\'s namespace')

    def faults(self) -> list[str]:
        """Of `bodies`."""
        return named_faults(self.bodies)


@dataclass(frozen=True)
class NoRobot:
    """Nothing of a robot is needed."""


class MotionCaptureNode(Node):
    """Publishes `ground_truth/<body>/pose` (PoseStamped in `world`, m, z up, stamps of the exposure), `/diagnostics`.

    A body that is not tracked is not published. Subclasses say which stream that is: `host_type`, `node_name`, `open`.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed.
    """

    host_type: ClassVar[type[CaptureOutputs]] = CaptureOutputs
    node_name: ClassVar[str] = ""

    def __init__(self) -> None:
        self._stream: Stream | None = None
        super().__init__(self.node_name, automatically_declare_parameters_from_overrides=True)
        parameters: NodeParameters[NoRobot, Any] = NodeParameters(self, NoRobot, self.host_type)
        host = parameters.host
        prefix = resolved_prefix(host.frame_prefix, self.get_namespace())
        self._stream = stream = self.open(host)
        self._bodies = BodyOutputs(self, host.bodies, host.up_axis, prefix, host.publish_tf, self.get_logger().warning)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self._before: dict[str, float] = {}
        self._said = ""
        self._told_missing: list[str] = []
        self._before_of: dict[str, dict[str, float]] = {}
        self._silent_since_s = time.monotonic()
        steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(_PERIOD_S, partial(self._stay, stream), clock=steady)
        self.create_timer(_LOOK_S, partial(self._report, stream), clock=steady)

    def open(self, host: Any) -> Stream:
        """The stream that the parameters ask for."""
        raise NotImplementedError(type(self).__name__)

    def destroy_node(self) -> None:
        """Leave the system."""
        if self._stream is not None:
            self._stream.close()
        super().destroy_node()

    def _stay(self, stream: Stream) -> None:
        """Read for a while what arrives, as it arrives."""
        until_s = time.monotonic() + LONGEST_STAY_S
        while (left_s := until_s - time.monotonic()) > 0.0 and self.context.ok():
            for frame in stream.read(left_s):
                self._bodies.publish(frame)

    def _report(self, stream: Stream) -> None:
        """Once a second: who listens, what has changed, diagnostics."""
        self._bodies.look_who_listens()
        now, bodies = dict(stream.counts()), self._bodies
        since = {key: value - self._before.get(key, 0.0) for key, value in now.items()}
        self._before = now
        sentence = stream.trouble or stream.words
        if sentence and sentence != self._said:
            self._said = sentence
            (self.get_logger().warning if stream.trouble else self.get_logger().info)(sentence)
        frames, lost = since.get("frames", 0.0), since.get("lost", 0.0)
        wrong = [f"{lost:.0f} frames lost"] if lost else []
        wrong += [f"{since[key]:.0f} {key}" for key in ("malformed", "reconnections") if since.get(key)]
        self._say_silence(stream, frames)
        level = ERROR if stream.trouble or not frames else WARN if wrong else OK
        text = stream.trouble or ", ".join([f"{frames / _LOOK_S:.0f} frames a second", *wrong])
        name, stamp_ns = self.get_fully_qualified_name().strip("/"), self.get_clock().now().nanoseconds
        statuses = [status(new, name, "stream", level, text, now)]
        for topic in sorted({*bodies.seen, *bodies.hidden, *bodies.faulty}):
            values = {"tracked": bodies.seen, "not_tracked": bodies.hidden, "no_pose": bodies.faulty}
            counts = {key: float(one.get(topic, 0)) for key, one in values.items()}
            was = self._before_of.get(topic, {})
            tracked = counts["tracked"] - was.get("tracked", 0.0)
            self._before_of[topic] = counts
            level = OK if tracked or not frames else WARN
            statuses.append(status(new, name, topic, level, "tracked" if tracked else "not tracked", counts))
        self._diagnostics.publish(
            new("diagnostic_msgs/msg/DiagnosticArray", header=header(new, stamp_ns), status=statuses)
        )

    def _say_silence(self, stream: Stream, frames: float) -> None:
        """A connection that brings nothing, bodies that are asked for and are not there."""
        if frames or stream.trouble:
            self._silent_since_s = time.monotonic()
        missing = self._bodies.missing()
        if frames and missing and missing != self._told_missing:
            self._told_missing = missing
            self.get_logger().warning(f"not in the stream: {', '.join(missing)}; is it called so there, is it enabled?")
        if time.monotonic() - self._silent_since_s > _SILENT_S:
            self._silent_since_s = time.monotonic() + _SILENT_S  # not every second
            self.get_logger().warning("connected, and no frame comes: is the system live, does it stream rigid bodies?")
