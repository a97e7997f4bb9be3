"""Actions about nodes."""

from __future__ import annotations

from launch_ros.actions.for_all_nodes import (
    PushROSNamespace,
    PushRosNamespace,
    SetParameter,
)
from launch_ros.actions.node import Node

__all__ = [
    "Node",
    "PushROSNamespace",
    "PushRosNamespace",
    "SetParameter",
]
