"""`python -m embedded_ros.console_script MODULE:FUNCTION [ARGUMENTS]`: runs an entry point.

Before the module is imported, ROS 2 or the embedded runtime is put in place, so that an ordinary rclpy node of any
package runs here too.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from typing import Any

import embedded_ros
from embedded_ros.errors import UserError


def main() -> None:
    """Run the entry point that the first argument names; the others are left in `sys.argv` for it."""
    if len(sys.argv) < 2 or ":" not in sys.argv[1]:
        sys.exit("usage: python -m embedded_ros.console_script MODULE:FUNCTION [ARGUMENTS]")
    target = sys.argv.pop(1)
    with suppress(UserError):  # not every program needs a graph, and those that do say so themselves
        embedded_ros.install()
    module, _, path = target.partition(":")
    sys.argv[0] = path.rpartition(".")[2]
    function: Any = importlib.import_module(module)
    for name in path.split("."):
        function = getattr(function, name)
    sys.exit(function())


if __name__ == "__main__":
    main()
