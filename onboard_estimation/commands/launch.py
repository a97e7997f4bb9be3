"""`onboard-estimation launch`: a launch file, with ROS 2's launch where it is installed, else with the embedded one."""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import completion, output

EXAMPLES = output.examples(
    "launch salp.launch.py --show-args",
    "launch salp.launch.py source:=simulated gait:=backward",
    "launch my_folder/two_robots.launch.py",
    "launch PACKAGE FILE speed:=2.0",
)
_PACKAGE = "onboard_estimation"
_SUFFIX = ".launch.py"
_ASSIGNMENT = ":="
# Launch configurations that launch itself reads; no launch file declares them.
_OF_LAUNCH = ("sigterm_timeout", "sigkill_timeout", "emulate_tty", "launch-prefix", "launch-prefix-filter")


def launch(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE [NAME:=VALUE...]",
            help="Path of a launch file, name of one of this project's, or `PACKAGE FILE` as for `ros2 launch`; then "
            "its arguments.",
            autocompletion=completion.launch_files,
        ),
    ],
    show_args: Annotated[
        bool, typer.Option("-s", "--show-args", "--show-arguments", help="Show its arguments and start nothing.")
    ] = False,
    noninteractive: Annotated[
        bool, typer.Option("-n", "--noninteractive", help="No terminal is there; found out without it too.")
    ] = False,
    debug: Annotated[bool, typer.Option("-d", "--debug", help="Show the traceback where a launch file fails.")] = False,
) -> None:
    """Start the nodes of a launch file and stay until Ctrl-C.

    The same file runs under `ros2 launch`. Exit code: 0, also after Ctrl-C and where a process failed; 1 where the
    launch file did, or where SIGTERM ended the launch; 2 for wrong usage. A first Ctrl-C lets all processes end in
    order, a second one hurries them, a third one kills them. Arguments that the file does not declare are passed on as
    under ROS 2, with a warning, since most of them are misspelt.
    """
    from onboard_estimation import ros2

    ros2.require()
    path, assignments = _file_and_assignments(words)
    arguments = _arguments(assignments)
    description = _read(path, debug)
    if show_args:
        _show(description)
        return
    _warn_of_unknown(path, description, arguments)
    without = False
    if not without and path in project_launch_files().values():
        _require_workspace()
    typer.echo(f"launching {path} {'without' if without else 'with'} ROS 2", err=True)
    code = _run(path, description, arguments, assignments, noninteractive or not sys.stdin.isatty(), debug)
    if code:
        raise typer.Exit(code)


def project_launch_files() -> dict[str, Path]:
    """This project's launch files by name."""
    from onboard_estimation.errors import UserError
    from onboard_estimation.resources import resource

    try:
        folder = resource("launch")
    except UserError:
        return {}
    return {path.name: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}


def _require_workspace() -> None:
    """ROS 2 starts nodes of packages that its workspaces hold; a wheel is in none."""
    from ament_index_python.packages import get_package_prefix

    from onboard_estimation.errors import UserError

    try:
        get_package_prefix(_PACKAGE)
    except LookupError:
        raise UserError(
            f"ROS 2 does not know the package {_PACKAGE}, whose nodes this launch file starts: pip installs it for "
            "Python only. Build it in a workspace and source that (docs/ros2.md), or go on without ROS 2: "
            "ONBOARD_ESTIMATION_RUNTIME=embedded onboard-estimation launch ..."
        ) from None


def _file_and_assignments(words: Sequence[str]) -> tuple[Path, list[str]]:
    from onboard_estimation.errors import UserError

    first, rest = words[0], list(words[1:])
    if Path(first).is_file():
        return Path(first), rest
    ours = project_launch_files()
    for name in (first, first + _SUFFIX):
        if name in ours:
            return ours[name], rest
    if rest and _ASSIGNMENT not in rest[0]:
        return _of_package(first, rest[0]), rest[1:]
    near = difflib.get_close_matches(first, ours, 1)
    raise UserError(
        f"no launch file {first}{f'; did you mean {near[0]}?' if near else ''} Give a path, PACKAGE FILE, or one of "
        f"{', '.join(ours) or 'none'}"
    )


def _of_package(package: str, file_name: str) -> Path:
    from ament_index_python.packages import get_package_share_directory

    from onboard_estimation.errors import UserError

    try:
        share = Path(get_package_share_directory(package))
    except (LookupError, ValueError) as error:
        raise UserError(str(error.args[0] if error.args else error)) from None
    # A source tree holds more than a share folder: environments, builds.
    folder = share / "launch" if (share / "launch").is_dir() else share
    found = sorted(folder.rglob(file_name))
    if len(found) != 1:
        there = ", ".join(sorted(path.name for path in folder.rglob(f"*{_SUFFIX}"))) or "none"
        raise UserError(f"{len(found)} files {file_name} in {folder}; launch files there: {there}")
    return found[0]


def _arguments(assignments: Sequence[str]) -> list[tuple[str, str]]:
    """Names and values; of assignments to one name the last counts."""
    from onboard_estimation.errors import UserError

    out: dict[str, str] = {}
    for assignment in assignments:
        name, mark, value = assignment.partition(_ASSIGNMENT)
        if not name or not mark:
            raise UserError(f"malformed launch argument '{assignment}', expected format '<name>:=<value>'")
        out[name] = value
    return list(out.items())


def _read(path: Path, debug: bool) -> Any:
    from launch.launch_description_sources import get_launch_description_from_any_launch_file

    from onboard_estimation.errors import UserError

    try:
        description = get_launch_description_from_any_launch_file(str(path))
        description.get_launch_arguments()  # reads the files that it includes, too
        return description
    except Exception as error:  # a launch file may raise anything
        if debug:
            traceback.print_exc()
        where = "" if debug else " (--debug shows where)"
        raise UserError(f"launch file {path}: {type(error).__name__}: {error}{where}") from error


def _show(description: Any) -> None:
    arguments = description.get_launch_arguments()
    typer.echo("Arguments (pass arguments as '<name>:=<value>'):")
    for argument in arguments:
        star = "*" if argument._conditionally_included else ""
        typer.echo(f"\n    '{argument.name}':{star}\n        {argument.description}")
        if argument.default_value is not None:
            typer.echo(f"        (default: {' + '.join(part.describe() for part in argument.default_value)})")
    if not arguments:
        typer.echo("\n  No arguments.")
    elif any(argument._conditionally_included for argument in arguments):
        typer.echo("\n* argument(s) which are only used if specific conditions occur")


def _warn_of_unknown(path: Path, description: Any, arguments: Sequence[tuple[str, str]]) -> None:
    known = [argument.name for argument in description.get_launch_arguments()]
    for name, _ in arguments:
        if name in known or name in _OF_LAUNCH:
            continue
        near = difflib.get_close_matches(name, known, 2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it declares {', '.join(known) or 'none'}"
        typer.echo(f"warning: {path.name} declares no argument '{name}'; {hint}", err=True)


def _run(
    path: Path,
    description: Any,
    arguments: Sequence[tuple[str, str]],
    assignments: Sequence[str],
    noninteractive: bool,
    debug: bool,
) -> int:
    from launch.actions import IncludeLaunchDescription
    from launch.launch_description import LaunchDescription
    from launch.launch_description_source import LaunchDescriptionSource
    from launch.launch_service import LaunchService

    service = LaunchService(argv=assignments, noninteractive=noninteractive, debug=debug)
    source = LaunchDescriptionSource(description, str(path))
    include = IncludeLaunchDescription(source, launch_arguments=arguments)
    service.include_launch_description(LaunchDescription([include]))
    return int(service.run())
