"""`onboard-estimation convert`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.simulate import StorageOption

EXAMPLES = output.examples(
    "convert pyshoe 2017-11-22-11-27-30.mat --output walk",
    "convert quadruped go1_slippery_surface.csv --output steps",
    "convert serial_log device.log --output hops",
)


def convert(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="Format: `pyshoe`, `quadruped` or `serial_log`.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to convert.")],
    bag: Annotated[Path, typer.Option("--output", "-o", metavar="BAG", help="Bag to write, a folder.")],
    storage: StorageOption = "mcap",
    as_recorded: Annotated[
        bool,
        typer.Option(
            "--as-recorded",
            "--truth-as-recorded",
            help="Leave the truth's axes (pyshoe) and the clocks (quadruped) as they are, wrong or not.",
        ),
    ] = False,
    json: output.JsonOption = False,
) -> None:
    """Turn a recording of another group, or a device's log, into a ROS 2 bag.

    `pyshoe`: walks and runs with a foot-mounted IMU and Vicon (.mat, Wagstaff and others); the truth is left-handed
    there and is mirrored in y unless `--as-recorded` is given.

    `quadruped`: IMU at a foot and the force that it reads (.csv, Maravgakis and others). Acceleration and rotation
    become SI units, the force stays in counts. Two clocks wrote the columns: that of the IMU is fitted to that of the
    force, and both are said, unless `--as-recorded` is given.

    `serial_log`: raw bytes from the serial line of the low-g and high-g sensors (MPU-6050, H3LIS331DL). Corrupted
    frames are left out and counted; ranges are those that the device tells.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.conversion import CONVERTERS

    if storage not in ("mcap", "sqlite3"):
        raise UserError(f"--storage {storage}: must be mcap or sqlite3")
    if form not in CONVERTERS:
        raise UserError(f"no format {form!r}; there are {', '.join(CONVERTERS)}")
    if as_recorded and form == "serial_log":
        raise UserError("--as-recorded: a serial log has neither a ground truth nor a second clock to leave as it is")
    with output.steps(f"converting {file}", quiet=json):
        written = CONVERTERS[form](file, bag, storage, as_recorded)
    if json:
        output.print_json(written)
        return
    output.say(f"{bag}: {written['messages']} messages, {written['duration_s']:.1f} s, recorded")
    for note in written.get("notes", ()):
        output.say(f"- {note}")
    output.say(f"next: {output.program()} {written.get('next', 'evaluate')} {shlex.quote(str(bag))}")
