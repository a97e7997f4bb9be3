"""`onboard-estimation evaluate`, and what is done with its runs: `compare`, `export`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from textwrap import fill, shorten
from typing import Annotated, Any

import typer

from onboard_estimation.base.errors import EXIT_NOT_JUDGED, UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, option

_WIDEST = 24
"""Of a column; longer names are folded."""
_COLUMNS = 120
"""Of the table of several estimators, where there is no terminal."""
_CONSISTENCY = {
    "coverage_1_sigma": "  within 1 sigma (%)",
    "coverage_3_sigma": "  within 3 sigma (%)",
    "mean_nees_per_degree_of_freedom": "  NEES per dimension",
}


@output.command(
    "evaluate BAG",
    "evaluate BAG --topic imu/link_2/data_raw=/xsens_2/imu --output run",
    "evaluate BAG --model salp.npz --beacon 30",
    "evaluate BAG --estimator robust --smooth",
    "evaluate BAG --estimator kf1 --estimator kf3 --estimator ba1",
    "evaluate BAG --trajectory /odometry/filtered --body link_2 --alignment heading",
    "evaluate my_salp.tum --truth BAG --body link_2 --alignment se3",
    "evaluate BAG --bias imu/link_3.gyro_z=0.01 --delay imu=20ms --json",
)
@arguments.taking_all
def evaluate(
    bag: Annotated[
        Path,
        argument(
            "BAG", "Bag: a rosbag2 folder, an .mcap, .db3 or ROS 1 .bag file; or a trajectory file of another filter."
        ),
    ],
    robot: arguments.RobotOption = None,
    estimator: Annotated[
        list[str],
        option(
            "NAME",
            "Estimator, see `onboard-estimation robots`; the robot's first otherwise. May be repeated: each is "
            "judged on the bag, and they are compared.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    run: Annotated[
        Path | None,
        arguments.into(
            "FOLDER",
            "Run folder to write; `runs/<bag>-<robot>` otherwise. Of several estimators, one folder each in it.",
        ),
    ] = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Replay a bag through a robot's estimator, or take another filter's estimates, and judge them against the truth.

    Writes a run folder: metrics.json, report.html, plots, the estimates as a bag, and what is needed to repeat it.
    Robot and topics are guessed from the bag where they are not given. With several estimators, the bag is read once.
    """
    from onboard_estimation.report.evaluate import evaluate_bag, evaluate_estimators, evaluate_trajectory, is_foreign

    if twice := [name for name in dict.fromkeys(estimator) if estimator.count(name) > 1]:
        raise UserError(f"--estimator {twice[0]} is given {estimator.count(twice[0])} times")
    options = replace(options, robot=robot, estimator=estimator[0] if estimator else None)
    foreign = is_foreign(bag, options)
    if len(estimator) > 1 and not foreign:
        with output.steps(f"evaluating {bag}", quiet=json) as progress:
            # The record of each is let go before the next is filtered.
            judged = [summary(one) for one in evaluate_estimators(bag, options, estimator, run, progress)]
        output.print_json(judged) if json else show_several(judged)
        _leave_unjudged([one["metrics"]["run"] for one in judged])
        return
    with output.steps(f"evaluating {bag}", quiet=json) as progress:
        evaluation = (evaluate_trajectory if foreign else evaluate_bag)(bag, options, run, progress=progress)
    output.print_json(summary(evaluation)) if json else show(evaluation)
    _leave_unjudged([evaluation.result.metrics["run"]])


def _leave_unjudged(runs: Sequence[Mapping[str, float]]) -> None:
    """End with a code of its own where too little of the recording was estimated, or has a truth."""
    from onboard_estimation.judging.verdict import is_too_small

    if all(is_too_small(run["matched_ratio"], run["estimated_ratio"]) for run in runs):
        raise typer.Exit(EXIT_NOT_JUDGED)


def summary(evaluation: Any) -> dict[str, Any]:
    """What `--json` prints."""
    from onboard_estimation.contract.result import own_figures

    result = evaluation.result
    return {
        "verdict": result.verdict,
        "robot": result.robot,
        "estimator": result.estimator,
        "source": result.source,
        "metrics": result.metrics,
        "figures": {one.label: one.value for one in own_figures(result)},
        "sensors": result.sensors,
        "notes": list(result.notes),
        "command": result.command,
        "folder": str(evaluation.folder),
    }


def show(evaluation: Any) -> None:
    """Print a judged run for people."""
    result = evaluation.result
    title = f"{result.robot} ({result.estimator}) on {result.bag}, {result.source} data"
    output.say(title, style="bold")
    output.console().print(output.metrics_table(result.metrics, ""))
    for note in result.notes:
        output.say(f"- {note}")
    output.say(f"\n{result.verdict[:1].upper()}{result.verdict[1:]}.", style="bold")
    output.say(f"\nreport: {evaluation.folder}/report.html")
    output.say_command("again:  ", result.command.removeprefix(f"{output.PROGRAM} "))


def show_several(summaries: Sequence[Mapping[str, Any]]) -> None:
    """Print runs of several estimators on one bag for people: their figures beside each other, and a line on each."""
    first, console = summaries[0], output.console(_COLUMNS)
    output.say(f"{first['robot']}, {len(summaries)} estimators, {first['source']} data", style="bold")
    names = ("", *(fill(one["estimator"], _WIDEST) for one in summaries))
    labels, *columns = zip(names, *_side_by_side(summaries), strict=True)
    widths = [3 + max(len(line) for cell in one for line in cell.split("\n")) for one in (labels, *columns)]
    while columns:  # as many as there is room for
        fitting = sum(taken <= console.width for taken in accumulate(widths)) - 1 or 1
        table = output.table("", "", *(one[0] for one in columns[:fitting]), right=names[1:])
        for row in zip(*(one[1:] for one in (labels, *columns[:fitting])), strict=True):
            table.add_row(*row)
        console.print(table)
        del columns[:fitting], widths[1 : 1 + fitting]
    for one in summaries:
        opinion = re.sub(r": [^:;]* RMS[^;]*", "", one["verdict"])  # the table has the errors
        output.say(shorten(f"{one['estimator']}: {opinion}.", console.width, placeholder=" ..."))
    runs = Path(first["folder"]).parent
    output.say(f"\nreports: {runs}/*/report.html")
    output.say(f"all figures: {output.program()} compare {runs}/*")


def _side_by_side(summaries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Rows of errors and consistency of each part, and of the robot's own figures: a label, a cell for each run."""
    from onboard_estimation.base.presentation import error_keys, error_sizes, shown_metric, words

    runs = [one["metrics"] for one in summaries]
    for part in dict.fromkeys(name for one in runs for name in one if name not in ("run", summaries[0]["robot"])):
        groups = [metrics.get(part, {}) for metrics in runs]
        sizes: dict[str, float] = {}
        for unit, size in (pair for group in groups for pair in error_sizes(group).items()):
            sizes[unit] = max(size, sizes.get(unit, 0.0))
        told = [(*error_keys(group), *(key for key in _CONSISTENCY if key in group)) for group in groups]
        for key in dict.fromkeys(chain.from_iterable(told)):
            shown = [shown_metric(key, group.get(key, 0.0), sizes) for group in groups]
            label = _CONSISTENCY.get(key) or f"{words(part)}: {shown[0][0]} ({shown[0][2]})"
            yield label, *("-" if key not in group else one[1] for group, one in zip(groups, shown, strict=True))
    for label in dict.fromkeys(label for one in summaries for label in one["figures"]):
        yield label, *(one["figures"].get(label, "-") for one in summaries)


@output.command("compare runs/walk-strapdown runs/walk-strapdown-2", "compare RUN RUN --json")
def compare(
    runs: Annotated[list[Path], argument("RUN", "Run folders that `evaluate` wrote, two or more.")],
    json: JsonOption = False,
) -> None:
    """Show the figures of several runs side by side."""
    from onboard_estimation.report.comparison import compare_runs

    compared = compare_runs(runs)
    if json:
        output.print_json(compared.mapping())
        return
    output.console().print(compared.table())
    for note in compared.notes:
        output.say(f"- {note}")


@output.command(
    "export runs/bag-salp --output salp.tum",
    "export runs/bag-salp --format csv --output salp.csv",
)
def export(
    run: Annotated[Path, argument("RUN", "Run folder that `evaluate` wrote.")],
    file: Annotated[Path, arguments.into("FILE", "File to write.")],
    format: Annotated[str | None, option("tum|csv", "By the file's name otherwise: `.tum` or `.csv`.")] = None,
) -> None:
    """Write the estimates of a run as a trajectory file: TUM for other tools, or CSV with all that was estimated.

    Estimates are in the truth's frame, as they were compared. In TUM, planar poses have z = 0, and what is not
    estimated is zero.
    """
    from onboard_estimation.trajectories.written_estimates import FORMATS, export_run

    chosen = format or file.suffix.lower().removeprefix(".")
    if chosen not in FORMATS:
        raise UserError(f"{f'--format {format}' if format else file}: the format must be {' or '.join(FORMATS)}")
    count = export_run(run, chosen, file)
    output.say(f"{count} estimates written to {file} ({chosen})")
