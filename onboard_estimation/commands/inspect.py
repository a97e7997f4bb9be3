"""`onboard-estimation inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onboard_estimation.commands import output

EXAMPLES = output.examples("inspect BAG", "inspect BAG --json")


def inspect(
    bag: Annotated[
        Path, typer.Argument(metavar="BAG", help="Bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file.")
    ],
    json: output.JsonOption = False,
) -> None:
    """Show what is in a bag and what is wrong with it: rates, gaps, repeated and jumping stamps, holes in the truth."""
    from onboard_estimation.evaluation import inspection
    from onboard_estimation.evaluation.evaluate import known_channels

    with output.steps(f"inspecting {bag}", quiet=json) as progress:
        found = inspection.inspect_bag(bag, known_channels(), progress)
    if json:
        output.print_json(found.to_mapping())
    else:
        output.console().print(inspection.render(found))
