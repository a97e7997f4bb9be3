"""One self-contained HTML page per run: verdict, metrics, replay with a time slider, sensors, notes.

The page loads nothing: style, script and numbers are in the file, and its content security policy forbids the rest.
Names that come from bags and configurations are escaped where they enter the page.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.presentation import (
    CORRELATION_CAPTION,
    SIGMA_CAPTION,
    axis_label,
    display_unit,
    format_number,
    format_value,
    metric_label,
    printable,
    words,
)
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.evaluation.views import (
    ELLIPSE_SCALE,
    MAX_TRACES,
    Window,
    require_estimates,
    thin,
    traces,
    truth_centre,
    worst_window,
)
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.measurement import Vector
from onboard_estimation.resources import packaged_text
from onboard_estimation.robots import Panel, PanelGroup, ReportSection

# Okabe and Ito's palette, as in the plots: blue, vermilion, green, purple, orange, sky blue, grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#8C6D31")
# Sections come before this; a page without it would lose them silently, so `render` insists on it.
_BEFORE_SECTIONS = "<section>\n<h2>Sensors</h2>"
_SECTION_POINTS = 60_000
_INSTANTS = 2000
# About ten characters each: keeps the page below 3 MB however many joints the robot has.
_NUMBERS = 240_000
_OPEN_ROWS = 24
_LIBRARIES = ("onboard_estimation", "numpy", "scipy", "numba", "rosbags", "evo", "matplotlib")
_SENSOR_COLUMNS = {
    "received": "received",
    "used": "used",
    "late": "late",
    "gated": "gated",
    "duplicates": "duplicates",
    "invalid": "invalid",
    "rate_hz": "rate (Hz)",
    "mean_nis": "mean NIS",
}
_LOSSES = ("late", "gated", "duplicates", "invalid")


def write_report(result: EvaluationResult, folder: Path) -> Path:
    """Write `folder/report.html` and return its path. The same result gives the same file, to the byte.

    Raises
    ------
    UserError
        If the record holds no estimate.
    """
    require_estimates(result)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    path.write_text(render(result), encoding="utf-8", newline="\n")
    return path


def render(result: EvaluationResult) -> str:
    """The page as text."""
    window = worst_window(result)
    style, script = _template("css"), _template("js")
    instants = thin(result, _instants_within_budget(result))
    heading = f"{result.robot}, {result.estimator}"
    fields = {
        "title": _text(f"{heading}: {Path(result.bag).name}"),
        "heading": _text(heading),
        "source": _text(result.source.upper()),
        "source_class": "recorded" if result.source == "recorded" else "simulated",
        "facts": _facts(result),
        "verdict": _text(result.verdict),
        "metrics": _metrics(result.metrics),
        "worst": _worst_sentence(window),
        "worst_button": _worst_button(window),
        "chart_note": _text(_chart_note(result, instants)),
        "sensors": _sensors(result.sensors),
        "notes": _list(result.notes),
        "command": _text(result.command),
        "versions": _text(f"Made with {_versions()}."),
        "data": _embedded(_data(result, instants, window)),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
    }
    fields["sections"] = "".join(_section(section, number) for number, section in enumerate(result.sections))
    head, anchor, tail = _template("html").partition(_BEFORE_SECTIONS)
    if not anchor:
        raise ValueError("the report's template has no section on sensors")
    # In one pass, so that a name that looks like a placeholder stays a name.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: fields[found[1]], f"{head}{{{{sections}}}}{anchor}{tail}")


def check_templates() -> None:
    """Raise UserError where a part of the page is not installed; to be asked before the work that the page tells of."""
    for kind in ("html", "css", "js"):
        _template(kind)


def _template(kind: str) -> str:
    return packaged_text(__package__, f"report_template.{kind}")


def _hash(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _text(value: str) -> str:
    return escape(printable(value))


# Tables and sentences


def _facts(result: EvaluationResult) -> str:
    duration = float(result.time_s[-1] - result.time_s[0])
    estimates = f"{result.time_s.size} estimates in {format_number(duration)} s"
    truth = f"truth for {format_number(100.0 * result.matched_ratio)} % of them"
    if not any(part.matched.any() for part in result.parts.values()):
        truth = "no truth: errors are unknown"
    return f"Bag <code>{_text(result.bag)}</code>. {_text(estimates)}, {_text(truth)}."


def _table(head: Mapping[str, str], rows: Iterable[str]) -> str:
    """A table of head cells (escaped text -> class) and finished rows."""
    cells = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in head.items())
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>\n{"".join(rows)}</tbody></table></div>'


def _metrics(metrics: Mapping[str, Any]) -> str:
    """Metrics of the top level as one table, and a table for each group of them below."""
    blocks = [_metric_table(metrics)] if any(not isinstance(value, Mapping) for value in metrics.values()) else []
    groups = [_metric_group((key,), value) for key, value in metrics.items() if isinstance(value, Mapping)]
    if groups:
        blocks.append(f'<div class="groups">{"".join(groups)}</div>')
    return "\n".join(blocks) or "<p>None.</p>"


def _metric_group(path: tuple[str, ...], metrics: Mapping[str, Any]) -> str:
    leaves = [value for value in metrics.values() if not isinstance(value, Mapping)]
    name = _text(words(path[0]) + "".join(f" / {key}" for key in path[1:]))
    below = [_metric_group((*path, key), value) for key, value in metrics.items() if isinstance(value, Mapping)]
    block = ""
    if leaves or not below:
        opened = " open" if len(leaves) <= _OPEN_ROWS else ""
        block = f"<details{opened}><summary>{name}</summary>{_metric_table(metrics)}</details>"
    return block + "".join(below)


def _metric_table(metrics: Mapping[str, Any]) -> str:
    rows = []
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            continue
        label, unit = metric_label(key)
        kind = "number list" if isinstance(value, (str, list, tuple, np.ndarray)) else "number"
        rows.append(
            f'<tr><th scope="row" title="{_text(key)}">{_text(label)}</th>'
            f'<td class="{kind}">{_text(format_value(value))}</td><td class="unit">{_text(unit)}</td></tr>\n'
        )
    return _table({"metric": "", "value": "number", "unit": ""}, rows)


def _sensors(sensors: Mapping[str, Mapping[str, float]]) -> str:
    if not sensors:
        return "<p>No sensor statistics.</p>"
    # Rare counts take a column only where there is something to tell.
    others = dict.fromkeys(
        key for counts in sensors.values() for key, value in counts.items() if key not in _SENSOR_COLUMNS and value
    )
    columns = _SENSOR_COLUMNS | {key: words(key) for key in others}
    rows = []
    for name, counts in sensors.items():
        cells = ""
        for key in columns:
            value = counts.get(key)
            known = value is not None and math.isfinite(value)
            shown = _sensor_number(float(value)) if known and value is not None else "-"
            raised = " raised" if key in _LOSSES and known and value else ""
            cells += f'<td class="number{raised}">{shown}</td>'
        rows.append(f'<tr><th scope="row">{_text(name)}</th>{cells}</tr>\n')
    return _table({"sensor": ""} | {_text(name): "number" for name in columns.values()}, rows)


def _sensor_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else format_number(value)


def _list(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(note)}</li>\n" for note in notes)
    return f"<ul>\n{items}</ul>" if items else "<p>None.</p>"


def _window_name(window: Window) -> str:
    length = window.end_s - window.start_s
    return "worst five seconds" if abs(length - 5.0) < 1e-6 else f"worst {format_number(length, 3)} seconds"


def _worst_sentence(window: Window | None) -> str:
    if window is None:
        return "No truth: the worst five seconds cannot be found."
    return _text(
        f"The {_window_name(window)}: {window.start_s:.2f} s to {window.end_s:.2f} s, RMS of the normalised error of "
        f"{words(window.part).lower()} {format_number(window.normalised_rms, 3)} (1 is what the filter claims)."
    )


def _worst_button(window: Window | None) -> str:
    return f'<button id="worst-go" type="button">Go to the {_window_name(window)}</button>' if window else ""


def _chart_note(result: EvaluationResult, instants: NDArray[np.intp]) -> str:
    note = f"{SIGMA_CAPTION} {CORRELATION_CAPTION}"
    if instants.size < result.time_s.size:
        note += (
            f" Shown: {instants.size} of {result.time_s.size} instants, those with the largest normalised error kept."
        )
    return note + " ".join(left_out for part in result.parts.values() if (left_out := _left_out(part, result)))


def _left_out(part: PartResult, result: EvaluationResult) -> str:
    return traces(part, result.time_s)[1]


def _versions() -> str:
    """Python and the libraries that the numbers depend on."""
    known = [f"Python {platform.python_version()}"]
    for library in _LIBRARIES:
        try:
            known.append(f"{library} {metadata.version(library)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(known)


# Sections of the robot's own: drawn here, without the script


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


def _section(section: ReportSection, number: int) -> str:
    lines = sum(len(panel.lines) + 2 * (panel.band is not None) for group in section.groups for panel in group.panels)
    count = section.time_s.size
    kept: NDArray[np.intp] = np.arange(count)
    note = ""
    if count > (limit := int(np.clip(_SECTION_POINTS // max(lines, 1), 100, 1200))):
        kept = np.unique(np.linspace(0, count - 1, limit).astype(np.intp))
        note = f'<p class="small">Shown: {kept.size} of {count} instants.</p>'
    sentences = "".join(f"<li>{_text(sentence)}</li>\n" for sentence in section.sentences)
    groups = "".join(
        _group(group, section.time_s[kept], kept, f"section-{number}-{index}")
        for index, group in enumerate(section.groups)
    )
    return (
        f"<section>\n<h2>{_text(section.title)}</h2>\n<ul>\n{sentences}</ul>\n"
        f'<div class="groups">{groups}</div>\n{note}</section>\n'
    )


def _group(group: PanelGroup, time_s: Vector, kept: NDArray[np.intp], name: str) -> str:
    """A group as one drawing: its panels below each other over one time axis."""
    height = 150 * len(group.panels) + 24
    panels = "".join(
        _panel(panel, time_s, kept, 150.0 * index, f"{name}-{index}") for index, panel in enumerate(group.panels)
    )
    start, end = float(time_s[0]), float(time_s[-1])
    ticks = ""
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        place, anchor = 48 + 440 * share, "end" if share == 1.0 else "middle"
        text = format_number(start + share * (end - start), 3) + (" s" if share == 1.0 else "")
        ticks += f'<text x="{place:.0f}" y="{height - 8}" text-anchor="{anchor}">{text}</text>'
    label = _text(f"{group.title}: {', '.join(panel.label for panel in group.panels)} over time")
    return (
        f'<div><h3>{_text(group.title)}</h3><svg role="img" aria-label="{label}" viewBox="0 0 496 {height}" '
        f'width="100%" fill="currentColor" font-size="11">{panels}{ticks}</svg></div>'
    )


def _panel(panel: Panel, time_s: Vector, kept: NDArray[np.intp], above: float, name: str) -> str:
    view = panel_view(Panel(panel.label, panel.unit, _at(panel, kept), _band(panel, kept)), time_s)
    top, bottom = above + 22.0, above + 142.0
    duration = float(time_s[-1] - time_s[0]) or 1.0
    x = 48.0 + 440.0 * (time_s - time_s[0]) / duration

    def path(values: Vector, x: Vector = x) -> str:
        y = bottom - (bottom - top) * (values * view.factor - view.low) / (view.high - view.low)
        known = np.isfinite(y)
        y = np.clip(np.where(known, y, 0.0), top - 1e4, bottom + 1e4)
        pen, out = "M", []
        for at, level, there in zip(x.tolist(), y.tolist(), known.tolist(), strict=True):
            if there:
                out.append(f"{pen}{at:.1f} {level:.1f}")
            pen = "L" if there else "M"
        return "".join(out)

    clip = f'<clipPath id="{name}"><rect x="48" y="{top:.0f}" width="440" height="{bottom - top:.0f}"/></clipPath>'
    marks = ""
    for value in _round_values(view.low, view.high):
        level = bottom - (bottom - top) * (value - view.low) / (view.high - view.low)
        marks += f'<line class="grid-line" x1="48" x2="488" y1="{level:.1f}" y2="{level:.1f}"/>'
        marks += f'<text x="43" y="{level + 4:.1f}" text-anchor="end">{format_number(value, 3)}</text>'
    curves, names = "", ""
    if panel.band is not None:
        upper, lower = path(panel.band[kept]), path(-panel.band[kept][::-1], x[::-1])
        curves += f'<path class="area" d="{upper}{lower.replace("M", "L", 1)}Z"/>' if upper else ""
    for index, (line, values) in enumerate(panel.lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        curves += f'<path fill="none" stroke="{colour}" stroke-width="1.3" d="{path(values[kept])}"/>'
        if len(panel.lines) > 1:
            names += f'<tspan fill="{colour}" dx="8">{_text(line)}</tspan>'
    title = f"{_text(panel.label)} ({_text(view.unit)})"
    if not any(np.isfinite(values).any() for values in panel.lines.values()):
        names = '<tspan dx="8">not known</tspan>'
    return (
        f'{clip}{marks}<g clip-path="url(#{name})">{curves}</g>'
        f'<text x="48" y="{above + 15:.0f}"><tspan font-weight="600">{title}</tspan>{names}'
        f'<tspan dx="8">{_text(view.off_scale)}</tspan></text>'
    )


def _round_values(low: float, high: float) -> list[float]:
    """Three to seven round values from low to high, for marks on an axis."""
    rough = (high - low) / 4.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((factor for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= 0.999 * rough), default=10.0)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _at(panel: Panel, kept: NDArray[np.intp]) -> dict[str, Vector]:
    return {name: values[kept] for name, values in panel.lines.items()}


def _band(panel: Panel, kept: NDArray[np.intp]) -> Vector | None:
    return None if panel.band is None else panel.band[kept]


# Numbers for the script


def _instants_within_budget(result: EvaluationResult) -> int:
    per_instant = 1 + sum(2 * min(part.error.shape[1], MAX_TRACES) + 1 for part in result.parts.values())
    if result.drawing is not None:
        per_instant += 4 * result.drawing.estimate.shape[1] + 7
    return max(min(_INSTANTS, _NUMBERS // per_instant), 2)


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that cannot end its script element: `<`, `>` and `&` as escapes."""
    content = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(result: EvaluationResult, instants: NDArray[np.intp], window: Window | None) -> dict[str, Any]:
    return {
        "time": [round(float(t), 6) for t in result.time_s[instants]],
        "worst": None
        if window is None
        else {"start": window.start_s, "end": window.end_s, "label": _window_name(window)},
        "events": [
            {"name": printable(name), "spans": _numbers(np.reshape(spans, (-1, 2)))}
            for name, spans in result.events.items()
        ],
        "parts": [_part_data(result, part, instants, window) for part in result.parts.values()],
        "drawing": None if result.drawing is None else _drawing_data(result.drawing, instants),
    }


def _part_data(
    result: EvaluationResult, part: PartResult, instants: NDArray[np.intp], window: Window | None
) -> dict[str, Any]:
    shown, _ = traces(part, result.time_s)
    has_truth = bool(np.isfinite(part.nees).any())
    remark = f"estimate minus truth, {part.convention}" if part.convention else "estimate minus truth"
    return {
        "label": printable(words(part.name)),
        "remark": printable(remark) if has_truth else "no truth for this part: the error is unknown",
        "hasTruth": has_truth,
        "worst": window is not None and window.part == part.name,
        "dimension": part.error.shape[1],
        "band": chi_square_band(part.error.shape[1]),
        "nees": _numbers(part.nees[instants]) if has_truth else [],
        "traces": [
            {
                "name": printable(trace.name),
                "unit": printable(trace.unit),
                "limit": trace.limit,
                "offScale": trace.off_scale,
                "error": _numbers(trace.error[instants]),
                "sigma": _numbers(trace.stddev[instants]),
            }
            for trace in shown
        ],
    }


def _drawing_data(drawing: Drawing, instants: NDArray[np.intp]) -> dict[str, Any]:
    everything = drawing.estimate[np.isfinite(drawing.estimate).all(axis=(1, 2))].reshape(-1, 2)
    path = float(np.ptp(everything, axis=0).max()) if everything.size else 1.0
    unit, factor = display_unit("m", 0.5 * path)
    count = instants.size
    ellipse = drawing.ellipse[instants]
    return {
        "axes": [printable(axis_label(label, unit)) for label in drawing.axes],
        "factor": factor,
        "closeUp": _close_up(drawing, path),
        "ellipseScale": ELLIPSE_SCALE,
        "estimate": _numbers(drawing.estimate[instants].reshape(count, -1)),
        "truth": _numbers(drawing.truth[instants].reshape(count, -1)),
        "centre": _numbers(drawing.centre[instants]),
        "truthCentre": _numbers(truth_centre(drawing)[instants]),
        "ellipse": _numbers(np.stack((ellipse[:, 0, 0], ellipse[:, 0, 1], ellipse[:, 1, 1]), axis=1)),
    }


def _close_up(drawing: Drawing, path: float) -> float:
    """Width of the close-up, metres: holds the middle of the robot and nine ellipses in ten."""
    robot = drawing.estimate[np.isfinite(drawing.estimate).all(axis=(1, 2))]
    size = float(np.median(np.ptp(robot, axis=1).max(axis=1))) if robot.size else 0.0
    variance = np.einsum("kii->k", drawing.ellipse)
    variance = variance[np.isfinite(variance)]
    spread = float(np.sqrt(np.quantile(variance, 0.9))) if variance.size else 0.0
    return max(0.35 * size, 8.0 * spread, 0.02 * path, 1e-3)


def _numbers(values: NDArray[np.float64]) -> list[Any]:
    """Nested lists with six significant digits; what is not finite becomes null, as JSON has no NaN."""
    if values.ndim > 1:
        return [_numbers(row) for row in values]
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
