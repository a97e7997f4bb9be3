"""Launch files."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launch.launch_description import LaunchDescription
from launch.substitution import (
    SomeSubstitutionsType,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_FUNCTION = "generate_launch_description"
_OTHER_FORMATS = (".xml", ".yaml", ".yml")


class InvalidPythonLaunchFileError(Exception):
    """A launch file lacks `generate_launch_description`."""


class LaunchDescriptionSource:
    """A launch description, or the place of one."""

    def __init__(
        self,
        launch_description: LaunchDescription | None = None,
        location: SomeSubstitutionsType = "<string>",
        method: str = "unspecified mechanism from a script",
    ) -> None:
        self._description = launch_description
        self._location = normalize_to_list_of_substitutions(location)
        self._read: dict[str, LaunchDescription] = {}
        self._path = ""
        self.method = method

    @property
    def location(self) -> str:
        """Path of the launch file, once it is known; else what it is made of."""
        return self._path or describe(self._location)

    def get_launch_description(self, context: LaunchContext) -> LaunchDescription:
        """The description; a file is read once."""
        self._path = perform_substitutions(context, self._location)
        return self._at(self._path)

    def try_get_launch_description_without_context(self) -> LaunchDescription | None:
        """The description where its place depends on no argument and its file can be read, else None."""
        from launch.launch_context import LaunchContext

        try:
            return self._at(perform_substitutions(LaunchContext(), self._location))
        except Exception:  # whatever a launch file raises: it is told when the file is launched
            return None

    def _at(self, path: str) -> LaunchDescription:
        if self._description is not None:
            return self._description
        if path not in self._read:
            self._read[path] = get_launch_description_from_python_launch_file(path)
        return self._read[path]


class PythonLaunchDescriptionSource(LaunchDescriptionSource):
    """A launch file in Python."""

    def __init__(self, launch_file_path: SomeSubstitutionsType) -> None:
        super().__init__(None, launch_file_path, "interpreted python launch file")


class AnyLaunchDescriptionSource(PythonLaunchDescriptionSource):
    """A launch file; in Python, since XML and YAML are not supported without ROS 2."""


def get_launch_description_from_python_launch_file(python_launch_file_path: str) -> LaunchDescription:
    """What a launch file's `generate_launch_description` returns.

    Raises
    ------
    InvalidPythonLaunchFileError
        The file has no such function.
    NotImplementedError
        It is no Python file.
    Exception
        Whatever the file raises.
    """
    if Path(python_launch_file_path).suffix in _OTHER_FORMATS:
        raise NotImplementedError(f"launch files in XML and YAML need ROS 2: {python_launch_file_path}")
    module = _module(python_launch_file_path)
    function = getattr(module, _FUNCTION, None)
    if function is None:
        raise InvalidPythonLaunchFileError(f"launch file at '{python_launch_file_path}' has no {_FUNCTION}()")
    description = function()
    if not isinstance(description, LaunchDescription):
        kind = type(description).__name__
        raise InvalidPythonLaunchFileError(f"{_FUNCTION}() of '{python_launch_file_path}' returned {kind}")
    return description


def get_launch_description_from_any_launch_file(launch_file_path: str, **unsupported: Any) -> LaunchDescription:
    """The same; Python is the only format."""
    return get_launch_description_from_python_launch_file(launch_file_path)


def _module(path: str) -> Any:
    loader = SourceFileLoader("python_launch_file", path)
    spec = spec_from_loader(loader.name, loader)
    if spec is None:
        raise ImportError(f"cannot load {path}")
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
