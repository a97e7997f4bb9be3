"""Whether a class is a message or a service."""

from __future__ import annotations

from typing import Any

from rclpy._node_entities import _message_support, _service_support


def check_is_valid_msg_type(msg_type: Any) -> None:
    """RuntimeError or NoTypeSupportImportedException if the class is no message."""
    _message_support(msg_type)


def check_is_valid_srv_type(srv_type: Any) -> None:
    """RuntimeError if the class is no service."""
    _service_support(srv_type)
