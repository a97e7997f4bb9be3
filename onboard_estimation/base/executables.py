"""Executables of a package, as `ros2 run PACKAGE EXECUTABLE` knows them, found and started without `ros2`.

They are the console scripts of the Python distribution with the package's name; a laboratory's own package is found the
same way as this one. Scripts themselves are not looked for: in a source tree there are none, and with ROS 2 they are
not on PATH; `python -m onboard_estimation.base.executables MODULE:FUNCTION [ARGUMENTS]` runs an entry point.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from importlib.metadata import distributions
from typing import Any

from onboard_estimation.base.errors import UserError

PACKAGE = "onboard_estimation"
_GROUP = "console_scripts"
# Ctrl-C while this package is still imported, which takes a while on a busy machine, ends it without a traceback.
_START = (
    "import os, signal; signal.signal(signal.SIGINT, lambda *_: os._exit(0)); "
    "from onboard_estimation.base.executables import main; main()"
)


def executables(package: str = PACKAGE) -> dict[str, str]:
    """Entry points `module:function` of a package's executables by name; empty where it has none or is not there.

    A source tree where the program starts may hold older metadata (`.egg-info`) than the installation, so all that is
    there counts, and the installation's first.
    """
    found: dict[str, str] = {}
    for one in sorted(distributions(name=package), key=lambda one: one.read_text("METADATA") is None):
        for point in one.entry_points:
            if point.group == _GROUP:
                found.setdefault(point.name, point.value)
    return dict(sorted(found.items()))


def command(executable: str, package: str = PACKAGE) -> list[str]:
    """How that executable is started, without its arguments. Raises as `entry_point` does."""
    return [sys.executable, "-c", _START, entry_point(executable, package)]


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
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if len(sys.argv) < 2 or ":" not in sys.argv[1]:
        sys.exit("usage: python -m onboard_estimation.base.executables MODULE:FUNCTION [ARGUMENTS]")
    module, _, path = sys.argv.pop(1).partition(":")
    sys.argv[0] = path.rpartition(".")[2]
    try:
        function: Any = import_module(module)
        for name in path.split("."):
            function = getattr(function, name)
        sys.exit(function())
    except KeyboardInterrupt:  # while it was imported
        sys.exit(0)


if __name__ == "__main__":
    main()
