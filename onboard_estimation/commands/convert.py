"""`onboard-estimation convert`."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import completion, output
from onboard_estimation.commands.simulate import StorageOption

EXAMPLES = output.examples(
    "convert --formats",
    "convert serial_log device.log --output hops",
)


def _show_formats(wanted: bool) -> None:
    if not wanted:
        return
    from onboard_estimation.converters import GROUP
    from onboard_estimation.errors import UserError
    from onboard_estimation.installed import load, offered

    for form in offered(GROUP):
        try:
            text = inspect.getdoc(load(GROUP, "format", form)) or "not described"
            said = text.partition("\n\nParameters\n")[0].partition("\n\nRaises\n")[0]
        except UserError as error:  # one of another package must not hide the rest
            said = str(error)
        output.say(f"{form}: {' '.join(said.split())}\n")
    raise typer.Exit


def convert(
    form: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT", help="Format of the file, see `--formats`.", autocompletion=completion.formats
        ),
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to convert, or folder of a run.")],
    bag: Annotated[Path, typer.Option("--output", "-o", metavar="BAG", help="Bag to write, a folder.")],
    storage: StorageOption = "mcap",
    as_recorded: Annotated[
        bool,
        typer.Option(
            "--as-recorded",
            "--truth-as-recorded",
            help="Leave what the format would mend (the truth's axes, clocks) as it is, wrong or not.",
        ),
    ] = False,
    formats: Annotated[
        bool,
        typer.Option(
            "--formats", callback=_show_formats, is_eager=True, help="Show the installed formats and what each becomes."
        ),
    ] = False,
    json: output.JsonOption = False,
) -> None:
    """Turn a recording of another group, or a device's log, into a ROS 2 bag.

    Formats come from installed packages, yours among them: a function that reads the file, and an entry point of the
    group `onboard_estimation.converters` that names it. What is mended on the way, such as a left-handed truth or a
    second clock, is said, and left with `--as-recorded`.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation import simulated_bags

    if storage not in ("mcap", "sqlite3"):
        raise UserError(f"--storage {storage}: must be mcap or sqlite3")
    with output.steps(f"converting {file}", quiet=json):
        written = simulated_bags.convert(form, file, bag, storage, as_recorded)
    if json:
        output.print_json(written)
        return
    output.say(f"{bag}: {written['messages']} messages, {written['duration_s']:.1f} s, {written['source']}")
    for note in written["notes"]:
        output.say(f"- {note}")
    output.say(f"next: {output.program()} {written['next']} {shlex.quote(str(bag))}")
