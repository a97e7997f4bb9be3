"""Diagrams over time as they are shown: which there are, units, limits of the axes, what is off scale.

The report's script and the PNG files draw the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import Panel, ReportSection
from onboard_estimation.evaluation.presentation import (
    CORRELATION_CAPTION,
    SIGMA_CAPTION,
    display_unit,
    format_number,
    words,
)
from onboard_estimation.evaluation.result import EvaluationResult, PartResult
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.measurement import Vector

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
        charts = charts_of(panels, result.time_s)
        out.append(Charts(title, result.time_s, charts, (part.name,) * len(charts), remark, caption))
    return out


def consistency_charts(result: EvaluationResult) -> Charts:
    """NEES of each part with truth and covariance, against the chi-square band of one instant."""
    judged, left_out = judged_parts(result)
    panels = []
    for part in judged:
        dimension = part.error.shape[1]
        low, high = chi_square_band(dimension)
        values = part.nees[np.isfinite(part.nees)]
        inside = 100.0 * float(np.mean((values >= low) & (values <= high)))
        note = f"mean {values.mean():.3g} (expected {dimension}), {inside:.0f} % of the instants in the band"
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


def charts_of(panels: Sequence[Panel], time_s: Vector) -> tuple[Chart, ...]:
    """The panels as they are shown; all of one kind of unit in one, so that their axes can be compared."""
    limits = [_limits(panel, time_s) for panel in panels]
    largest: dict[str, float] = {}
    for panel, (low, high, _) in zip(panels, limits, strict=True):
        largest[panel.unit] = max(largest.get(panel.unit, 0.0), abs(low), abs(high))
    out = []
    for panel, (low, high, off_until_s) in zip(panels, limits, strict=True):
        unit, factor = display_unit(panel.unit, largest[panel.unit])
        note = panel.note
        if not any(np.isfinite(values).any() for values in panel.lines.values()):
            note = "not known"
        elif off_until_s is not None:
            rows = ({} if panel.band is None else {"3 sigma": panel.band}) | dict(panel.lines)
            peaks = (f"{name} to {format_number(factor * _largest(row), 2)}" for name, row in rows.items())
            note = f"first {format_number(off_until_s - time_s[0], 2)} s off scale: {', '.join(peaks)} {unit}"
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
    known = "" if share == 1.0 else f"; truth for {100.0 * share:.1f} % of the estimates"
    return f"estimate minus truth{', ' + part.convention if part.convention else ''}{known}"


def _limits(panel: Panel, time_s: Vector) -> tuple[float, float, float | None]:
    """Limits of the axis, in the panel's unit, and until when the start is off scale (None: all is on it).

    A filter that starts with large uncertainty would squeeze the rest of the run into a line; what happens after the
    first tenth is never left out.
    """
    rows = np.array([*panel.lines.values(), *([] if panel.band is None else [panel.band])])
    if panel.interval is not None:
        low, high = panel.interval
        known = rows[np.isfinite(rows)]
        bottom = float(np.clip(np.quantile(known, 0.01), 0.05 * low, low)) if known.size else low
        return 0.7 * bottom, 1.4 * max(high, float(known.max(initial=high))), None
    if panel.band is not None:
        rows = np.concatenate([rows, -rows])  # both sides of zero alike
    settled = time_s >= time_s[0] + _TRANSIENT_SHARE * (time_s[-1] - time_s[0])
    (low, high), (later_low, later_high) = _span(rows), _span(rows[:, settled])
    off_scale = 0.0 < _TRANSIENT_EXCESS * (later_high - later_low) < high - low
    if off_scale:
        low, high = later_low, later_high
    if low == high:
        low, high = (-1.0, 1.0) if panel.band is not None else (0.0, 1.0)
    margin = 0.04 * (high - low)
    low, high = low - margin, high + margin
    outside = np.flatnonzero(((rows < low) | (rows > high)).any(axis=0))
    return low, high, float(time_s[outside[-1]]) if off_scale and outside.size else None


def _span(rows: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest and largest finite value, with zero."""
    finite = rows[np.isfinite(rows)]
    return float(finite.min(initial=0.0)), float(finite.max(initial=0.0))


def _largest(values: Vector) -> float:
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
