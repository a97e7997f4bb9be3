"""`onboard-estimation urdf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.evaluate import ConfigOption, SetOption
from onboard_estimation.commands.simulate import RobotArgument

EXAMPLES = output.examples("urdf salp", "urdf salp --config my_salp.yaml --output my_salp.urdf")


def urdf(
    robot: RobotArgument,
    config: ConfigOption = None,
    set_: SetOption = [],  # noqa: B006 (typer copies it)
    file: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of to the screen.")
    ] = None,
) -> None:
    """Print a robot's URDF, made from its configuration: for `robot_state_publisher` and RViz's RobotModel."""
    from onboard_estimation.capabilities.drawn import Drawn
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, load_configuration
    from onboard_estimation.robots import find_robot

    found = Drawn[Any].of(find_robot(robot))
    text = found.urdf(load_configuration(found, EvaluateOptions(config=config, overrides=output.parse_overrides(set_))))
    if output.put(text, file):
        output.say(f"{file}: {text.count('<link ')} links, {text.count('<joint ')} joints")
