"""Exceptions that programs import from rclpy's extension module."""

from __future__ import annotations

from rclpy.exceptions import InvalidHandle

__all__ = [
    "InvalidHandle",
    "NodeNameNonExistentError",
    "RCLError",
    "RCLInvalidROSArgsError",
    "UnknownROSArgsError",
]


class RCLError(RuntimeError):
    """Failure below rclpy."""


class RCLInvalidROSArgsError(RCLError):
    """A ROS argument that cannot be read."""


class UnknownROSArgsError(RuntimeError):
    """A ROS argument that nobody knows."""


class NodeNameNonExistentError(RCLError):
    """A node that is not in the graph."""
