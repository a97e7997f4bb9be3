"""Substitutions: text that is known only when a launch runs."""

from __future__ import annotations

from launch.substitution import SubstitutionFailure, TextSubstitution
from launch.substitutions.environment import (
    EnvironmentVariable,
    LaunchConfiguration,
    PathJoinSubstitution,
    ThisLaunchFile,
    ThisLaunchFileDir,
)
from launch.substitutions.logic import (
    EqualsSubstitution,
    NotEqualsSubstitution,
)

__all__ = [
    "EnvironmentVariable",
    "EqualsSubstitution",
    "LaunchConfiguration",
    "NotEqualsSubstitution",
    "PathJoinSubstitution",
    "SubstitutionFailure",
    "TextSubstitution",
    "ThisLaunchFile",
    "ThisLaunchFileDir",
]
