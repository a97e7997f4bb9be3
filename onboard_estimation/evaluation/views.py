"""What of a result is shown: traces in display units, the instants that stand for a long record, the worst seconds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import Panel
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.presentation import display_unit, format_number, words
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.measurement import Matrix, Vector

MAX_TRACES = 8
WORST_WINDOW_S = 5.0
# 95 % quantile of chi-square with two degrees of freedom: scales a covariance to the ellipse that is drawn.
ELLIPSE_SCALE = float(-2.0 * np.log(1.0 - 0.95))
_TRANSIENT_SHARE = 0.1
_TRANSIENT_EXCESS = 2.5


@dataclass(frozen=True)
class Trace:
    """One dimension of a part in the unit that it is shown in.

    Attributes
    ----------
    error, stddev
        (K,) float64 in `unit`.
    limit
        The axis runs from -limit to limit.
    off_scale
        What the axis leaves out, in words; empty if nothing. Only the transient at the start may be left out.
    """

    name: str
    unit: str
    error: Vector
    stddev: Vector
    limit: float
    off_scale: str


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


def traces(part: PartResult, time_s: Vector) -> tuple[list[Trace], str]:
    """Dimensions of a part for plotting, and a sentence on those left out (empty if none).

    Of a part with more than `MAX_TRACES` dimensions those with the largest RMS normalised error are taken.
    """
    count = part.error.shape[1]
    chosen: NDArray[np.intp] = np.arange(count)
    left_out = ""
    if count > MAX_TRACES:
        square = np.nan_to_num(_ratio(part.error, part.stddev) ** 2, nan=0.0, posinf=0.0).sum(axis=0)
        chosen = np.sort(np.argsort(-square, kind="stable")[:MAX_TRACES])
        left_out = f"{words(part.name)}: the {MAX_TRACES} of {count} dimensions with the largest error/sigma are shown."
    limits = {index: _limit(part.error[:, index], 3.0 * part.stddev[:, index], time_s) for index in chosen}
    # One display unit for all dimensions of a kind, so that their axes can be compared.
    largest = {
        unit: max(limits[i][0] for i in chosen if part.units[i] == unit)
        for unit in part.units[:count]
        if any(part.units[i] == unit for i in chosen)
    }
    shown = []
    for index in chosen:
        limit, off_until = limits[index]
        unit, factor = display_unit(part.units[index], largest[part.units[index]])
        error, stddev = part.error[:, index] * factor, part.stddev[:, index] * factor
        off_scale = ""
        if off_until is not None:
            peak_error, peak_band = _largest(error), 3.0 * _largest(stddev)
            off_scale = f"first {format_number(off_until - time_s[0], 2)} s off scale: "
            off_scale += f"3 sigma to {format_number(peak_band, 2)}, " if part.states_its_error else ""
            off_scale += f"error to {format_number(peak_error, 2)} {unit}"
        shown.append(Trace(part.names[index], unit, error, stddev, limit * factor, off_scale))
    return shown, left_out


def _ratio(error: Matrix, stddev: Matrix) -> Matrix:
    with np.errstate(invalid="ignore", divide="ignore"):
        return error / stddev


def _limit(error: Vector, band: Vector, time_s: Vector) -> tuple[float, float | None]:
    """Limit of the axis, and until when the start is off scale (None: all is on it).

    A filter that starts with large uncertainty would squeeze the rest of the run into a line; what happens after the
    first tenth is never left out.
    """
    magnitude = np.fmax(np.abs(error), band)
    settled = time_s >= time_s[0] + _TRANSIENT_SHARE * (time_s[-1] - time_s[0])
    whole, later = 1.08 * _largest(magnitude), 1.08 * _largest(magnitude[settled])
    if later <= 0.0 or whole <= _TRANSIENT_EXCESS * later:
        return (whole if whole > 0.0 else 1.0), None
    return later, float(time_s[np.flatnonzero(magnitude > later)[-1]])


def _largest(values: NDArray[np.float64]) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


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


@dataclass(frozen=True)
class PanelView:
    """How a panel is shown: unit, factor that leads to it, limits of the axis in it, and what is off scale."""

    unit: str
    factor: float
    low: float
    high: float
    off_scale: str


def panel_view(panel: Panel, time_s: Vector) -> PanelView:
    """Limits that hold everything, but for a start more than 2.5 times as large as all after the first tenth."""
    rows = [*panel.lines.values(), *([panel.band, -panel.band] if panel.band is not None else [])]
    values = np.array(rows)
    later = values[:, time_s >= time_s[0] + 0.1 * (time_s[-1] - time_s[0])]
    shown, off_scale = values, ""
    if 0.0 < _span(later) < 0.4 * _span(values):
        shown, off_scale = later, "start off scale"
    low, high = _limits(shown)
    unit, factor = display_unit(panel.unit, max(abs(low), abs(high)))
    margin = 0.04 * (high - low)
    return PanelView(unit, factor, (low - margin) * factor, (high + margin) * factor, off_scale)


def _limits(values: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest and largest finite value, with zero; not equal."""
    finite = values[np.isfinite(values)]
    low, high = (min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)) if finite.size else (0.0, 0.0)
    return (low, high) if high > low else (0.0, 1.0)


def _span(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max() - finite.min()) if finite.size else 0.0
