"""What can be known of a robot at this moment, on topics of its own beside the estimates."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from onboard_estimation.base.measurement import Channel, Estimate, Vector
from onboard_estimation.contract.observed import Observed
from onboard_estimation.live.messages import interface_class, new
from onboard_estimation.pipeline.aside import Aside
from onboard_estimation.ros.measurements import MessageFault, to_measurement
from onboard_estimation.ros.sensor_messages import header

if TYPE_CHECKING:
    from onboard_estimation.nodes.estimator import EstimatorNode

_PERIOD_S = 1.0
_SHARE = 0.1
"""Of a processor that it may take: what takes long is told less often."""


class ObservabilityOutputs:
    """Publishes `observability` (JointState) and, latched, `observability_forecast` (String), once a second at most.

    Looking takes long: it is done beside the node, so that no measurement waits for it, and only while somebody
    listens.

    Parameters
    ----------
    command
        Channel of the commands, of which the newest acts.
    look
        From an estimate and a command (d,); may raise ArithmeticError, ValueError and numpy.linalg.LinAlgError, which
        is said. Any other error is the last.
    """

    def __init__(self, node: EstimatorNode, command: Channel, look: Callable[[Estimate, Vector], Observed]) -> None:
        self._node, self._channel, self._look = node, command, look
        self._command: Vector = np.zeros(len(command.names))
        self._numbers = node.create_publisher(JointState, "observability", QoSProfile(depth=10))
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._words = node.create_publisher(String, "observability_forecast", latched)
        best_effort = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
        node.create_subscription(interface_class(command.message_type), command.topic, self._take, best_effort)
        self._aside = Aside("observability", node.get_logger().error)
        self._work: Thread | None = None
        self._found: tuple[int, Observed] | str | None = None
        self._next_s = 0.0
        node.every(_PERIOD_S, self._tell)

    def _take(self, message: Any) -> None:
        try:
            self._command = to_measurement(self._channel, message).value
        except MessageFault:
            return  # the estimator's own subscription says so

    def _tell(self) -> None:
        """Publish what was found meanwhile, and look at the newest estimate."""
        if self._work is not None and not self._work.is_alive():
            self._publish()
            self._work = None
        estimate = self._node.latest
        listened = self._numbers.get_subscription_count() + self._words.get_subscription_count() > 0
        if estimate is None or not listened or self._work is not None or time.monotonic() < self._next_s:
            return
        work = (self._search, estimate, self._command)
        self._work = Thread(target=self._aside, args=work, daemon=True, name="observability")
        self._work.start()

    def _search(self, estimate: Estimate, command: Vector) -> None:
        started_s = time.monotonic()
        try:
            self._found = estimate.stamp_ns, self._look(estimate, command)
        except (np.linalg.LinAlgError, ArithmeticError, ValueError) as error:
            self._found = f"observability: {error}"
        self._next_s = started_s + (time.monotonic() - started_s) / _SHARE

    def _publish(self) -> None:
        if isinstance(self._found, str):
            self._node.get_logger().warning(self._found, throttle_duration_sec=30.0)
        elif self._found is not None:
            stamp_ns, found = self._found
            numbers = {"name": list(found.names), "position": np.array(found.values)}
            self._numbers.publish(new("sensor_msgs/msg/JointState", header=header(new, stamp_ns), **numbers))
            self._words.publish(String(data=found.words))
        self._found = None
