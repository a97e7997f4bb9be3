"""The part of ROS 2's `launch_ros` that launch files of robots use, for machines without ROS 2."""

from __future__ import annotations

from launch_ros import actions, descriptions, parameter_descriptions, substitutions

__all__ = ["actions", "descriptions", "parameter_descriptions", "substitutions"]
