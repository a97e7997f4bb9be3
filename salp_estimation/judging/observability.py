"""How well the gyros of a chain see its joint angles: the paper's heuristic, and the observability Gramian.

Andrews et al., "Pose estimation of a thruster-driven bioinspired multi-link robot", 2026, section V-C and figure 8. The
gyros' rates h(r, u) = sum_i h_i(r) u_i, eq. (6), are linear in the rim speeds u.

- **Heuristic** (section V-C): Lambda = |dh/d alpha_j| for one joint j, and the share of each actuator i,
  lambda_i = <dh/d alpha_j, dh_i/d alpha_j u_i> / Lambda, so that Lambda = sum_i lambda_i. It looks at one instant and
  one joint alone: a joint may have a large Lambda and yet be confused with another one. Unit rad/s per rad = 1/s.
- **Gramian**: W(t0, t1) = integral of Phi(t, t0)^T C(t)^T C(t) Phi(t, t0) dt with C = dh/dr. It is no heuristic but
  the observability of the joint angles at t0 in the system linearised about the trajectory, for gyros of equal noise
  and a motion without any. Its smallest eigenvalue belongs to the combination of joint angles seen worst. Unit 1/s.

Differences of neighbouring gyros' rates are the joint rates, so that the linearised transition needs no further
derivative: dr/dt = E h(r, u), A = E C, where row j of E is -1 at gyro j and 1 at gyro j + 1. The joint angles' motion
does not depend on the pose, which the gyros do not see at all.

Joint limits are left out, as in `Chain.control_matrix`: at a limit h is no longer linear in u.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.result import EvaluationResult, Panel, PanelGroup, PartResult, ReportSection
from salp_estimation.estimators.chain_estimator import COMMAND
from salp_estimation.model import chain_kernels as kernels
from salp_estimation.model.chain import Chain
from salp_estimation.model.configuration import ChainConfiguration, SalpConfiguration
from salp_estimation.model.gaits import SETTLE_S
from salp_estimation.training.runs import in_force, rim_speeds

Rows = NDArray[np.float64]
Indices = NDArray[np.int64]

STEP_RAD = 1e-3
"""Step of the five-point differences. Their error is of the order of STEP^4 / 30 = 3e-14 times the fifth derivative and
of rounding / STEP = 1e-12; `test_observability.py` checks the sum against a dense model."""
WINDOW_S = 2.0
"""Window of the Gramian: a third of the gaits' period of 6 s."""
_LONGEST_SEGMENT_S = 0.25
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


def _jacobians(links: Rows, joint_angles: Rows, controls: Rows, joints: Indices, step: float) -> Rows:
    """Columns of C = dh/dr (k, N, joints) by five-point differences, each row under its own controls, no limits."""
    free, n = kernels.unlimited(links), len(links)
    aside = step * np.kron(np.eye(n + 2)[3 + joints], np.array([[-2.0], [-1.0], [1.0], [2.0]]))
    points, out = np.zeros((len(joint_angles), n + 2)), np.empty((len(joint_angles), n, len(joints)))
    points[:, 3:] = joint_angles
    for k, point in enumerate(points):
        rates = kernels.gyro_rates(free, point + aside, controls[k], 0.0).reshape(len(joints), 4, n)
        out[k] = (rates[:, 0] - 8.0 * rates[:, 1] + 8.0 * rates[:, 2] - rates[:, 3]).T / (12.0 * step)
    return out


def measurement_jacobian(chain: Chain, joint_angles: Matrix, controls: Matrix) -> NDArray[np.float64]:
    """C = dh/dr, the gyros' rates differentiated by the joint angles, eq. (6).

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1) rad and (K, N) rim speeds, m/s.

    Returns
    -------
    (K, N, N - 1), 1/s: row of the gyro, column of the joint. NaN where an input is.
    """
    return _jacobians(chain.links, joint_angles, controls, np.arange(chain.link_count - 1), STEP_RAD)


def heuristic(chain: Chain, joint_angles: Matrix, controls: Matrix, joint: int) -> tuple[Vector, Matrix]:
    """Lambda (K,) and lambda_i (K, N) of one joint, counted from zero, 1/s (section V-C).

    Where Lambda is zero, as without any control, all lambda_i are zero. NaN where an input is.

    Parameters
    ----------
    joint_angles, controls
        (K, N - 1) rad and (K, N) rim speeds, m/s.
    """
    only = np.array([joint])
    units = (np.tile(one, (len(controls), 1)) for one in np.eye(chain.link_count))
    by_unit = [_jacobians(chain.links, joint_angles, one, only, STEP_RAD)[:, :, 0] for one in units]
    parts = np.stack(by_unit, axis=1) * controls[:, :, None]
    whole = parts.sum(axis=1)
    total: Vector = np.linalg.norm(whole, axis=1)
    direction = np.divide(whole, total[:, None], out=np.zeros_like(whole), where=total[:, None] != 0.0)
    return total, np.einsum("kg,kig->ki", direction, parts)


def gramians(
    chain: Chain, time_s: Vector, joint_angles: Matrix, controls: Matrix, window_s: float = WINDOW_S
) -> NDArray[np.float64]:
    """Observability Gramians W(t - window, t) of the joint angles, for the window that ends at each instant.

    C is taken as piecewise linear. Windows grow backwards, all at once:
    W(t', t) = W(t', t'') + Phi(t'', t')^T W(t'', t) Phi(t'', t').

    Parameters
    ----------
    time_s
        (K,) increasing.
    joint_angles, controls
        (K, N - 1) rad and (K, N) m/s: the trajectory that the system is linearised about.
    window_s
        Length of the window, above zero.

    Returns
    -------
    (K, N - 1, N - 1), 1/s. NaN where the window begins before the first instant, holds a NaN, or has instants more than
    0.25 s apart, over which the integral would be a guess. The effort grows with K, the instants in a window, and N^3.
    """
    jacobians, time = measurement_jacobian(chain, joint_angles, controls), time_s
    count, n = len(time), jacobians.shape[2]
    total = np.zeros((count, n, n))
    duration = np.diff(time)
    own, transitions = _segments(jacobians[:-1], jacobians[1:], duration)
    own[duration > _LONGEST_SEGMENT_S] = np.nan
    begin = time - window_s
    total[time[0] > begin + 1e-9 * window_s] = np.nan
    ends = np.flatnonzero(np.isfinite(total[:, 0, 0]))  # of windows that still grow, by the segment before
    back = 1
    while len(ends):
        first = ends - back
        whole = time[first] >= begin[ends]
        grown, cut = ends[whole], ends[~whole]
        if len(cut):
            # The window starts within this segment.
            k = cut - back
            share = ((begin[cut] - time[k]) / duration[k])[:, None, None]
            start = (1.0 - share) * jacobians[k] + share * jacobians[k + 1]
            piece, across = _segments(start, jacobians[k + 1], time[k + 1] - begin[cut])
            piece[duration[k] > _LONGEST_SEGMENT_S] = np.nan
            total[cut] = piece + across.swapaxes(1, 2) @ total[cut] @ across
        k = grown - back
        total[grown] = own[k] + transitions[k].swapaxes(1, 2) @ total[grown] @ transitions[k]
        # At the very first instant a window may be short by a rounding error.
        ends = grown[(time[k] > begin[grown]) & (k > 0)]
        back += 1
    return total


def _segments(before: Rows, after: Rows, duration: Vector) -> tuple[Rows, Rows]:
    """Gramian and transition Phi of pieces of the trajectory (k, n, n), with C (k, N, n) at their ends.

    Both of second order: the trapezoid, and the Cayley form with A = E C at the middle.
    """
    half = 0.25 * duration[:, None, None] * np.diff(before + after, axis=1)
    identity = np.eye(before.shape[2])
    transition = np.linalg.solve(identity - half, identity + half)
    then = after @ transition
    seen = before.swapaxes(1, 2) @ before + then.swapaxes(1, 2) @ then
    gramian: Rows = 0.5 * duration[:, None, None] * seen
    return gramian, np.asarray(transition, dtype=np.float64)


def smallest_eigenvalues(matrices: NDArray[np.float64]) -> Vector:
    """(K,) smallest eigenvalues of symmetric matrices (K, n, n); NaN where a matrix holds a NaN."""
    known = np.isfinite(matrices).all(axis=(1, 2))
    out: Vector = np.full(len(matrices), np.nan)
    out[known] = np.linalg.eigvalsh(matrices[known])[:, 0]
    return out


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
    error, stddev
        (K, N - 1) rad, of the estimated joint angles; NaN where there is no truth. `stddev` may hold the truth's noise
        beside the filter's own: ranks stay as they are.
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
    error: Matrix
    stddev: Matrix
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
    earlier = (rankdata(np.interp(time_s[rows] - lag, time_s[known], total[known])) for lag in lags)
    with np.errstate(invalid="ignore"):  # not a number where nothing varies
        found = np.array([np.corrcoef(ranks, later)[0, 1] for ranks in earlier])
    if not np.isfinite(found).any():
        return Relation(np.nan, np.nan, np.nan, count)
    best = int(np.nanargmax(np.abs(found)))
    return Relation(float(found[0]), float(found[best]), float(lags[best]), count)


def observe(
    configuration: ChainConfiguration,
    command: Series,
    stamps_ns: NDArray[np.int64],
    angles: PartResult,
    settle_s: float,
    joints: Sequence[int] | None = None,
    window_s: float = WINDOW_S,
) -> Observability:
    """Heuristic and Gramian along a run: at the truth where there is one, else at the estimate (section V-C).

    Parameters
    ----------
    stamps_ns, angles
        Of the estimates, and joint angles against the truth.
    settle_s
        Start that the relation to the filter's standard deviation leaves out.
    joints
        Counted from zero; None: all, of more than eight those with the smallest median Lambda.
    """
    chain = configuration.build()
    stride = -(-len(stamps_ns) // _MOST_INSTANTS)
    stamps_ns = stamps_ns[::stride]
    estimate, truth, error, stddev = (
        rows[::stride] for rows in (angles.estimate, angles.truth, angles.error, angles.stddev)
    )
    time_s = (stamps_ns - stamps_ns[0]) / 1e9
    controls = in_force(*rim_speeds(configuration, command), stamps_ns)
    true: NDArray[np.bool_] = np.asarray(np.isfinite(truth).all(axis=1), dtype=np.bool_)
    r = np.where(true[:, None], truth, estimate)
    if joints is None:
        totals = np.linalg.norm(measurement_jacobian(chain, r, controls), axis=1)
        joints = np.sort(np.argsort(np.median(totals, axis=0), kind="stable")[:MOST_JOINTS]).tolist()
    found = []
    for joint in joints:
        total, contributions = heuristic(chain, r, controls, joint)
        seen = relation(time_s, total, stddev[:, joint], settle_s)
        found.append(JointObservability(joint, total, contributions, seen))
    eigenvalues = np.full(len(time_s), np.nan)
    if chain.link_count - 1 <= _MOST_GRAMIAN_JOINTS:
        eigenvalues = smallest_eigenvalues(gramians(chain, time_s, r, controls, window_s))
    return Observability(time_s, error, stddev, controls, float(true.mean()), tuple(found), eigenvalues, stride)


def report_sections(
    configuration: SalpConfiguration, series: Sequence[Series], result: EvaluationResult
) -> tuple[ReportSection, ...]:
    """Of a run; none without commands."""
    command = next((one for one in series if one.channel.sensor == COMMAND), None)
    part = result.parts.get("joint_angles")
    if command is None or part is None:
        return ()
    return (section(configuration.chain, observe(configuration.chain, command, result.stamps_ns, part, SETTLE_S)),)


def section(configuration: ChainConfiguration, seen: Observability) -> ReportSection:
    """The run as a section of the report: per joint the four panels of the paper's figure 8, and the Gramian."""
    weight = sum(np.abs(one.contributions).mean(axis=0) for one in seen.joints)
    shown = np.sort(np.argsort(-np.asarray(weight), kind="stable")[:MOST_ACTUATORS])
    names = [configuration.link_names[i] for i in shown]
    groups = []
    for one in seen.joints:
        error, stddev = seen.error[:, one.joint], seen.stddev[:, one.joint]
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
