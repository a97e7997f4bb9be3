"""What a launch file gives: entities in the order in which they are visited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from launch.actions.arguments import DeclareLaunchArgument
from launch.launch_description_entity import LaunchDescriptionEntity

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class LaunchDescription(LaunchDescriptionEntity):
    """Entities in order."""

    def __init__(self, initial_entities: Iterable[LaunchDescriptionEntity] | None = None) -> None:
        self.entities = list(initial_entities or ())

    def add_entity(self, entity: LaunchDescriptionEntity) -> None:
        """Add one at the end."""
        self.entities.append(entity)

    add_action = add_entity

    def visit(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        return self.entities

    def describe_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self.entities

    def get_launch_arguments(self, conditional_inclusion: bool = False) -> list[DeclareLaunchArgument]:
        """Arguments declared here and in what is included, as far as that is known without running it.

        Of arguments of one name the first counts. `_conditionally_included` tells of each whether it may not be
        declared at all.
        """
        return [argument for argument, _ in self.get_launch_arguments_with_given_names(conditional_inclusion)]

    def get_launch_arguments_with_given_names(
        self, conditional_inclusion: bool = False
    ) -> list[tuple[DeclareLaunchArgument, frozenset[str]]]:
        """The same, each with the names of the arguments that the includes between here and there give."""
        found: dict[str, tuple[DeclareLaunchArgument, frozenset[str]]] = {}
        _collect(self.entities, conditional_inclusion, frozenset(), found)
        return list(found.values())


def _collect(
    entities: Iterable[LaunchDescriptionEntity],
    conditional: bool,
    given: frozenset[str],
    found: dict[str, tuple[DeclareLaunchArgument, frozenset[str]]],
) -> None:
    from launch.actions.grouping import IncludeLaunchDescription

    for entity in entities:
        if isinstance(entity, DeclareLaunchArgument) and entity.name not in found:
            entity._conditionally_included = conditional or entity.condition is not None
            found[entity.name] = (entity, given)
        inside = given | entity.given_names() if isinstance(entity, IncludeLaunchDescription) else given
        _collect(entity.describe_sub_entities(), conditional, inside, found)
        for _, below in entity.describe_conditional_sub_entities():
            _collect(below, True, inside, found)
