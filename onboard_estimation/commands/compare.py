"""`onboard-estimation compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples("compare runs/walk-strapdown runs/walk-strapdown-2", "compare RUN RUN --json")


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders that `evaluate` wrote, two or more.")],
    json: output.JsonOption = False,
) -> None:
    """Show the figures of several runs side by side."""
    from onboard_estimation.evaluation.comparison import compare_runs

    compared = compare_runs(runs)
    if json:
        output.print_json(compared.mapping())
        return
    output.console().print(compared.table())
    for note in compared.notes:
        output.say(f"- {note}")
