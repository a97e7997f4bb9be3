"""`onboard-estimation simulate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.commands import completion, output
from onboard_estimation.commands.evaluate_options import taking

if TYPE_CHECKING:
    from onboard_estimation.capabilities.simulated import Simulated

EXAMPLES = output.examples(
    "simulate salp --gait backward --duration 30 --seed 3 --output bag",
    "simulate salp --output bag --storage sqlite3 --set chain.joint_drag=[0.02,0.02]",
)

ScenarioOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Scenario, see `onboard-estimation robots`; the robot's first otherwise."),
]
VariantOption = Annotated[
    str | None,
    typer.Option(
        "--gait", "--variant", metavar="NAME", help="What it does, e.g. its gait; the scenario's first otherwise."
    ),
]
StorageOption = Annotated[str, typer.Option(metavar="mcap|sqlite3", help="Format of the bag.")]


@taking()
def simulate(
    robot: completion.RobotArgument,
    bag: Annotated[Path, typer.Option("--output", "-o", metavar="BAG", help="Bag to write, a folder.")],
    scenario: ScenarioOption = None,
    variant: VariantOption = None,
    duration: Annotated[float, typer.Option(metavar="S", help="Length, s.")] = 60.0,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of all noise and disturbances; the same seed gives the same bag.")
    ] = 0,
    storage: StorageOption = "mcap",
    options: Any = None,
    json: output.JsonOption = False,
) -> None:
    """Simulate a robot with its sensors and the motion capture, and write all of it as a ROS 2 bag."""
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.simulated_bags import simulate_to_bag

    if storage not in ("mcap", "sqlite3"):
        raise UserError(f"--storage {storage}: must be mcap or sqlite3")
    found, configuration, scenario, variant = choose(robot, scenario, variant, duration, options)
    with output.steps(f"simulating {robot}", quiet=json) as progress:
        written = simulate_to_bag(found, configuration, scenario, variant, duration, seed, bag, storage, progress)
    if json:
        output.print_json(written)
        return
    what = ", ".join(word for word in (scenario, variant, f"seed {seed}") if word)
    size = f"{written['messages']} messages on {written['topics']} topics"
    output.say(f"{bag}: {size}, {duration:g} s of {robot} ({what}), simulated")
    output.say(f"next: {output.program()} evaluate {shlex.quote(str(bag))}")


def choose(
    name: str, scenario: str | None, variant: str | None, duration_s: float, options: Any
) -> tuple[Simulated[Any], Any, str, str]:
    """Robot, configuration, scenario and variant, all checked."""
    from onboard_estimation.capabilities.simulated import Simulated, chosen_scenario
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.robots import find_robot

    robot = Simulated[Any].of(find_robot(name))
    scenario, variant = chosen_scenario(robot, scenario, variant)
    if not 0.0 < duration_s <= 36_000.0:
        raise UserError(f"--duration {duration_s:g}: must be above 0 s and at most 36000 s")
    return robot, load_configuration(robot, options), scenario, variant
