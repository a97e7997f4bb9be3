"""`onboard-estimation identify` and `train`: a robot learned from recordings."""

from __future__ import annotations

import json as json_library
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.commands import arguments, output

if TYPE_CHECKING:
    from onboard_estimation.contract.recorded import LoadedRecording
    from onboard_estimation.contract.trained import IdentificationReport, Identified


_PASTED = 6
"""Parameters at most that are shown as options to paste; more are read from the file."""


@output.command(
    "identify salp forward left turning",
    "identify salp BAG --full --cutoff 1.5 --output drag",
    "identify salp BAG --config my_salp.yaml --topic actuators/command=/hebi/command",
    "identify softrobot run_1 run_3 --output mine",
)
@arguments.taking("config", "overrides", "topics", "namespace", "mirror_truth")
def identify(
    robot: arguments.RobotArgument,
    bags: Annotated[
        list[Path],
        typer.Argument(metavar="BAG...", help="Bags with what moves the robot, and motion capture of all bodies."),
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Full symmetric drag matrices beside the diagonal ones (salp).")
    ] = False,
    cutoff: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="Low-pass of motion and commands, Hz (salp; 2 otherwise)."),
    ] = None,
    options: Any = None,
    folder: Annotated[
        Path | None, arguments.into("FOLDER", "Folder to write; `runs/identify-<robot>` otherwise.")
    ] = None,
    json: output.JsonOption = False,
) -> None:
    """Identify a robot's physical coefficients from bags with commands, or pressures, and motion capture.

    Writes a parameter file for `--config`, a picture of measured against predicted motion, and all figures as JSON.
    Several motions determine more than one does.
    """
    from onboard_estimation.campaigns.training import recordings_of
    from onboard_estimation.contract.trained import Identified
    from onboard_estimation.report.run_folder import claimed_run

    found, configuration = arguments.configured(robot, options, bags[0], Identified[Any])
    with (
        claimed_run(folder, Path("runs") / f"identify-{found.name}") as written,
        output.steps(f"identifying {robot}", quiet=json) as progress,
    ):
        recordings = recordings_of(bags, lambda bag: _read(bag, found, configuration, options), progress)
        progress("fitting")
        result = found.identify(configuration, recordings, full, cutoff, progress)
        progress("writing")
        paths = result.write(written)
    if json:
        output.print_json({**result.summary(), "folder": str(written)})
    else:
        _show(result, paths)


def _read(path: Path, robot: Identified[Any], configuration: Any, options: Any) -> LoadedRecording:
    """A bag's recording: whatever there is of the robot's topics, and those that only the identification uses."""
    from dataclasses import replace

    from onboard_estimation.bags.bag import open_bag
    from onboard_estimation.bags.topics import match_topics
    from onboard_estimation.judging.options import WhatIf
    from onboard_estimation.judging.recording import load_recording

    renamed = options.topics
    extra = {one.topic: one for one in robot.identification_channels(configuration)}
    with open_bag(path) as bag:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
        others = {name: topic for name, topic in renamed.items() if name not in extra}
        match = match_topics(robot, configuration, kinds, others, options.namespace)
        places = {renamed.get(name, f"{match.namespace}/{name}"): one for name, one in extra.items()}
        present = {place: one for place, one in places.items() if kinds.get(place) == one.message_type}
        match = replace(match, channels={**match.channels, **present})
        # What an estimator needs, an identification may do without; it says itself what it lacks.
        absent = tuple(one.sensor for one in match.missing if one.required) if match.channels else ()
        return load_recording(bag, robot, match, WhatIf(drop=absent), options.mirror_truth)


def _show(result: IdentificationReport, paths: list[Path]) -> None:
    output.print_tables(result.tables())
    for sentence in result.sentences():
        output.say(f"- {sentence}")
    output.say("\nwritten: " + ", ".join(str(path) for path in paths))
    output.say(f"use it:  {output.program()} evaluate BAG --config {shlex.quote(str(paths[0]))}")
    parameters = result.parameters()
    if len(parameters) <= _PASTED:
        settings = (f"{name}={json_library.dumps(values)}" for name, values in parameters.items())
        output.say("or:      " + " ".join(f"--set {shlex.quote(one)}" for one in settings))


@output.command(
    "train salp forward left turning --output salp.npz",
    "train salp monday/*.bag --output salp.npz --workers 8",
    "train salp BAG --form local --output salp.npz --json",
    "train thruster_chain monday --output chain.npz",
    "train softrobot run_1 run_3 --config mine/identified.yaml --output mine.npz",
    "evaluate BAG --model salp.npz",
)
@arguments.taking("config", "overrides", "topics", "namespace", "mirror_truth")
def train(
    robot: arguments.RobotArgument,
    bags: Annotated[
        list[Path], typer.Argument(metavar="BAG...", help="Bags with commands, and motion capture of all bodies.")
    ],
    model: Annotated[Path, arguments.into("MODEL", "File to write; a model there is replaced.")],
    form: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Form of the model; the robot's choice otherwise. salp: `calibrated` (friction, harness and lag, and "
            "Gaussian processes where they help), `local` (without Gaussian processes: chains of any length), "
            "`gaussian_process` (nothing else). softrobot: `ukf` or `marginalized_pf`, both otherwise.",
        ),
    ] = None,
    workers: arguments.FewWorkersOption = 0,
    scheduler: arguments.SchedulerOption = None,
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
    from onboard_estimation.base.workers import sharing
    from onboard_estimation.campaigns.training import check_form, train_from_bags
    from onboard_estimation.contract.robot import find_robot
    from onboard_estimation.contract.trained import Trained

    check_form(Trained[Any].of(find_robot(robot)), form)
    found, configuration = arguments.configured(robot, options, bags[0])
    with (
        arguments.working(workers, scheduler, len(bags), quiet=json) as team,
        sharing(team),
        output.share(f"training {robot}", quiet=json) as progress,
    ):
        report = train_from_bags(found, configuration, bags, model, options, form, progress)
    if json:
        output.print_json({**report.summary(), "model": str(model)})
        return
    output.print_tables(report.tables())
    for sentence in report.sentences():
        output.say(f"- {sentence}")
    output.say(f"\nwritten: {model}")
    with_configuration = "" if options.config is None else f" --config {shlex.quote(str(options.config))}"
    output.say(f"use it:  {output.program()} evaluate BAG{with_configuration} --model {shlex.quote(str(model))}")
