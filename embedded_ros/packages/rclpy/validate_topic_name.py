"""`validate_topic_name` under the name that rclpy has for it."""

from __future__ import annotations

from rclpy._names import validate_topic_name

__all__ = ["TOPIC_SEPARATOR_STRING", "validate_topic_name"]

TOPIC_SEPARATOR_STRING = "/"
