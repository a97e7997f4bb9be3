"""What nodes of drivers and emulators have in common: steady timers, diagnostics, services, readings handed on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rclpy.clock
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import ClockType
from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_srvs.srv import Trigger

from onboard_estimation.errors import UserError
from onboard_estimation.live.messages import new
from onboard_estimation.measurement import Channel, Measurement
from onboard_estimation.nodes.source import Take
from onboard_estimation.ros.diagnostics import status
from onboard_estimation.ros.sensor_messages import header

STREAM = QoSProfile(depth=500)
"""Reliable, for those who ask for it; who asks for less gets it all the same."""


@dataclass(frozen=True)
class NoRobot:
    """Of a node that runs for no robot of the suite: no parameters beside its own."""


class SteadyNode(Node):
    """A node whose parameters are those of a configuration, and whose timers go by a clock that nobody sets."""

    def __init__(self, name: str) -> None:
        super().__init__(name, automatically_declare_parameters_from_overrides=True)
        self._steady = rclpy.clock.Clock(clock_type=ClockType.STEADY_TIME)

    def every(self, period_s: float, callback: Callable[[], object]) -> Any:
        """A timer."""
        return self.create_timer(period_s, callback, clock=self._steady)


class DriverNode(SteadyNode):
    """A node of a device: says on `/diagnostics` how it fares, and offers services of type Trigger."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", QoSProfile(depth=10))

    def status(self, part: str, level: bytes, text: str, values: Mapping[str, float]) -> Any:
        """Of a part of the device, for `report`."""
        return status(new, self.get_fully_qualified_name().strip("/"), part, level, text, values)

    def report(self, statuses: Sequence[Any]) -> None:
        """Publish statuses as of now."""
        stamp = header(new, self.get_clock().now().nanoseconds)
        self._diagnostics.publish(new("diagnostic_msgs/msg/DiagnosticArray", header=stamp, status=statuses))

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
    """A driver whose readings an estimator of the same process may take without messages: a `Source`.

    Attributes
    ----------
    measured
        Channels of its readings.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.measured: list[Channel] = []
        self._take: Take | None = None
        self._taken: frozenset[str] = frozenset()

    @property
    def measured_topics(self) -> frozenset[str]:
        """See `Source`."""
        return frozenset(channel.topic for channel in self.measured)

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """See `Source`."""
        self._take, self._taken = take, frozenset(one.sensor for one in self.measured if one.topic in topics)

    def hand_over(self, readings: Sequence[Measurement]) -> float:
        """Hand on those that are taken, in this order; for how long the next may wait, s."""
        taken = [reading for reading in readings if reading.sensor in self._taken]
        return self._take(taken) if self._take is not None and taken else 0.0
