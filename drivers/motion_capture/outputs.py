"""What is published of bodies: `ground_truth/<name>/pose`, and their transforms where asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message

from drivers.motion_capture.frames import CaptureFrame, is_pose, topic_name, z_up
from onboard_estimation.live.messages import new
from onboard_estimation.live.types import interface_class
from onboard_estimation.ros.serialized_sensors import SerializedSensor
from onboard_estimation.ros.transforms import truth_to_body
from onboard_estimation.simulation import truth_channel

_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
"""Sensor-data subscriptions, best effort, get it as well; a recorder that asks for all gets all."""


class BodyOutputs:
    """Publishes the tracked bodies of frames; of one that is not tracked, nothing.

    Parameters
    ----------
    bodies
        `name=topic` pairs: which bodies of the stream are published, and as what. Empty: all, under their own names.
    up_axis
        Of the stream: `z` or `y`.
    prefix
        Before the names of frames but `world`.
    publish_tf
        `world` to `<prefix>truth/<name>` as well.
    tell
        Takes a sentence on what cannot be published.

    Attributes
    ----------
    seen, hidden, faulty
        By body's topic name: frames in which it was tracked, was not, or had a pose that is none.
    """

    def __init__(
        self,
        node: Node,
        bodies: Sequence[str],
        up_axis: str,
        prefix: str,
        publish_tf: bool,
        tell: Callable[[str], object],
    ) -> None:
        self._node, self._up_axis, self._prefix, self._tell = node, up_axis, prefix, tell
        self._asked = {name: topic for name, _, topic in (pair.rpartition("=") for pair in bodies)}
        self._broadcaster: Any = None
        if publish_tf:
            from tf2_ros import TransformBroadcaster

            self._broadcaster = TransformBroadcaster(node)
        self._topics: dict[str, str] = {}  # by name in the stream; empty: not published
        self._bodies: dict[str, _Body] = {}  # by topic name
        for topic in self._asked.values():
            self._bodies[topic] = _Body(node, topic)
        self.seen: dict[str, int] = {}
        self.hidden: dict[str, int] = {}
        self.faulty: dict[str, int] = {}

    def publish(self, frame: CaptureFrame) -> None:
        """Publish a frame."""
        good = is_pose(frame.poses)
        poses = z_up(frame.poses, self._up_axis)
        transforms = []
        for place, name in enumerate(frame.names):
            topic = self._topic(name)
            if not topic:
                continue
            counts = self.hidden if not frame.tracked[place] else self.seen if good[place] else self.faulty
            counts[topic] = counts.get(topic, 0) + 1
            if counts is not self.seen:
                continue
            body = self._bodies[topic]
            if body.is_heard:
                body.publisher.publish(body.message(frame.stamp_ns, poses[place]))
            if self._broadcaster is not None:
                transforms.append(truth_to_body(new, frame.stamp_ns, topic, poses[place], self._prefix))
        if transforms:
            self._broadcaster.sendTransform(transforms)

    def look_who_listens(self) -> None:
        """Once a second or so: a message that nobody takes is not made."""
        for body in self._bodies.values():
            body.is_heard = body.publisher.get_subscription_count() > 0

    def missing(self) -> list[str]:
        """Bodies that are asked for and were never in the stream."""
        return [name for name in self._asked if name not in self._topics]

    def _topic(self, name: str) -> str:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = self._new_topic(name)
        return found

    def _new_topic(self, name: str) -> str:
        if self._asked:
            return self._asked.get(name, "")
        topic = topic_name(name)
        if topic in self._bodies:
            self._tell(f"body {name!r} would be {topic}, as another one is: left out; name both in `bodies`")
            return ""
        self._bodies[topic] = _Body(self._node, topic)
        return topic


class _Body:
    """Of one topic."""

    def __init__(self, node: Node, topic: str) -> None:
        channel = truth_channel(topic)
        self.publisher = node.create_publisher(interface_class(channel.message_type), channel.topic, _QOS)
        self.message = SerializedSensor(channel, new, serialize_message)
        self.is_heard = True
        self.message(0, np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))  # its template, before the first frame
