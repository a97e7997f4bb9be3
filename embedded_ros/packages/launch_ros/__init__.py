"""The part of ROS 2's `launch_ros` that launch files of robots use, for machines without ROS 2."""

from __future__ import annotations

from launch_ros import actions, descriptions, parameter_descriptions, substitutions

from embedded_ros.absent import refuse

__all__ = ["actions", "descriptions", "parameter_descriptions", "substitutions"]

__getattr__ = refuse(
    __name__, ("event_handlers", "events", "get_default_launch_description", "ros_adapters", "utilities")
)
