"""Handlers of the start and the end of processes and of the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from launch.event import Event
from launch.event_handler import BaseEventHandler, EventHandler, entities_of
from launch.events import Shutdown
from launch.events.process import ProcessEvent, ProcessExited, ProcessStarted

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext
    from launch.launch_description_entity import LaunchDescriptionEntity

__all__ = ["EventHandler", "OnProcessExit", "OnProcessStart", "OnShutdown"]


class _Reaction(BaseEventHandler):
    """What to do is given as entities, or as a function of event and context that returns entities or None."""

    def __init__(self, matcher: Callable[[Event], bool], reaction: Any, handle_once: bool) -> None:
        super().__init__(matcher=matcher, handle_once=handle_once)
        self._function = reaction if callable(reaction) else None
        self._entities = [] if self._function else entities_of(reaction)

    def handle(self, event: Event, context: LaunchContext) -> Any:
        super().handle(event, context)
        return self._function(event, context) if self._function else self._entities

    def entities(self) -> list[LaunchDescriptionEntity]:
        return self._entities


class OnProcessStart(_Reaction):
    """When a process has been started: that of `target_action` (an action, or a function that picks), else any."""

    def __init__(self, *, target_action: Any = None, on_start: Any, handle_once: bool = False) -> None:
        super().__init__(_of_process(ProcessStarted, target_action), on_start, handle_once)


class OnProcessExit(_Reaction):
    """When a process has ended: that of `target_action` (an action, or a function that picks), else any."""

    def __init__(self, *, target_action: Any = None, on_exit: Any, handle_once: bool = False) -> None:
        super().__init__(_of_process(ProcessExited, target_action), on_exit, handle_once)


class OnShutdown(_Reaction):
    """When the launch is about to end."""

    def __init__(self, *, on_shutdown: Any, handle_once: bool = False) -> None:
        super().__init__(lambda event: isinstance(event, Shutdown), on_shutdown, handle_once)


def _of_process(kind: type[ProcessEvent], target: Any) -> Callable[[Event], bool]:
    from launch.actions import ExecuteProcess

    if not (target is None or isinstance(target, ExecuteProcess) or callable(target)):
        raise TypeError("target_action must be an 'ExecuteProcess' or a callable")

    def matches(event: Event) -> bool:
        if not isinstance(event, kind):
            return False
        if target is None or event.action is target:
            return True
        return callable(target) and not isinstance(target, ExecuteProcess) and bool(target(event.action))

    return matches
