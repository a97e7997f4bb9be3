"""`onboard-estimation urdf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.completion import RobotArgument
from onboard_estimation.commands.evaluate_options import taking

EXAMPLES = output.examples("urdf salp", "urdf salp --config my_salp.yaml --output my_salp.urdf")


@taking()
def urdf(
    robot: RobotArgument,
    options: Any = None,
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of to the screen.")
    ] = None,
) -> None:
    """Print a robot's URDF, made from its configuration: for `robot_state_publisher` and RViz's RobotModel."""
    from onboard_estimation.capabilities.drawn import Drawn
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.robots import find_robot

    found = Drawn[Any].of(find_robot(robot))
    text = found.urdf(load_configuration(found, options))
    if output.put(text, file):
        output.say(f"{file}: {text.count('<link ')} links, {text.count('<joint ')} joints")
