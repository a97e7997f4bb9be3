"""Executables of a package, as `ros2 run PACKAGE EXECUTABLE` knows them, found and started without `ros2`.

They are the console scripts of the Python distribution with the package's name; a laboratory's own package is found the
same way as this one. Scripts themselves are not looked for: in a source tree there are none, and with ROS 2 they are
not on PATH; `python -m onboard_estimation.executables MODULE:FUNCTION [ARGUMENTS]` runs an entry point.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import distributions
from typing import Any

from onboard_estimation.errors import UserError

PACKAGE = "onboard_estimation"
_GROUP = "console_scripts"


def executables(package: str = PACKAGE) -> dict[str, str]:
    """Entry points `module:function` of a package's executables by name; empty where it has none or is not there.

    A source tree where the program starts may hold older metadata than the installation, so all that is there counts.
    """
    found: dict[str, str] = {}
    for one in distributions(name=package):
        for point in one.entry_points:
            if point.group == _GROUP:
                found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


def command(executable: str, package: str = PACKAGE) -> list[str]:
    """How that executable is started, without its arguments. Raises as `entry_point` does."""
    return [sys.executable, "-m", "onboard_estimation.executables", entry_point(executable, package)]


def entry_point(executable: str, package: str = PACKAGE) -> str:
    """The `module:function` of that executable.

    Raises
    ------
    UserError
        The package has no such executable; the message lists those it has.
    """
    there = executables(package)
    if executable not in there:
        listed = ", ".join(there) or "none"
        raise UserError(f"no executable '{executable}' in package '{package}'; it has: {listed}")
    return there[executable]


def main() -> None:
    """Run the entry point that the first argument names; the others are left in `sys.argv` for it."""
    if len(sys.argv) < 2 or ":" not in sys.argv[1]:
        sys.exit("usage: python -m onboard_estimation.executables MODULE:FUNCTION [ARGUMENTS]")
    module, _, path = sys.argv.pop(1).partition(":")
    sys.argv[0] = path.rpartition(".")[2]
    function: Any = import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    sys.exit(function())


if __name__ == "__main__":
    main()
