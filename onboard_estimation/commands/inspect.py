"""`onboard-estimation inspect`."""

from __future__ import annotations

import shlex
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
    """Show what is in a bag and what is wrong with it: rates, gaps, stamps, and the truth against the IMUs.

    Of the truth: holes, jumps, marker flips; its clock and frames, the IMUs' lever arms, which way is up, from motion.
    """
    from onboard_estimation.errors import printable
    from onboard_estimation.evaluation import inspection
    from onboard_estimation.evaluation.evaluate import known_channels, suggested_lines
    from onboard_estimation.evaluation.trajectory import foreign_topics

    with output.steps(f"inspecting {bag}", quiet=json) as progress:
        found = inspection.inspect_bag(bag, known_channels(), progress)
    lines = suggested_lines({topic.name: topic.message_type for topic in found.topics})
    if json:
        output.print_json({**found.to_mapping(), "suggested_options": lines})
        return
    output.console().print(inspection.render(found))
    if lines:
        output.say("\nNo topic names of an installed robot; by their types these may be. To try:")
    for line in lines:
        output.say(f"  {output.program()} evaluate {shlex.quote(printable(str(bag)))} {line}")
    for topic in foreign_topics(found.topics):
        output.say(f"To judge the poses on {printable(topic)}, of whatever filter:")
        words = f"{shlex.quote(printable(str(bag)))} --trajectory {shlex.quote(printable(topic))}"
        output.say(f"  {output.program()} evaluate {words}")
