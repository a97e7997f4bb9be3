"""Launch arguments and launch configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.substitution import SomeSubstitutionsType, normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class DeclareLaunchArgument(Action):
    """An argument that the command line and including launch files may give.

    Parameters
    ----------
    name
        Of the argument, and of the launch configuration that gets its value.
    default_value
        Where it is not given; without one it must be given.
    description
        For `--show-args`; the choices are added.
    choices
        The values that are allowed; any where there are none.

    Raises
    ------
    RuntimeError
        No choices at all, or a default that is none of them; when visited: no value, or none of the choices.
    """

    def __init__(
        self,
        name: str,
        *,
        default_value: SomeSubstitutionsType | None = None,
        description: str | None = None,
        choices: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if choices is not None and not choices:
            raise RuntimeError("Provided choices arg is empty. Use None to ignore the choice list.")
        if choices is not None and isinstance(default_value, str) and default_value not in choices:
            raise RuntimeError(f'Provided default_value "{default_value}" is not in provided choices "{choices}".')
        self.name = name
        self.choices = choices
        self.description = _described(description, choices)
        self.default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)
        self._conditionally_included = False

    def execute(self, context: LaunchContext) -> None:
        if self.name not in context.launch_configurations:
            if self.default_value is None:
                raise RuntimeError(
                    f'Required launch argument "{self.name}" (description: "{self.description}") was not provided'
                )
            context.launch_configurations[self.name] = perform_substitutions(context, self.default_value)
        value = context.launch_configurations[self.name]
        if self.choices is not None and value not in self.choices:
            raise RuntimeError(
                f'Argument "{self.name}" provided value "{value}" is not valid. Valid options are: {self.choices}'
            )


def _described(description: str | None, choices: Sequence[str] | None) -> str:
    if description is None:
        return "no description given" if choices is None else f"One of: {choices}"
    if choices is None:
        return description
    return f"{description}{'' if description.endswith('.') else '.'} Valid choices are: {choices}"


class SetLaunchConfiguration(Action):
    """Set a launch configuration."""

    def __init__(self, name: SomeSubstitutionsType, value: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = normalize_to_list_of_substitutions(value)

    def execute(self, context: LaunchContext) -> None:
        name = perform_substitutions(context, self.name)
        context.launch_configurations[name] = perform_substitutions(context, self.value)
