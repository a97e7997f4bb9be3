"""Sends transforms that never change on `/tf_static`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from geometry_msgs.msg import TransformStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage


class StaticTransformBroadcaster:
    """`sendTransform` publishes all transforms so far, which late listeners get as well."""

    def __init__(self, node: Any, qos: QoSProfile | int | None = None) -> None:
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.pub_tf = node.create_publisher(TFMessage, "/tf_static", latched if qos is None else qos)
        self._sent: dict[str, TransformStamped] = {}

    def sendTransform(self, transform: TransformStamped | Iterable[TransformStamped]) -> None:
        """Publish one transform or several, in place of earlier ones of the same child frame."""
        transforms = list(transform) if isinstance(transform, Iterable) else [transform]
        self._sent.update({each.child_frame_id: each for each in transforms})
        self.pub_tf.publish(TFMessage(transforms=list(self._sent.values())))
