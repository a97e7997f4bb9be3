"""`onboard-estimation turns`: a command of another package."""

from __future__ import annotations

from typing import Annotated

import typer

from onboard_estimation.commands import output

app = typer.Typer(rich_markup_mode="markdown")


@app.command(epilog=output.examples("turns 90"))
def turns(degrees: Annotated[float, typer.Argument(metavar="DEG", help="Angle, deg.")]) -> None:
    """Say how many turns of the table an angle is."""
    output.say(f"{degrees / 360.0:g} turns")
