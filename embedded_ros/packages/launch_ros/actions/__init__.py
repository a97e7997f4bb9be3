"""Actions about nodes."""

from __future__ import annotations

from launch_ros.actions.for_all_nodes import (
    PushROSNamespace,
    PushRosNamespace,
    SetParameter,
    SetParametersFromFile,
    SetRemap,
)
from launch_ros.actions.node import Node

from embedded_ros.absent import refuse

__all__ = [
    "Node",
    "PushROSNamespace",
    "PushRosNamespace",
    "SetParameter",
    "SetParametersFromFile",
    "SetRemap",
]

__getattr__ = refuse(
    __name__,
    (
        "ComposableNodeContainer",
        "LifecycleNode",
        "LifecycleTransition",
        "LoadComposableNodes",
        "RosTimer",
        "SetROSLogDir",
        "SetUseSimTime",
    ),
)
