"""The command `onboard-estimation` (also `python -m onboard_estimation`)."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import new, output, service, topic
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


LIVE = "The live graph"
_COMMANDS = {
    None: "demo robots simulate inspect evaluate compare export campaign identify train tune gait convert config new "
    "urdf",
    LIVE: "launch run topic service param view record play doctor budget warmup",
}
"""By panel of the help; each is a function, with EXAMPLES beside it, in a module of `commands`: both have its name."""
_MODULES = {"config": "configuration"}
"""Where that is another name."""
_SEVERAL = {"new": new.app, "topic": topic.app, "service": service.app, "param": service.parameters}
"""Of which each has commands of its own."""

for _panel, _names in _COMMANDS.items():
    for _name in _names.split():
        if _name in _SEVERAL:
            app.add_typer(_SEVERAL[_name], name=_name, rich_help_panel=_panel)
            continue
        _function = _MODULES.get(_name, _name)
        _module = import_module(f"onboard_estimation.commands.{_function}")
        _settings = getattr(_module, "SETTINGS", None)
        _register = app.command(_name, epilog=_module.EXAMPLES, rich_help_panel=_panel, context_settings=_settings)
        _register(getattr(_module, _function))


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
