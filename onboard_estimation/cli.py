"""The command `onboard-estimation` (also `python -m onboard_estimation`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from onboard_estimation.commands import campaign, compare, configuration, convert, demo, evaluate, inspect, simulate
from onboard_estimation.errors import UserError

EXIT_BAD_INPUT = 2

app = typer.Typer(
    name="onboard-estimation",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Where a soft, hopping or multi-link robot is and what shape it has, from its cheapest sensors; "
    "and whether to believe it.\n\n"
    "Try `onboard-estimation demo`; then `onboard-estimation inspect BAG` and `onboard-estimation evaluate BAG` "
    "on a bag of yours.",
)

app.command("demo")(demo.demo)
app.command("simulate")(simulate.simulate)
app.command("evaluate")(evaluate.evaluate)
app.command("campaign")(campaign.campaign)
app.command("inspect")(inspect.inspect)
app.command("compare")(compare.compare)
app.command("convert")(convert.convert)
app.command("config")(configuration.configuration)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with 0 on success and 2 on wrong usage or bad input."""
    try:
        app(args=None if arguments is None else list(arguments))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone; writing more at exit would only raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
