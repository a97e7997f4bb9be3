"""A launcher for where ROS 2's own is missing: PyPI has rclpy, but neither `launch` nor `launch_ros`.

Launch files stay those of ROS 2. While this launcher reads and runs one, the names that they import are those of
`entities` and of this module, a small part of the real ones, with their meaning. They turn a description and its
arguments into a plan, plain data, and `running` starts the plan's processes. What is not among them needs
`ros2 launch`, and is said to.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

from onboard_estimation.base.bounded_file import read_bounded
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import command, executables, resource
from onboard_estimation.base.parameter_file import yaml_value
from onboard_estimation.launching import entities
from onboard_estimation.launching.entities import (
    Action,
    Entity,
    LaunchContext,
    NeedsRos2Launch,
    Program,
    Substitution,
    TextSubstitution,
    text,
)

_NAMESPACE = "ros_namespace"
"""Launch configuration that keeps the namespace pushed so far, as in launch_ros."""
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_AS_TEXT = "for text: ParameterValue(value, value_type=str)"


def prefixes() -> list[Path]:
    """Folders of sourced workspaces and of ROS 2."""
    return [Path(one) for one in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if one]


class FindPackageShare(Substitution):
    """Folder of a package's files."""

    package: Any

    def perform(self, context: LaunchContext) -> str:
        """Its path."""
        return str(resource("", text(self.package, context)))


class ParameterFile(Entity):
    """A file with parameters."""

    param_file: Any


class ParameterValue(Entity):
    """A value whose type is told: bool, int, float, str or a list of one of them; None: as YAML reads the text."""

    value: Any
    value_type: Any = None

    def evaluate(self, context: LaunchContext) -> Any:
        """The value."""
        return _value(self, context)


def _from_yaml(said: str) -> Any:
    return yaml_value(said or "''")


_READERS: Any = {
    str: str,
    int: int,
    float: float,
    bool: lambda said: {"1": True, "0": False}.get(said, _from_yaml(said)),
}
"""What text becomes that is to be of a type."""
_EMPTY = TextSubstitution(text="")


def _substitutes(value: Any) -> bool:
    several = isinstance(value, list | tuple) and all(isinstance(one, str | Substitution) for one in value)
    return any(isinstance(one, Substitution) for one in (value if several else [value]))


def values_of(parameters: Mapping[Any, Any], context: LaunchContext, prefix: str = "") -> dict[str, Any]:
    """Parameters by name; names of dictionaries within them are joined by dots."""
    found: dict[str, Any] = {}
    for key, value in parameters.items():
        name = prefix + text(key, context)
        if isinstance(value, Mapping):
            found |= values_of(value, context, f"{name}.")
            continue
        try:
            found[name] = _value(value, context)
        except (TypeError, ValueError, UserError) as error:
            raise TypeError(f"parameter '{name}': {error}; {_AS_TEXT}") from None
    return found


def _value(value: Any, context: LaunchContext) -> Any:
    kind = None
    if isinstance(value, ParameterValue):
        kind, value = get_origin(value.value_type) or value.value_type, value.value
    if _substitutes(value):
        value = _READERS.get(kind, _from_yaml)(text(value, context))
    elif isinstance(value, list | tuple):
        value = [_value([*one, _EMPTY] if isinstance(one, list | tuple) else one, context) for one in value]
        value = [float(one) for one in value] if {type(one) for one in value} == {int, float} else value
    kinds = {type(one) for one in value} if isinstance(value, list) else {type(value)}
    if len(kinds) != 1 or not kinds <= {bool, int, float, str} or (kind is not None and not isinstance(value, kind)):
        wanted = "bool, int, float or str, or a list of one of them" if kind is None else kind.__name__
        raise TypeError(f"{value!r} is not {wanted}")
    return value


def _joined(base: str | None, own: str | None) -> str | None:
    """A namespace below another one."""
    if own is None:
        return base
    parts = (own if own.startswith("/") else f"{base or ''}/{own}").strip("/").split("/")
    if parts != [""] and not all(_NAME.fullmatch(part) for part in parts):
        raise ValueError(f"invalid namespace '{own}'")
    return "/" + "/".join(parts)


class PushRosNamespace(Action):
    """The namespace of the nodes after it."""

    namespace: Any

    def steps(self, context: LaunchContext) -> Any:
        """Nothing but the namespace."""
        below = context.launch_configurations.get(_NAMESPACE)
        context.launch_configurations[_NAMESPACE] = _joined(below, text(self.namespace, context))


class Node(Program):
    """A program that is a node."""

    executable: Any
    package: Any = None
    name: Any = None
    namespace: Any = None
    exec_name: Any = None
    parameters: Sequence[Any] | None = None
    remappings: Iterable[tuple[Any, Any]] | None = None
    ros_arguments: Iterable[Any] | None = None
    arguments: Iterable[Any] | None = None

    def steps(self, context: LaunchContext) -> Any:
        """The node's start."""
        own = {one: text(said, context) for one, said in vars(self).items() if one in _TEXTS and said is not None}
        name, executable = own.get("name"), own["executable"]
        if name is not None and _NAME.fullmatch(name) is None:
            raise ValueError(f"invalid node name '{name}'")
        namespace = _joined(context.launch_configurations.get(_NAMESPACE), own.get("namespace"))
        words = [*_program(own.get("package"), executable), *(text(one, context) for one in self.arguments or ())]
        words += ["--ros-args", *(text(one, context) for one in self.ros_arguments)] if self.ros_arguments else []
        words += ["--ros-args", *([] if name is None else ["-r", f"__node:={name}"])]
        words += [] if namespace is None else ["-r", f"__ns:={namespace}"]
        made = self.process(own.get("exec_name", executable), words, context)
        if name is not None and namespace is not None:
            made.parameters_for = f"{namespace.rstrip('/')}/{name}"
        made.parameters = [_parameters(one, context) for one in self.parameters or ()]
        made.remappings = [(text(source, context), text(goal, context)) for source, goal in self.remappings or ()]
        return [made]


_TEXTS = ("executable", "package", "name", "namespace", "exec_name")


def _parameters(given: Any, context: LaunchContext) -> str | dict[str, Any]:
    if isinstance(given, Mapping):
        return values_of(given, context)
    path = text(given.param_file if isinstance(given, ParameterFile) else given, context)
    read_bounded(Path(path), f"parameter file {path}")
    return path


def _program(package: str | None, executable: str) -> list[str]:
    """How an executable of a package is started."""
    if package is None:
        return [executable]
    if executables(package):
        return command(executable, package)
    places = os.pathsep.join(str(prefix / "lib" / package) for prefix in prefixes())
    if (found := shutil.which(executable, path=places) or shutil.which(executable)) is None:
        raise UserError(f"{package} needs an installed ROS 2: its executable {executable} is nowhere here")
    return [found]


_MODULES = {
    "launch": "launch_context launch_description launch_description_sources actions conditions substitutions",
    "launch_ros": "actions parameter_descriptions substitutions",
}
"""Each gives whatever of the names below a file asks it for."""
_NAMES = {
    name: one
    for name, one in (vars(entities) | globals()).items()
    if isinstance(one, type) and issubclass(one, Entity | LaunchContext)
}


def real_launch_is_here() -> bool:
    """Whether ROS 2's own can be imported; a folder `launch` in the working directory is not it."""
    return all(found is not None and found.origin is not None for found in map(PathFinder.find_spec, _MODULES))


@contextmanager
def served() -> Iterator[None]:
    """Within it, `import launch` and `import launch_ros` give this package's names."""
    finder = _Finder()
    _take_away()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_away()


def _take_away() -> list[ModuleType]:
    return [sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in _MODULES]


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package, _, module = name.partition(".")
        if package not in _MODULES:
            return None
        if module and module not in _MODULES[package].split():
            raise NeedsRos2Launch(name)
        return ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        def found(one: str) -> Any:
            if one.startswith("__"):
                raise AttributeError(one)
            # A module after `import launch`; or it is refused.
            return _NAMES.get(one) or importlib.import_module(f"{module.__name__}.{one}")

        module.__getattr__ = found  # type: ignore[method-assign]
