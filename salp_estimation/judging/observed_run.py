"""What the gyros tell of the joint angles in some runs: a table, columns of a picture, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import format_number
from onboard_estimation.contract.observed import ReplayedRun
from onboard_estimation.contract.result import PanelGroup
from onboard_estimation.contract.trained import ReportTable
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.judging.observability import JointObservability, Observability, observe, section
from salp_estimation.model.configuration import SalpConfiguration
from salp_estimation.model.gaits import SETTLE_S

_MOST_COLUMNS = 6
_RELATION = ("rank_correlation", "strongest_rank_correlation", "lag_s")


class ObservedRun(NamedTuple):
    """A run, its gait where the bag says it, and what was seen in it."""

    name: str
    gait: str
    source: str
    seen: Observability
    configuration: SalpConfiguration


def observed_run(configuration: SalpConfiguration, run: ReplayedRun, window_s: float, joint: int | None) -> ObservedRun:
    """A run seen through heuristic and Gramian; `joint` is counted from one, None: all. UserError where it lacks."""
    count = len(configuration.chain.link_names) - 1
    if joint is not None and joint > count:
        raise UserError(f"--joint {joint}: {run.name} has {count} joint angles")
    command = next((one for one in run.recording.series if one.channel.sensor == COMMAND), None)
    if command is None:
        raise UserError(f"{run.name}: no commands were used, and without them the gyros tell nothing of joint angles")
    part = run.result.parts.get("joint_angles")
    if part is None:
        raise UserError(f"{run.name}: the estimates have no joint angles")
    joints = None if joint is None else [joint - 1]
    seen = observe(configuration.chain, command, run.result.stamps_ns, part, SETTLE_S, joints, window_s)
    return ObservedRun(run.name, run.variant or "not said", run.result.source, seen, configuration)


@dataclass(frozen=True)
class JointReport:
    """What the gyros told of the joint angles, in runs of one kind of robot."""

    runs: Sequence[ObservedRun]

    def summary(self) -> dict[str, Any]:
        """Figures and series of all runs."""
        return {"runs": [_mapping(run) for run in self.runs]}

    def columns(self) -> list[tuple[str, Vector, PanelGroup]]:
        """Of all runs; UserError where they are more than a picture holds."""
        found = [column for run in self.runs for column in _columns(run)]
        if len(found) > _MOST_COLUMNS:
            raise UserError(
                f"--output: {len(found)} columns, one a joint and run, are more than a picture of {_MOST_COLUMNS} "
                "holds; choose with --joint or give fewer bags"
            )
        return found

    def tables(self) -> list[ReportTable]:
        """One, with a row for each joint of each run."""
        headings = ("Lambda", "share", "rho", "rho max", "lag (s)", "Gramian")
        rows = []
        for run in self.runs:
            for row, one in enumerate(run.seen.joints):
                found = _summary(run, one)
                name, share = max(found["share_of_actuators"].items(), key=lambda item: abs(item[1]))
                rows.append(
                    (
                        *((printable(run.name), printable(run.gait)) if row == 0 else ("", "")),
                        found["joint"],
                        format_number(found["lambda_median_per_s"], 2),
                        f"{printable(name)} {100.0 * share:.0f} %",
                        *(format_number(found[key], 2) for key in _RELATION),
                        format_number(_eigenvalues(run)[1], 2) if row == 0 else "",
                    )
                )
        return [ReportTable("", ("run", "gait", "joint", *headings), tuple(rows), headings)]

    def sentences(self) -> list[str]:
        """What truth was used, and what the columns mean."""
        used = (
            f"{printable(run.name)} ({run.source}): at the truth for {100.0 * run.seen.true_share:.0f} % of the "
            "instants, else at the estimate"
            for run in self.runs
        )
        return [*used, *_MEANINGS]


_MEANINGS = (
    "Lambda: median over the run, 1/s, a heuristic; share: the largest lambda_i in the mean Lambda",
    "rho: rank correlation of Lambda with the filter's standard deviation, without a lag, and the strongest with a lag "
    "up to 2 s; negative: the larger Lambda, the surer the filter",
    "Gramian: median of its smallest eigenvalue, 1/s, all joint angles of the linearised model; no heuristic",
)


def _columns(run: ObservedRun) -> list[tuple[str, Vector, PanelGroup]]:
    """A column for each joint, the Gramian below the first one."""
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


def _mapping(run: ObservedRun) -> dict[str, Any]:
    """Figures and series of a run, for JSON."""
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
