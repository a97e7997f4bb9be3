"""`onboard-estimation new`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples("new robot crawler", "new robot crawler --output my_lab/crawler")

app = typer.Typer(help="Begin something of your own.", no_args_is_help=True, rich_markup_mode="markdown")


@app.command("robot", epilog=EXAMPLES)
def robot(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="What the robot is called: small letters and underscores.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write; `./NAME` otherwise.")
    ] = None,
) -> None:
    """Write a package for a robot of your own that works from the start, to be changed file by file.

    A cart on a rail, until you change it: parameters, a filter, a simulator, node, launch files, and tests of the
    contract. It builds with pip and with colcon. See docs/your_robot.md.
    """
    from onboard_estimation.new_robot import write_package

    place = folder or Path(name)
    written = write_package(name, place)
    output.say(f"{place}: {len(written)} files; the robot is in {name}_estimation/robot.py")
    where = shlex.quote(str(place))
    output.say(f"next: python -m pip install --editable {where}")
    output.say(f"then: {output.program()} simulate {name} --output bag; {output.program()} evaluate bag")
    output.say(f"      python -m pytest {where}/test")
