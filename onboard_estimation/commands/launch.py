"""`onboard-estimation launch`: with `ros2 launch` where that is, else with this project's launcher; and `run`."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.installed import PACKAGE, command, executables, resource
from onboard_estimation.commands import output
from onboard_estimation.commands.arguments import argument

_SUFFIX = ".launch.py"
_ASSIGNMENT = ":="


def launch_files(context: typer.Context, incomplete: str) -> list[str]:
    """This project's launch files, where the file is asked for and not its arguments."""
    if context.params.get("words"):
        return []
    return [name for name in project_launch_files() if name.startswith(incomplete)]


_WHAT = "Path of a launch file, name of one of this project's, or `PACKAGE FILE`; then its arguments."
_WORDS = typer.Argument(metavar="FILE [NAME:=VALUE...]", help=_WHAT, autocompletion=launch_files)
_SHOW = typer.Option("-s", "--show-args", "--show-arguments", help="Show its arguments and start nothing.")


@output.command("launch salp.launch.py --show-args", "launch salp gait:=backward", "launch PACKAGE FILE")
def launch(words: Annotated[list[str], _WORDS], show_args: Annotated[bool, _SHOW] = False) -> None:
    """Start the nodes of a launch file and stay until Ctrl-C.

    It hands on to `ros2 launch` where that is installed. Else a small launcher runs the same files; exit code: 0, also
    after Ctrl-C; 1 where the launch file failed, a process could not start or failed for good, which the last lines
    name, or where SIGTERM ended it; 2 for wrong usage. A first Ctrl-C lets all processes end in order, a second one
    hurries them, a third one kills them.
    """
    from onboard_estimation.base import ros2
    from onboard_estimation.launching.entities import LaunchContext
    from onboard_estimation.launching.running import Launch
    from onboard_estimation.launching.stand_in import real_launch_is_here, served

    if real_launch_is_here() and shutil.which("ros2") is not None and (found := _for_ros2(words)) is not None:
        os.execvp("ros2", ["ros2", "launch", *found, *(["--show-args"] if show_args else [])])
    path, assignments = _file_and_assignments(words)
    if not show_args:
        ros2.require()
    context = LaunchContext(_arguments(assignments), os.environ)
    with served():
        steps = planned(path, context, show_args)
        if show_args:
            _show(context)
            return
        typer.echo(f"launching {path} without `ros2 launch`", err=True)
        code = Launch(context).run(steps)
    if code:
        raise typer.Exit(code)


def project_launch_files() -> dict[str, Path]:
    """This project's launch files by name."""
    return {path.name: path for path in sorted(resource("launch").glob(f"*{_SUFFIX}"))}


def planned(path: Path, context: Any, only_declared: bool = False) -> list[Any]:
    """What a launch file makes of its arguments; all that is wrong with these is said together.

    Only declared arguments are of interest: what the file does with them does not count.
    """
    from onboard_estimation.launching.entities import plan, read

    given, steps, fault = list(context.launch_configurations), list[Any](), ""
    try:
        steps = plan(read(path), context)
    except Exception as error:  # a launch file may raise anything
        lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if Path(one.filename) == path]
        kind = "" if isinstance(error, RuntimeError | UserError) else f"{type(error).__name__}: "
        fault = f"launch file {path}{f', line {lines[-1]}' if lines else ''}: {kind}{error}"
    if only_declared and context.declared:
        return steps
    _warn_of_unknown(path, given, list(context.declared))
    if context.faults:
        raise UserError(f"launch file {path}: {'; '.join(context.faults)}")
    if fault:
        typer.echo(f"error: {fault}", err=True)
        raise typer.Exit(1)
    return steps


def _for_ros2(words: Sequence[str]) -> list[str] | None:
    """What `ros2 launch` is to be asked; None: it would not find this package, whose nodes the file starts."""
    from onboard_estimation.launching.stand_in import prefixes

    name = next((one for one in (words[0], words[0] + _SUFFIX) if one in project_launch_files()), None)
    if name is None or Path(words[0]).is_file():
        return list(words)
    if any((prefix / "share/ament_index/resource_index/packages" / PACKAGE).is_file() for prefix in prefixes()):
        return [PACKAGE, name, *words[1:]]
    typer.echo(f"ROS 2 does not know {PACKAGE}, which pip installs for Python only: started without ros2", err=True)
    return None


def _file_and_assignments(words: Sequence[str]) -> tuple[Path, list[str]]:
    first, rest = words[0], list(words[1:])
    if Path(first).is_file():
        return Path(first), rest
    there = project_launch_files()
    if rest and _ASSIGNMENT not in rest[0] and there.keys().isdisjoint((first, first + _SUFFIX)):
        share = resource("", first)
        there = {path.name: path for folder in (share, share / "launch") for path in sorted(folder.glob("*launch*"))}
        first, *rest = rest
    for name in (first, first + _SUFFIX):
        if name in there and there[name].is_file():
            return there[name], rest
    near = difflib.get_close_matches(first, there, 1)
    raise UserError(
        f"no launch file {first}{f'; did you mean {near[0]}?' if near else ''} Give a path, PACKAGE FILE, or one of "
        f"{', '.join(there) or 'none'}"
    )


def _arguments(assignments: Sequence[str]) -> dict[str, str]:
    """Values by name; of assignments to one name the last counts."""
    for one in assignments:
        if one.find(_ASSIGNMENT) < 1:
            raise UserError(f"malformed launch argument '{one}', expected format '<name>:=<value>'")
    return dict(one.split(_ASSIGNMENT, 1) for one in assignments)


def _show(context: Any) -> None:
    typer.echo("Arguments (pass arguments as '<name>:=<value>'):")
    for one in context.declared.values():
        choices = f". Valid choices are: {list(one.choices)}" if one.choices is not None else ""
        default = "" if one.default_value is None else f"\n        (default: {one.default_value!r})"
        typer.echo(f"\n    '{one.name}':\n        {one.description}{choices}{default}")
    if not context.declared:
        typer.echo("\n  No arguments.")


def _warn_of_unknown(path: Path, given: Sequence[str], declared: Sequence[str]) -> None:
    for name in given:
        if name not in declared:
            near = difflib.get_close_matches(name, declared, 2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it declares {', '.join(declared) or 'none'}"
            typer.echo(f"warning: {path.name} declares no argument '{name}'; {hint}", err=True)


SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Context settings for its registration: all words after the executable are the executable's own, also options."""


@output.command(
    "run salp_estimator --ros-args -r __ns:=/salp --params-file config/salp.yaml",
    "run markers --ros-args -p frame_prefix:=salp/",
)
def run(
    words: Annotated[
        list[str], argument("EXECUTABLE [ARGUMENTS...]", "Executable, and arguments that it gets as they are.")
    ],
) -> None:
    """Run one node or tool by name, with ROS arguments where they are wanted.

    `PACKAGE EXECUTABLE`, as with `ros2 run`, runs one of another installed package.
    """

    first, arguments, package = words[0], words[1:], PACKAGE
    if first not in executables() and arguments and arguments[0] in executables(first):
        package, first, arguments = first, arguments[0], arguments[1:]
    program = command(first, package)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program[0], [*program, *arguments])
