"""Bodies of a motion capture system as ground truth: the rclpy nodes of OptiTrack and Vicon."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy

from drivers.motion_capture.bodies import BodyPoses, TruthConfiguration, chosen_names, parsed_names
from drivers.motion_capture.optitrack_client import NatNetClient, OptitrackConfiguration
from drivers.motion_capture.vicon_receiver import Receiver, ViconConfiguration
from drivers.node import DriverNode, NoRobot
from onboard_estimation.base.series import truth_channel
from onboard_estimation.live.messages import new, serialized
from onboard_estimation.nodes.parameters import NodeParameters
from onboard_estimation.ros.message_templates import MessageTemplate
from onboard_estimation.ros.sensor_messages import to_message

# Of sensor data, as who asks for a pose of now has it; deeper than its five, for a recorder that was held up.
_STREAM = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)

Client = NatNetClient | Receiver


class TruthNode(DriverNode):
    """Publishes `ground_truth/<name>/pose` of bodies that are tracked and listened to, and `/diagnostics`.

    Messages are written and published as bytes, and only where somebody listens: to hand one over costs some 35 us,
    which is too much for twenty bodies 600 times a second that nobody asked for.

    Parameters
    ----------
    client_type
        What reads the server, made of the parameters and of what says a sentence.
    """

    def __init__(
        self, name: str, configuration_type: type[TruthConfiguration], client_type: Callable[..., Client]
    ) -> None:
        self._client: Client | None = None
        super().__init__(name)
        chosen = NodeParameters(self, NoRobot, configuration_type).host
        self._wanted = parsed_names(chosen.bodies)
        self._names: tuple[str, ...] = ()
        self._outputs: dict[str, Any] = {}  # publishers, by the topic's name
        self._places: dict[str, int] = {}  # in the stream, by the topic's name
        self._heard: list[tuple[int, Any]] = []  # places in the stream, and publishers, of those that are heard
        channel = truth_channel("body")
        self._pose = MessageTemplate(lambda at, value: to_message(new, channel, at, value), serialized, 7)
        self._client = client = client_type(chosen, self.say)
        self.keep_reading(partial(self._read, client), partial(self._report, client))

    def destroy_node(self) -> None:
        """Leave the server."""
        if self._client is not None:
            self._client.close()
        super().destroy_node()

    def _read(self, client: Client, timeout_s: float) -> None:
        """Publish what arrives."""
        for frame in client.read(timeout_s):
            if frame.names is not self._names:
                self._new_bodies(frame.names)
            self._publish(frame)

    def _new_bodies(self, names: tuple[str, ...]) -> None:
        """The stream has these bodies, in this order: make and take away publishers."""
        self._names = names
        topics = chosen_names(self._wanted, names)
        self._places = {topic: names.index(name) for name, topic in topics.items()}
        for topic in set(self._outputs) - set(self._places):
            self.destroy_publisher(self._outputs.pop(topic))
        for topic in sorted(set(self._places) - set(self._outputs)):
            self._outputs[topic] = self.create_publisher(PoseStamped, truth_channel(topic).topic, _STREAM)
        self._look()
        published = ", ".join(self._outputs[topic].topic_name for topic in self._places) or "none"
        self.get_logger().info(f"{len(names)} bodies in the stream; published: {published}")
        if missing := [name for name in self._wanted if name not in topics]:
            there = ", ".join(names) or "none"
            self.get_logger().warning(f"not in the stream: {', '.join(missing)}; bodies in it: {there}")

    def _look(self) -> None:
        """Find out who listens."""
        outputs = [(place, self._outputs[topic]) for topic, place in self._places.items()]
        self._heard = [(place, output) for place, output in outputs if output.get_subscription_count()]

    def _publish(self, frame: BodyPoses) -> None:
        """Of bodies that are not tracked nothing goes out."""
        poses, tracked = frame.poses, frame.tracked.tolist()
        for place, output in self._heard:
            if tracked[place]:
                output.publish(self._pose.message(frame.stamp_ns, poses[place]))

    def _report(self, client: Client) -> None:
        self._look()
        self.remind(client.trouble or client.waits_for(time.monotonic()))
        self.report(client.health.statuses(self.status, client.trouble, client.device_clock, client.figures()))


class OptitrackNode(TruthNode):
    """Publishes what a NatNet server tracks, 2.5 to 4.2.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, best effort; stamps: the middle of the exposure in
    host time) of bodies that are tracked and listened to, and `/diagnostics`. A server that is not there,
    restarts, or changes its models is said once and followed. Parameters: `OptitrackConfiguration`.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed; an interface that is none of this host; a server's version that is not
        understood.
    """

    def __init__(self) -> None:
        super().__init__("optitrack", OptitrackConfiguration, NatNetClient)


class ViconNode(TruthNode):
    """Publishes what a Vicon system tracks; protocol: `drivers.motion_capture.vicon_protocol`.

    Publishes `ground_truth/<name>/pose` (PoseStamped in `world`, stamped at the exposure in host time) of each body
    that is seen, and `/diagnostics`. Parameters: `ViconConfiguration`.

    A server that is not there, falls silent, or sends what is no DataStream is told of, and asked again, later each
    time.

    Raises
    ------
    UserError
        Parameters at fault, all of them listed.
    """

    def __init__(self) -> None:
        super().__init__("vicon", ViconConfiguration, Receiver)
