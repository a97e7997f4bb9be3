"""ROS 2 messages and services without ROS 2: classes as rclpy has them, their CDR and their type hashes."""

from __future__ import annotations

from embedded_ros.messages.classes import Message, Service, message_class, service_class
from embedded_ros.messages.definitions import definitions, distribution, has_type_hashes
from embedded_ros.messages.support import MessageSupport, ServiceSupport, support

__all__ = [
    "Message",
    "MessageSupport",
    "Service",
    "ServiceSupport",
    "definitions",
    "distribution",
    "has_type_hashes",
    "message_class",
    "service_class",
    "support",
]
