"""Kinds of clocks."""

from __future__ import annotations

from enum import IntEnum


class ClockType(IntEnum):
    """Which clock a time was read from; times of different kinds cannot be compared."""

    UNINITIALIZED = 0
    ROS_TIME = 1
    SYSTEM_TIME = 2
    STEADY_TIME = 3
