"""Who does the work of a command: options, and the workers that they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from onboard_estimation.commands import output

if TYPE_CHECKING:
    from onboard_estimation.workers import Workers

_WORKERS = "Who does the work"
WorkersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processes of this machine; 0: this process alone, without Dask. One a core otherwise.",
        rich_help_panel=_WORKERS,
    ),
]
FewWorkersOption = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        help="Processes of this machine that share the work; 0: this process alone, without Dask.",
        rich_help_panel=_WORKERS,
    ),
]
"""Of work that one process does in a minute."""
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Workers of a Dask cluster, e.g. `tcp://10.0.0.5:8786`; bags are read where the workers are.",
        rich_help_panel=_WORKERS,
    ),
]


@contextmanager
def working(workers: int | None, scheduler: str | None, tasks: int, quiet: bool) -> Iterator[Workers]:
    """The workers asked for; of this machine no more than there are tasks, and this process alone for one task."""
    import os
    from importlib.util import find_spec

    from onboard_estimation.workers import HINT, WorkersAsked, open_workers

    count = workers
    if count is None:
        count = min(os.cpu_count() or 1, tasks)
        count = 0 if count == 1 else count
        if count and scheduler is None and find_spec("distributed") is None:
            output.note(f"Dask is not installed ({HINT}): one run after the other", quiet)
            count = 0
    with open_workers(WorkersAsked(count, scheduler), lambda sentence: output.note(sentence, quiet)) as team:
        yield team
