"""Nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from ament_index_python.packages import PackageNotFoundError, get_package_prefix
from launch.actions import ExecuteProcess
from launch.logging import get_logger
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    SubstitutionFailure,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)
from launch_ros.actions.for_all_nodes import NAMESPACE, PARAMETERS
from launch_ros.names import checked_node_name, joined
from launch_ros.parameter_descriptions import ParameterFile, evaluate, flattened, yaml_text

from embedded_ros.executables import command as console_script
from embedded_ros.executables import executables

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_WILDCARD = "/**"
_NAMES_SEEN = "unique_ros_node_names"


class Node(ExecuteProcess):
    """A program with one node, started with the ROS arguments that make its name, parameters and remappings.

    Parameters
    ----------
    executable
        Of the package; without a package, the path of a program.
    package
        Name of a package: of this distribution or of another one that brings console scripts.
    name, namespace
        Of the node; a relative namespace is below the one that PushRosNamespace set.
    exec_name
        Name of the process; the executable's by default.
    parameters
        Parameter files and dictionaries, later ones before earlier ones.
    remappings
        Pairs of names, from and to.
    arguments, ros_arguments
        More arguments, before and after `--ros-args`.

    All else is as for ExecuteProcess.
    """

    def __init__(
        self,
        *,
        executable: SomeSubstitutionsType,
        package: SomeSubstitutionsType | None = None,
        name: SomeSubstitutionsType | None = None,
        namespace: SomeSubstitutionsType | None = None,
        exec_name: SomeSubstitutionsType | None = None,
        parameters: Sequence[Any] | None = None,
        remappings: Iterable[tuple[SomeSubstitutionsType, SomeSubstitutionsType]] | None = None,
        ros_arguments: Iterable[SomeSubstitutionsType] | None = None,
        arguments: Iterable[SomeSubstitutionsType] | None = None,
        **process: Any,
    ) -> None:
        super().__init__(cmd=[executable, *(arguments or ())], name=exec_name, **process)
        self._package = _normalized(package)
        self._node_name = _normalized(name)
        self._namespace = _normalized(namespace)
        self._ros_arguments = [normalize_to_list_of_substitutions(one) for one in ros_arguments or ()]
        self._parameters = [_parameters_of(one) for one in _several(parameters)]
        self._remappings = [_remapping_of(one) for one in remappings or ()]
        self._is_script = False
        self._full_name = ""

    @property
    def node_name(self) -> str:
        """Full name of the node, once it is known; empty where it is the program's own affair."""
        return self._full_name

    def execute(self, context: LaunchContext) -> None:
        super().execute(context)
        if not self._full_name:
            return
        seen = context.get_locals_as_dict().get(_NAMES_SEEN, {})
        seen[self._full_name] = seen.get(self._full_name, 0) + 1
        context.extend_globals({_NAMES_SEEN: seen})
        if seen[self._full_name] > 1:
            get_logger(self.name).warning(
                f"there are now at least {seen[self._full_name]} nodes with the name {self._full_name} "
                "created within this launch context"
            )

    def _label(self, context: LaunchContext, command: Sequence[str]) -> str:
        return super()._label(context, [perform_substitutions(context, self.cmd[0])])

    def _environment(self, context: LaunchContext) -> dict[str, str]:
        values = super()._environment(context)
        if self._is_script:
            values.setdefault("PYTHONUNBUFFERED", "1")  # else what it prints comes when it ends
        return values

    def _command(self, context: LaunchContext) -> list[str]:
        executable, *arguments = super()._command(context)
        out = [*self._program(context, executable), *arguments]
        if self._ros_arguments:
            out += ["--ros-args", *(perform_substitutions(context, one) for one in self._ros_arguments)]
        out.append("--ros-args")
        name = None if self._node_name is None else checked_node_name(perform_substitutions(context, self._node_name))
        if name is not None:
            out += ["-r", f"__node:={name}"]
        own = None if self._namespace is None else perform_substitutions(context, self._namespace)
        namespace = joined(context.launch_configurations.get(NAMESPACE), own)
        if namespace is not None:
            out += ["-r", f"__ns:={namespace}"]
        if name is not None and namespace is not None:
            self._full_name = f"{namespace.rstrip('/')}/{name}"
        for name_of_all, value in context.launch_configurations.get(PARAMETERS, []):
            out += ["-p", f"{name_of_all}:={yaml_text(value)}"]
        for parameters in self._parameters:
            out += ["--params-file", self._parameter_file(context, parameters)]
        for source, goal in self._remappings:
            out += ["-r", f"{perform_substitutions(context, source)}:={perform_substitutions(context, goal)}"]
        return out

    def _program(self, context: LaunchContext, executable: str) -> list[str]:
        if self._package is None:
            return [executable]
        package = perform_substitutions(context, self._package)
        if executable in executables(package):
            self._is_script = True
            return console_script(executable, package)
        there = ", ".join(executables(package))
        try:
            path = Path(get_package_prefix(package)) / "lib" / package / executable
        except PackageNotFoundError:
            if not there:
                raise
        else:
            if path.is_file():
                return [str(path)]
        raise SubstitutionFailure(f"no executable '{executable}' in package '{package}'; it has: {there or 'none'}")

    def _parameter_file(self, context: LaunchContext, parameters: Any) -> str:
        if isinstance(parameters, ParameterFile):
            return _existing(parameters.evaluate(context))
        values = {}
        for parts, value in parameters:
            name = perform_substitutions(context, parts)
            values[name] = evaluate(context, value, name)
        whole = {self._full_name or _WILDCARD: {"ros__parameters": values}}
        return str(context.write_temporary("launch_params_", yaml.safe_dump(whole, sort_keys=False)))


def _normalized(given: SomeSubstitutionsType | None) -> list[Substitution] | None:
    return None if given is None else normalize_to_list_of_substitutions(given)


def _several(parameters: Any) -> Sequence[Any]:
    if parameters is None:
        return []
    if isinstance(parameters, (str, Mapping)) or not isinstance(parameters, Sequence):
        raise TypeError(f"Node(parameters=...) expected a list of files and dictionaries, got {parameters!r}")
    return parameters


def _parameters_of(given: Any) -> Any:
    if isinstance(given, Mapping):
        return flattened(given)
    return given if isinstance(given, ParameterFile) else ParameterFile(given)


def _remapping_of(given: Any) -> tuple[list[Substitution], list[Substitution]]:
    if not isinstance(given, tuple) or len(given) != 2:
        raise TypeError(f"Node(remappings=...) expected pairs (from, to), got {given!r}")
    return normalize_to_list_of_substitutions(given[0]), normalize_to_list_of_substitutions(given[1])


def _existing(path: Path) -> str:
    if not path.is_file():
        raise SubstitutionFailure(f"parameter file {path} does not exist")
    return str(path)
