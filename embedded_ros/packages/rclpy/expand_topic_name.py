"""`expand_topic_name` under the name that rclpy has for it."""

from __future__ import annotations

from rclpy._names import expand_topic_name

__all__ = ["expand_topic_name"]
