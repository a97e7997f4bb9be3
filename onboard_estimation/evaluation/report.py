"""One self-contained HTML page per run: verdict, five figures, the picture with its time slider; everything else below.

The page loads nothing: style, script and numbers are in the file, and its content security policy forbids the rest.
Names that come from bags and configurations are escaped where they enter the page.
"""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation import installed
from onboard_estimation.capabilities.reported import ReportSection
from onboard_estimation.evaluation.key_figures import key_figures
from onboard_estimation.evaluation.presentation import CORRELATION_CAPTION, SIGMA_CAPTION, format_number, words
from onboard_estimation.evaluation.report_data import (
    embedded,
    instants_within_budget,
    page_data,
    section_instants,
    window_name,
)
from onboard_estimation.evaluation.report_tables import filled_page, metrics_tables, sensor_table, style_hash, text
from onboard_estimation.evaluation.result import EvaluationResult, KeyFigure
from onboard_estimation.evaluation.views import Window, require_estimates, states_errors, thin, worst_window
from onboard_estimation.resources import packaged_text

_TEMPLATE, _STYLE = "report_template.html", "report_template.css"
_SCRIPTS = ("report_numbers.js", "report_charts.js", "report_scene.js", "report_page.js")
LIBRARIES = ("onboard_estimation", "numpy", "scipy", "numba", "rosbags", "evo", "matplotlib")


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
    style = _part(_STYLE)
    script = "\n".join(['"use strict";', "(() => {", *map(_part, _SCRIPTS), "})();"])
    instants = thin(result, instants_within_budget(result))
    heading = f"{result.robot}, {result.estimator}"
    versions = {"Python": platform.python_version(), **installed.versions(LIBRARIES)}
    fields = {
        "title": text(f"{heading}: {Path(result.bag).name}"),
        "heading": text(heading),
        "source": text(result.source.upper() if result.source != "unknown" else "SIMULATED OR RECORDED: NOT KNOWN"),
        "source_class": "simulated" if result.source == "simulated" else "recorded",
        "facts": _facts(result),
        "verdict": text(result.verdict),
        "figures": "".join(_figure(figure) for figure in key_figures(result)),
        "spread": _spread(result),
        "band": '<li class="band">3 sigma</li>' if states_errors(result) else "",
        "metrics": metrics_tables(result.metrics),
        "worst": _worst_sentence(result, window),
        "worst_button": _worst_button(window),
        "cycle_button": _cycle_button(result),
        "chart_note": text(_chart_note(result, instants)),
        "sections": _sections(result.sections),
        "sensors": sensor_table(result.sensors),
        "notes": _list(_notes(result)),
        "command": text(result.command),
        "versions": text(f"Made with {', '.join(f'{name} {number}' for name, number in versions.items())}."),
        "data": embedded(page_data(result, instants, window)),
        "style": style,
        "style_hash": style_hash(style),
        "script": script,
        "script_hash": style_hash(script),
    }
    return filled_page(_TEMPLATE, fields)


def check_templates() -> None:
    """Raise UserError where a part of the page is not installed; to be asked before the work that the page tells of."""
    for name in (_TEMPLATE, _STYLE, *_SCRIPTS):
        _part(name)


def _part(name: str) -> str:
    return packaged_text(__package__, name)


def _spread(result: EvaluationResult) -> str:
    """Entry of the picture's legend."""
    if not states_errors(result):
        return ""
    if result.drawing is not None and result.drawing.over_time:
        return '<li class="interval">95 % interval of the height</li>'
    return '<li class="ellipse">95 % ellipse of the position</li>'


def _facts(result: EvaluationResult) -> str:
    duration = float(result.time_s[-1] - result.time_s[0])
    estimates = f"{result.time_s.size} estimates in {format_number(duration)} s"
    truth = f"truth for {format_number(100.0 * result.matched_ratio)} % of them"
    if not any(part.matched.any() for part in result.parts.values()):
        truth = "no truth: errors are unknown"
    return f"Bag <code>{text(result.bag)}</code>. {text(estimates)}, {text(truth)}."


def _figure(figure: KeyFigure) -> str:
    note = f"<small>{text(figure.note)}</small>" if figure.note else ""
    return f"<div><dt>{text(figure.label)}</dt><dd>{text(figure.value)}{note}</dd></div>\n"


def _sections(sections: Sequence[ReportSection]) -> str:
    """What the robot adds: its sentences, and a place for its charts."""
    blocks = []
    for number, (section, kept) in enumerate(zip(sections, section_instants(tuple(sections)), strict=True)):
        sentences = "".join(f"<li>{text(sentence)}</li>\n" for sentence in section.sentences)
        left_out = kept.size < section.time_s.size
        note = f'<p class="small">Shown: {kept.size} of {section.time_s.size} instants.</p>' if left_out else ""
        blocks.append(
            f"<section>\n<h2>{text(section.title)}</h2>\n<ul>\n{sentences}</ul>\n"
            f'<div class="charts" data-section="{number}"></div>\n{note}{_pictures(section)}</section>\n'
        )
    return "".join(blocks)


def _pictures(section: ReportSection) -> str:
    return "".join(
        f'<figure class="picture"><img alt="{text(one.caption)}" src="data:image/png;base64,'
        f'{base64.b64encode(one.png).decode()}"><figcaption>{text(one.caption)}</figcaption></figure>\n'
        for one in section.pictures
    )


def _notes(result: EvaluationResult) -> list[str]:
    """Those that no section of the page says already."""
    said = {sentence for section in result.sections for sentence in section.sentences}
    return [note for note in result.notes if note not in said]


def _list(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{text(note)}</li>\n" for note in notes)
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


def _worst_button(window: Window | None) -> str:
    return f'<button id="worst-go" type="button">Go to the {window_name(window)}</button>' if window else ""


def _cycle_button(result: EvaluationResult) -> str:
    if result.phases is None or not len(result.phases.cycles):
        return ""
    return f'<button id="zoom-cycle" type="button">One {text(result.phases.cycle)}</button>'


def _chart_note(result: EvaluationResult, instants: NDArray[np.intp]) -> str:
    note = (
        f"{SIGMA_CAPTION} {CORRELATION_CAPTION}" if states_errors(result) else "Without a covariance there is no band."
    )
    if instants.size < result.time_s.size:
        note += (
            f" Shown: {instants.size} of {result.time_s.size} instants, those with the largest normalised error kept."
        )
    return note
