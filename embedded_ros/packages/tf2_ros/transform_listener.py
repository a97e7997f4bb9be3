"""Fills a buffer from `/tf` and `/tf_static`."""

from __future__ import annotations

import contextlib
from threading import Thread
from typing import Any

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from tf2_ros.buffer import Buffer


class TransformListener:
    """Subscribes with the node; `spin_thread` spins the node in a thread of its own."""

    def __init__(
        self,
        buffer: Buffer,
        node: Any,
        *,
        spin_thread: bool = False,
        qos: QoSProfile | int | None = None,
        static_qos: QoSProfile | int | None = None,
    ) -> None:
        self.buffer = buffer
        self.node = node
        self.group = ReentrantCallbackGroup()
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.tf_sub = node.create_subscription(
            TFMessage, "/tf", self.callback, QoSProfile(depth=100) if qos is None else qos, callback_group=self.group
        )
        self.tf_static_sub = node.create_subscription(
            TFMessage,
            "/tf_static",
            self.static_callback,
            latched if static_qos is None else static_qos,
            callback_group=self.group,
        )
        if spin_thread:
            self.executor = SingleThreadedExecutor(context=node.context)
            self.executor.add_node(node)
            self.dedicated_listener_thread = Thread(target=self._spin, name="tf2_listener", daemon=True)
            self.dedicated_listener_thread.start()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):
            self.executor.spin()

    def unregister(self) -> None:
        """Listen no more."""
        if hasattr(self, "executor"):
            self.executor.shutdown()
            self.dedicated_listener_thread.join()
        self.node.destroy_subscription(self.tf_sub)
        self.node.destroy_subscription(self.tf_static_sub)

    def callback(self, data: TFMessage) -> None:
        """A message of `/tf`."""
        for transform in data.transforms:
            self.buffer.set_transform(transform, "default_authority")

    def static_callback(self, data: TFMessage) -> None:
        """A message of `/tf_static`."""
        for transform in data.transforms:
            self.buffer.set_transform_static(transform, "default_authority")
