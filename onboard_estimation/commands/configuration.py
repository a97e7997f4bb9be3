"""`onboard-estimation config`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import completion, output
from onboard_estimation.commands.evaluate_options import taking

EXAMPLES = output.examples(
    "config init salp",
    "config init salp --output my_salp.yaml",
    "config salp --config my_salp.yaml --set gyro.noise_stddev_rad_s=0.01",
)
_INIT = "init"


@taking()
def configuration(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[init] ROBOT", help="A robot, see `onboard-estimation robots`.", autocompletion=completion.robots
        ),
    ],
    options: Any = None,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it there; after `init`, `ROBOT.yaml` otherwise."),
    ] = None,
) -> None:
    """Write or print a robot's parameters as a ROS 2 parameter file, each with its meaning and unit.

    `config init ROBOT` writes the file to begin with; nothing is overwritten. `config ROBOT` prints it. With `--config`
    and `--set` it checks a file and shows the result; all faults are listed together.
    """
    from onboard_estimation.configuration import to_parameter_file
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.robots import find_robot

    begins = len(words) == 2 and words[0] == _INIT
    if not begins and len(words) != 1:
        raise UserError(f"write config ROBOT, or config init ROBOT; not config {shlex.join(words)}")
    name = words[-1]
    if begins and file is None:
        file = Path(f"{name}.yaml")
    text = to_parameter_file(load_configuration(find_robot(name), options))
    if begins:
        text = _heading(name, file) + text
    if output.put(text, file):
        output.say(f"{file}: {text.count(chr(10))} lines; next: {output.program()} evaluate BAG --config {file}")


def _heading(name: str, file: Path | None) -> str:
    return (
        f"# Parameters of the robot {name}. Behind each: what it is, its unit in brackets, what is allowed.\n"
        "# What you do not change may be deleted: the defaults stay.\n"
        f"# Check it: {output.PROGRAM} config {name} --config {file}\n"
        f"# Use it:   {output.PROGRAM} evaluate BAG --config {file}\n"
    )
