"""What a shell completes beside commands and options: robots, launch files; and how commands are told of robots.

Paths are completed by the shell itself.
"""

from __future__ import annotations

from typing import Annotated

import typer

from onboard_estimation.installed import offered


def robots(incomplete: str) -> list[str]:
    """Robots that installed packages offer; no code of theirs is imported."""
    return [name for name in offered("onboard_estimation.robots") if name.startswith(incomplete)]


RobotsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="ROBOT...", help="Robots; all otherwise.", autocompletion=robots)
]
RobotArgument = Annotated[
    str,
    typer.Argument(metavar="ROBOT", help="Robot, e.g. `salp`; see `onboard-estimation robots`.", autocompletion=robots),
]
RobotOption = Annotated[
    str | None,
    typer.Option(
        metavar="ROBOT", help="Robot, see `onboard-estimation robots`; otherwise guessed.", autocompletion=robots
    ),
]
EstimatorOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Estimator; the robot's first otherwise, see `onboard-estimation robots`."),
]


def formats(incomplete: str) -> list[str]:
    """Formats that installed packages convert."""
    return [name for name in offered("onboard_estimation.converters") if name.startswith(incomplete)]


def launch_files(context: typer.Context, incomplete: str) -> list[str]:
    """This project's launch files, where the file is asked for and not its arguments."""
    from onboard_estimation.commands.launch import project_launch_files

    if context.params.get("words"):
        return []
    return [name for name in project_launch_files() if name.startswith(incomplete)]
