"""`onboard-estimation demo`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import output

_SECONDS = 60.0
EXAMPLES = output.examples("demo", "demo salp --output my_demo")


def demo(
    robots: Annotated[
        list[str] | None, typer.Argument(metavar="ROBOT", help="Robots; all that simulate otherwise.")
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="Where bags and reports go; an earlier demo there is replaced."
        ),
    ] = Path("demo_output"),
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Of the simulation.")] = 1,
) -> None:
    """Simulate each robot, run its estimator on the bag, judge it, and write a report to open in a browser."""
    from onboard_estimation.errors import UserError
    from onboard_estimation.robots import all_robots, find_robot

    chosen = [find_robot(name) for name in robots or ()] or [robot for robot in all_robots() if robot.scenarios]
    if folder.exists() and not (folder / _MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and was not made by a demo; name another --output")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    reports = [_show(robot, folder, seed) for robot in chosen]
    output.say("\nOpen in a browser:")
    for report in reports:
        output.say(f"  {report}")
    program = output.program()
    output.say(f"Then with a bag of yours: {program} inspect BAG, {program} evaluate BAG")


_MARK = ".onboard_estimation_demo"


def _show(robot: Any, folder: Path, seed: int) -> Path:
    from onboard_estimation.commands import evaluate as evaluating
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag, load_configuration
    from onboard_estimation.evaluation.simulated_bags import simulate_to_bag

    scenario = next(iter(robot.scenarios))
    variant = next(iter(robot.scenarios[scenario].variants), "")
    bag = folder / f"{robot.name}_{scenario}"
    options = EvaluateOptions(robot=robot.name)
    configuration = load_configuration(robot, options)
    with output.steps(f"{robot.name}: simulating {_SECONDS:g} s") as progress:
        simulate_to_bag(robot, configuration, scenario, variant, _SECONDS, seed, bag, progress=progress)
    with output.steps(f"{robot.name}: evaluating (the first run compiles the models)") as progress:
        evaluation = evaluate_bag(bag, options, folder / f"{robot.name}_report", progress=progress)
    evaluating.show(evaluation)
    return folder / f"{robot.name}_report" / "report.html"
