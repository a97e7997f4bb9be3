"""`onboard-estimation observability`."""

from __future__ import annotations

import json as json_reader
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import arguments, output
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.options import EvaluateOptions, recalled

EXAMPLES = output.examples(
    "observability BAG",
    "observability runs/forward-salp runs/backward-salp --joint 1 --output figure_8.png",
    "observability BAG --robot thruster_chain --output picture.png",
    "observability BAG --json",
)
_MOST_COLUMNS = 6
_ROBOTS = ("salp", "thruster_chain")

app = typer.Typer(rich_markup_mode="markdown")


@app.command(epilog=EXAMPLES)
@arguments.taking()
def observability(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="BAG|RUN",
            help="Bags, or run folders that `evaluate` wrote, of one kind of robot; a robot's name may stand first.",
        ),
    ],
    robot: Annotated[
        str | None,
        typer.Option(
            metavar="ROBOT",
            help="`salp` or `thruster_chain`; otherwise guessed from the topics.",
            autocompletion=arguments.robots,
        ),
    ] = None,
    estimator: arguments.EstimatorOption = None,
    joint: Annotated[
        int | None, typer.Option(metavar="J", min=1, help="Of a salp only the joint angle alpha_J, counted from 1.")
    ] = None,
    window: Annotated[float, typer.Option(metavar="S", help="Window of the Gramian, s.")] = 2.0,
    picture: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PNG", help="Draw the time series into this file.")
    ] = None,
    options: Any = None,
    json: output.JsonOption = False,
) -> None:
    """Show what the sensors can tell of a robot's state, over time, beside what its filter claims.

    Of a salp: how well the gyros see each joint angle, gait by gait. Lambda is the paper's heuristic for one joint and
    one instant, lambda_i the share of each actuator. The Gramian is that of all joint angles over a window. A bag is
    replayed first, that of a run folder as it was evaluated. Of a thruster chain: the conditions under which masses
    and inertias can be known, the rank and the smallest singular value of the observability matrix, the least standard
    deviations that any filter could reach, and which push would tell most. The truth is used where there is one. With
    `--json` the time series are printed too.
    """
    robot, places = _robot_of(robot, places, options)
    options = replace(options, robot=robot, estimator=estimator)
    if robot not in _ROBOTS:
        raise UserError(f"observability is there for {' and '.join(_ROBOTS)}, not for {robot!r}")
    if not 0.0 < window < float("inf"):
        raise UserError(f"--window {window}: must be a time above 0 s")
    if picture is not None and picture.exists():
        raise UserError(f"{picture} exists already; name another --output")
    shown, title, look = _looking(robot, joint, window, 0 if picture is None else len(places))
    runs = []
    with output.share("observability", quiet=json) as show:
        for place in places:
            runs.append(look(*_source(place, options), place.name or str(place)))
            show(len(runs) / len(places), place.name)
    if picture is not None:
        from onboard_estimation.evaluation.plots import write_groups

        columns = [column for run in runs for column in shown.columns(run)]
        if robot == "salp" and len(columns) > _MOST_COLUMNS:
            raise UserError(
                f"--output: {len(columns)} columns, one a joint and run, are more than a picture of {_MOST_COLUMNS} "
                "holds; choose with --joint or give fewer bags"
            )
        write_groups(picture, title, columns)
    if json:
        output.print_json({"runs": [shown.mapping(run) for run in runs]})
        return
    shown.show(runs)
    if picture is not None:
        output.say(f"picture: {picture}")


def _looking(
    robot: str, joint: int | None, window_s: float, drawn: int
) -> tuple[Any, str, Callable[[Path, EvaluateOptions, str], Any]]:
    """Module that shows runs of that robot, title of a picture of the `drawn` runs, and what sees a bag."""
    if robot == "salp":
        from salp_estimation import observed_run as salps

        return (
            salps,
            "Observability of the joint angles",
            lambda bag, options, name: salps.observed_run(bag, options, window_s, joint, name),
        )
    from salp_estimation.thruster_chain import observability_command as chains

    if joint is not None:
        raise UserError(f"--joint {joint}: a thruster chain's masses and inertias are shown, not its joint angles")
    if drawn > 1:
        raise UserError(f"--output: one picture shows one run of a thruster chain, and {drawn} are given")
    return (
        chains,
        "Observability of masses and inertias",
        lambda bag, options, name: chains.observed_chain_run(bag, options, window_s),
    )


def _robot_of(robot: str | None, places: list[Path], options: EvaluateOptions) -> tuple[str, list[Path]]:
    """Robot and places: as asked for, by a name that stands first, by the first run folder, or by the topics."""
    from onboard_estimation.evaluation.bags import open_bag
    from onboard_estimation.evaluation.evaluate import choose_robot
    from onboard_estimation.robots import all_robots

    first = places[0]
    if robot is None and len(places) > 1 and not first.exists() and str(first) in {one.name for one in all_robots()}:
        return str(first), places[1:]
    if robot is not None:
        return robot, places
    if (first / "run.json").is_file():
        return str(_made_from(first)[1].robot), places
    with open_bag(first) as bag:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
    return str(choose_robot(options, kinds, first)[0].name), places


def _source(place: Path, options: EvaluateOptions) -> tuple[Path, EvaluateOptions]:
    """Bag and options: a run folder's are those that it was made from and with."""
    if not (place / "run.json").is_file():
        return place, options
    if options.config is not None or options.overrides:
        raise UserError(f"{place} is a run and has its configuration; --config and --set are for bags")
    bag, made_with = _made_from(place)
    if made_with.robot != options.robot:
        raise UserError(f"{place} is a run of {made_with.robot}, not of {options.robot}")
    return bag, made_with


def _made_from(folder: Path) -> tuple[Path, Any]:
    """Bag and options of a run folder; UserError where the bag is not found any more."""
    try:
        run = json_reader.loads((folder / "run.json").read_text(encoding="utf-8"))
        bag_path, asked = Path(shlex.split(run["command"])[2]), recalled(run["settings"])
        options = replace(asked, robot=run["robot"], config=folder / "config.yaml", overrides={})
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{folder / 'run.json'} is not as `evaluate` writes it: {error!r}") from error
    if not bag_path.exists():
        raise UserError(f"{folder} was made from {bag_path}, which is not there: go to the folder that it was made in")
    return bag_path, options
