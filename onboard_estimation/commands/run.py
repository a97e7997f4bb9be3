"""`onboard-estimation run`: an executable of this package, as `ros2 run onboard_estimation` starts it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples(
    "run salp_estimator --ros-args -r __ns:=/salp --params-file config/salp.yaml",
    "run markers --ros-args -p frame_prefix:=salp/",
)
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Context settings for its registration: all words after the executable are the executable's own, also options."""


def run(
    words: Annotated[
        list[str],
        typer.Argument(metavar="EXECUTABLE [ARGUMENTS...]", help="Executable, and arguments that it gets as they are."),
    ],
) -> None:
    """Run one node or tool by name, with ROS arguments where they are wanted.

    `PACKAGE EXECUTABLE`, as with `ros2 run`, runs one of another installed package.
    """
    from onboard_estimation.executables import PACKAGE, command, executables

    first, arguments, package = words[0], words[1:], PACKAGE
    if first not in executables() and arguments and arguments[0] in executables(first):
        package, first, arguments = first, arguments[0], arguments[1:]
    program = command(first, package)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program[0], [*program, *arguments])
