"""One message of a topic."""

from __future__ import annotations

import math
import time
from typing import Any

from rclpy.qos import QoSProfile

_GLANCE_S = 0.1


def wait_for_message(
    msg_type: Any, node: Any, topic: str, *, qos_profile: QoSProfile | int = 1, time_to_wait: float = -1
) -> tuple[bool, Any]:
    """(True, message), or (False, None) after `time_to_wait` s (negative: none) or at shutdown; nobody has to spin."""
    from embedded_ros.wire import WaitSet

    subscription = node.create_subscription(msg_type, topic, lambda _: None, qos_profile)
    # An executor that spins the node must not take the message away.
    node._embedded_core.subscriptions.remove(subscription)
    node._embedded_core.changed()
    waitset = WaitSet(node.context.participant)
    try:
        waitset.attach(subscription._reader)
        end_s = math.inf if time_to_wait < 0 else time.monotonic() + time_to_wait
        while node.context.ok():
            for sample in subscription._take(1):
                try:
                    return True, subscription._deserialize(sample.payload)
                except ValueError as error:
                    subscription._left_out(error)
            left_s = end_s - time.monotonic()
            if left_s <= 0.0:
                break
            waitset.wait(min(left_s, _GLANCE_S))
    finally:
        waitset.detach(subscription._reader)
        waitset.close()
        node._embedded_core.subscriptions.append(subscription)
        node.destroy_subscription(subscription)
    return False, None
