"""What of a result is shown over time: diagrams, units, limits of the axes, what is off scale; and which instants.

The report's script and the PNG files draw the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.presentation import (
    CORRELATION_CAPTION,
    SIGMA_CAPTION,
    display_unit,
    format_number,
    percent,
    words,
)
from onboard_estimation.contract.result import Drawing, EvaluationResult, Panel, PartResult, ReportSection
from onboard_estimation.filtering.consistency import chi_square_band

MAX_DIMENSIONS = 8
"""Of a part that are shown."""
_TRANSIENT_SHARE = 0.1
_TRANSIENT_EXCESS = 2.5


@dataclass(frozen=True, eq=False)
class Chart:
    """A panel in the unit that it is shown in.

    Attributes
    ----------
    factor
        From the panel's unit to `unit`.
    low, high
        Limits of the axis, in `unit`.
    note
        What the axis leaves out, or what else is to be said above it. Only the transient at the start may be left out.
    """

    panel: Panel
    unit: str
    factor: float
    low: float
    high: float
    note: str

    @property
    def title(self) -> str:
        """Of the axis, with its unit."""
        return f"{self.panel.label} ({self.unit})" if self.unit else self.panel.label


@dataclass(frozen=True, eq=False)
class Charts:
    """Charts that belong together, one below the other.

    Attributes
    ----------
    time_s
        (K,) seconds since the first estimate, of all of them.
    parts
        Of the state, that each of them is of; empty: of none.
    remark, caption
        What the title leaves open, in a few words and in sentences.
    """

    title: str
    time_s: Vector
    charts: tuple[Chart, ...]
    parts: tuple[str, ...] = ()
    remark: str = ""
    caption: tuple[str, ...] = ()


def error_charts(result: EvaluationResult) -> list[Charts]:
    """Of each part the errors with the filter's 3-sigma band."""
    out = []
    for part in result.parts.values():
        chosen, left_out = _shown_dimensions(part)
        panels = [
            Panel(
                part.names[index],
                part.units[index],
                {"error": part.error[:, index]},
                3.0 * part.stddev[:, index] if part.states_its_error else None,
            )
            for index in chosen
        ]
        judged = bool(part.matched.any())
        title = f"{words(part.name)}: {'error' if judged else 'standard deviation'}"
        remark = "; ".join(filter(None, (_truth_remark(part), left_out)))
        notes = [note for note in result.notes if "truth" in note.lower() and "noise" in note.lower()]
        caption = (SIGMA_CAPTION if part.states_its_error else "No covariance.", *notes)
        sizes = part.rms(part.judged(result.time_s, result.settle_s)) if judged else {}
        charts = charts_of(panels, result.time_s, sizes)
        out.append(Charts(title, result.time_s, charts, (part.name,) * len(charts), remark, caption))
    return out


def consistency_charts(result: EvaluationResult) -> Charts:
    """NEES of each part with truth and covariance, against the chi-square band of one instant."""
    judged, left_out = judged_parts(result)
    panels = []
    for part in judged:
        dimension = part.error.shape[1]
        low, high = chi_square_band(dimension)
        values = part.nees[part.judged(result.time_s, result.settle_s) & np.isfinite(part.nees)]
        note = ""
        if values.size:
            inside = percent(float(np.mean((values >= low) & (values <= high))))
            mean = format_number(float(values.mean()) / dimension)
            note = f"mean {mean} per dimension (expected 1), {inside} of the instants in the band"
        lines = {"NEES": np.where(part.nees > 0.0, part.nees, np.nan)}
        panels.append(Panel(words(part.name), "", lines, interval=(low, high), note=note))
    charts = charts_of(panels, result.time_s)
    remark = "band: 95 % chi-square"
    names = tuple(part.name for part in judged)
    return Charts("Consistency: NEES", result.time_s, charts, names, remark, (CORRELATION_CAPTION, left_out))


def run_charts(result: EvaluationResult) -> list[Charts]:
    """Errors of all parts, and their consistency, where there is something to show of it."""
    return [one for one in (*error_charts(result), consistency_charts(result)) if one.charts]


def section_charts(section: ReportSection) -> list[Charts]:
    """What a robot adds."""
    return [Charts(group.title, section.time_s, charts_of(group.panels, section.time_s)) for group in section.groups]


def charts_of(panels: Sequence[Panel], time_s: Vector, sizes: Mapping[str, float] = {}) -> tuple[Chart, ...]:
    """The panels as they are shown; all of one kind of unit in one, so that their axes can be compared.

    Parameters
    ----------
    sizes
        By unit what the one that is shown is chosen by; of others the largest value decides.
    """
    limits = [_limits(panel, time_s) for panel in panels]
    largest: dict[str, float] = {}
    for panel, (low, high, _) in zip(panels, limits, strict=True):
        largest[panel.unit] = max(largest.get(panel.unit, 0.0), abs(low), abs(high))
    out = []
    for panel, (low, high, off_until_s) in zip(panels, limits, strict=True):
        unit, factor = display_unit(panel.unit, sizes.get(panel.unit, largest[panel.unit]))
        note = panel.note
        if not any(np.isfinite(values).any() for values in panel.lines.values()):
            note = "not known"
        elif off_until_s is not None:
            rows = ({} if panel.band is None else {"3 sigma": panel.band}) | dict(panel.lines)
            peaks = (f"{name} to {format_number(factor * _largest(row), 2)}" for name, row in rows.items())
            first = f"{format_number(off_until_s - time_s[0], 2)} s" if off_until_s > time_s[0] else "instant"
            note = f"first {first} off scale: {', '.join(peaks)} {unit}"
        out.append(Chart(panel, unit, factor, factor * low, factor * high, note))
    return tuple(out)


def _shown_dimensions(part: PartResult) -> tuple[NDArray[np.intp], str]:
    """Dimensions of a part that are shown, and words on those left out (empty if none).

    Of a part with more than `MAX_DIMENSIONS` those with the largest RMS normalised error are taken.
    """
    count = part.error.shape[1]
    if count <= MAX_DIMENSIONS:
        return np.arange(count), ""
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.nan_to_num((part.error / part.stddev) ** 2, nan=0.0, posinf=0.0).sum(axis=0)
    chosen = np.sort(np.argsort(-square, kind="stable")[:MAX_DIMENSIONS])
    return chosen, f"the {MAX_DIMENSIONS} of {count} dimensions with the largest error/sigma are shown"


def judged_parts(result: EvaluationResult) -> tuple[list[PartResult], str]:
    """Parts with a NEES, and a sentence that names the others (empty if none)."""
    judged = [part for part in result.parts.values() if np.isfinite(part.nees).any()]
    others = [words(part.name).lower() for part in result.parts.values() if not np.isfinite(part.nees).any()]
    return judged, f"Without truth or covariance and not shown: {', '.join(others)}." if others else ""


def _truth_remark(part: PartResult) -> str:
    if not part.matched.any():
        return "no truth for this part: the error is unknown"
    share = part.matched.mean()
    known = "" if share == 1.0 else f"; truth for {percent(share)} of the estimates"
    return f"estimate minus truth{', ' + part.convention if part.convention else ''}{known}"


def _limits(panel: Panel, time_s: Vector) -> tuple[float, float, float | None]:
    """Limits of the axis, in the panel's unit, and until when the start is off scale (None: all is on it).

    A filter that starts with large uncertainty would squeeze the rest of the run into a line; what happens after the
    first tenth is never left out.
    """
    rows = [*panel.lines.values(), *([] if panel.band is None else [panel.band])]
    if panel.interval is not None:
        low, high = panel.interval
        known = _finite(np.concatenate(rows))
        bottom = float(np.clip(np.quantile(known, 0.01), 0.05 * low, low)) if known.size else low
        return 0.7 * bottom, 1.4 * max(high, float(known.max(initial=high))), None
    settled = np.searchsorted(time_s, time_s[0] + _TRANSIENT_SHARE * (time_s[-1] - time_s[0]))
    both_sides = panel.band is not None
    (low, high), (later_low, later_high) = _span(rows, both_sides), _span([one[settled:] for one in rows], both_sides)
    off_scale = 0.0 < _TRANSIENT_EXCESS * (later_high - later_low) < high - low
    if off_scale:
        low, high = later_low, later_high
    if low == high:
        low, high = (-1.0, 1.0) if both_sides else (0.0, 1.0)
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    if not off_scale:
        return low, high, None
    outside = [place for one in rows for place in np.flatnonzero((one < low) | (one > high))[-1:].tolist()]
    return low, high, float(time_s[max(outside)]) if outside else None


def _span(rows: Sequence[Vector], both_sides: bool) -> tuple[float, float]:
    """Smallest and largest finite value, with zero; as far on both sides of it, where that is asked for."""
    finite = [_finite(one) for one in rows]
    low = min((float(one.min(initial=0.0)) for one in finite), default=0.0)
    high = max((float(one.max(initial=0.0)) for one in finite), default=0.0)
    return (min(low, -high), max(high, -low)) if both_sides else (low, high)


def _finite(values: Vector) -> Vector:
    """Without what is not; where all are, as they are: copies of a long record take room."""
    known = np.isfinite(values)
    return values if known.all() else values[known]


def _largest(values: Vector) -> float:
    return float(np.abs(_finite(values)).max(initial=0.0))


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


def _ratio(error: Matrix, stddev: Matrix) -> Matrix:
    with np.errstate(invalid="ignore", divide="ignore"):
        return error / stddev


def states_errors(result: EvaluationResult) -> bool:
    """Whether there is a covariance; without parts nothing speaks against it."""
    return not result.parts or any(part.states_its_error for part in result.parts.values())


def coverage(part: PartResult, sigmas: Vector) -> Matrix:
    """(S, d) share of the errors within each of the rising numbers of standard deviations; NaN without truth."""
    shares = []
    for error, stddev in zip(part.error.T, part.stddev.T, strict=True):
        known = _finite(np.abs(_ratio(error, stddev)))
        within = np.cumsum(np.bincount(np.searchsorted(sigmas, known), minlength=len(sigmas) + 1))[:-1]
        shares.append(within / known.size if known.size else np.full(len(sigmas), np.nan))
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
