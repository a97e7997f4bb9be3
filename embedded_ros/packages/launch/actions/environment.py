"""Environment variables of the processes to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.substitution import SomeSubstitutionsType, normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class SetEnvironmentVariable(Action):
    """Set an environment variable."""

    def __init__(self, name: SomeSubstitutionsType, value: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = normalize_to_list_of_substitutions(value)

    def execute(self, context: LaunchContext) -> None:
        context.environment[perform_substitutions(context, self.name)] = perform_substitutions(context, self.value)
