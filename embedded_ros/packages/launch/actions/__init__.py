"""Actions: what a launch file can do."""

from __future__ import annotations

from launch.actions.arguments import (
    DeclareLaunchArgument,
    SetLaunchConfiguration,
)
from launch.actions.environment import (
    SetEnvironmentVariable,
)
from launch.actions.events import EmitEvent, LogInfo, RegisterEventHandler, Shutdown
from launch.actions.execute_process import ExecuteProcess
from launch.actions.grouping import GroupAction, IncludeLaunchDescription, OpaqueFunction
from launch.actions.timer_action import TimerAction

__all__ = [
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
]
