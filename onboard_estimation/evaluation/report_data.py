"""The numbers of a run as the report's script reads them: JSON with packed arrays, thinned to a budget."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import ReportSection
from onboard_estimation.errors import printable
from onboard_estimation.evaluation.charts import MAX_DIMENSIONS, Chart, Charts, run_charts, section_charts
from onboard_estimation.evaluation.presentation import axis_label, display_unit, format_number
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, Phases
from onboard_estimation.evaluation.views import Window, truth_centre
from onboard_estimation.picture import ELLIPSE_SCALE, NORMAL_SCALE

# Five and a third characters each: keeps the page below 3 MB however long the run and however many joints it has.
_NUMBERS = 330_000
_SECTION_NUMBERS = 160_000


def instants_within_budget(result: EvaluationResult) -> int:
    """How many instants of the record the page has room for."""
    per_instant = 2 + sum(2 * min(part.error.shape[1], MAX_DIMENSIONS) + 1 for part in result.parts.values())
    if result.drawing is not None:
        per_instant += 4 * result.drawing.estimate.shape[1] + 7
    return max(_NUMBERS // per_instant, 2)


def section_instants(sections: tuple[ReportSection, ...]) -> list[NDArray[np.intp]]:
    """Indices of the instants of each section that the page has room for, evenly spread."""
    kept = []
    for section in sections:
        lines = sum(len(panel.lines) + (panel.band is not None) for group in section.groups for panel in group.panels)
        limit = max(_SECTION_NUMBERS // len(sections) // (lines + 2), 100)
        kept.append(np.unique(np.linspace(0, section.time_s.size - 1, min(section.time_s.size, limit)).astype(np.intp)))
    return kept


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end its script element: `<`, `>` and `&` as escapes."""
    content = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(result: EvaluationResult, instants: NDArray[np.intp], window: Window | None) -> dict[str, Any]:
    """All that the script draws; times are seconds since the first estimate."""
    return {
        "time": packed(result.time_s[instants], "f8"),
        "worst": None
        if window is None
        else {"start": window.start_s, "end": window.end_s, "label": window_name(window)},
        "events": [{"name": printable(name), "spans": _spans(spans)} for name, spans in result.events.items()],
        "phases": None if result.phases is None else _phases_data(result.phases),
        "groups": [
            _group_data(one, None, instants, "" if window is None else window.part) for one in run_charts(result)
        ],
        "drawing": None if result.drawing is None else _drawing_data(result.drawing, instants),
        "sections": [
            [_group_data(group, kept, instants) for group in section_charts(section)]
            for section, kept in zip(result.sections, section_instants(result.sections), strict=True)
        ],
    }


def packed(values: NDArray[np.float64], kind: str = "f4") -> dict[str, str]:
    """Little-endian numbers in base64, whole rows after each other; what is not finite is NaN."""
    finite = np.where(np.isfinite(values), values, np.nan)
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(finite, dtype=f"<{kind}")
    return {kind: base64.b64encode(numbers.tobytes()).decode()}


def window_name(window: Window) -> str:
    """`worst five seconds`, or how long it is."""
    length = window.end_s - window.start_s
    return "worst five seconds" if abs(length - 5.0) < 1e-6 else f"worst {format_number(length, 3)} seconds"


def _spans(spans: NDArray[np.float64]) -> list[list[float]]:
    return [[round(float(value), 6) for value in row] for row in np.reshape(spans, (-1, 2)) if np.isfinite(row).all()]


def _phases_data(phases: Phases) -> dict[str, Any]:
    return {
        "names": [printable(name) for name in phases.spans],
        "spans": [_spans(spans) for spans in phases.spans.values()],
        "cycle": printable(phases.cycle),
        "cycles": _spans(phases.cycles),
    }


def _drawing_data(drawing: Drawing, instants: NDArray[np.intp]) -> dict[str, Any]:
    everything = drawing.estimate[np.isfinite(drawing.estimate).all(axis=(1, 2))].reshape(-1, 2)
    extent = np.ptp(everything, axis=0) if everything.size else np.ones(2)
    path = float(extent[1] if drawing.over_time else extent.max())
    unit, factor = display_unit("m", 0.5 * path)
    ellipse = drawing.ellipse[instants]
    return {
        "axes": [printable(axis_label(label, unit)) for label in drawing.axes],
        "overTime": drawing.over_time,
        "factors": [1.0 if drawing.over_time else factor, factor],
        "closeUp": _close_up(drawing, path),
        "ellipseScale": NORMAL_SCALE**2 if drawing.over_time else ELLIPSE_SCALE,
        "points": drawing.estimate.shape[1],
        "estimate": packed(drawing.estimate[instants]),
        "truth": packed(drawing.truth[instants]),
        "centre": packed(drawing.centre[instants]),
        "truthCentre": packed(drawing.truth[instants, -1] if drawing.over_time else truth_centre(drawing)[instants]),
        "ellipse": packed(np.stack((ellipse[:, 0, 0], ellipse[:, 0, 1], ellipse[:, 1, 1]), axis=1)),
    }


def _close_up(drawing: Drawing, path: float) -> float:
    """Width of the close-up, metres: holds the middle of the robot and nine ellipses in ten."""
    robot = drawing.estimate[np.isfinite(drawing.estimate).all(axis=(1, 2))]
    size = float(np.median(np.ptp(robot, axis=1).max(axis=1))) if robot.size else 0.0
    variance = np.einsum("kii->k", drawing.ellipse)
    variance = variance[np.isfinite(variance)]
    spread = float(np.sqrt(np.quantile(variance, 0.9))) if variance.size else 0.0
    return max(0.35 * size, 8.0 * spread, 0.02 * path, 1e-3)


def _group_data(
    group: Charts, kept: NDArray[np.intp] | None, instants: NDArray[np.intp], worst: str = ""
) -> dict[str, Any]:
    """Charts with a time of their own, of which `kept` is shown, or with that of the page; `worst` is a part."""
    rows = instants if kept is None else kept
    return {
        "title": printable(group.title),
        "remark": printable(group.remark),
        "time": None if kept is None else packed(group.time_s[kept], "f8"),
        "charts": [
            _chart_data(chart, rows) | {"worst": part == worst}
            for chart, part in zip_longest(group.charts, group.parts)
        ],
    }


def _chart_data(chart: Chart, rows: NDArray[np.intp]) -> dict[str, Any]:
    panel = chart.panel
    return {
        "title": printable(chart.title),
        "label": printable(panel.label),
        "unit": printable(chart.unit),
        "low": chart.low,
        "high": chart.high,
        "note": printable(chart.note),
        "interval": panel.interval,
        "band": None if panel.band is None else packed(chart.factor * panel.band[rows]),
        "lines": [
            {"name": printable(name), "values": packed(chart.factor * values[rows])}
            for name, values in panel.lines.items()
        ],
    }
