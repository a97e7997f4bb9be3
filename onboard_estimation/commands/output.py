"""How commands speak: tables and sentences on standard output, JSON on request, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def print_json(value: Any) -> None:
    """Print a mapping as JSON; numbers that JSON does not have become null."""
    from onboard_estimation.evaluation.json_text import to_json

    sys.stdout.write(to_json(value))


def console() -> Any:
    """Console for people; as wide as the terminal, 100 columns where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, highlight=False, soft_wrap=False)


@contextmanager
def steps(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Show on standard error which step is under way; nothing where that is no terminal."""
    from rich.console import Console

    shown = Console(stderr=True)
    if quiet or not shown.is_terminal:
        yield lambda step: None
        return
    with shown.status(what) as status:
        yield lambda step: status.update(f"{what}: {step}")


@contextmanager
def bar(what: str, total: int, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """Progress bar on standard error; call what it gives once for each piece of work."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    shown = Console(stderr=True)
    if quiet or not shown.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def metrics_table(metrics: Mapping[str, Any], title: str) -> Any:
    """Table of nested metrics with readable labels."""
    from rich.table import Table

    from onboard_estimation.evaluation.presentation import flatten, format_value, metric_label, words

    table = Table(title=title, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    table.add_column("part")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("unit")
    last = ""
    for path, value in flatten(metrics):
        part = " ".join(words(name) for name in path[:-1])
        label, unit = metric_label(path[-1])
        table.add_row("" if part == last else part, label, format_value(value), unit, end_section=False)
        last = part
    return table


def parse_pairs(texts: list[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a mapping; UserError where there is no equals sign."""
    from onboard_estimation.errors import UserError

    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"{option} {text}: write {option} NAME=VALUE")
        pairs[name] = value
    return pairs


def parse_overrides(texts: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` with the value in YAML, as in a parameter file."""
    import yaml

    from onboard_estimation.errors import UserError

    out: dict[str, Any] = {}
    for name, value in parse_pairs(texts, "--set").items():
        try:
            out[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise UserError(f"--set {name}={value}: the value is no YAML") from None
    return out
