"""Handlers: what to do when an event comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from launch.event import Event
from launch.launch_description_entity import LaunchDescriptionEntity

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class BaseEventHandler:
    """Base of all handlers.

    Parameters
    ----------
    matcher
        Whether an event is for it.
    handle_once
        It takes itself away after the first.
    """

    def __init__(self, *, matcher: Callable[[Event], bool], handle_once: bool = False) -> None:
        self.matcher = matcher
        self.handle_once = handle_once

    def matches(self, event: Event) -> bool:
        """Whether it wants that event."""
        return self.matcher(event)

    def handle(self, event: Event, context: LaunchContext) -> Any:
        """Entities to visit: one, several or None."""
        context.extend_locals({"event": event})
        if self.handle_once:
            context.unregister_event_handler(self)
        return None

    def entities(self) -> list[LaunchDescriptionEntity]:
        """Entities that are known before any event comes."""
        return []


class EventHandler(BaseEventHandler):
    """Entities for whatever events a function picks."""

    def __init__(self, *, matcher: Callable[[Event], bool], entities: Any = None, handle_once: bool = False) -> None:
        super().__init__(matcher=matcher, handle_once=handle_once)
        self._entities = entities_of(entities)

    def handle(self, event: Event, context: LaunchContext) -> Any:
        super().handle(event, context)
        return self._entities

    def entities(self) -> list[LaunchDescriptionEntity]:
        return self._entities


def entities_of(given: Any) -> list[LaunchDescriptionEntity]:
    """None, one entity or several as a list. TypeError for anything else."""
    if given is None:
        return []
    several = list(given) if isinstance(given, Iterable) else [given]
    for one in several:
        if not isinstance(one, LaunchDescriptionEntity):
            raise TypeError(f"expected a LaunchDescriptionEntity, got {one!r} of type '{type(one).__name__}'")
    return several
