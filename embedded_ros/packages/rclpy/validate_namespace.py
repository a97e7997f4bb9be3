"""`validate_namespace` under the name that rclpy has for it."""

from __future__ import annotations

from rclpy._names import validate_namespace

__all__ = ["validate_namespace"]
