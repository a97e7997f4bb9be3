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

NAMESPACE, PARAMETERS = "ros_namespace", "global_params"
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
        earlier = context.launch_configurations.get(PARAMETERS, [])
        # A new list each time: a group that ends goes back to the old one.
        context.launch_configurations[PARAMETERS] = [*earlier, (name, evaluate(context, self.value, name))]
