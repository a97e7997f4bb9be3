"""`onboard-estimation convert`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.simulate import StorageOption

EXAMPLES = output.examples("convert pyshoe 2017-11-22-11-27-30.mat --output walk")


def convert(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="Format of the file: `pyshoe`.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to convert.")],
    bag: Annotated[Path, typer.Option("--output", "-o", metavar="BAG", help="Bag to write, a folder.")],
    storage: StorageOption = "mcap",
    truth_as_recorded: Annotated[
        bool, typer.Option("--truth-as-recorded", help="Leave the ground truth's axes as they are, left-handed or not.")
    ] = False,
    json: output.JsonOption = False,
) -> None:
    """Turn a recording of another group into a ROS 2 bag.

    `pyshoe`: walks and runs with a foot-mounted IMU and Vicon (.mat, Wagstaff and others); the truth is left-handed
    there and is mirrored in y unless `--truth-as-recorded` is given.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.conversion import CONVERTERS

    if storage not in ("mcap", "sqlite3"):
        raise UserError(f"--storage {storage}: must be mcap or sqlite3")
    if form not in CONVERTERS:
        raise UserError(f"no format {form!r}; there are {', '.join(CONVERTERS)}")
    with output.steps(f"converting {file}", quiet=json):
        written = CONVERTERS[form](file, bag, storage, truth_as_recorded)
    if json:
        output.print_json(written)
        return
    output.say(f"{bag}: {written['messages']} messages, {written['duration_s']:.1f} s, recorded")
    for note in written.get("notes", ()):
        output.say(f"- {note}")
    output.say(f"next: {output.program()} evaluate {shlex.quote(str(bag))}")
