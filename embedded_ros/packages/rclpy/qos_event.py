"""Earlier name of `rclpy.event_handler`."""

from __future__ import annotations

from rclpy.event_handler import *  # noqa: F403
