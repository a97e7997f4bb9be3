"""What of a result is shown: the instants that stand for a long record, the worst seconds, shares of errors."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.measurement import Matrix, Vector

WORST_WINDOW_S = 5.0
POINTS = 6000
"""Of a line in a PNG file."""


@dataclass(frozen=True)
class Window:
    """An interval of the record and the RMS of the normalised error in it (1 is what the filter claims)."""

    part: str
    start_s: float
    end_s: float
    normalised_rms: float


def require_estimates(result: EvaluationResult) -> None:
    """Raise a `UserError` if there is nothing to show."""
    if result.time_s.size == 0:
        raise UserError(f"no estimate in the record of {result.bag}: nothing to show")


def _ratio(error: Matrix, stddev: Matrix) -> Matrix:
    with np.errstate(invalid="ignore", divide="ignore"):
        return error / stddev


def states_errors(result: EvaluationResult) -> bool:
    """Whether there is a covariance; without parts nothing speaks against it."""
    return not result.parts or any(part.states_its_error for part in result.parts.values())


def coverage(part: PartResult, sigmas: Vector) -> Matrix:
    """(S, d) share of the errors within each of the numbers of standard deviations, which rise; NaN without truth."""
    shares = []
    for error, stddev in zip(part.error.T, part.stddev.T, strict=True):
        ratio = np.abs(_ratio(error, stddev))
        ratio = ratio[np.isfinite(ratio)]
        counts = np.bincount(np.searchsorted(sigmas, ratio), minlength=len(sigmas) + 1)[:-1]
        shares.append(_ratio(np.cumsum(counts).astype(np.float64), np.full(len(sigmas), float(len(ratio)))))
    return np.column_stack(shares)


def normalised_square(part: PartResult) -> Vector:
    """(K,) NEES per degree of freedom: 1 on average for a consistent filter, NaN without truth."""
    return np.where(np.isfinite(part.nees), part.nees, np.nan) / part.error.shape[1]


def worst_window(result: EvaluationResult, length_s: float = WORST_WINDOW_S) -> Window | None:
    """The window with the largest RMS normalised error of the first part that has a truth; None if none has.

    The normalised error is the square root of NEES per degree of freedom. Windows start at estimates and lie inside the
    record (a shorter record is one window). Windows with less than half of the truth that the best covered one has
    are left out: a single instant is no window.
    """
    part = next((part for part in result.parts.values() if np.isfinite(part.nees).any()), None)
    if part is None:
        return None
    time_s = result.time_s
    square = normalised_square(part)
    known = np.isfinite(square)
    sums = np.concatenate(([0.0], np.cumsum(np.where(known, square, 0.0))))
    counts = np.concatenate(([0], np.cumsum(known)))
    tolerance = 1e-9
    starts = np.flatnonzero(time_s + length_s <= time_s[-1] + tolerance)
    if not starts.size:
        starts = np.array([0])
    ends = np.searchsorted(time_s, time_s[starts] + length_s + tolerance, side="right")
    inside = counts[ends] - counts[starts]
    enough = inside >= max(1.0, 0.5 * inside.max())
    mean_square = np.where(enough, (sums[ends] - sums[starts]) / np.maximum(inside, 1), -1.0)
    best = int(np.argmax(mean_square))
    start = float(time_s[starts[best]])
    end = min(start + length_s, float(time_s[-1]))
    return Window(part.name, start, end, float(np.sqrt(max(mean_square[best], 0.0))))


def thin(result: EvaluationResult, limit: int) -> NDArray[np.intp]:
    """Indices of at most `limit` instants that stand for the record: evenly spread, and the worst of each stretch."""
    count = result.time_s.size
    if count <= limit:
        return np.arange(count)
    weight = np.full(count, -1.0)
    for part in result.parts.values():
        stated = np.isfinite(part.nees).any()
        weight = np.fmax(weight, normalised_square(part) if stated else np.sum(part.error**2, axis=1))
    edges = np.linspace(0, count, max((limit - 1) // 2, 1) + 1).astype(np.intp)
    worst = [start + int(np.argmax(weight[start:end])) for start, end in itertools.pairwise(edges)]
    return np.unique(np.concatenate((edges[:-1], np.array(worst, dtype=np.intp), [count - 1])))


def extremes(values: Vector, limit: int) -> NDArray[np.intp]:
    """Indices of at most `limit` instants that draw a long line (K,) as it looks: the lowest and highest of stretches.

    Evenly spread ones would show a fast oscillation as a slow one that is not there.
    """
    count = len(values)
    if count <= limit:
        return np.arange(count)
    length = -(-count // max((limit - 2) // 2, 1))
    padded = np.full(-(-count // length) * length, np.nan)
    padded[:count] = values
    stretches = padded.reshape(-1, length)
    first = np.arange(len(stretches)) * length
    lowest = np.argmin(np.where(np.isnan(stretches), np.inf, stretches), axis=1) + first
    highest = np.argmax(np.where(np.isnan(stretches), -np.inf, stretches), axis=1) + first
    return np.unique(np.concatenate((lowest, highest, [0, count - 1])))


def truth_centre(drawing: Drawing) -> Matrix:
    """(K, 2) where the true robot has the point that `drawing.centre` is of the estimated one.

    The centre is taken as a fixed point of the polyline: in complex coordinates `c = p_0 + sum_j w_j (p_j+1 - p_j)`,
    which holds exactly for every mean of points that are fixed to the links. The weights are fitted to the estimate.
    """
    estimate, truth = (points[..., 0] + 1j * points[..., 1] for points in (drawing.estimate, drawing.truth))
    centre = drawing.centre[:, 0] + 1j * drawing.centre[:, 1]
    legs = np.diff(estimate, axis=1)
    known = np.isfinite(centre) & np.isfinite(estimate).all(axis=1)
    true_centre = truth[:, 0]
    if legs.shape[1] and known.any():
        weights = np.linalg.lstsq(legs[known], (centre - estimate[:, 0])[known], rcond=1e-9)[0]
        true_centre = true_centre + np.diff(truth, axis=1) @ weights
    return np.column_stack((true_centre.real, true_centre.imag))
