"""Base of launch files, under the name of the module that ROS 2 has it in."""

from __future__ import annotations

from launch.launch_description_sources import LaunchDescriptionSource

__all__ = ["LaunchDescriptionSource"]
