"""Substitutions that look something up: a launch configuration, the environment, a file's place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    SubstitutionFailure,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class LaunchConfiguration(Substitution):
    """Value of a launch argument, or of what SetLaunchConfiguration set."""

    def __init__(self, variable_name: SomeSubstitutionsType, *, default: Any = None) -> None:
        self.variable_name = normalize_to_list_of_substitutions(variable_name)
        self.default = None if default is None else normalize_to_list_of_substitutions(_as_texts(default))

    def describe(self) -> str:
        return f"LaunchConfig({describe(self.variable_name)})"

    def perform(self, context: LaunchContext) -> str:
        name = perform_substitutions(context, self.variable_name)
        if name in context.launch_configurations:
            return str(context.launch_configurations[name])
        if self.default is None:
            raise SubstitutionFailure(f"launch configuration '{name}' does not exist")
        return perform_substitutions(context, self.default)


def _as_texts(default: Any) -> list[str | Substitution]:
    several = default if isinstance(default, Iterable) and not isinstance(default, str) else (default,)
    return [one if isinstance(one, (str, Substitution)) else str(one) for one in several]


class EnvironmentVariable(Substitution):
    """Value of an environment variable, as SetEnvironmentVariable left it."""

    def __init__(self, name: SomeSubstitutionsType, *, default_value: SomeSubstitutionsType | None = None) -> None:
        self.name = normalize_to_list_of_substitutions(name)
        self.default_value = None if default_value is None else normalize_to_list_of_substitutions(default_value)

    def describe(self) -> str:
        return f"EnvVar({describe(self.name)})"

    def perform(self, context: LaunchContext) -> str:
        name = perform_substitutions(context, self.name)
        if name in context.environment:
            return context.environment[name]
        if self.default_value is None:
            raise SubstitutionFailure(f"environment variable '{name}' does not exist")
        return perform_substitutions(context, self.default_value)


class PathJoinSubstitution(Substitution):
    """Path of several parts; each part is text, a substitution, or several of both."""

    def __init__(self, substitutions: Iterable[SomeSubstitutionsType]) -> None:
        self.substitutions = [normalize_to_list_of_substitutions(part) for part in substitutions]

    def describe(self) -> str:
        return f"PathJoin({', '.join(describe(part) for part in self.substitutions)})"

    def perform(self, context: LaunchContext) -> str:
        # Not pathlib: the text goes on as it is, and `./` or a trailing slash may mean something to a program.
        return os.path.join(*(perform_substitutions(context, part) for part in self.substitutions))  # noqa: PTH118


class ThisLaunchFile(Substitution):
    """Path of the launch file that holds it."""

    def perform(self, context: LaunchContext) -> str:
        return _local(context, "current_launch_file_path", "ThisLaunchFile")


class ThisLaunchFileDir(Substitution):
    """Folder of the launch file that holds it."""

    def perform(self, context: LaunchContext) -> str:
        return _local(context, "current_launch_file_directory", "ThisLaunchFileDir")


def _local(context: LaunchContext, name: str, what: str) -> str:
    found = context.get_locals_as_dict().get(name)
    if found is None:
        raise SubstitutionFailure(f"{what} used outside of a launch file (in a script)")
    return str(found)
