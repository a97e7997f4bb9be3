"""`onboard-estimation tune`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.judging.options import TuningSettings

if TYPE_CHECKING:
    from onboard_estimation.campaigns.tuning import Tuning


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
    bags: Annotated[
        list[Path], typer.Argument(metavar="BAG...", help="Recordings to tune with; five or more are good.")
    ],
    file: Annotated[Path, arguments.into("FILE", "Parameter file to write; nothing is overwritten.")],
    estimator: arguments.EstimatorOption = None,
    parameter: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[=LOW..HIGH]",
            help="A parameter to tune, see `onboard-estimation config ROBOT`; may be repeated. Those of noise "
            "otherwise, a factor of 30 either way. Elements of a list share a factor.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    settings: Any = None,
    workers: arguments.WorkersOption = None,
    scheduler: arguments.SchedulerOption = None,
    options: Any = None,
    json: output.JsonOption = False,
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
    ):
        tuning = search(recordings, options, chosen, settings, team, tell)
    text = _file(tuning, options, found, bags)
    output.put(text, file)
    if json:
        output.print_json(summary(tuning, file))
        return
    show(tuning)
    output.say(f"\nwritten: {file}")
    output.say(f"use it:  {output.program()} evaluate BAG --config {shlex.quote(str(file))}")


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
    output.print_tables(tables)
    for sentence in tuning.sentences():
        output.say(f"- {sentence}")
