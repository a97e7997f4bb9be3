"""Events of a launch as a whole; those of processes are in `launch.events.process`."""

from __future__ import annotations

from launch.event import Event
from launch.events import process

__all__ = ["Shutdown", "process"]


class Shutdown(Event):
    """The launch ends: every process that still runs is interrupted."""

    name = "launch.events.Shutdown"

    def __init__(self, *, reason: str = "reason not given", due_to_sigint: bool = False) -> None:
        self.reason = reason
        self.due_to_sigint = due_to_sigint


class TimerEvent(Event):
    """A TimerAction's time is up."""

    name = "launch.events.TimerEvent"

    def __init__(self, *, timer_action: object) -> None:
        self.timer_action = timer_action
