"""`onboard-estimation identify`, `train` and `tune`: a robot learned from recordings."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option
from onboard_estimation.judging.options import TuningSettings, override_texts
from onboard_estimation.judging.options import words as option_words

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
        list[Path], argument("BAG...", "Bags with what moves the robot, and motion capture of all bodies.")
    ],
    full: Annotated[bool, flag("Full symmetric drag matrices beside the diagonal ones (salp).", "--full")] = False,
    cutoff: Annotated[float | None, option("HZ", "Low-pass of motion and commands, Hz (salp; 2 otherwise).")] = None,
    options: Any = None,
    folder: Annotated[
        Path | None, arguments.into("FOLDER", "Folder to write; `runs/identify-<robot>` otherwise.", folder=True)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Identify a robot's physical coefficients from bags with commands, or pressures, and motion capture.

    Writes a parameter file for `--config`, a picture of measured against predicted motion, and all figures as JSON.
    Several motions determine more than one does. Bags are left out by turns, of a single one the second half, and
    filtered with what the others told: it says whether to use it. What is not determined stays as configured.
    """
    from onboard_estimation.campaigns.training import identify_from_bags

    with output.steps(f"identifying {robot}", quiet=json) as progress:
        learned = identify_from_bags(robot, bags, folder, options, full, cutoff, progress)
    if json:
        output.print_json(learned.summary())
        return
    report: Any = learned.report
    output.print_report(report.tables(), learned.sentences)
    files = {name: shlex.quote(str(path)) for name, path in learned.written.items() if name != "folder"}
    output.say("\nwritten: " + ", ".join(files.values()))
    if report.helps is False:
        output.say("do not use it; the configuration given is better")
        return
    output.say_command("use it:  " if report.helps else "try it:  ", f"evaluate BAG --config {files['config']}")
    parameters = report.parameters()
    if len(parameters) <= _PASTED:
        settings = " ".join(f"--set {shlex.quote(one)}" for one in override_texts(parameters))
        output.say_command("or:      ", f"evaluate BAG {settings}")


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
    bags: Annotated[list[Path], argument("BAG...", "Bags with commands, and motion capture of all bodies.")],
    model: Annotated[Path, arguments.into("MODEL", "File to write; a model there is replaced.", replaced=True)],
    form: Annotated[
        str | None,
        option(
            "NAME",
            "Form of the model; the robot's choice otherwise. salp: `calibrated` (friction, harness and lag, and "
            "Gaussian processes where they help), `local` (without Gaussian processes: chains of any length), "
            "`paper` (the paper's own filter). softrobot: `ukf` or `marginalized_pf`, both otherwise.",
        ),
    ] = None,
    workers: arguments.FewWorkersOption = 0,
    scheduler: arguments.SchedulerOption = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Train a model of what a robot's equations leave out, from bags with motion capture.

    Several motions cover more of what the robot does; the salp needs two bags at least. A thruster chain is calibrated,
    from one bag without motion capture too; a soft robot's filters are tuned in some minutes. All bags are needed: one
    that does not do is named, and nothing is trained. Without --config the configuration in the first bag's folder is
    taken, where there is one. With --workers or --scheduler processes share the salp's trainings without some of the
    runs, which say how sure the filter may be; other robots' use this process's threads alone. What was found lies
    beside the model as a page, <model>.html. After Ctrl-C the same command goes on from what is done.
    """
    from onboard_estimation.base.workers import sharing
    from onboard_estimation.campaigns.training import train_from_bags

    with (
        arguments.working(workers, scheduler, len(bags), quiet=json) as team,
        sharing(team),
        output.share(f"training {robot}", quiet=json) as progress,
        output.gone_on_with(json),
    ):
        learned = train_from_bags(robot, bags, model, options, form, progress)
    if json:
        output.print_json(learned.summary())
        return
    output.print_report(learned.report.tables(), learned.sentences)
    output.say(f"\nwritten: {model}, {learned.written['page']}")
    output.say_command("use it:  ", shlex.join(["evaluate", "BAG", *option_words(options), "--model", str(model)]))


# `onboard-estimation tune`.


@output.command(
    "tune salp monday tuesday wednesday --output tuned.yaml",
    "tune salp BAG BAG BAG --by innovations --output tuned.yaml",
    "tune strapdown BAG --parameter contact.speed_stddev_m_s=0.001..0.1 --output tuned.yaml",
    "evaluate BAG --config tuned.yaml",
)
@arguments.taking(
    "config", "overrides", "model", "topics", "namespace", "mirror_truth", "align_clock", "settle_s", "beacon_s",
    "initial",
)  # fmt: skip
@arguments.taking_settings(TuningSettings())
def tune(
    robot: arguments.RobotArgument,
    bags: Annotated[list[Path], argument("BAG...", "Recordings to tune with; five or more are good.")],
    file: Annotated[Path, arguments.into("FILE", "Parameter file to write; nothing is overwritten.")],
    estimator: arguments.EstimatorOption = None,
    parameter: Annotated[
        list[str],
        option(
            "NAME[=LOW..HIGH]",
            "A parameter to tune, see `onboard-estimation config ROBOT`; may be repeated. Those of noise "
            "otherwise, a factor of 30 either way. Elements of a list share a factor.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    settings: Any = None,
    workers: arguments.WorkersOption = None,
    scheduler: arguments.SchedulerOption = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Find noise and other parameters with which the filter foretells recordings best.

    Parameters that hardly matter are found first and left alone. Bags are left out by turns, and what the others taught
    is judged on them: the file says whether it helped. It is a parameter file for --config, with how it was made.
    """
    from onboard_estimation.campaigns.tuned_file import tune_with_bags
    from onboard_estimation.campaigns.tuning import parse_ranges

    @contextmanager
    def working(about: str) -> Iterator[Any]:
        output.note(f"tuning {about}", json)
        with (
            arguments.working(workers, scheduler, settings.evaluations, quiet=json) as team,
            output.share("tuning", quiet=json, lines=not json) as tell,
            output.gone_on_with(json),
        ):
            yield team, tell

    options = replace(options, estimator=estimator)
    learned = tune_with_bags(robot, bags, file, options, parse_ranges(parameter), settings, working)
    if json:
        output.print_json(learned.summary())
        return
    output.print_report(learned.report.tables(), learned.sentences)
    output.say(f"\nwritten: {file}")
    output.say_command("use it:  ", f"evaluate BAG --config {shlex.quote(str(file))}")
