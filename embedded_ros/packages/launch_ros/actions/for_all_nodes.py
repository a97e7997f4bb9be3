"""What holds for all nodes that come after, up to the end of a scoped group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launch.action import Action
from launch.substitution import (
    SomeSubstitutionsType,
    SubstitutionFailure,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)
from launch_ros.names import joined
from launch_ros.parameter_descriptions import evaluate

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

NAMESPACE, PARAMETERS, REMAPPINGS = "ros_namespace", "global_params", "ros_remaps"
"""Launch configurations under which they are kept."""


class PushRosNamespace(Action):
    """A namespace, below the one that holds already."""

    def __init__(self, namespace: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.namespace = normalize_to_list_of_substitutions(namespace)

    def execute(self, context: LaunchContext) -> None:
        pushed = perform_substitutions(context, self.namespace)
        try:
            namespace = joined(context.launch_configurations.get(NAMESPACE), pushed)
        except ValueError as error:
            raise SubstitutionFailure(str(error)) from error
        context.launch_configurations[NAMESPACE] = namespace


PushROSNamespace = PushRosNamespace


class SetParameter(Action):
    """A parameter."""

    def __init__(self, name: SomeSubstitutionsType, value: Any, **options: Any) -> None:
        super().__init__(**options)
        self.name = normalize_to_list_of_substitutions(name)
        self.value = value

    def execute(self, context: LaunchContext) -> None:
        name = perform_substitutions(context, self.name)
        _append(context, PARAMETERS, (name, evaluate(context, self.value, name)))


class SetParametersFromFile(Action):
    """A parameter file."""

    def __init__(self, filename: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.filename = normalize_to_list_of_substitutions(filename)

    def execute(self, context: LaunchContext) -> None:
        _append(context, PARAMETERS, perform_substitutions(context, self.filename))


class SetRemap(Action):
    """A remapping of a topic or service."""

    def __init__(self, src: SomeSubstitutionsType, dst: SomeSubstitutionsType, **options: Any) -> None:
        super().__init__(**options)
        self.src = normalize_to_list_of_substitutions(src)
        self.dst = normalize_to_list_of_substitutions(dst)

    def execute(self, context: LaunchContext) -> None:
        _append(
            context, REMAPPINGS, (perform_substitutions(context, self.src), perform_substitutions(context, self.dst))
        )


def _append(context: LaunchContext, name: str, value: Any) -> None:
    # A new list each time: a group that ends goes back to the old one.
    context.launch_configurations[name] = [*context.launch_configurations.get(name, []), value]
