"""Bodies of a motion capture system as ground truth: what the rclpy nodes of OptiTrack and Vicon have in common."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

from drivers.motion_capture.bodies import BodyPoses, TruthConfiguration, chosen_names, parsed_names
from drivers.motion_capture.health import StreamHealth
from drivers.node import DriverNode, NoRobot
from drivers.optitrack.client import NatNetClient, OptitrackConfiguration
from drivers.vicon.receiver import Receiver, ViconConfiguration
from onboard_estimation.live.exact_bytes import serialized
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.nodes.transforms import tf_message, tf_publisher
from onboard_estimation.ros.frames import resolved_prefix
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.sensor_messages import to_message
from onboard_estimation.ros.transforms import truth_to_body
from onboard_estimation.simulation import truth_channel
from onboard_estimation.timing.device_clock import DeviceClock

# Bodies of motion capture as ground truth on topics, and in tf where asked for.
#
# Messages are written and published as bytes, and only where somebody listens: to hand one over costs some 35 us, which
# is too much for twenty bodies 600 times a second that nobody asked for.

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


class Client(Protocol):
    """Reads a server.

    Attributes
    ----------
    health
        Counts.
    """

    health: StreamHealth

    @property
    def trouble(self) -> str:
        """Why nothing comes; empty where all is well."""

    @property
    def device_clock(self) -> DeviceClock | None:
        """That frames are mapped by; None: they are not, or not yet."""

    def read(self, timeout_s: float) -> Iterable[BodyPoses]:
        """Frames that have come, as soon as there are any; the names are the same object while they stay the same."""

    def figures(self) -> Mapping[str, float]:
        """What else is to be reported."""

    def close(self) -> None:
        """Leave the server."""


C = TypeVar("C", bound=TruthConfiguration)
R = TypeVar("R", bound=Client)


class TruthNode(DriverNode, Generic[C, R]):
    """Publishes `ground_truth/<name>/pose` of bodies that are tracked and listened to, `/tf` by choice, `/diagnostics`.

    Attributes
    ----------
    chosen, client
        Its parameters, and what `connect` made.
    """

    def __init__(self, name: str, configuration_type: type[C]) -> None:
        self.client: R | None = None
        super().__init__(name)
        parameters: NodeParameters[NoRobot, C] = NodeParameters(self, NoRobot, configuration_type)
        self.chosen = chosen = parameters.host
        prefix = resolved_prefix(chosen.frame_prefix, self.get_namespace())
        self._truth = TruthOutputs(self, parsed_names(chosen.bodies), chosen.publish_tf, prefix)
        self._names: tuple[str, ...] = ()
        self.client = client = self.connect(chosen)
        self.keep_reading(partial(self._read, client), partial(self._report, client))

    @abstractmethod
    def connect(self, chosen: C) -> R:
        """The client for these parameters."""

    def watch(self, client: R) -> None:
        """Say once a second what has changed."""

    def destroy_node(self) -> None:
        """Leave the server."""
        if self.client is not None:
            self.client.close()
        super().destroy_node()

    def _read(self, client: R, timeout_s: float) -> None:
        """Publish what arrives."""
        for poses in client.read(timeout_s):
            if poses.names is not self._names:
                self._new_bodies(poses.names)
            self._truth.publish(poses)

    def _new_bodies(self, names: tuple[str, ...]) -> None:
        self._names = names
        topics, missing = self._truth.set_bodies(names)
        self.get_logger().info(f"{len(names)} bodies in the stream; published: {', '.join(topics) or 'none'}")
        if missing:
            there = ", ".join(names) or "none"
            self.get_logger().warning(f"not in the stream: {', '.join(missing)}; bodies in it: {there}")

    def _report(self, client: R) -> None:
        self._truth.look()
        self.watch(client)
        self.report(client.health.statuses(self.status, client.trouble, client.device_clock, client.figures()))


# Rigid bodies of OptiTrack as ground truth: the rclpy node.


class OptitrackNode(TruthNode[OptitrackConfiguration, NatNetClient]):
    """Publishes what a NatNet server tracks, 2.5 to 4.2.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, best effort; stamps: the middle of the exposure in
    host time) of bodies that are tracked and listened to, `/tf` by choice, `/diagnostics`. A server that is not there,
    restarts, or changes its models is said once and followed. Parameters: `OptitrackConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed; an interface that is none of this host; a server's version that is not
        understood.
    """

    def __init__(self) -> None:
        super().__init__("optitrack", OptitrackConfiguration)

    def connect(self, chosen: OptitrackConfiguration) -> NatNetClient:
        """See `TruthNode`."""
        way = f"{chosen.transport}, at {chosen.interface}"
        self.get_logger().info(f"looking for a NatNet server at {chosen.server}:{chosen.command_port} ({way})")
        return NatNetClient(chosen, self.get_logger().info)


# Driver of a Vicon system, as an rclpy node.


class ViconNode(TruthNode[ViconConfiguration, Receiver]):
    """Publishes what a Vicon system tracks; protocol: `drivers.vicon.protocol`.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, stamped at the exposure in host time) of each body
    that is seen, tf where asked for, and `/diagnostics`. Parameters: `ViconConfiguration`.

    A server that is not there, falls silent, or sends what is no DataStream is told of, and asked again, later each
    time.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed.
    """

    def __init__(self) -> None:
        self._jumps = 0
        self._is_silent = self._is_settled = False
        super().__init__("vicon", ViconConfiguration)

    def connect(self, chosen: ViconConfiguration) -> Receiver:
        """See `TruthNode`."""
        return Receiver(chosen, self.get_logger().info, self.get_logger().warning)

    def watch(self, client: Receiver) -> None:
        """See `TruthNode`."""
        clock, connection = client.clock, client.connection
        if clock.jumps > self._jumps:
            self._jumps = clock.jumps
            self._is_settled = False
            self.get_logger().warning("frame numbers began anew, a restart or another rate: times are mapped anew")
        if not self._is_settled and clock.device_clock is not None and clock.device_clock.is_settled:
            self._is_settled = True
            self.get_logger().info(
                f"{clock.rate_hz:g} Hz; stamps to {1e6 * clock.stddev_s:.0f} us, standard deviation, beside what the "
                f"network takes at least, one way (latency_s: {self.chosen.latency_s:g} s)"
            )
        since_s = time.monotonic() - client.last_s
        if connection.is_open and math.isnan(since_s):
            since_s = connection.age_s
        is_silent = connection.is_open and since_s > self.chosen.silent_s
        if is_silent and not self._is_silent:
            self.get_logger().warning(f"connected, and no frame for {since_s:.1f} s: is the server live, or paused?")
        self._is_silent = is_silent
