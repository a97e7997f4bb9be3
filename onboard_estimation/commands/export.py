"""`onboard-estimation export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output
from onboard_estimation.errors import UserError

EXAMPLES = output.examples(
    "export runs/bag-salp --output salp.tum",
    "export runs/bag-salp --format csv --output salp.csv",
)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that `evaluate` wrote.")],
    file: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    format: Annotated[
        str | None, typer.Option(metavar="tum|csv", help="By the file's name otherwise: `.tum` or `.csv`.")
    ] = None,
) -> None:
    """Write the estimates of a run as a trajectory file: TUM for other tools, or CSV with all that was estimated.

    Estimates are in the truth's frame, as they were compared. In TUM, planar poses have z = 0, and what is not
    estimated is zero.
    """
    from onboard_estimation.evaluation.written_estimates import FORMATS, export_run

    chosen = format or file.suffix.lower().removeprefix(".")
    if chosen not in FORMATS:
        raise UserError(f"{f'--format {format}' if format else file}: the format must be {' or '.join(FORMATS)}")
    count = export_run(run, chosen, file)
    output.say(f"{count} estimates written to {file} ({chosen})")
