"""Actions about events, and a line in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launch import events
from launch.action import Action
from launch.event import Event
from launch.event_handler import BaseEventHandler
from launch.events.process import ProcessExited
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.logging import get_logger
from launch.substitution import SomeSubstitutionsType, normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class EmitEvent(Action):
    """Put an event at the end of those to come."""

    def __init__(self, *, event: Event, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(event, Event):
            raise RuntimeError(f"EmitEvent(event=...) expected an event instance, got '{event}'")
        self.event = event

    def execute(self, context: LaunchContext) -> None:
        context.emit_event_sync(self.event)


class Shutdown(EmitEvent):
    """End the launch."""

    def __init__(self, *, reason: str = "reason not given", **options: Any) -> None:
        super().__init__(event=events.Shutdown(reason=reason), **options)

    def execute(self, context: LaunchContext) -> None:
        cause = context.get_locals_as_dict().get("event")
        if isinstance(cause, ProcessExited):
            get_logger("launch").info(f"process[{cause.process_name}] was required: shutting down launched system")
        super().execute(context)


class RegisterEventHandler(Action):
    """Add an event handler."""

    def __init__(self, event_handler: BaseEventHandler, **options: Any) -> None:
        super().__init__(**options)
        self.event_handler = event_handler

    def execute(self, context: LaunchContext) -> None:
        context.register_event_handler(self.event_handler)

    def describe_conditional_sub_entities(self) -> list[tuple[str, list[LaunchDescriptionEntity]]]:
        entities = self.event_handler.entities()
        return [(f"{type(self.event_handler).__name__} happens", entities)] if entities else []


class LogInfo(Action):
    """A line in the log."""

    def __init__(self, *, msg: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.msg = normalize_to_list_of_substitutions(msg)

    def execute(self, context: LaunchContext) -> None:
        get_logger("launch.user").info(perform_substitutions(context, self.msg))
