"""Base of all that a launch description holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class LaunchDescriptionEntity:
    """Something that is visited when its turn comes."""

    def describe(self) -> str:
        """How it is shown to a reader."""
        return repr(self)

    def describe_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        """Entities that are visited with it in any case."""
        return []

    def describe_conditional_sub_entities(self) -> Sequence[tuple[str, Sequence[LaunchDescriptionEntity]]]:
        """Entities that may be visited, with the condition as a text."""
        return []

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity] | None:
        """Do its work; the entities to visit next."""
        return None
