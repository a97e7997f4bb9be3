"""Where a node's clock gets its time from: the machine, or `/clock` with `use_sim_time`."""

from __future__ import annotations

import weakref
from typing import Any

from rclpy.clock import ROSClock
from rclpy.clock_type import ClockType
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time

CLOCK_TOPIC = "/clock"
USE_SIM_TIME_NAME = "use_sim_time"


class TimeSource:
    """Follows the parameter `use_sim_time` of a node and sets the clocks attached to it."""

    def __init__(self, *, node: Any = None) -> None:
        self._node: weakref.ReferenceType[Any] | None = None
        self._subscription: Any = None
        self._clocks: set[ROSClock] = set()
        self._last_time = Time(clock_type=ClockType.ROS_TIME)
        self._active = False
        if node is not None:
            self.attach_node(node)

    @property
    def ros_time_is_active(self) -> bool:
        """Whether simulated time holds."""
        return self._active

    @ros_time_is_active.setter
    def ros_time_is_active(self, enabled: bool) -> None:
        if enabled == self._active:
            return
        self._active = enabled
        for clock in self._clocks:
            clock._set_ros_time_is_active(enabled)
        if enabled:
            self._subscribe()
        else:
            self._unsubscribe()

    def _subscribe(self) -> None:
        from rosgraph_msgs.msg import Clock as ClockMessage

        node = self._node() if self._node is not None else None
        if node is not None and self._subscription is None:
            # Only the latest time matters, and a lost one is soon replaced.
            qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
            self._subscription = node.create_subscription(ClockMessage, CLOCK_TOPIC, self.clock_callback, qos)

    def _unsubscribe(self) -> None:
        node = self._node() if self._node is not None else None
        if node is not None and self._subscription is not None:
            node.destroy_subscription(self._subscription)
        self._subscription = None

    def attach_node(self, node: Any) -> None:
        """Follow this node's parameter from now on."""
        self.detach_node()
        self._node = weakref.ref(node)
        if not node.has_parameter(USE_SIM_TIME_NAME):
            node.declare_parameter(USE_SIM_TIME_NAME, False)
        self.ros_time_is_active = node.get_parameter(USE_SIM_TIME_NAME).value
        node._embedded_core.parameters.on_set_internally = self._parameters_set

    def detach_node(self) -> None:
        """Follow no node."""
        self._unsubscribe()
        self._node = None

    def attach_clock(self, clock: ROSClock) -> None:
        """Set this clock too."""
        if not isinstance(clock, ROSClock):
            raise ValueError("Only clocks with type ROS_TIME can be attached.")
        clock.set_ros_time_override(self._last_time)
        clock._set_ros_time_is_active(self._active)
        self._clocks.add(clock)

    def clock_callback(self, msg: Any) -> None:
        """A message on `/clock`."""
        self._last_time = Time.from_msg(msg.clock)
        for clock in self._clocks:
            clock.set_ros_time_override(self._last_time)

    def _parameters_set(self, parameters: list[Parameter]) -> None:
        for parameter in parameters:
            if parameter.name == USE_SIM_TIME_NAME:
                self.ros_time_is_active = bool(parameter.value)
