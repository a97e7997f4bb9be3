"""`onboard-estimation config`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.evaluate_options import taking
from onboard_estimation.commands.simulate import RobotArgument

EXAMPLES = output.examples(
    "config salp --output my_salp.yaml", "config salp --config my_salp.yaml --set gyro.noise_stddev_rad_s=0.01"
)


@taking()
def configuration(
    robot: RobotArgument,
    options: Any = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of to the screen.")
    ] = None,
) -> None:
    """Print a robot's parameters as a ROS 2 parameter file, each with its meaning and unit: to be edited and used.

    With `--config` and `--set` it checks a file and shows the result; all faults are listed together.
    """
    from onboard_estimation.configuration import to_parameter_file
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.robots import find_robot

    text = to_parameter_file(load_configuration(find_robot(robot), options))
    if output.put(text, file):
        output.say(f"{file}: {text.count(chr(10))} lines; next: {output.program()} evaluate BAG --config {file}")
