"""The part of ROS 2's `launch` that launch files of robots use, for machines without ROS 2.

The same launch files run under both. It differs where ROS 2's leaves processes behind or waits without need: each
process is the leader of a process group of its own, gets exactly one SIGINT whoever asked for the end, and its whole
group is gone at the end; a second Ctrl-C goes on to SIGTERM and a third to SIGKILL at once; where a launch file has a
fault, nothing is started. Calls that are left out raise NotImplementedError with their name.
"""

from __future__ import annotations

import launch.actions as actions
import launch.conditions as conditions
import launch.event_handlers as event_handlers
import launch.events as events
import launch.launch_description_sources as launch_description_sources
import launch.logging as logging
import launch.substitutions as substitutions
from launch.action import Action
from launch.condition import Condition
from launch.event import Event
from launch.event_handler import BaseEventHandler, EventHandler
from launch.launch_context import LaunchContext
from launch.launch_description import LaunchDescription
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.launch_description_sources import LaunchDescriptionSource
from launch.launch_service import LaunchService
from launch.substitution import SomeSubstitutionsType, Substitution

__all__ = [
    "Action",
    "BaseEventHandler",
    "Condition",
    "Event",
    "EventHandler",
    "LaunchContext",
    "LaunchDescription",
    "LaunchDescriptionEntity",
    "LaunchDescriptionSource",
    "LaunchService",
    "SomeSubstitutionsType",
    "Substitution",
    "actions",
    "conditions",
    "event_handlers",
    "events",
    "launch_description_sources",
    "logging",
    "substitutions",
]
