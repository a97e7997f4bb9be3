"""`onboard-estimation identify`, `train` and `tune`: a robot learned from recordings."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, flag, option

if TYPE_CHECKING:
    from onboard_estimation.contract.recorded import LoadedRecording
    from onboard_estimation.contract.trained import IdentificationReport, Identified
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.options import TuningSettings, override_texts
from onboard_estimation.judging.options import words as option_words

if TYPE_CHECKING:
    from onboard_estimation.campaigns.tuning import Tuning


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
        Path | None, arguments.into("FOLDER", "Folder to write; `runs/identify-<robot>` otherwise.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Identify a robot's physical coefficients from bags with commands, or pressures, and motion capture.

    Writes a parameter file for `--config`, a picture of measured against predicted motion, and all figures as JSON.
    Several motions determine more than one does. Bags are left out by turns, of a single one the second half, and
    filtered with what the others told: it says whether to use it. What is not determined stays as configured.
    """
    from onboard_estimation.campaigns.identification import identify_recordings
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
        result = identify_recordings(found, configuration, recordings, full, cutoff, progress)
        progress("writing")
        paths = result.write(written)
    if json:
        output.print_json({**result.figures(), "folder": str(written)})
    else:
        _show(result, paths)


def _read(path: Path, robot: Identified[Any], configuration: Any, options: Any) -> LoadedRecording:
    """A bag's recording: whatever there is of the robot's topics, and those that only the identification uses."""
    from dataclasses import replace

    from onboard_estimation.bags.bag import open_bag
    from onboard_estimation.bags.topics import match_topics
    from onboard_estimation.judging.options import WhatIf
    from onboard_estimation.judging.sources import load_recording

    renamed = options.topics
    extra = {one.topic: one for one in robot.identification_channels(configuration)}
    with open_bag(path) as bag:
        others = {name: topic for name, topic in renamed.items() if name not in extra}
        match = match_topics(robot, configuration, bag.types, others, options.namespace)
        places = {renamed.get(name, f"{match.namespace}/{name}"): one for name, one in extra.items()}
        present = {place: one for place, one in places.items() if bag.types.get(place) == one.message_type}
        match = replace(match, channels={**match.channels, **present})
        # What an estimator needs, an identification may do without; it says itself what it lacks.
        absent = tuple(one.sensor for one in match.missing if one.required) if match.channels else ()
        return load_recording(bag, robot, match, WhatIf(drop=absent), options.mirror_truth)


def _show(result: IdentificationReport, paths: list[Path]) -> None:
    output.print_report(result.tables(), result.sentences())
    output.say("\nwritten: " + ", ".join(str(path) for path in paths))
    if result.helps is False:
        output.say("do not use it; the configuration given is better")
        return
    label = "use it:  " if result.helps else "try it:  "
    output.say_command(label, f"evaluate BAG --config {shlex.quote(str(paths[0]))}")
    parameters = result.parameters()
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
    model: Annotated[Path, arguments.into("MODEL", "File to write; a model there is replaced.")],
    form: Annotated[
        str | None,
        option(
            "NAME",
            "Form of the model; the robot's choice otherwise. salp: `calibrated` (friction, harness and lag, and "
            "Gaussian processes where they help), `local` (without Gaussian processes: chains of any length), "
            "`gaussian_process` (nothing else). softrobot: `ukf` or `marginalized_pf`, both otherwise.",
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
    from onboard_estimation.campaigns.training import check_form, train_from_bags
    from onboard_estimation.contract.robot import find_robot
    from onboard_estimation.contract.trained import Trained
    from onboard_estimation.report.training import page_of

    check_form(Trained[Any].of(find_robot(robot)), form)
    found, configuration = arguments.configured(robot, options, bags[0])
    with (
        arguments.working(workers, scheduler, len(bags), quiet=json) as team,
        sharing(team),
        output.share(f"training {robot}", quiet=json) as progress,
        _gone_on_with(json),
    ):
        report = train_from_bags(found, configuration, bags, model, options, form, progress)
    if json:
        output.print_json({**report.summary(), "model": str(model), "page": str(page_of(model))})
        return
    output.print_report(report.tables(), report.sentences())
    output.say(f"\nwritten: {model}, {page_of(model)}")
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
    from onboard_estimation.campaigns.tuning import tunables
    from onboard_estimation.campaigns.tuning import tune as search
    from onboard_estimation.contract.robot import estimator_name, find_robot
    from onboard_estimation.judging.sources import load_configuration, read_bag

    if file.exists():
        raise UserError(f"--output {file} exists already; name another file")
    found = find_robot(robot)
    options = replace(options, robot=robot, estimator=estimator_name(found, estimator))
    chosen = tunables(load_configuration(found, options, bags[0]), parameter)
    recordings = _named(bags)
    if settings.by is None:
        with output.steps("reading the bags", quiet=json):
            bodies = [set(read_bag(bag, options).recording.tracks) for bag in bags]
        settings = replace(settings, by="truth" if all(bodies) else "innovations")
    output.note(f"tuning {len(chosen)} parameters of {robot} with {len(bags)} bags by {settings.by}", json)
    with (
        arguments.working(workers, scheduler, settings.evaluations, quiet=json) as team,
        output.share("tuning", quiet=json, lines=not json) as tell,
        _gone_on_with(json),
    ):
        tuning = search(recordings, options, chosen, settings, team, tell)
    text = _file(tuning, options, found, bags)
    output.put(text, file)
    if json:
        output.print_json(summary(tuning, file))
        return
    show(tuning)
    output.say(f"\nwritten: {file}")
    output.say_command("use it:  ", f"evaluate BAG --config {shlex.quote(str(file))}")


@contextmanager
def _gone_on_with(quiet: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.note("what is done is kept; the same command goes on from there", quiet)
        raise


def _named(bags: Sequence[Path]) -> dict[str, Path]:
    from onboard_estimation.campaigns.table import bag_names

    if gone := [str(bag) for bag in bags if not bag.exists()]:
        raise UserError(f"not there: {', '.join(gone)}")
    if len({bag.resolve() for bag in bags}) < len(bags):
        raise UserError("a bag is given twice")
    return {name: bag for bag, name in bag_names([bag.absolute() for bag in bags]).items()}


def _file(tuning: Tuning, options: Any, robot: Any, bags: Sequence[Path]) -> str:
    """The parameter file, with how it was made as its first lines."""
    from onboard_estimation.base.configuration import to_parameter_file
    from onboard_estimation.base.workers import software
    from onboard_estimation.judging.sources import load_configuration
    from onboard_estimation.report.run_folder import content_hash

    tuned = replace(options, overrides={**options.overrides, **tuning.values})
    lines = [f"Tuned on {datetime.now(timezone.utc).date().isoformat()}: {output.PROGRAM} {shlex.join(sys.argv[1:])}"]
    lines += tuning.sentences()
    lines += [f"{one.name}: {_shown(one.value)} before, {_shown(tuning.values[one.name])} now" for one in tuning.chosen]
    for one in tuning.left_out:
        nees = [
            f"{part} {nees:.2f} to {one.after.nees.get(part, math.nan):.2f}" for part, nees in one.before.nees.items()
        ]
        scores = f"score {one.before.value:.4g} to {one.after.value:.4g}"
        lines.append(f"left out {one.name}: {scores}, NEES per degree of freedom {', '.join(nees)}")
    lines += [f"bag {bag.name}: sha256 {content_hash(bag)}" for bag in bags]
    lines.append(", ".join(f"{name} {version}" for name, version in software().items()))
    header = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return header + to_parameter_file(load_configuration(robot, tuned, bags[0]))


def _shown(value: Any) -> str:
    """A number, or several."""
    from onboard_estimation.base.presentation import format_number

    values = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(format_number(float(one), 3) if math.isfinite(one) else "none" for one in values)


def summary(tuning: Tuning, file: Path) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "file": str(file),
        "by": tuning.settings.by,
        "method": tuning.settings.method,
        "parameters": {
            one.name: {"before": one.value, "after": tuning.values[one.name], "unit": one.unit} for one in tuning.chosen
        },
        "untouched": list(tuning.untouched),
        "at_bounds": list(tuning.at_bounds),
        "helped": tuning.helped,
        "left_out": [
            {"name": one.name, "before": one.before._asdict(), "after": one.after._asdict()} for one in tuning.left_out
        ],
        "evaluations": tuning.evaluations,
        "notes": tuning.sentences(),
    }


def show(tuning: Tuning) -> None:
    """Print what was found for people."""
    from onboard_estimation.base.presentation import metric_label, short_unit, words
    from onboard_estimation.contract.trained import ReportTable

    numbers = ("before", "now")
    found = tuple((one.name, one.unit, _shown(one.value), _shown(tuning.values[one.name])) for one in tuning.chosen)
    tables = [ReportTable("Parameters", ("name", "unit", *numbers), found, numbers)]
    rows = []
    for run in tuning.left_out:
        figures = [("Score, less is better", "nats", run.before.value, run.after.value)]
        for part, nees in run.before.nees.items():
            figures.append((f"{words(part)}: NEES/dof", "", nees, run.after.nees.get(part, math.nan)))
        for key, rmse in run.before.rmse.items():
            part, _, leaf = key.partition(".")
            label = f"{words(part)}: {metric_label(leaf)[0]}"
            figures.append((label, short_unit(leaf), rmse, run.after.rmse.get(key, math.nan)))
        for number, (label, unit, before, after) in enumerate(figures):
            rows.append(("" if number else run.name, label, unit, _shown(before), _shown(after)))
    if rows:
        tables.append(ReportTable("On bags that were left out", ("bag", "figure", "", *numbers), tuple(rows), numbers))
    output.print_report(tables, tuning.sentences())
