"""Sends transforms on `/tf`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import TransformStamped
from rclpy.qos import QoSProfile
from tf2_msgs.msg import TFMessage


class TransformBroadcaster:
    """`sendTransform` publishes one transform or several."""

    def __init__(self, node: Any, qos: QoSProfile | int | None = None) -> None:
        self.pub_tf = node.create_publisher(TFMessage, "/tf", QoSProfile(depth=100) if qos is None else qos)

    def sendTransform(self, transform: TransformStamped | Iterable[TransformStamped]) -> None:
        """Publish one transform or several."""
        transforms = list(transform) if isinstance(transform, Iterable) else [transform]
        self.pub_tf.publish(TFMessage(transforms=transforms))
