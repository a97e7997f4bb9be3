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

from onboard_estimation.launching import entities, nodes

_MODULES = {
    "launch": "launch_context launch_description launch_description_sources actions conditions substitutions",
    "launch_ros": "actions parameter_descriptions substitutions",
}
"""Each gives whatever of the names below a file asks it for."""
_NAMES = {
    name: one
    for name, one in (vars(entities) | vars(nodes)).items()
    if isinstance(one, type) and issubclass(one, entities.Entity | entities.LaunchContext)
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
            raise entities.NeedsRos2Launch(name)
        return ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        def found(one: str) -> Any:
            if one.startswith("__"):
                raise AttributeError(one)
            # A module after `import launch`; or it is refused.
            return _NAMES.get(one) or importlib.import_module(f"{module.__name__}.{one}")

        module.__getattr__ = found  # type: ignore[method-assign]
