"""Environment variables of the processes to come."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.substitution import SomeSubstitutionsType, normalize_to_list_of_substitutions, perform_substitutions
from launch.utilities.typed_values import normalize_typed, perform_typed

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


class UnsetEnvironmentVariable(Action):
    """Take an environment variable away; no fault where it is not set."""

    def __init__(self, name: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.name = normalize_to_list_of_substitutions(name)

    def execute(self, context: LaunchContext) -> None:
        context.environment.pop(perform_substitutions(context, self.name), None)


class AppendEnvironmentVariable(Action):
    """Append to an environment variable, or prepend, with a separator between (that of paths by default)."""

    def __init__(
        self,
        name: SomeSubstitutionsType,
        value: SomeSubstitutionsType,
        prepend: bool | SomeSubstitutionsType = False,
        separator: SomeSubstitutionsType = os.pathsep,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = normalize_to_list_of_substitutions(value)
        self.prepend = normalize_typed(prepend, bool)
        self.separator = normalize_to_list_of_substitutions(separator)

    def execute(self, context: LaunchContext) -> None:
        name = perform_substitutions(context, self.name)
        parts = [perform_substitutions(context, self.value)]
        if name in context.environment:
            before = context.environment[name]
            parts = [*parts, before] if perform_typed(context, self.prepend, bool) else [before, *parts]
        context.environment[name] = perform_substitutions(context, self.separator).join(parts)
