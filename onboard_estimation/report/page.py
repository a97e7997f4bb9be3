"""One self-contained HTML page per run: verdict, five figures, the picture with its time slider; everything else below.

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
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.base import installed
from onboard_estimation.base.errors import printable
from onboard_estimation.base.installed import packaged_text
from onboard_estimation.base.parameter_file import leaves
from onboard_estimation.base.presentation import (
    CORRELATION_CAPTION,
    SIGMA_CAPTION,
    axis_label,
    display_unit,
    error_sizes,
    format_number,
    percent,
    quantity,
    shown_metric,
    words,
)
from onboard_estimation.contract.picture import ELLIPSE_SCALE, NORMAL_SCALE
from onboard_estimation.contract.result import (
    Drawing,
    EvaluationResult,
    KeyFigure,
    Phases,
    Picture,
    ReportSection,
    key_figures,
)
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.report.charts import (
    MAX_DIMENSIONS,
    Chart,
    Charts,
    Window,
    run_charts,
    section_charts,
    states_errors,
    thin,
    truth_centre,
    worst_window,
)
from onboard_estimation.report.explanation import explained

_TEMPLATE, _STYLE = "page.html", "page.css"
_SCRIPTS = ("numbers.js", "charts.js", "scene.js", "page.js")
LIBRARIES = ("onboard_estimation", "numpy", "scipy", "numba", "rosbags", "evo", "matplotlib")


def write_report(result: EvaluationResult, folder: Path) -> Path:
    """Write `folder/report.html` and return its path. The same result gives the same file, to the byte."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "report.html"
    path.write_text(render(result), encoding="utf-8", newline="\n")
    return path


def render(result: EvaluationResult) -> str:
    """The page as text."""
    window = worst_window(result)
    script = "\n".join(['"use strict";', "(() => {", *map(asset, _SCRIPTS), "})();"])
    instants = thin(result, instants_within_budget(result))
    heading = f"{result.robot}, {result.estimator}"
    cycle = result.phases.cycle if result.phases is not None and len(result.phases.cycles) else ""
    versions = {"Python": platform.python_version(), **installed.versions(LIBRARIES)}
    fields = {
        "title": text(f"{heading}: {Path(result.bag).name}"),
        "heading": text(heading),
        "source": text(result.source.upper() if result.source != "unknown" else "SIMULATED OR RECORDED: NOT KNOWN"),
        "source_class": "simulated" if result.source == "simulated" else "recorded",
        "facts": _facts(result),
        "verdict": text(result.verdict),
        "explained": "".join(_explanation(*one) for one in explained(result.verdict)),
        "figures": "".join(_figure(figure) for figure in key_figures(result)),
        "spread": _spread(result),
        "band": '<li class="band">3 sigma</li>' if states_errors(result) else "",
        "metrics": metrics_tables(result.metrics),
        "worst": _worst_sentence(result, window),
        "worst_button": _button("worst-go", f"Go to the {window_name(window)}") if window else "",
        "cycle_button": _button("zoom-cycle", f"One {cycle}") if cycle else "",
        "chart_note": text(_chart_note(result, instants)),
        "sections": _sections(result.sections),
        "sensors": sensor_table(result.sensors),
        "notes": _notes(result),
        "command": text(result.command),
        "data": embedded(page_data(result, instants, window)),
        "script": script,
        "script_hash": _hash(script),
    }
    return filled_page(_TEMPLATE, fields, versions)


def _spread(result: EvaluationResult) -> str:
    """Entry of the picture's legend."""
    if not states_errors(result):
        return ""
    if result.drawing is not None and result.drawing.over_time:
        return '<li class="interval">95 % interval of the height</li>'
    return '<li class="ellipse">95 % ellipse of the position</li>'


def _facts(result: EvaluationResult) -> str:
    duration_s = float(result.time_s[-1] - result.time_s[0])
    estimates = f"{result.time_s.size} estimates in {quantity(duration_s, 's')}"
    truth = f"truth for {percent(result.matched_ratio)} of them"
    if not any(part.matched.any() for part in result.parts.values()):
        truth = "no truth: errors are unknown"
    return f"Bag <code>{text(result.bag)}</code>. {text(estimates)}, {text(truth)}."


def _explanation(words: str, meaning: str, section: str) -> str:
    place = section.split()[0].lower()
    return f'<li><b>{text(words)}</b>: {text(meaning)} <a href="#{place}">{text(section)}</a></li>\n'


def _figure(figure: KeyFigure) -> str:
    note = f"<small>{text(figure.note)}</small>" if figure.note else ""
    return f"<div><dt>{text(figure.label)}</dt><dd>{text(figure.value)}{note}</dd></div>\n"


def _sections(sections: Sequence[ReportSection]) -> str:
    """What the robot adds: its sentences, and a place for its charts."""
    blocks = []
    for number, (one, kept) in enumerate(zip(sections, section_instants(tuple(sections)), strict=True)):
        sentences = "".join(f"<li>{text(sentence)}</li>\n" for sentence in one.sentences)
        left_out = kept.size < one.time_s.size
        note = f'<p class="small">Shown: {kept.size} of {one.time_s.size} instants.</p>' if left_out else ""
        charts = f'<div class="charts" data-section="{number}"></div>\n'
        content = f"<ul>\n{sentences}</ul>\n{charts}{note}{pictures_html(one.pictures)}"
        blocks.append(section(one.title, content))
    return "".join(blocks)


def section(title: str, content: str) -> str:
    """A section of a page: its title as text, and finished HTML."""
    return f"<section>\n<h2>{text(title)}</h2>\n{content}</section>\n"


def pictures_html(pictures: Sequence[Picture]) -> str:
    """Figures that the page holds, with their captions."""
    return "".join(
        f'<figure class="picture"><img alt="{text(one.caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(one.png).decode()}"><figcaption>{text(one.caption)}</figcaption></figure>\n'
        for one in pictures
    )


def _notes(result: EvaluationResult) -> str:
    """Those that no section of the page says already."""
    said = {sentence for section in result.sections for sentence in section.sentences}
    items = "".join(f"<li>{text(note)}</li>\n" for note in result.notes if note not in said)
    return f"<ul>\n{items}</ul>" if items else "<p>None.</p>"


def _worst_sentence(result: EvaluationResult, window: Window | None) -> str:
    if window is None and any(part.matched.any() for part in result.parts.values()):
        return "No covariance: what the errors should be is not known."
    if window is None:
        return "No truth: the worst five seconds cannot be found."
    return text(
        f"The {window_name(window)}: {window.start_s:.2f} s to {window.end_s:.2f} s, RMS of the normalised error of "
        f"{words(window.part).lower()} {format_number(window.normalised_rms, 3)} (1 is what the filter claims)."
    )


def _button(identity: str, words: str) -> str:
    return f'<button id="{identity}" type="button">{text(words)}</button>'


def _chart_note(result: EvaluationResult, instants: NDArray[np.intp]) -> str:
    note = (
        f"{SIGMA_CAPTION} {CORRELATION_CAPTION}" if states_errors(result) else "Without a covariance there is no band."
    )
    if instants.size < result.time_s.size:
        note += (
            f" Shown: {instants.size} of {result.time_s.size} instants, those with the largest normalised error kept."
        )
    return note


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
    robot = drawing.estimate
    if not (known := np.isfinite(robot)).all():
        robot = robot[known.all(axis=(1, 2))]
    extent = np.array([np.ptp(robot[..., axis]) for axis in range(2)]) if robot.size else np.ones(2)
    path = float(extent[1] if drawing.over_time else extent.max())
    unit, factor = display_unit("m", 0.5 * path)
    ellipse = drawing.ellipse[instants]
    return {
        "axes": [printable(axis_label(label, unit)) for label in drawing.axes],
        "overTime": drawing.over_time,
        "factors": [1.0 if drawing.over_time else factor, factor],
        "closeUp": _close_up(drawing, robot, path),
        "ellipseScale": NORMAL_SCALE**2 if drawing.over_time else ELLIPSE_SCALE,
        "points": drawing.estimate.shape[1],
        "estimate": packed(drawing.estimate[instants]),
        "truth": packed(drawing.truth[instants]),
        "centre": packed(drawing.centre[instants]),
        "truthCentre": packed(drawing.truth[instants, -1] if drawing.over_time else truth_centre(drawing)[instants]),
        "ellipse": packed(np.stack((ellipse[:, 0, 0], ellipse[:, 0, 1], ellipse[:, 1, 1]), axis=1)),
    }


def _close_up(drawing: Drawing, robot: NDArray[np.float64], path: float) -> float:
    """Width of the close-up, metres: holds the middle of the robot (K, P, 2), where that is known, and nine ellipses in
    ten.
    """
    several = robot.size > 0 and robot.shape[1] > 1
    size = float(np.median(np.ptp(robot, axis=1).max(axis=1))) if several else 0.0
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


_LOSSES = ("late", "gated", "duplicates", "invalid", "out_of_range", "incomplete")
_COUNTED = {name: name.replace("_", " ") for name in ("received", "used", *_LOSSES)}
_SENSOR_COLUMNS = {**_COUNTED, "rate_hz": "rate (Hz)", "mean_nis": "mean NIS"}


def asset(name: str) -> str:
    """Text of a part of a page: template, style sheet or script. UserError where the installation lacks it."""
    return packaged_text(__package__, f"assets/{name}")


def filled_page(
    template: str, fields: Mapping[str, str], versions: Mapping[str, str], styles: Sequence[str] = (_STYLE,)
) -> str:
    """A template with its fields, in one pass, so that a name that looks like a placeholder stays a name.

    Parameters
    ----------
    versions
        Of what the page was made with, by name.
    styles
        Names of the style sheets.
    """
    style = "\n".join(map(asset, styles))
    made = f"Made with {', '.join(f'{name} {number}' for name, number in versions.items())}."
    every = {"versions": text(made), "style": style, "style_hash": _hash(style), **fields}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: every[found[1]], asset(template))


def _hash(content: str) -> str:
    """Of a style or script, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def text(value: str) -> str:
    """Text of unknown origin as HTML that shows it as it is."""
    return escape(printable(value))


Cell = str | tuple[str, str]
"""Finished HTML, alone or behind its cell's class."""


def lined_table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], numbers: Collection[int] = ()) -> str:
    """A table of finished cells; of the first column headings of their lines, of some numbers."""
    kinds = ["number" if column in numbers else "" for column in range(len(headings))]
    head = (f'<th scope="col" class="{kind}">{text(name)}</th>' for kind, name in zip(kinds, headings, strict=True))
    lines = []
    for first, *rest in rows:
        cells = (one if isinstance(one, tuple) else (kind, one) for kind, one in zip(kinds[1:], rest, strict=True))
        shown = "".join(f'<td class="{kind}">{cell}</td>' for kind, cell in cells)
        lines.append(f'<tr><th scope="row">{first}</th>{shown}</tr>\n')
    body = f"<thead><tr>{''.join(head)}</tr></thead><tbody>\n{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table>{body}</table></div>'


def report_table(table: ReportTable) -> str:
    """The lines of a report's table; its title is for the page."""
    rows = ([text(cell) for cell in row] for row in table.rows)
    return lined_table(table.headings, rows, [table.headings.index(heading) for heading in table.right])


def metrics_tables(metrics: Mapping[str, Any]) -> str:
    """Metrics of the top level as one table, and a table for each group of them, all folded."""
    groups: dict[tuple[str, ...], list[Sequence[Cell]]] = {}
    for path, value in leaves(metrics):
        label, shown, unit = shown_metric(path[-1], value, error_sizes(metrics[path[0]]))
        kind = "number list" if isinstance(value, (str, list, tuple, np.ndarray)) else "number"
        name = f'<span title="{text(path[-1])}">{text(label)}</span>'
        groups.setdefault(path[:-1], []).append((name, (kind, text(shown)), ("unit", text(unit))))
    blocks = [
        f"<details><summary>{text(' / '.join([words(path[0]), *path[1:]]) if path else 'Whole run')}</summary>"
        f"{lined_table(('metric', 'value', 'unit'), rows, (1,))}</details>"
        for path, rows in groups.items()
    ]
    return f'<div class="groups">{"".join(blocks)}</div>' if blocks else "<p>None.</p>"


def sensor_table(sensors: Mapping[str, Mapping[str, float]]) -> str:
    """What became of each sensor's readings, losses raised."""
    if not sensors:
        return "<p>No sensor statistics.</p>"
    # Rare counts take a column only where there is something to tell.
    others = dict.fromkeys(
        key for counts in sensors.values() for key, value in counts.items() if key not in _SENSOR_COLUMNS and value
    )
    columns = _SENSOR_COLUMNS | {key: words(key) for key in others}

    def cell(key: str, value: float) -> Cell:
        known = math.isfinite(value)
        kind = "number raised" if key in _LOSSES and known and value else "number"
        return kind, _sensor_number(float(value)) if known else "-"

    rows = [
        [text(name), *(cell(key, counts.get(key, math.nan)) for key in columns)] for name, counts in sensors.items()
    ]
    return lined_table(["sensor", *columns.values()], rows, range(1, 1 + len(columns)))


def _sensor_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else format_number(value)
