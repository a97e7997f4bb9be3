"""`onboard-estimation observability`."""

from __future__ import annotations

import json as json_reader
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from onboard_estimation.commands import completion, output
from onboard_estimation.commands.completion import EstimatorOption
from onboard_estimation.commands.evaluate_options import taking
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


@dataclass(frozen=True, eq=False)
class _Run:
    """A bag or run folder: what it is called, its gait where the bag says it, and what was seen in it."""

    name: str
    gait: str
    source: str
    seen: Any
    configuration: Any


@app.command(epilog=EXAMPLES)
@taking()
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
            autocompletion=completion.robots,
        ),
    ] = None,
    estimator: EstimatorOption = None,
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
    replayed first; a run folder is not, but its bag is needed. Of a thruster chain: the conditions under which masses
    and inertias can be known, the rank and the smallest singular value of the observability matrix, the least standard
    deviations that any filter could reach, and which push would tell most. The truth is used where there is one. With
    `--json` the time series are printed too.
    """
    from onboard_estimation.errors import UserError

    robot, places = _robot_of(robot, places, options)
    options = replace(options, robot=robot, estimator=estimator)
    if robot not in _ROBOTS:
        raise UserError(f"observability is there for {' and '.join(_ROBOTS)}, not for {robot!r}")
    if not 0.0 < window < float("inf"):
        raise UserError(f"--window {window}: must be a time above 0 s")
    if picture is not None and picture.exists():
        raise UserError(f"{picture} exists already; name another --output")
    if robot == "thruster_chain":
        _chains(places, joint, window, picture, options, json)
        return
    runs = []
    with output.share("observability", quiet=json) as show:
        for place in places:
            runs.append(_observed(place, joint, window, options))
            show(len(runs) / len(places), place.name)
    columns = _columns(runs)
    if picture is not None and len(columns) > _MOST_COLUMNS:
        raise UserError(
            f"--output: {len(columns)} columns, one a joint and run, are more than a picture of {_MOST_COLUMNS} holds; "
            "choose with --joint or give fewer bags"
        )
    if picture is not None:
        from onboard_estimation.evaluation.plots import write_groups

        write_groups(picture, "Observability of the joint angles", columns)
    if json:
        output.print_json({"runs": [_mapping(run) for run in runs]})
        return
    _show(runs)
    if picture is not None:
        output.say(f"picture: {picture}")


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


def _chains(
    places: list[Path], joint: int | None, window: float, picture: Path | None, options: EvaluateOptions, json: bool
) -> None:
    """The same for thruster chains."""
    from onboard_estimation.errors import UserError
    from salp_estimation.thruster_chain import observability_command as chains

    if joint is not None:
        raise UserError(f"--joint {joint}: a thruster chain's masses and inertias are shown, not its joint angles")
    if picture is not None and len(places) > 1:
        raise UserError(f"--output: one picture shows one run of a thruster chain, and {len(places)} are given")
    runs = []
    with output.share("observability", quiet=json) as show:
        for place in places:
            bag, made_with = _made_from(place) if (place / "run.json").is_file() else (place, options)
            runs.append(chains.observed_chain_run(bag, made_with, window))
            show(len(runs) / len(places), place.name)
    if picture is not None:
        from onboard_estimation.evaluation.plots import write_groups

        write_groups(picture, "Observability of masses and inertias", chains.columns(runs[0]))
    if json:
        output.print_json({"runs": [chains.mapping(run) for run in runs]})
        return
    chains.show(runs)
    if picture is not None:
        output.say(f"picture: {picture}")


def _observed(place: Path, joint: int | None, window_s: float, options: EvaluateOptions) -> _Run:
    """The bag replayed, or the run's estimates read, seen through heuristic and Gramian."""
    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.bags import open_bag
    from onboard_estimation.evaluation.evaluate import choose_robot
    from onboard_estimation.evaluation.judge import judge
    from onboard_estimation.evaluation.recording import load_recording
    from salp_estimation.observed_joints import JointRecord, observe

    run = place / "run.json"
    folder = place if run.is_file() else None
    bag_path, options = place, replace(options, robot="salp")
    if folder is not None:
        if options.config is not None or options.overrides:
            raise UserError(f"{place} is a run and has its configuration; --config and --set are for bags")
        bag_path, options = _made_from(folder)
        if options.robot != "salp":
            raise UserError(f"{folder} is a run of {options.robot}, not of salp")
    with open_bag(bag_path) as bag:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
        found, configuration, match = choose_robot(options, kinds)
        recording = load_recording(bag, found, match, options.what_if, options.mirror_truth, options.align_clock)
        gait = str(bag.custom_data.get("variant", "")) or "not said"
    count = len(configuration.chain.link_names) - 1
    if joint is not None and joint > count:
        raise UserError(f"--joint {joint}: {place} has {count} joint angles")
    command = next((one for one in recording.series if one.channel.sensor == "actuators/command"), None)
    if command is None:
        raise UserError(f"{place}: no commands were used, and without them the gyros tell nothing of the joint angles")
    if folder is None:
        result = judge(found, configuration, found.estimators[0], recording, bag=bag_path.name)
        part = result.parts.get("joint_angles")
        if part is None:
            raise UserError(f"{place}: the estimates have no joint angles")
        record = JointRecord(result.stamps_ns, part.estimate, part.truth, part.error, part.stddev)
    else:
        record = _recorded(folder, found, configuration, recording, options.settings.longest_truth_gap_s)
    joints = None if joint is None else [joint - 1]
    seen = observe(configuration.chain, command, record, found.settle_s, joints, window_s)
    source = "simulated" if recording.simulated else "recorded"
    return _Run(place.name or str(place), gait, source, seen, configuration)


def _made_from(folder: Path) -> tuple[Path, Any]:
    """Bag and options of a run folder; UserError where the bag is not found any more."""
    from onboard_estimation.errors import UserError

    try:
        run = json_reader.loads((folder / "run.json").read_text(encoding="utf-8"))
        bag_path, asked = Path(shlex.split(run["command"])[2]), recalled(run["settings"])
        options = replace(asked, robot=run["robot"], config=folder / "config.yaml", overrides={})
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{folder / 'run.json'} is not as `evaluate` writes it: {error!r}") from error
    if not bag_path.exists():
        raise UserError(f"{folder} was made from {bag_path}, which is not there: go to the folder that it was made in")
    return bag_path, options


def _recorded(folder: Path, robot: Any, configuration: Any, recording: Any, longest_truth_gap_s: float) -> Any:
    """Joint angles as the run folder's estimates hold them, and the truth at their stamps."""
    import numpy as np

    from onboard_estimation.errors import UserError
    from onboard_estimation.evaluation.bags import open_bag
    from onboard_estimation.evaluation.bulk import read_channels
    from onboard_estimation.measurement import Channel
    from salp_estimation.observed_joints import JointRecord

    kind = "sensor_msgs/msg/JointState"
    names = tuple(f"alpha_{j + 1}" for j in range(len(configuration.chain.link_names) - 1))
    topics = [f"/salp/{name}" for name in ("joint_states", "joint_states_stddev")]
    with open_bag(folder / "estimates") as bag:
        if missing := [topic for topic in topics if topic not in bag.topics]:
            raise UserError(f"{folder / 'estimates'} has no topic {missing[0]}")
        columns = read_channels(bag, {topic: Channel(topic, kind, topic, "position", names) for topic in topics})
    means, stddevs = (columns[topic] for topic in topics)
    if len(means.values) == 0 or not np.array_equal(means.stamps_ns, stddevs.stamps_ns):
        raise UserError(f"{folder / 'estimates'} is incomplete: {len(means.values)} joint angles")
    specification = robot.truth_specification(configuration)
    truth = np.full_like(means.values, np.nan)
    if all(body in recording.tracks for body in specification.bodies):
        poses = {body: recording.tracks[body].at(means.stamps_ns, longest_truth_gap_s) for body in specification.bodies}
        known = np.all([valid for _, valid in poses.values()], axis=0)
        if known.any():
            parts = robot.true_parts(configuration, {body: values[known] for body, (values, _) in poses.items()})
            truth[known] = parts["joint_angles"]
    error = np.angle(np.exp(1j * (means.values - truth)))
    return JointRecord(means.stamps_ns, means.values, truth, error, stddevs.values)


def _columns(runs: list[_Run]) -> list[Any]:
    """What the picture shows: a column for each joint of each run, the Gramian below its first one."""
    from onboard_estimation.capabilities.reported import PanelGroup
    from salp_estimation.observed_joints import section

    columns = []
    for run in runs:
        groups = section(run.configuration.chain, run.seen).groups
        count = len(run.seen.joints)
        together = tuple(panel for group in groups[count:] for panel in group.panels)
        for number, group in enumerate(groups[:count]):
            heading = f"{group.title}: {run.source.upper()} data, {run.name}, gait {run.gait}"
            panels = group.panels + (together if number == 0 else ())
            columns.append((heading, run.seen.time_s, PanelGroup(group.title, panels)))
    return columns


def _summary(run: _Run, one: Any) -> dict[str, Any]:
    """Figures of one joint in one run."""
    import numpy as np

    total, known = one.total, np.isfinite(one.total)
    mean = float(total[known].mean()) if known.any() else float("nan")
    shares = one.contributions[known].mean(axis=0) / mean if mean > 0.0 else np.zeros(one.contributions.shape[1])
    stddev_deg = np.rad2deg(run.seen.record.stddev[:, one.joint])
    quantiles = np.quantile(total[known], [0.05, 0.5, 0.95]) if known.any() else np.full(3, np.nan)
    return {
        "joint": f"alpha_{one.joint + 1}",
        "lambda_5_percent_per_s": quantiles[0],
        "lambda_median_per_s": quantiles[1],
        "lambda_95_percent_per_s": quantiles[2],
        "share_of_actuators": dict(zip(run.configuration.chain.link_names, shares.tolist(), strict=True)),
        "median_stddev_deg": float(np.median(stddev_deg)),
        "rank_correlation": one.relation.at_once,
        "strongest_rank_correlation": one.relation.strongest,
        "lag_s": one.relation.lag_s,
        "instants": one.relation.instants,
    }


def _eigenvalues(run: _Run) -> Any:
    """5 % quantile and median of the Gramian's smallest eigenvalue, NaN where it is not known."""
    import numpy as np

    values = run.seen.smallest_eigenvalue[np.isfinite(run.seen.smallest_eigenvalue)]
    return np.quantile(values, [0.05, 0.5]) if values.size else np.full(2, np.nan)


def _mapping(run: _Run) -> dict[str, Any]:
    """What `--json` prints of a run."""
    import numpy as np

    seen, low_median = run.seen, _eigenvalues(run)
    return {
        "name": run.name,
        "gait": run.gait,
        "source": run.source,
        "share_of_instants_with_truth": seen.true_share,
        "gramian_smallest_eigenvalue_5_percent_per_s": low_median[0],
        "gramian_smallest_eigenvalue_median_per_s": low_median[1],
        "joints": [_summary(run, one) for one in seen.joints],
        "series": {
            "time_s": seen.time_s,
            "command_m_s": seen.controls,
            "gramian_smallest_eigenvalue_per_s": seen.smallest_eigenvalue,
            "joints": {
                f"alpha_{one.joint + 1}": {
                    "lambda_per_s": one.total,
                    "lambda_i_per_s": one.contributions,
                    "error_deg": np.rad2deg(seen.record.error[:, one.joint]),
                    "stddev_deg": np.rad2deg(seen.record.stddev[:, one.joint]),
                }
                for one in seen.joints
            },
        },
    }


def _show(runs: list[_Run]) -> None:
    """The table and what it means, for people."""
    from onboard_estimation.errors import printable
    from onboard_estimation.evaluation.presentation import format_number

    def number(value: float, digits: int = 3) -> str:
        return format_number(float(value), digits) if value == value else "-"

    headings = ("Lambda", "share", "rho", "rho max", "lag (s)", "Gramian")
    table = output.table("", "run", "gait", "joint", *headings, right=headings)
    for column in table.columns[1:]:
        column.no_wrap = True
    for run in runs:
        for row, one in enumerate(run.seen.joints):
            found = _summary(run, one)
            name, share = max(found["share_of_actuators"].items(), key=lambda item: abs(item[1]))
            table.add_row(
                *((printable(run.name), printable(run.gait)) if row == 0 else ("", "")),
                found["joint"],
                number(found["lambda_median_per_s"], 2),
                f"{printable(name)} {100.0 * share:.0f} %",
                *(number(found[key], 2) for key in ("rank_correlation", "strongest_rank_correlation", "lag_s")),
                number(_eigenvalues(run)[1], 2) if row == 0 else "",
            )
    output.console().print(table)
    for run in runs:
        used = f"at the truth for {100.0 * run.seen.true_share:.0f} % of the instants, else at the estimate"
        output.say(f"- {printable(run.name)} ({run.source}): {used}")
    output.say("- Lambda: median over the run, 1/s, a heuristic; share: the largest lambda_i in the mean Lambda")
    output.say(
        "- rho: rank correlation of Lambda with the filter's standard deviation, without a lag, and the strongest with "
        "a lag up to 2 s; negative: the larger Lambda, the surer the filter"
    )
    output.say(
        "- Gramian: median of its smallest eigenvalue, 1/s, all joint angles of the linearised model; no heuristic"
    )
