"""Actions that bring other entities along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.actions.arguments import SetLaunchConfiguration
from launch.launch_description_entity import LaunchDescriptionEntity
from launch.substitution import (
    SomeSubstitutionsType,
    SubstitutionFailure,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext
    from launch.launch_description_sources import LaunchDescriptionSource


_FILE_LOCALS = ("current_launch_file_path", "current_launch_file_directory")


class OpaqueFunction(Action):
    """A function of the context that returns entities or None."""

    def __init__(
        self,
        *,
        function: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not callable(function):
            raise TypeError(f"OpaqueFunction expected a callable for 'function', got '{type(function).__name__}'")
        self._function = function
        self._args = tuple(args or ())
        self._kwargs = dict(kwargs or {})

    def execute(self, context: LaunchContext) -> Any:
        return self._function(context, *self._args, **self._kwargs)


class GroupAction(Action):
    """Several actions under one condition.

    Parameters
    ----------
    scoped
        Launch configurations and environment are afterwards what they were before.
    launch_configurations
        Set inside.
    """

    def __init__(
        self,
        actions: Iterable[LaunchDescriptionEntity],
        *,
        scoped: bool = True,
        launch_configurations: Mapping[Any, SomeSubstitutionsType] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._actions = list(actions)
        self._scoped = scoped
        self._settings = [SetLaunchConfiguration(name, value) for name, value in (launch_configurations or {}).items()]

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        return self._actions

    def execute(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        if not self._scoped:
            return [*self._settings, *self._actions]
        enter, leave = OpaqueFunction(function=_enter), OpaqueFunction(function=_leave)
        return [enter, *self._settings, *self._actions, leave]


def _enter(context: LaunchContext) -> None:
    context.push_launch_configurations()
    context.push_environment()


def _leave(context: LaunchContext) -> None:
    context.pop_environment()
    context.pop_launch_configurations()


class IncludeLaunchDescription(Action):
    """Another launch file, with its arguments.

    Raises
    ------
    RuntimeError
        When visited: an argument it needs is not given. Arguments it does not declare are set nevertheless.
    """

    def __init__(
        self,
        launch_description_source: LaunchDescriptionSource | SomeSubstitutionsType,
        *,
        launch_arguments: Iterable[tuple[SomeSubstitutionsType, SomeSubstitutionsType]] | None = None,
        **options: Any,
    ) -> None:
        from launch.launch_description_sources import AnyLaunchDescriptionSource, LaunchDescriptionSource

        super().__init__(**options)
        if not isinstance(launch_description_source, LaunchDescriptionSource):
            launch_description_source = AnyLaunchDescriptionSource(launch_description_source)
        self.launch_description_source = launch_description_source
        self.launch_arguments = tuple(launch_arguments or ())

    def get_sub_entities(self) -> Sequence[LaunchDescriptionEntity]:
        description = self.launch_description_source.try_get_launch_description_without_context()
        return [] if description is None else [description]

    def given_names(self) -> frozenset[str]:
        """Names of the arguments that it gives, as far as they are known without running it."""
        from launch.launch_context import LaunchContext

        names, context = set(), LaunchContext()
        for name, _ in self.launch_arguments:
            with suppress(SubstitutionFailure):
                names.add(perform_substitutions(context, normalize_to_list_of_substitutions(name)))
        return frozenset(names)

    def execute(self, context: LaunchContext) -> Sequence[LaunchDescriptionEntity]:
        description = self.launch_description_source.get_launch_description(context)
        outside = {name: context.get_locals_as_dict().get(name) for name in _FILE_LOCALS}
        path = Path(self.launch_description_source.location).absolute()
        context.extend_locals(dict(zip(_FILE_LOCALS, (str(path), str(path.parent)), strict=True)))
        settings = [SetLaunchConfiguration(name, value) for name, value in self.launch_arguments]
        given = [perform_substitutions(context, setting.name) for setting in settings]
        for argument, names in description.get_launch_arguments_with_given_names():
            if argument._conditionally_included or argument.default_value is not None:
                continue
            # One set before by the including file counts, as it does when the argument itself is visited.
            if argument.name not in {*given, *names, *context.launch_configurations}:
                raise RuntimeError(
                    f"Included launch description missing required argument '{argument.name}' "
                    f"(description: '{argument.description}'), given: [{', '.join(given)}]"
                )
        # After it, ThisLaunchFileDir means the including file again.
        leave = OpaqueFunction(function=lambda context: context.extend_locals(outside))
        return [*settings, description, leave]
