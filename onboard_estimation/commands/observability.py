"""`onboard-estimation observability`."""

from __future__ import annotations

import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.commands import arguments, output
from onboard_estimation.commands.arguments import JsonOption, argument, option

if TYPE_CHECKING:
    from onboard_estimation.contract.observed import Observable
    from onboard_estimation.judging.options import EvaluateOptions


@output.command(
    "observability BAG",
    "observability runs/forward-salp runs/backward-salp --joint 1 --output figure_8.png",
    "observability BAG --robot thruster_chain --output picture.png",
    "observability BAG --json",
    "observability thruster_chain --design 0.8 --output thrusts.csv",
)
@arguments.taking()
def observability(
    places: Annotated[
        list[Path],
        argument(
            "BAG|RUN",
            "Bags, or run folders that `evaluate` wrote, of one kind of robot; a robot's name may stand first.",
        ),
    ],
    robot: arguments.RobotOption = None,
    estimator: arguments.EstimatorOption = None,
    joint: Annotated[int | None, option("J", "Of a salp only the joint angle alpha_J, counted from 1.", min=1)] = None,
    window: Annotated[float, option("S", "Window of the Gramian, s.")] = 2.0,
    design: Annotated[
        float | None, option("S", "Of a robot, without bags: inputs of so many seconds that would tell most.")
    ] = None,
    file: Annotated[
        Path | None,
        arguments.into(
            "FILE", "Draw the time series (.png), or write the designed inputs (.csv).", endings=(".png", ".csv")
        ),
    ] = None,
    options: Any = None,
    json: JsonOption = False,
) -> None:
    """Show what the sensors can tell of a robot's state, over time, beside what its filter claims.

    Of a salp: how well the gyros see each joint angle, gait by gait. Lambda is the paper's heuristic for one joint and
    one instant, lambda_i the share of each actuator. The Gramian is that of all joint angles over a window. A bag is
    replayed first, that of a run folder as it was evaluated. Of a thruster chain: the conditions under which masses
    and inertias can be known, the rank and the smallest singular value of the observability matrix, the least standard
    deviations that any filter could reach, and which push would tell most; with `--design` which thrusts would, of the
    effort of the paper's square waves, as a table for `simulate` or a robot. The truth is used where there is one.
    With `--json` the time series are printed too.
    """
    from onboard_estimation.contract.observed import Observable
    from onboard_estimation.contract.robot import find_robot

    if file is not None and (file.suffix == ".csv") == (design is None):
        raise UserError(f"--output {file}: designed inputs are written as .csv, a picture of bags as .png")
    if design is not None:
        if robot is not None or len(places) > 1:
            raise UserError("--design: name a robot in the place of bags, and nothing else: bags tell nothing of it")
        _show_design(str(places[0]), estimator, design, file, options, json)
        return
    name, places = _robot_of(robot, places, options)
    options = replace(options, robot=name, estimator=estimator)
    able = Observable[Any].of(find_robot(name))
    if not 0.0 < window < float("inf"):
        raise UserError(f"--window {window}: must be a time above 0 s")
    observed = []
    with output.share("observability", quiet=json) as show:
        for place in places:
            bag, made_with = _source(place, options)
            observed.append(_observed(able, bag, made_with, place.name or str(place), window, joint))
            show(len(observed) / len(places), place.name)
    report = able.observability_report(observed)
    if file is not None:
        from onboard_estimation.report.plots import write_groups

        write_groups(file, able.observability_title, report.columns())
    if json:
        output.print_json(report.summary())
        return
    output.print_report(report.tables(), report.sentences())
    if file is not None:
        output.say(f"picture: {file}")


def _show_design(
    name: str, estimator: str | None, duration_s: float, file: Path | None, options: EvaluateOptions, json: bool
) -> None:
    """Inputs of a robot that would tell most, shown and written."""
    from onboard_estimation.contract.observed import Observable
    from onboard_estimation.contract.robot import estimator_name

    if not math.isfinite(duration_s):
        raise UserError(f"--design {duration_s}: must be a number of seconds")
    able, configuration = arguments.configured(name, options, ability=Observable[Any])
    with output.steps("designing", quiet=json):
        report = able.designed_inputs(configuration, estimator_name(able, estimator), duration_s)
    if file is not None:
        report.write(file)
    if json:
        output.print_json(report.summary())
        return
    output.print_report(report.tables(), report.sentences())
    if file is not None:
        output.say_command(
            "simulate:", f"simulate {name} --set thruster.commands={shlex.quote(str(file))} --output BAG"
        )


def _observed(
    able: Observable[Any], bag_path: Path, options: EvaluateOptions, name: str, window_s: float, joint: int | None
) -> Any:
    """A bag replayed with all topics, and looked at."""
    from onboard_estimation.bags.bag import open_bag
    from onboard_estimation.contract.observed import ReplayedRun
    from onboard_estimation.contract.robot import estimator_name
    from onboard_estimation.judging.judge import judge
    from onboard_estimation.judging.sources import choose_robot, load_recording

    with open_bag(bag_path) as bag:
        robot, configuration, match = choose_robot(options, bag.types, bag_path)
        recording = load_recording(bag, robot, match, options)
        variant = str(bag.custom_data.get("variant", ""))
    estimator = estimator_name(robot, options.estimator)
    result = judge(robot, configuration, estimator, recording, options.settings, bag_path.name)
    return able.observed(configuration, ReplayedRun(name, variant, estimator, recording, result), window_s, joint)


def _robot_of(robot: str | None, places: list[Path], options: EvaluateOptions) -> tuple[str, list[Path]]:
    """Robot and places: as asked for, by a name that stands first, by the first run folder, or by the topics."""
    from onboard_estimation.bags.bag import open_bag
    from onboard_estimation.contract.robot import robot_names
    from onboard_estimation.judging.sources import choose_robot

    first = places[0]
    if robot is None and len(places) > 1 and not first.exists() and str(first) in robot_names():
        return str(first), places[1:]
    if robot is not None:
        return robot, places
    if (first / "run.json").is_file():
        return str(_made_from(first)[1].robot), places
    with open_bag(first) as bag:
        return str(choose_robot(options, bag.types, first)[0].name), places


def _source(place: Path, options: EvaluateOptions) -> tuple[Path, EvaluateOptions]:
    """Bag and options: a run folder's are those that it was made from and with."""
    if not (place / "run.json").is_file():
        return place, options
    if options.config is not None or options.overrides:
        raise UserError(f"{place} is a run and has its configuration; --config and --set are for bags")
    bag, made_with = _made_from(place)
    if made_with.robot != options.robot:
        raise UserError(f"{place} is a run of {made_with.robot}, not of {options.robot}")
    return bag, replace(made_with, estimator=options.estimator or made_with.estimator)


def _made_from(folder: Path) -> tuple[Path, EvaluateOptions]:
    """Bag and options of a run folder; UserError where the bag is not found any more."""
    from onboard_estimation.judging.options import recalled
    from onboard_estimation.report.comparison import read_mapping

    try:
        run = read_mapping(folder / "run.json")
        bag_path, asked = Path(shlex.split(run["command"])[2]), recalled(run["settings"])
        options = replace(
            asked, robot=run["robot"], estimator=run["estimator"], config=folder / "config.yaml", overrides={}
        )
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{folder / 'run.json'} is not as `evaluate` writes it: {error!r}") from error
    if not bag_path.exists():
        raise UserError(f"{folder} was made from {bag_path}, which is not there: go to the folder that it was made in")
    return bag_path, options
