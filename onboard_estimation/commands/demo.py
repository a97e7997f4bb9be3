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
    """Simulate each robot, run its estimator on the bag, judge it, and write a report to open in a browser.

    Where a robot can learn, a model is trained, and a harder run is judged without and with it.
    """
    from onboard_estimation.errors import UserError
    from onboard_estimation.robots import all_robots, find_robot

    chosen = [find_robot(name) for name in robots or ()] or [robot for robot in all_robots() if robot.scenarios]
    if folder.exists() and not (folder / _MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and was not made by a demo; name another --output")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    reports = []
    for robot in chosen:
        reports.append(_show(robot, folder, seed))
        if robot.training_scenario is not None:
            reports += _show_learned(robot, robot.training_scenario, folder, seed)
    output.say("\nOpen in a browser:")
    for report in reports:
        output.say(f"  {report}")
    program = output.program()
    output.say(f"Then with a bag of yours: {program} inspect BAG, {program} evaluate BAG")


_LEARNED_SECONDS = 20.0
_TRAINING_SECONDS = 20.0
_TRAINING_SEEDS = (1000, 1001)
"""Added to the seed of the demonstration: no run that is judged was trained with."""
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


def _show_learned(robot: Any, scenario: str, folder: Path, seed: int) -> list[Path]:
    """Train with simulated runs, and judge one more run without and with what was learned: the two reports."""
    from onboard_estimation.evaluation.comparison import compare_runs
    from onboard_estimation.evaluation.evaluate import EvaluateOptions, evaluate_bag, load_configuration
    from onboard_estimation.evaluation.simulated_bags import simulate_to_bag
    from onboard_estimation.evaluation.training import train_from_simulations

    name, variants = robot.name, robot.scenarios[scenario].variants or ("",)
    model, bag = folder / f"{name}_model{robot.model_suffix}", folder / f"{name}_{scenario}_unseen"
    seeds = [seed + offset for offset in _TRAINING_SEEDS]
    plain = EvaluateOptions(robot=name)
    configuration = load_configuration(robot, plain)
    count = len(variants) * len(seeds)
    output.say(f"\n{name}, scenario {scenario}: training with {count} simulated runs", style="bold")
    with output.share(f"{name}: training") as progress:
        report = train_from_simulations(robot, configuration, scenario, _TRAINING_SECONDS, seeds, progress=progress)
        report.save(model)
    for sentence in report.sentences():
        output.say(f"- {sentence}")
    with output.steps(f"{name}: simulating {_LEARNED_SECONDS:g} s") as step:
        simulate_to_bag(robot, configuration, scenario, variants[-1], _LEARNED_SECONDS, seed, bag, progress=step)
    folders, evaluations = [folder / f"{name}_plain_report", folder / f"{name}_learned_report"], []
    for options, run in zip((plain, EvaluateOptions(robot=name, model=model)), folders, strict=True):
        with output.steps(f"{name}: evaluating {'with' if options.model else 'without'} the model") as step:
            evaluations.append(evaluate_bag(bag, options, run, progress=step))
    output.console().print(compare_runs(folders).table())
    for words, evaluation in zip(("Without the model", "With the model"), evaluations, strict=True):
        output.say(f"{words}: {evaluation.result.verdict}.", style="bold")
    again = evaluations[-1].result.command
    output.say(f"again:  {output.program()}{again.removeprefix(output.PROGRAM)}")
    return [run / "report.html" for run in folders]
