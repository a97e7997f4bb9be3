"""Bodies of motion capture as ground truth on topics, and in tf where asked for.

Messages are written and published as bytes, and only where somebody listens: to hand one over costs some 35 us, which
is too much for twenty bodies 600 times a second that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from drivers.motion_capture.bodies import BodyPoses, chosen_names
from onboard_estimation.live.exact_bytes import serialized
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.nodes.transforms import tf_message, tf_publisher
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.sensor_messages import to_message
from onboard_estimation.ros.transforms import truth_to_body
from onboard_estimation.simulation import truth_channel

# Of sensor data, as who asks for a pose of now has it; deeper than its five, for a recorder that was held up.
_STREAM = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
_MOST_TEMPLATES = 64


class TruthOutputs:
    """Publishes `ground_truth/<name>/pose` (PoseStamped in `world`) of tracked bodies, and `world -> truth/<name>`.

    Parameters
    ----------
    node
        That the publishers belong to.
    chosen
        Topic's name by the stream's (`parsed_names`); empty: every body, under its own name.
    publish_tf
        Whether tf is published too.
    frame_prefix
        Before the frames in tf, as `resolved_prefix` gives it.

    Attributes
    ----------
    topic_names
        Of the bodies that are published, by the stream's names.
    """

    def __init__(self, node: Node, chosen: Mapping[str, str], publish_tf: bool, frame_prefix: str) -> None:
        self._node, self._chosen, self._prefix = node, dict(chosen), frame_prefix
        self.topic_names: dict[str, str] = {}
        self._outputs: dict[str, Any] = {}  # by topic name
        self._heard: frozenset[str] = frozenset()
        self._streamed: tuple[str, ...] = ()
        self._places: list[tuple[int, str]] = []  # in the stream, and topic names
        self._heard_at: list[tuple[int, Any]] = []  # in the stream, and publishers: of those that are heard
        channel = truth_channel("body")
        self._pose = MessageTemplate(lambda at, value: to_message(new, channel, at, value), serialized, 7)
        self._tf: Any = tf_publisher(node) if publish_tf else None
        self._tf_templates: dict[tuple[str, ...], MessageTemplate] = {}

    def set_bodies(self, streamed: Sequence[str]) -> tuple[list[str], list[str]]:
        """The stream has these bodies, in this order: make and take away publishers.

        Returns
        -------
        published, missing
            Topics as full names; chosen bodies that the stream has not.
        """
        self._streamed = tuple(streamed)
        self.topic_names = chosen_names(self._chosen, self._streamed)
        wanted = set(self.topic_names.values())
        for name in set(self._outputs) - wanted:
            self._node.destroy_publisher(self._outputs.pop(name))
        for name in sorted(wanted - set(self._outputs)):
            self._outputs[name] = self._node.create_publisher(PoseStamped, truth_channel(name).topic, _STREAM)
        self.look()
        topics = [self._outputs[name].topic_name for name in self.topic_names.values()]
        return topics, [name for name in self._chosen if name not in self.topic_names]

    def look(self) -> None:
        """Find out who listens; the node calls it about once a second."""
        self._heard = frozenset(name for name, output in self._outputs.items() if output.get_subscription_count())
        first = {name: place for place, name in reversed(list(enumerate(self._streamed)))}  # of bodies of one name
        self._places = [(first[stream], name) for stream, name in self.topic_names.items()]
        self._heard_at = [(place, self._outputs[name]) for place, name in self._places if name in self._heard]

    def publish(self, frame: BodyPoses) -> None:
        """A frame of the bodies that `set_bodies` has told, in their order; of those not tracked nothing goes out."""
        if not self._heard_at and self._tf is None:
            return
        poses: Matrix = np.concatenate((frame.positions_m, frame.quaternions_xyzw), axis=1)
        tracked = frame.tracked.tolist()
        for place, output in self._heard_at:
            if tracked[place]:
                output.publish(self._pose.message(frame.stamp_ns, poses[place]))
        if self._tf is not None:
            seen = [(place, name) for place, name in self._places if tracked[place]]
            if seen:
                template = self._tf_template(tuple(name for _, name in seen))
                self._tf.publish(template.message(frame.stamp_ns, poses[[place for place, _ in seen]].ravel()))

    def _tf_template(self, names: tuple[str, ...]) -> MessageTemplate:
        template = self._tf_templates.get(names)
        if template is None:
            if len(self._tf_templates) == _MOST_TEMPLATES:
                self._tf_templates.clear()

            def make(stamp_ns: int, values: Vector) -> Any:
                poses = zip(names, values.reshape(-1, 7), strict=True)
                return tf_message([truth_to_body(new, stamp_ns, name, pose, self._prefix) for name, pose in poses])

            template = self._tf_templates[names] = MessageTemplate(make, serialized, 7 * len(names))
        return template
