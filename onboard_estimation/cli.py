"""The command `onboard-estimation` (also `python -m onboard_estimation`).

Packages of robots bring commands along, by entry points of the group `onboard_estimation.commands`.

    entry_points={"onboard_estimation.commands": ["spin = our_package.spin_command:app"]}

names a `typer.Typer` with one command or more. It is imported when it is asked for, or when all are listed: a module
that imports NumPy only where it needs it keeps `--help` quick.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from onboard_estimation.base.errors import EXIT_BAD_INPUT, UserError, disk_fault, printable
from onboard_estimation.base.installed import load, offered
from onboard_estimation.commands import (
    bags,
    campaign,
    computer,
    demo,
    evaluate,
    launch,
    learning,
    live_graph,
    observability,
    output,
    recording,
    robots,
    view,
)

COMMANDS = "onboard_estimation.commands"
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that the signal SIGPIPE ended."""
COMPLETE_VARIABLE = "_ONBOARD_ESTIMATION_COMPLETE"
"""Set by the shell's completion, whatever the program is called by."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Commands(typer.core.TyperGroup):
    """The project's own commands, then those of installed packages; a name that is taken stays with the project."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names, for the help and the completion."""
        return list(dict.fromkeys([*super().list_commands(ctx), *offered(COMMANDS)]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in offered(COMMANDS):
            found = self.commands[cmd_name] = _command(cmd_name)
        return found


def _command(name: str) -> Any:
    """A package's command; where it cannot be loaded, one that says so: it must not hide the others."""
    try:
        found = load(COMMANDS, "command", name, typer.Typer)
    except UserError as error:
        fault, found = error, typer.Typer()

        @found.command(help=str(error), context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
        def broken() -> None:
            raise fault

    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    name="onboard-estimation",
    cls=Commands,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Where a soft, hopping or multi-link robot is and what shape it has, from its cheapest sensors; "
    "and whether to believe it.\n\n"
    "Start with `onboard-estimation demo`. With a bag of yours: `onboard-estimation inspect BAG`, then "
    "`onboard-estimation evaluate BAG`. Each command has its own `--help` with examples.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            version = metadata.version("onboard_estimation")
        except metadata.PackageNotFoundError:
            version = "not installed"
        typer.echo(f"{output.PROGRAM} {version}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What the program itself is asked, without a command."""


def _add(*commands: Any, panel: str | None = None, settings: dict[str, Any] | None = None) -> None:
    for one in commands:
        app.command(one.__name__, epilog=one.epilog, rich_help_panel=panel, context_settings=settings)(one)


_add(demo.demo, robots.robots, bags.simulate, bags.inspect, evaluate.evaluate, evaluate.compare, evaluate.export)
_add(
    campaign.campaign,
    learning.identify,
    learning.train,
    learning.tune,
    robots.gait,
    observability.observability,
    bags.convert,
    robots.config,
    demo.reproduce,
)
app.add_typer(robots.new, name="new")
_add(robots.urdf)

LIVE = "The live graph"
_add(launch.launch, panel=LIVE)
_add(launch.run, panel=LIVE, settings=launch.SETTINGS)
app.add_typer(live_graph.topic, name="topic", rich_help_panel=LIVE)
app.add_typer(live_graph.service, name="service", rich_help_panel=LIVE)
app.add_typer(live_graph.param, name="param", rich_help_panel=LIVE)
_add(view.view, recording.record, recording.play, computer.doctor, computer.budget, computer.warmup, panel=LIVE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with 0 on success and 2 on wrong usage or bad input, with one line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    asks_for_completion = words[:1] in (["--install-completion"], ["--show-completion"])
    program = output.PROGRAM if asks_for_completion else output.program()
    for stream in (sys.stdout, sys.stderr):
        # Names of files and topics may hold letters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=words or ["--help"], prog_name=program, standalone_mode=False, complete_var=COMPLETE_VARIABLE)
        sys.stdout.flush()
    except UserError as error:
        _complain(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone; writing more at exit would only raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        place = error.filename or "."
        _complain(str(UserError(f"cannot write {error.filename or 'all of it'}: {disk_fault(error, Path(place))}")))
        if isinstance(sys.stdout, io.TextIOWrapper):  # what could not be written (`> /dev/full`) would raise again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:
        # What typer raises for wrong usage comes from click or from a copy of it, as its version has it.
        if type(error).__name__ == "Abort":
            print("interrupted", file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)
        sentence, context = getattr(error, "format_message", None), getattr(error, "ctx", None)
        if sentence is None:
            raise
        command = getattr(context, "command_path", program)
        _complain(printable(f"{str(sentence()).rstrip('.')}; see {command} --help"))
        sys.exit(EXIT_BAD_INPUT)
    if code == EXIT_INTERRUPTED:
        print("interrupted", file=sys.stderr)
    if code or not words:
        sys.exit(code or EXIT_BAD_INPUT)


def _complain(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr)
