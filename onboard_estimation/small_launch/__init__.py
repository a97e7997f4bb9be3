"""A launcher for where ROS 2's own is missing: PyPI has rclpy, but neither `launch` nor `launch_ros`.

Launch files stay those of ROS 2. While this launcher reads and runs one, the names that they import are those of this
package, a small part of the real ones: `entities` and `nodes` turn a description and its arguments into a plan, plain
data, and `running` starts the plan's processes. What is not among them needs `ros2 launch`, and is said to.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from onboard_estimation.small_launch import entities, nodes

_REAL = ("launch", "launch_ros")
_TABLE = """
launch LaunchContext LaunchDescription
launch.launch_context LaunchContext
launch.launch_description LaunchDescription
launch.actions DeclareLaunchArgument ExecuteProcess GroupAction IncludeLaunchDescription LogInfo OpaqueFunction \
    SetEnvironmentVariable Shutdown
launch.conditions IfCondition UnlessCondition
launch.launch_description_sources PythonLaunchDescriptionSource
launch.substitutions LaunchConfiguration PathJoinSubstitution TextSubstitution
launch_ros
launch_ros.actions Node PushRosNamespace
launch_ros.parameter_descriptions ParameterFile ParameterValue
launch_ros.substitutions FindPackageShare
"""
_NAMES = {line.split()[0]: line.split()[1:] for line in _TABLE.strip().splitlines()}


def real_launch_is_here() -> bool:
    """Whether ROS 2's own can be imported; a folder `launch` in the working directory is not it."""
    return all(found is not None and found.origin is not None for found in map(PathFinder.find_spec, _REAL))


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
    return [sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in _REAL]


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in _NAMES:
            return ModuleSpec(name, self, is_package=True)
        if name.partition(".")[0] in _REAL:
            raise entities.NeedsRos2Launch(name)
        return None

    def exec_module(self, module: ModuleType) -> None:
        def missing(one: str) -> Any:
            if one.startswith("__"):
                raise AttributeError(one)
            return importlib.import_module(f"{module.__name__}.{one}")  # after `import launch`; or it is refused

        module.__getattr__ = missing  # type: ignore[method-assign]
        for one in _NAMES[module.__name__]:
            setattr(module, one, getattr(nodes, one, None) or getattr(entities, one))
