"""`onboard-estimation train`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.commands import output
from onboard_estimation.commands.completion import RobotArgument
from onboard_estimation.commands.evaluate_options import taking
from onboard_estimation.commands.working import FewWorkersOption, SchedulerOption, working

if TYPE_CHECKING:
    from onboard_estimation.capabilities.trained import TrainingReport

EXAMPLES = output.examples(
    "train salp forward left turning --output salp.npz",
    "train salp monday/*.bag --output salp.npz --workers 8",
    "train salp BAG --form local --output salp.npz --json",
    "train thruster_chain monday --output chain.npz",
    "train softrobot run_1 run_3 --config mine/identified.yaml --output mine.npz",
    "evaluate BAG --model salp.npz",
)


@taking("config", "overrides", "topics", "namespace", "mirror_truth")
def train(
    robot: RobotArgument,
    bags: Annotated[
        list[Path], typer.Argument(metavar="BAG...", help="Bags with commands, and motion capture of all bodies.")
    ],
    model: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="File to write; a model there is replaced.")
    ],
    form: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Form of the model; the robot's choice otherwise. salp: `calibrated` (friction, harness and lag, and "
            "Gaussian processes where they help), `local` (without Gaussian processes: chains of any length), "
            "`gaussian_process` (nothing else). softrobot: `ukf` or `marginalized_pf`, both otherwise.",
        ),
    ] = None,
    workers: FewWorkersOption = 0,
    scheduler: SchedulerOption = None,
    options: Any = None,
    json: output.JsonOption = False,
) -> None:
    """Train a model of what a robot's equations leave out, from bags with motion capture.

    Several motions cover more of what the robot does; the salp needs two bags at least. A thruster chain is calibrated,
    from one bag without motion capture too; a soft robot's filters are tuned in some minutes. All bags are needed: one
    that does not do is named, and nothing is trained. Without --config the configuration in the first bag's folder is
    taken, where there is one. With --workers or --scheduler processes share the salp's trainings without some of the
    runs, which say how sure the filter may be; other robots' use this process's threads alone.
    """
    from onboard_estimation.capabilities.trained import Trained
    from onboard_estimation.evaluation.evaluate import load_configuration
    from onboard_estimation.evaluation.training import TrainingOptions, check_form, train_from_bags
    from onboard_estimation.robots import find_robot
    from onboard_estimation.workers import sharing

    found = Trained[Any].of(find_robot(robot))
    check_form(found, form)
    configuration = load_configuration(found, options, bags[0])
    chosen = TrainingOptions(form, options.topics, options.namespace, options.mirror_truth)
    with (
        working(workers, scheduler, len(bags), quiet=json) as team,
        sharing(team),
        output.share(f"training {robot}", quiet=json) as progress,
    ):
        report = train_from_bags(found, configuration, bags, model, chosen, progress)
    if json:
        output.print_json({**report.summary(), "model": str(model)})
        return
    show(report)
    output.say(f"\nwritten: {model}")
    with_configuration = "" if options.config is None else f" --config {shlex.quote(str(options.config))}"
    output.say(f"use it:  {output.program()} evaluate BAG{with_configuration} --model {shlex.quote(str(model))}")


def show(report: TrainingReport) -> None:
    """Print what was trained for people."""
    output.print_tables(report.tables())
    for sentence in report.sentences():
        output.say(f"- {sentence}")
