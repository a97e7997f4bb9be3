"""Actions: what a launch file can do."""

from __future__ import annotations

from launch.actions.arguments import (
    DeclareLaunchArgument,
    SetLaunchConfiguration,
    UnsetLaunchConfiguration,
)
from launch.actions.environment import (
    AppendEnvironmentVariable,
    SetEnvironmentVariable,
    UnsetEnvironmentVariable,
)
from launch.actions.events import EmitEvent, LogInfo, RegisterEventHandler, Shutdown, UnregisterEventHandler
from launch.actions.execute_process import ExecuteProcess
from launch.actions.grouping import GroupAction, IncludeLaunchDescription, OpaqueFunction
from launch.actions.timer_action import TimerAction

from embedded_ros.absent import refuse

__all__ = [
    "AppendEnvironmentVariable",
    "DeclareLaunchArgument",
    "EmitEvent",
    "ExecuteProcess",
    "GroupAction",
    "IncludeLaunchDescription",
    "LogInfo",
    "OpaqueFunction",
    "RegisterEventHandler",
    "SetEnvironmentVariable",
    "SetLaunchConfiguration",
    "Shutdown",
    "TimerAction",
    "UnregisterEventHandler",
    "UnsetEnvironmentVariable",
    "UnsetLaunchConfiguration",
]

__getattr__ = refuse(
    __name__,
    (
        "ExecuteLocal",
        "OpaqueCoroutine",
        "PopEnvironment",
        "PopLaunchConfigurations",
        "PushEnvironment",
        "PushLaunchConfigurations",
        "ResetEnvironment",
        "ResetLaunchConfigurations",
    ),
)
