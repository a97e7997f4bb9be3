"""`onboard-estimation compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that `evaluate` wrote, two or more.")],
    json: output.JsonOption = False,
) -> None:
    """Show the figures of several runs side by side."""
    from onboard_estimation.evaluation.comparison import compare_runs

    compared = compare_runs(runs)
    if json:
        output.print_json(compared.mapping())
        return
    console = output.console()
    console.print(compared.table())
    for note in compared.notes:
        console.print(f"- {note}", markup=False)
