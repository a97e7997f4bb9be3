"""What `onboard-estimation observability` does with bags of a salp: a table, columns of a picture, figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.capabilities.reported import PanelGroup
from onboard_estimation.commands import output
from onboard_estimation.errors import UserError, printable
from onboard_estimation.evaluation.bags import open_bag
from onboard_estimation.evaluation.evaluate import choose_robot
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.evaluation.presentation import format_number
from onboard_estimation.evaluation.recording import load_recording
from onboard_estimation.measurement import Vector
from salp_estimation.chain_estimator import COMMAND
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.observability import JointObservability, Observability, observe, section


class ObservedRun(NamedTuple):
    """A bag or run folder: what it is called, its gait where the bag says it, and what was seen in it."""

    name: str
    gait: str
    source: str
    seen: Observability
    configuration: SalpConfiguration


def observed_run(
    bag_path: Path, options: EvaluateOptions, window_s: float, joint: int | None, name: str
) -> ObservedRun:
    """The bag replayed, and seen through heuristic and Gramian; `joint` is counted from one, None: all."""
    with open_bag(bag_path) as bag:
        kinds = {name: topic.message_type for name, topic in bag.topics.items()}
        robot, configuration, match = choose_robot(options, kinds)
        recording = load_recording(bag, robot, match, options.what_if, options.mirror_truth, options.align_clock)
        gait = str(bag.custom_data.get("variant", "")) or "not said"
    count = len(configuration.chain.link_names) - 1
    if joint is not None and joint > count:
        raise UserError(f"--joint {joint}: {bag_path} has {count} joint angles")
    command = next((one for one in recording.series if one.channel.sensor == COMMAND), None)
    if command is None:
        raise UserError(
            f"{bag_path}: no commands were used, and without them the gyros tell nothing of the joint angles"
        )
    result = judge(robot, configuration, robot.estimators[0], recording, options.settings, bag_path.name)
    part = result.parts.get("joint_angles")
    if part is None:
        raise UserError(f"{bag_path}: the estimates have no joint angles")
    joints = None if joint is None else [joint - 1]
    seen = observe(configuration.chain, command, result.stamps_ns, part, robot.settle_s, joints, window_s)
    return ObservedRun(name, gait, "simulated" if recording.simulated else "recorded", seen, configuration)


def columns(run: ObservedRun) -> list[tuple[str, Vector, PanelGroup]]:
    """What the picture shows: a column for each joint, the Gramian below the first one."""
    groups, count, found = section(run.configuration.chain, run.seen).groups, len(run.seen.joints), []
    together = tuple(panel for group in groups[count:] for panel in group.panels)
    for number, group in enumerate(groups[:count]):
        heading = f"{group.title}: {run.source.upper()} data, {run.name}, gait {run.gait}"
        panels = group.panels + (together if number == 0 else ())
        found.append((heading, run.seen.time_s, PanelGroup(group.title, panels)))
    return found


def _summary(run: ObservedRun, one: JointObservability) -> dict[str, Any]:
    """Figures of one joint in one run."""
    total, known = one.total, np.isfinite(one.total)
    mean = float(total[known].mean()) if known.any() else float("nan")
    shares = one.contributions[known].mean(axis=0) / mean if mean > 0.0 else np.zeros(one.contributions.shape[1])
    stddev_deg = np.rad2deg(run.seen.stddev[:, one.joint])
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


def _eigenvalues(run: ObservedRun) -> Vector:
    """5 % quantile and median of the Gramian's smallest eigenvalue, NaN where it is not known."""
    values = run.seen.smallest_eigenvalue[np.isfinite(run.seen.smallest_eigenvalue)]
    return np.quantile(values, [0.05, 0.5]) if values.size else np.full(2, np.nan)


def mapping(run: ObservedRun) -> dict[str, Any]:
    """What `--json` prints of a run."""
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
                    "error_deg": np.rad2deg(seen.error[:, one.joint]),
                    "stddev_deg": np.rad2deg(seen.stddev[:, one.joint]),
                }
                for one in seen.joints
            },
        },
    }


def show(runs: list[ObservedRun]) -> None:
    """The table and what it means, for people."""

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
