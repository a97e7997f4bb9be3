"""Base of actions: entities that do something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launch._unsupported import reject_options
from launch.launch_description_entity import LaunchDescriptionEntity

if TYPE_CHECKING:
    from launch.condition import Condition
    from launch.launch_context import LaunchContext


class Action(LaunchDescriptionEntity):
    """Something that is done, under a condition where one is given."""

    def __init__(self, *, condition: Condition | None = None, **unsupported: Any) -> None:
        reject_options(type(self).__name__, unsupported)
        self.condition = condition

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        """Entities that it brings along."""
        return []

    def describe_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.get_sub_entities() if self.condition is None else []

    def describe_conditional_sub_entities(self) -> Sequence[tuple[str, Sequence[LaunchDescriptionEntity]]]:
        if self.condition is None:
            return []
        return [(f"Conditionally included by {self.describe()}", self.get_sub_entities())]

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity] | None:
        return self.execute(context) if self.condition is None or self.condition.evaluate(context) else None

    def execute(self, context: LaunchContext) -> Any:
        """Do it; entities to visit next, or None."""
        return None
