"""Waits for motion capture of all bodies and makes the filter's initial state of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel, Estimate, Vector
from onboard_estimation.base.series import truth_channel
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.truth import StartedFromTruth, initial_state
from onboard_estimation.live.messages import interface_class
from onboard_estimation.ros.measurements import MessageFault, to_measurement

_TOGETHER_NS = NANOSECONDS_PER_SECOND // 20
"""Poses of the bodies count as of one instant within this."""


class TruthStart:
    """The initial state from the first poses of all bodies, with the robot's initial covariance.

    Raises
    ------
    UserError
        The robot takes no initial state from the truth.
    """

    def __init__(self, robot: Robot, configuration: Any) -> None:
        specification = robot.truth_specification(configuration)
        if not isinstance(robot, StartedFromTruth) or specification.alignment != "none":
            raise UserError(f"initial_from_truth: {robot.name} finds its initial state by itself")
        covariance = robot.initial_covariance(configuration)
        self._robot, self._configuration, self._covariance = robot, configuration, covariance
        self._known = robot.known_before(configuration)
        self._space = robot.estimator(configuration, robot.estimators[0]).space
        self._channels = [truth_channel(body) for body in specification.bodies]
        self._poses: dict[str, tuple[int, Vector]] = {}
        self._names: dict[str, str] = {}

    def subscribe(self, node: Node, begin: Callable[[Estimate], None]) -> None:
        """Listen; calls `begin` once with the initial state, and stops listening."""
        self._names = {channel.topic: node.resolve_topic_name(channel.topic) for channel in self._channels}
        subscriptions: list[Any] = []

        def take(channel: Channel, message: Any) -> None:
            try:
                measurement = to_measurement(channel, message)
            except MessageFault:
                return
            if not np.isfinite(measurement.value).all() or not subscriptions:
                return
            self._poses[channel.sensor] = measurement.stamp_ns, measurement.value
            initial = self._initial()
            if initial is not None:
                for subscription in subscriptions:
                    node.destroy_subscription(subscription)
                subscriptions.clear()
                begin(initial)

        for channel in self._channels:
            kind = interface_class(channel.message_type)
            subscriptions.append(
                node.create_subscription(kind, channel.topic, partial(take, channel), qos_profile_sensor_data)
            )

    def waiting_sentence(self) -> str:
        """What it waits for, as a log says it."""
        silent = [self._names[one.topic] for one in self._channels if one.sensor not in self._poses]
        if silent:
            return f"waiting for {', '.join(f'{name}: 0 messages' for name in silent)}"
        return f"waiting for poses of all bodies within {_TOGETHER_NS / 1e6:.0f} ms of each other"

    def _initial(self) -> Estimate | None:
        stamps = [stamp_ns for stamp_ns, _ in self._poses.values()]
        if len(stamps) < len(self._channels) or max(stamps) - min(stamps) > _TOGETHER_NS:
            return None
        bodies = {channel.sensor.partition("/")[2]: self._poses[channel.sensor][1][None] for channel in self._channels}
        parts = {name: rows[0] for name, rows in self._robot.true_parts(self._configuration, bodies).items()}
        return initial_state(self._space, parts | self._known, self._covariance, max(stamps))
