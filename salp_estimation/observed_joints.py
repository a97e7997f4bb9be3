"""How well the gyros saw the joint angles along a run: Lambda, the Gramian and the filter's errors, as in figure 8.

What is computed of an instant or a trajectory is in `observability`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from onboard_estimation.capabilities.reported import Panel, PanelGroup, ReportSection
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.series import Series
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.observability import (
    WINDOW_S,
    gramians,
    heuristic,
    measurement_jacobian,
    smallest_eigenvalues,
)
from salp_estimation.training_runs import in_force, rim_speeds

Rows = NDArray[np.float64]

LONGEST_LAG_S = 2.0
"""Lags of the filter's standard deviation behind Lambda that `relation` tries."""
MOST_JOINTS, MOST_ACTUATORS = 8, 8
"""Shown of a long chain."""
_LAG_STEP_S = 0.05
_FEWEST_INSTANTS = 20
# An hour at 5 Hz; of longer records every second, third, ... instant is taken.
_MOST_INSTANTS = 20_000
# The Gramian's effort grows with N^3: a quarter of a minute for 100 links.
_MOST_GRAMIAN_JOINTS = 20


class JointRecord(NamedTuple):
    """Joint angles of a run: stamps (K,) ns, all else (K, N - 1) rad; truth and error are NaN where there is no truth.

    `stddev` may hold the truth's noise beside the filter's own: ranks stay as they are.
    """

    stamps_ns: NDArray[np.int64]
    estimate: Matrix
    truth: Matrix
    error: Matrix
    stddev: Matrix


@dataclass(frozen=True)
class Relation:
    """Spearman's rank correlation of Lambda at t - lag with the standard deviation at t; NaN if nothing varies.

    Attributes
    ----------
    at_once
        Without a lag.
    strongest, lag_s
        The one of the largest magnitude with a lag from 0 to 2 s, and that lag.
    instants
        Number of instants it was taken from.
    """

    at_once: float
    strongest: float
    lag_s: float
    instants: int


@dataclass(frozen=True, eq=False)
class JointObservability:
    """One joint (counted from zero) over a run: Lambda (K,) and lambda_i (K, N), 1/s, and what became of it."""

    joint: int
    total: Vector
    contributions: Matrix
    relation: Relation


@dataclass(frozen=True, eq=False)
class Observability:
    """A run seen through the heuristic and the Gramian.

    Attributes
    ----------
    time_s
        (K,) since the first estimate; every `stride`-th estimate of a long record.
    controls
        (K, N) commanded rim speeds in force, m/s.
    true_share
        Share of the instants at which the truth was taken for the joint angles; elsewhere the estimate.
    joints
        The joints asked for.
    smallest_eigenvalue
        (K,) of the Gramian of the window that ends there, 1/s; NaN where it is not known.
    """

    time_s: Vector
    record: JointRecord
    controls: Matrix
    true_share: float
    joints: tuple[JointObservability, ...]
    smallest_eigenvalue: Vector
    stride: int


def relation(time_s: Vector, total: Vector, stddev: Vector, settle_s: float) -> Relation:
    """How the filter's standard deviation (K,) follows Lambda (K,), from `settle_s` on."""
    lags = np.arange(0.0, LONGEST_LAG_S + 0.5 * _LAG_STEP_S, _LAG_STEP_S)
    known = np.isfinite(total)
    # The same instants for every lag, so that lags can be compared.
    rows = np.isfinite(stddev) & (time_s >= max(settle_s, time_s[0] + LONGEST_LAG_S))
    count = int(rows.sum())
    if count < _FEWEST_INSTANTS or known.sum() < _FEWEST_INSTANTS:
        return Relation(np.nan, np.nan, np.nan, count)
    later = rankdata(stddev[rows])
    found = np.array(
        [_correlation(rankdata(np.interp(time_s[rows] - lag, time_s[known], total[known])), later) for lag in lags]
    )
    if not np.isfinite(found).any():
        return Relation(np.nan, np.nan, np.nan, count)
    best = int(np.nanargmax(np.abs(found)))
    return Relation(float(found[0]), float(found[best]), float(lags[best]), count)


def _correlation(first: Vector, second: Vector) -> float:
    if np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def observe(
    configuration: ChainConfiguration,
    command: Series,
    record: JointRecord,
    settle_s: float,
    joints: Sequence[int] | None = None,
    window_s: float = WINDOW_S,
) -> Observability:
    """Heuristic and Gramian along a run: at the truth where there is one, else at the estimate (section V-C).

    Parameters
    ----------
    settle_s
        Start that the relation to the filter's standard deviation leaves out.
    joints
        Counted from zero; None: all, of more than eight those with the smallest median Lambda.
    """
    chain = configuration.build()
    stride = -(-len(record.stamps_ns) // _MOST_INSTANTS)
    rows = slice(None, None, stride)
    record = JointRecord(record.stamps_ns[rows], *(column[rows] for column in record[1:]))
    time_s = (record.stamps_ns - record.stamps_ns[0]) / 1e9
    controls = in_force(*rim_speeds(configuration, command), record.stamps_ns)
    true: NDArray[np.bool_] = np.asarray(np.isfinite(record.truth).all(axis=1), dtype=np.bool_)
    angles = np.where(true[:, None], record.truth, record.estimate)
    if joints is None:
        totals = np.linalg.norm(measurement_jacobian(chain, angles, controls), axis=1)
        joints = np.sort(np.argsort(np.median(totals, axis=0), kind="stable")[:MOST_JOINTS]).tolist()
    found = []
    for joint in joints:
        total, contributions = heuristic(chain, angles, controls, joint)
        seen = relation(time_s, total, record.stddev[:, joint], settle_s)
        found.append(JointObservability(joint, total, contributions, seen))
    eigenvalues = np.full(len(time_s), np.nan)
    if chain.link_count - 1 <= _MOST_GRAMIAN_JOINTS:
        eigenvalues = smallest_eigenvalues(gramians(chain, time_s, angles, controls, window_s))
    return Observability(time_s, record, controls, float(true.mean()), tuple(found), eigenvalues, stride)


def section(configuration: ChainConfiguration, seen: Observability) -> ReportSection:
    """The run as a section of the report: per joint the four panels of the paper's figure 8, and the Gramian."""
    weight = sum(np.abs(one.contributions).mean(axis=0) for one in seen.joints)
    shown = np.sort(np.argsort(-np.asarray(weight), kind="stable")[:MOST_ACTUATORS])
    names = [configuration.link_names[i] for i in shown]
    groups = []
    for one in seen.joints:
        error, stddev = seen.record.error[:, one.joint], seen.record.stddev[:, one.joint]
        groups.append(
            PanelGroup(
                f"alpha_{one.joint + 1}",
                (
                    Panel("error and 3 sigma", "rad", {"error": error}, 3.0 * stddev),
                    Panel("Lambda", "1/s", {"Lambda": one.total}),
                    Panel("lambda_i", "1/s", dict(zip(names, one.contributions[:, shown].T, strict=True))),
                    Panel("commanded velocity", "m/s", dict(zip(names, seen.controls[:, shown].T, strict=True))),
                ),
            )
        )
    if np.isfinite(seen.smallest_eigenvalue).any():
        panel = Panel("smallest eigenvalue", "1/s", {"smallest eigenvalue": seen.smallest_eigenvalue})
        groups.append(PanelGroup("Gramian of all joint angles", (panel,)))
    return ReportSection("Observability", tuple(_sentences(configuration, seen)), seen.time_s, tuple(groups))


def _sentences(configuration: ChainConfiguration, seen: Observability) -> list[str]:
    joints, actuators = len(configuration.link_names) - 1, len(configuration.link_names)
    angles = "true" if seen.true_share else "estimated"
    where = f"Evaluated at the {angles} joint angles and the commanded velocity."
    if 0.0 < seen.true_share < 1.0:
        share = f"{100.0 * seen.true_share:.0f} % of the instants"
        where = f"Evaluated at the commanded velocity and the true joint angles; these are known at {share}, elsewhere "
        where += "the estimated ones are taken."
    out = [relation_sentence(one) for one in seen.joints]
    out += [
        where,
        "Lambda, a heuristic: how much the gyros' rates change with the joint angle, at one instant and for this joint "
        "alone; lambda_i is the share of actuator i, and their sum is Lambda.",
    ]
    if np.isfinite(seen.smallest_eigenvalue).any():
        out.append(
            f"Gramian, no heuristic: of the joint angles in the linearised model, over the {WINDOW_S:g} s before; its "
            "smallest eigenvalue belongs to the combination of joint angles that is seen worst."
        )
    elif joints > _MOST_GRAMIAN_JOINTS:
        out.append(f"Gramian left out: {joints} joints, more than {_MOST_GRAMIAN_JOINTS}.")
    if len(seen.joints) < joints:
        out.append(f"Shown: {len(seen.joints)} of {joints} joints.")
    if actuators > MOST_ACTUATORS:
        out.append(f"Shown: the {MOST_ACTUATORS} of {actuators} actuators with the largest shares.")
    if seen.stride > 1:
        out.append(f"Evaluated at one of every {seen.stride} estimates.")
    return out


def relation_sentence(one: JointObservability) -> str:
    """One line of numbers on Lambda and the filter's standard deviation of that joint angle."""
    name, found = f"alpha_{one.joint + 1}", one.relation
    if not np.isfinite(found.strongest):
        return f"{name}: too little varies to relate Lambda to the filter's standard deviation."
    return (
        f"{name}: rank correlation of Lambda with the filter's standard deviation {found.at_once:+.2f} without a lag, "
        f"strongest {found.strongest:+.2f} where the standard deviation follows {found.lag_s:.2f} s later "
        f"({found.instants} instants; negative: the larger Lambda, the surer the filter)."
    )
