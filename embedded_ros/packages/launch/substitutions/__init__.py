"""Substitutions: text that is known only when a launch runs."""

from __future__ import annotations

from launch.substitution import SubstitutionFailure, TextSubstitution
from launch.substitutions.environment import (
    EnvironmentVariable,
    FindExecutable,
    LaunchConfiguration,
    LaunchLogDir,
    PathJoinSubstitution,
    ThisLaunchFile,
    ThisLaunchFileDir,
)
from launch.substitutions.logic import (
    AndSubstitution,
    EqualsSubstitution,
    IfElseSubstitution,
    NotEqualsSubstitution,
    NotSubstitution,
    OrSubstitution,
)

from embedded_ros.absent import refuse

__all__ = [
    "AndSubstitution",
    "EnvironmentVariable",
    "EqualsSubstitution",
    "FindExecutable",
    "IfElseSubstitution",
    "LaunchConfiguration",
    "LaunchLogDir",
    "NotEqualsSubstitution",
    "NotSubstitution",
    "OrSubstitution",
    "PathJoinSubstitution",
    "SubstitutionFailure",
    "TextSubstitution",
    "ThisLaunchFile",
    "ThisLaunchFileDir",
]

# PythonExpression would mean eval, Command a program run while a launch file is read.
__getattr__ = refuse(
    __name__,
    (
        "AllSubstitution",
        "AnonName",
        "AnySubstitution",
        "Command",
        "FileContent",
        "LocalSubstitution",
        "PythonExpression",
    ),
)
