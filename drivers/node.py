"""What nodes of drivers have in common: diagnostics, services, readings handed on."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.qos import QoSProfile
from std_srvs.srv import Trigger

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Channel, Measurement, Vector
from onboard_estimation.live.losses import KEPT
from onboard_estimation.live.messages import new
from onboard_estimation.nodes.pacing import Take, longest_stay_s
from onboard_estimation.nodes.parameters import SteadyNode
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.ros.diagnostics import status
from onboard_estimation.ros.message_templates import Writer
from onboard_estimation.ros.sensor_messages import header

_STAY_S, _LOOK_S, _REMIND_S = 0.0005, 1.0, 10.0
_STAMP = attrgetter("stamp_ns")
_NUMBERS = re.compile(r"\d+")
STREAM = QoSProfile(depth=KEPT)
"""Reliable, for those who ask for it; who asks for less gets it all the same."""


@dataclass(frozen=True)
class NoRobot:
    """Of a node that runs for no robot of the suite: no parameters beside its own."""


class DriverNode(SteadyNode):
    """A node of a device: says on `/diagnostics` how it fares, and offers services of type Trigger.

    Attributes
    ----------
    troubles
        Those that last, by what they are of.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.troubles: dict[str, str] = {}
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))
        self._reporting = self.aside("publishing /diagnostics")

    def status(self, part: str, level: bytes, text: str, values: Mapping[str, float]) -> Any:
        """Of a part of the device, for `report`."""
        return status(new, self.get_fully_qualified_name().strip("/"), part, level, text, values)

    def report(self, statuses: Sequence[Any]) -> None:
        """Publish statuses as of now."""
        stamp = header(new, self.get_clock().now().nanoseconds)
        message = new("diagnostic_msgs/msg/DiagnosticArray", header=stamp, status=statuses)
        self._reporting(self._diagnostics.publish, message)

    def aside(self, name: str) -> Aside:
        """A task that may fail while the readings go on, see `Aside`; at the node's own end nothing is said of it."""

        def tell(sentence: str) -> None:
            if self.context.ok():
                self.say(sentence, True)

        return Aside(name, tell)

    def say(self, sentence: str, is_bad: bool) -> None:
        """Log it; not one call of either: rclpy's loggers want one severity of each line."""
        if is_bad:
            self.get_logger().warning(sentence)
        else:
            self.get_logger().info(sentence)

    def tell(self, key: str, trouble: str, over: str = "") -> None:
        """Say a trouble that is new but for its numbers, and that it is over where it is empty."""
        before = self.troubles.pop(key, "")
        if _NUMBERS.sub("", trouble) != _NUMBERS.sub("", before):
            self.say(trouble or over, bool(trouble))
        if trouble:
            self.troubles[key] = trouble

    def remind(self, waits_for: str) -> None:
        """Say what is waited for at once, and every ten seconds while it is; nothing where it is empty."""
        if waits_for:
            self.get_logger().warning(f"waiting: {waits_for}", throttle_duration_sec=_REMIND_S)

    def keep_reading(self, read: Callable[[float], object], look: Callable[[], object]) -> None:
        """Call `read` from now on, which waits so many seconds at most for what arrives, and once a second `look`.

        Not by timers of their own: an executor that is kept busy by the one is late for the other by seconds.
        """
        looked_s = time.monotonic()

        def stay() -> None:
            nonlocal looked_s
            began_s, stay_s = time.monotonic(), longest_stay_s(self)
            if began_s - looked_s >= _LOOK_S:
                looked_s = began_s
                look()
            while (left_s := began_s + stay_s - time.monotonic()) > 0.0 and self.context.ok():
                read(left_s)

        self.every(_STAY_S, stay)

    def offer(self, service: str, action: Callable[[], str]) -> None:
        """A service that does it, and answers with the sentence of what was done, or why it was not (UserError)."""

        def answer(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
            try:
                response.success, response.message = True, action()
            except UserError as error:
                response.success, response.message = False, str(error)
            self.get_logger().info(response.message)
            return response

        self.create_service(Trigger, service, answer)


class MeasuringNode(DriverNode):
    """A driver whose readings go out as messages, and without them to an estimator of the same process: a `Source`.

    Attributes
    ----------
    measured
        Channels of its readings.
    outputs
        Their publishers, by sensor.
    messages
        What makes their messages of stamps and values, by sensor.
    heard
        Sensors that somebody listens to.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.measured: list[Channel] = []
        self.outputs: dict[str, Any] = {}
        self.messages: dict[str, Writer] = {}
        self.heard: frozenset[str] = frozenset()
        self._take: Take | None = None
        self._taken: frozenset[str] = frozenset()

    def offer_readings(self, channel: Channel, kind: Any) -> None:
        """A topic for the readings of a sensor; what makes its messages is still to be told."""
        self.measured.append(channel)
        self.outputs[channel.sensor] = self.create_publisher(kind, channel.topic, STREAM)

    def look_who_listens(self) -> None:
        """Find it out."""
        self.heard = frozenset(sensor for sensor, one in self.outputs.items() if one.get_subscription_count())

    def publish(self, sensor: str, stamp_ns: int, value: Vector) -> None:
        """A reading, where somebody listens."""
        if sensor in self.heard:
            self.outputs[sensor].publish(self.messages[sensor](stamp_ns, value))

    @property
    def measured_topics(self) -> frozenset[str]:
        """See `Source`."""
        return frozenset(channel.topic for channel in self.measured)

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """See `Source`."""
        self._take, self._taken = take, frozenset(one.sensor for one in self.measured if one.topic in topics)

    def hand_over(self, readings: Sequence[Measurement]) -> float:
        """Hand on those that are taken, by their stamps; for how long the next may wait, s."""
        taken = sorted((one for one in readings if one.sensor in self._taken), key=_STAMP)
        return self._take(taken) if self._take is not None and taken else 0.0


def set_variances(message: Any, **variances: float) -> None:
    """Of parts of an `Imu`, the same for all axes; a part that is absent stays marked so."""
    for name, variance in variances.items():
        if getattr(message, f"{name}_covariance")[0] != -1.0:
            setattr(message, f"{name}_covariance", (variance * np.eye(3)).ravel())
