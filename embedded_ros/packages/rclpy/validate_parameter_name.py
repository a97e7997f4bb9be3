"""`validate_parameter_name` under the name that rclpy has for it."""

from __future__ import annotations

from rclpy._names import validate_parameter_name

__all__ = ["validate_parameter_name"]
