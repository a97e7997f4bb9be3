"""The command `onboard-estimation` (also `python -m onboard_estimation`)."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import (
    budget,
    campaign,
    compare,
    configuration,
    convert,
    demo,
    doctor,
    evaluate,
    export,
    gait,
    identify,
    inspect,
    launch,
    new,
    output,
    play,
    record,
    robots,
    run,
    service,
    simulate,
    topic,
    train,
    tune,
    urdf,
    view,
    warmup,
)
from onboard_estimation.commands.installed_commands import Commands
from onboard_estimation.errors import EXIT_BAD_INPUT, UserError, disk_fault, printable

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As a shell reports a program that the signal SIGPIPE ended."""
COMPLETE_VARIABLE = "_ONBOARD_ESTIMATION_COMPLETE"
"""Set by the shell's completion, whatever the program is called by."""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

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


app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.command("robots", epilog=robots.EXAMPLES)(robots.robots)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("inspect", epilog=inspect.EXAMPLES)(inspect.inspect)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("export", epilog=export.EXAMPLES)(export.export)
app.command("campaign", epilog=campaign.EXAMPLES)(campaign.campaign)
app.command("identify", epilog=identify.EXAMPLES)(identify.identify)
app.command("train", epilog=train.EXAMPLES)(train.train)
app.command("tune", epilog=tune.EXAMPLES)(tune.tune)
app.command("gait", epilog=gait.EXAMPLES)(gait.gait)
app.command("convert", epilog=convert.EXAMPLES)(convert.convert)
app.command("config", epilog=configuration.EXAMPLES)(configuration.configuration)
app.add_typer(new.app, name="new")
app.command("urdf", epilog=urdf.EXAMPLES)(urdf.urdf)

LIVE = "The live graph"
app.command("launch", epilog=launch.EXAMPLES, rich_help_panel=LIVE)(launch.launch)
app.command("run", epilog=run.EXAMPLES, rich_help_panel=LIVE, context_settings=run.SETTINGS)(run.run)
app.add_typer(topic.app, name="topic", rich_help_panel=LIVE)
app.add_typer(service.app, name="service", rich_help_panel=LIVE)
app.add_typer(service.parameters, name="param", rich_help_panel=LIVE)
app.command("view", epilog=view.EXAMPLES, rich_help_panel=LIVE)(view.view)
app.command("record", epilog=record.EXAMPLES, rich_help_panel=LIVE)(record.record)
app.command("play", epilog=play.EXAMPLES, rich_help_panel=LIVE)(play.play)
app.command("doctor", epilog=doctor.EXAMPLES, rich_help_panel=LIVE)(doctor.doctor)
app.command("budget", epilog=budget.EXAMPLES, rich_help_panel=LIVE)(budget.budget)
app.command("warmup", epilog=warmup.EXAMPLES, rich_help_panel=LIVE)(warmup.warmup)


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
