"""How commands speak: tables and sentences on standard output, JSON on request, progress on standard error."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from onboard_estimation.base.atomic_file import check_output, to_json, write_atomically
from onboard_estimation.base.errors import printable

if TYPE_CHECKING:
    from onboard_estimation.contract.trained import ReportTable

PROGRAM = "onboard-estimation"
_LINE_PERIOD_S = 5.0
_Command = TypeVar("_Command", bound=Callable[..., Any])


def group(help: str) -> typer.Typer:
    """Commands below one word."""
    return typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=help)


def examples(*lines: str) -> str:
    """Epilog of a command's help: its arguments, one example a line."""
    return "**Examples**\n\n" + "\n\n".join(f"`{PROGRAM} {line}`" for line in lines)


def command(*lines: str) -> Callable[[_Command], _Command]:
    """Give a command examples for the end of its help, its arguments one example a line."""

    def with_examples(function: _Command) -> _Command:
        function.__dict__["epilog"] = examples(*lines)
        return function

    return with_examples


def program() -> str:
    """What the user types for this program, for commands to be pasted."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py" and script.parent.name == "onboard_estimation":
        found = shutil.which(Path(sys.executable).name)
        python = Path(sys.executable).name if found == sys.executable else sys.executable
        return f"{python} -m onboard_estimation"
    if script.stem != PROGRAM:
        return PROGRAM
    found = shutil.which(PROGRAM)
    return PROGRAM if found and Path(found).resolve() == script.resolve() else sys.argv[0]


def print_json(value: Any) -> None:
    """Print a mapping as JSON; numbers that JSON does not have become null."""
    sys.stdout.write(to_json(value))


def console(columns: int = 100) -> Any:
    """Console for people; as wide as the terminal, so many columns where there is none."""
    from rich.console import Console

    # No markup: names of files and topics may look like it.
    return Console(width=None if sys.stdout.isatty() else columns, highlight=False, soft_wrap=False, markup=False)


def say(sentence: str, style: str | None = None) -> None:
    """Print a sentence, with the empty lines before and after it; wrapped on a terminal, in one line elsewhere."""
    start = len(sentence) - len(sentence.lstrip("\n"))
    stop = max(start, len(sentence.rstrip("\n")))
    shown = sentence[:start] + printable(sentence[start:stop]) + sentence[stop:]
    console().print(shown, style=style, soft_wrap=not sys.stdout.isatty())


def say_command(before: str, words: str) -> None:
    """Print what to type, in one line: a terminal that wraps it gives it whole to who copies it."""
    console().print(printable(f"{before}{program()} {words}"), soft_wrap=True)


def note(sentence: str, quiet: bool = False) -> None:
    """Say on standard error what is under way."""
    if not quiet:
        print(printable(sentence), file=sys.stderr, flush=True)


@contextmanager
def steps(what: str, quiet: bool = False, lines: bool = False) -> Iterator[Callable[[str], None]]:
    """As `share`, for work of which nobody knows how much is done."""
    with share(what, quiet, lines) as tell:
        yield partial(tell, None)


@contextmanager
def share(what: str, quiet: bool = False, lines: bool = False) -> Iterator[Callable[[float | None, str], None]]:
    """Progress bar on standard error with the step's name, and the share that is done, in [0, 1], if that is known.

    Where that is no terminal, nothing, or lines if asked for.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    shown = Console(stderr=True)
    if quiet or not shown.is_terminal:
        line = _lines(what) if lines else lambda step: None
        yield lambda done, step: line(step if done is None else f"{100.0 * done:.0f} %, {step}")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=shown, transient=True) as progress:
        task = progress.add_task(_escaped(what), total=None)

        def tell(done: float | None, step: str) -> None:
            total = None if done is None else 1.0
            progress.update(task, completed=done, total=total, description=f"{_escaped(what)}: {_escaped(step)}")

        yield tell


@contextmanager
def gone_on_with(quiet: bool, kept: str = "what is done is kept") -> Iterator[None]:
    """At Ctrl-C in the block, say that the work is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"{kept}; the same command goes on from there", quiet)
        raise


def _lines(what: str) -> Callable[[str], None]:
    """Progress for logs and pipes: the start at once, then a line at most every few seconds."""
    note(what)
    now_and_then = every(_LINE_PERIOD_S)
    return lambda step: note(f"{what}: {step}", quiet=not now_and_then())


def every(period_s: float) -> Callable[[], bool]:
    """Whether the time has passed since it was so."""
    last_s = time.monotonic()

    def is_due() -> bool:
        nonlocal last_s
        due = time.monotonic() - last_s >= period_s
        last_s = time.monotonic() if due else last_s
        return due

    return is_due


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text))


def table(title: str, *headings: str, right: tuple[str, ...] = ()) -> Any:
    """Empty table in this program's style; the headings in `right` stand over numbers, `report` over whole paths."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    out = Table(title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        out.add_column(heading, justify="right" if heading in right else "left", no_wrap=heading == "report")
    return out


def print_tables(tables: Iterable[ReportTable]) -> None:
    """Print the tables of a report."""
    for one in tables:
        shown = table(one.title, *one.headings, right=one.right)
        for row in one.rows:
            shown.add_row(*row)
        console().print(shown)


def print_report(tables: Iterable[ReportTable], sentences: Iterable[str]) -> None:
    """Print tables, then sentences as a list."""
    print_tables(tables)
    for sentence in sentences:
        say(f"- {sentence}")


_DEEPEST = 3


def metrics_table(metrics: Mapping[str, Any], title: str) -> Any:
    """Table of nested metrics with readable labels; what is nested deeper stays in the files."""
    from onboard_estimation.base.parameter_file import leaves
    from onboard_estimation.base.presentation import error_sizes, shown_metric, words

    out = table(title, "part", "figure", "value", "unit", right=("value",))
    last = ""
    for path, value in leaves(metrics):
        if len(path) > _DEEPEST:
            continue
        part = " ".join(words(name) for name in path[:-1])
        if last and part != last:
            out.add_row()
        out.add_row("" if part == last else part, *shown_metric(path[-1], value, error_sizes(metrics[path[0]])))
        last = part
    return out


def put(text: str, file: Path | None) -> bool:
    """Print the text, or write it into a new file; whether it was written. UserError where it cannot be."""
    if file is None:
        typer.echo(text, nl=False)
        return False
    check_output(file)
    write_atomically(file, text.encode(), str(file))
    return True
