"""A record of estimates against the truth at their instants, whoever made them: parts, figures, what was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation import metrics
from onboard_estimation.evaluation.alignment import aligned
from onboard_estimation.evaluation.consistency_checks import scaled_nees
from onboard_estimation.evaluation.replay import EstimateSeries
from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Matrix
from onboard_estimation.robots import Alignment

Rows = NDArray[np.float64]

_JUDGED_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Truth:
    """A record of K estimates with what is known of the truth at their instants.

    Attributes
    ----------
    parts
        (K, .) by block of the state, NaN where there is none.
    known
        (K,) where there is a truth.
    """

    record: EstimateSeries
    parts: Mapping[str, Rows]
    known: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class JudgedRecord:
    """What comes of it; `record` is in the truth's frame, notes are empty where there is nothing to say."""

    record: EstimateSeries
    parts: Mapping[str, PartResult]
    metrics: dict[str, Any]
    matched_ratio: float
    settle_s: float
    alignment_note: str
    settle_note: str


def judge_record(
    space: StateSpace, truth: Truth, alignment: Alignment, noise: Mapping[str, Matrix], settle_s: float
) -> JudgedRecord:
    """Take a record into the truth's frame and compare.

    Parameters
    ----------
    noise
        Covariance (d, d) of the truth, by block.
    settle_s
        Start that is left out of the figures, where enough is left.

    Raises
    ------
    UserError
        The path does not tell what the alignment is to fit.
    """
    time_s = (truth.record.stamps_ns - truth.record.stamps_ns[0]) / NANOSECONDS_PER_SECOND
    matched_ratio = float(np.mean(truth.known))
    record, alignment_note = aligned(alignment, space, truth.record, truth.parts)
    # Without any truth all parts are shown, with what the filter says of itself.
    nothing = {block.name: np.full((len(time_s), block.coordinate_count), np.nan) for block in space.blocks}
    parts = {
        name: _part(space, name, record, values, noise.get(name)) for name, values in (truth.parts or nothing).items()
    }
    settle_s, settle_note = _settling(settle_s, time_s, truth.known)
    figures = metrics.all_metrics(parts, time_s, settle_s, matched_ratio)
    return JudgedRecord(record, parts, figures, matched_ratio, settle_s, alignment_note, settle_note)


def _settling(settle_s: float, time_s: Rows, known: NDArray[np.bool_]) -> tuple[float, str]:
    """How much at the start is left out of the figures, and a sentence where that is less than it should be."""
    if settle_s == 0.0 or not known.any():
        return settle_s, ""
    end_s = float(time_s[known][-1])
    # The few instants that would be left do not stand for the run.
    if end_s - settle_s >= _JUDGED_SHARE * end_s:
        return settle_s, ""
    what = "run" if known[-1] else "ground truth"
    settling = f"the filter settles for {settle_s:g} s"
    return (
        0.0,
        f"The {what} ends after {end_s:.1f} s and {settling}: too short to leave its start out, all of it is judged.",
    )


_CONVENTIONS = {
    SE2: "body frame of the estimate (x forward, y left)",
    SO3: "rotation vector in the body frame of the estimate",
}


def _part(space: StateSpace, name: str, record: EstimateSeries, true: Rows, noise: Rows | None) -> PartResult:
    block: Block = space.block(name)
    part_space = space.part(name)
    estimate = record.means[:, space.coordinates(name)]
    covariance = record.covariances[:, space.tangent(name), space.tangent(name)]
    if noise is not None:
        covariance = covariance + noise
    matched = np.asarray(np.isfinite(true).all(axis=1), dtype=np.bool_)
    # The covariance belongs to the tangent space at the estimate, so the error is taken there too.
    stddev = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    error = np.full((len(true), block.dimension), np.nan)
    error[matched] = -part_space.minus(true[matched], estimate[matched])
    return PartResult(
        name=name,
        names=block.names,
        units=block.units,
        estimate=estimate,
        truth=true,
        error=error,
        stddev=stddev,
        nees=scaled_nees(error, covariance, stddev),
        matched=matched,
        convention=_CONVENTIONS.get(block.kind, "world frame" if name in ("position", "velocity") else ""),
        covariance=covariance,
    )
