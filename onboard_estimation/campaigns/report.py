"""The page of a campaign: figures over its runs with links to them, what differs between groups, the worst replayed.

The page loads nothing but the reports of the runs, which lie beside it.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import first_of
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import display_unit, format_number, metric_label, shown_metric, words
from onboard_estimation.base.workers import software
from onboard_estimation.campaigns.campaign import AXES, REPORT, RESULTS, RUNS, Campaign, PartErrors, Row, figure
from onboard_estimation.campaigns.summary import (
    DIFFERENCE_CAPTION,
    DIFFERENCE_HEADINGS,
    FIGURE_CAPTION,
    FIGURE_HEADINGS,
    Difference,
    Group,
    differences,
    differing_axes,
    errors_by_part,
    groups_of,
    headlines,
    worst_runs,
)
from onboard_estimation.report.page import filled_page, lined_table, text
from onboard_estimation.report.plots import SERIES, add_legend, panels_of, plain, write_figure

_TEMPLATE, _STYLES = "campaign.html", ("page.css", "campaign.css")
_MOST_LISTED = 2000
_MOST_LINES = 60
_REPLAYED = 5
_UNSURE = 0.25
"""Mean NEES per degree of freedom below which an estimate is called too unsure: errors are less than half as stated."""
_MOST_STATED = 3.0
"""Stated deviations, in largest errors, that a picture is made high enough for."""
_OVERLAYS = (
    "Thick: the median of a group's errors at each instant. Thin: its runs; where there are more than 60 lines, the "
    "range of the middle 80 % in their place. Dashed: the median of the stated standard deviations; what is too large "
    "for the picture stands beside the name."
)
# Strips of dots, in pixels of the drawing: the name of a group above its dots.
_WIDTH, _LEFT, _RIGHT, _ROW, _NAME, _AXIS = 900.0, 20.0, 20.0, 46.0, 14.0, 34.0
_LONGEST_NAME = 100
"""Characters that a drawing has room for."""


def write_campaign_report(campaign: Campaign, name: str) -> tuple[tuple[Group, ...], list[Difference]]:
    """Write `report.html` into the campaign's folder; gives the groups and differences that it shows.

    The same campaign gives the same file, to the byte.
    """
    groups, found = groups_of(campaign), list(differences(campaign))
    page = _render(campaign, name, groups, found)
    write_atomically(campaign.folder / REPORT, page.encode(), f"report of the campaign {campaign.folder}")
    return groups, found


def _render(campaign: Campaign, name: str, groups: Sequence[Group], found: Sequence[Difference]) -> str:
    axes = differing_axes(groups)
    listed = sorted(campaign.rows, key=lambda row: row["status"] == "done")[:_MOST_LISTED]
    left_out = len(campaign.rows) - len(listed)
    fields = {
        "title": text(f"Campaign {name}"),
        "sources": _sources(groups),
        "facts": text(_facts(campaign, groups, axes)),
        "verdict": text(_verdict(groups, axes)),
        "nees_caption": text(FIGURE_CAPTION),
        "groups": _group_table(campaign, groups, axes),
        "differences": _difference_section(found),
        "strips": "".join(_strips(campaign, groups, axes)),
        "overlay_caption": text(_OVERLAYS),
        "overlays": "".join(_overlays(campaign, groups, axes)),
        "worst": _worst(campaign, groups),
        "failures": _failures(campaign),
        "table_note": text(
            f"All figures of all runs: {RESULTS}." + (f" {left_out} runs are not listed here." if left_out else "")
        ),
        "run_count": text(f"{len(listed)} runs"),
        "runs": _run_table(campaign, listed),
    }
    return filled_page(_TEMPLATE, fields, software(), _STYLES)


def _sources(groups: Sequence[Group]) -> str:
    found = sorted({str(row["source"]) for group in groups for row in group.rows})
    kind = {"recorded": "recorded"}
    return "".join(f'<p class="source {kind.get(one, "simulated")}">{text(one.upper())}</p>' for one in found)


def _facts(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> str:
    done = len(campaign.rows) - len(campaign.failures)
    failed = f", {len(campaign.failures)} failed" if campaign.failures else ""
    count = f"{len(groups)} groups" if len(groups) > 1 else "one group"
    told = [f" {group.name(axes)}: {said}" for group in groups if (said := group.fault_sentence())]
    return f"{done} runs done{failed}; {count} of runs that differ in recording and seed alone.{''.join(told)}"


def _verdict(groups: Sequence[Group], axes: Sequence[str]) -> str:
    """Which parts are overconfident, and which too unsure: surely, by the interval of the mean NEES, or by coverage."""
    overconfident, unsure = [], []
    for group in groups:
        for part, one in group.consistency.items():
            where = f"{words(part).lower()}{f' ({group.name(axes)})' if axes else ''}: NEES {one.nees:.2f}"
            if one.interval[0] > 1.0 or one.within_3_sigma < 0.95:
                overconfident.append(f"{where}, {one.within_3_sigma:.3f} within 3 sigma")
            elif one.nees < _UNSURE and not one.interval[1] >= 1.0:
                unsure.append(f"{where}, {one.within_1_sigma:.3f} within 1 sigma")
    told = {"overconfident": overconfident, "too unsure": unsure}
    faults = [f"{word} in {first_of(found, 3, '; ', '; and {} more')}" for word, found in told.items() if found]
    if faults:
        return f"{'. '.join(fault[:1].upper() + fault[1:] for fault in faults)}."
    if not any(group.consistency for group in groups):
        return "no run has a truth to compare with." if any(group.rows for group in groups) else "no run is done."
    return "no part is shown to be overconfident or too unsure over the runs."


def _page(campaign: Campaign, row: Row) -> str:
    """Where a run is looked at, relative to the campaign's page; its folder where it has no report."""
    place = f"{RUNS}/{row['name']}"
    return f"{place}/{REPORT}" if (campaign.folder / place / REPORT).is_file() else f"{place}/"


def _link(campaign: Campaign, row: Row, shown: str) -> str:
    return f'<a href="{text(_page(campaign, row))}" title="{text(row["name"])}">{text(shown)}</a>'


def _group_table(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> str:
    rows = []
    for group in groups:
        for one, cells in group.lines(axes):
            name, label, unit, median, worst, *rest = cells
            links = (_link(campaign, one.middle, median), _link(campaign, one.worst, worst))
            rows.append((text(name), text(label), text(unit), *links, *map(text, rest)))
    return lined_table(FIGURE_HEADINGS, rows, range(3, 8))


def _difference_section(found: Sequence[Difference]) -> str:
    if not found:
        return ""
    rows = []
    for one in found:
        change, *rest = one.cells()
        rows.append([text(f"{one.axis.replace('_', ' ')}: {change}"), *map(text, rest)])
    return (
        "<section>\n<h2>What differs</h2>\n"
        f'<p class="small">{text(DIFFERENCE_CAPTION)}</p>\n'
        f"{lined_table(DIFFERENCE_HEADINGS, rows, range(3, 8))}\n</section>\n"
    )


def _strips(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> Iterator[str]:
    """Of each figure a row of dots for each group, each dot a run that it opens."""
    for name in dict.fromkeys(one.name for group in groups for one in group.figures):
        part, _, leaf = name.partition(".")
        label, unit = metric_label(leaf)
        label = f"{label} ({unit})" if unit else label
        values = np.array([figure(row, name) for group in groups for row in group.rows])
        top = float(np.nanmax(values, initial=0.0)) or 1.0

        def place(value: float, top: float = top) -> float:
            return _LEFT + (_WIDTH - _RIGHT - _LEFT) * value / (1.02 * top)

        height = _ROW * len(groups)
        out = [f'<svg viewBox="0 0 {_WIDTH:g} {height + _AXIS:g}" role="group" aria-label="{text(label)}">']
        for tick in MaxNLocator(6).tick_values(0.0, top):
            if 0.0 <= tick <= 1.02 * top:
                x = f"{place(tick):.1f}"
                out.append(f'<line class="rule" x1="{x}" x2="{x}" y1="0" y2="{height:g}"/>')
                out.append(f'<text class="faint" x="{x}" y="{height + 14:g}" text-anchor="middle">{tick:g}</text>')
        middle = 0.5 * (_LEFT + _WIDTH - _RIGHT)
        out.append(f'<text class="faint" x="{middle:g}" y="{height + 29:g}" text-anchor="middle">{text(label)}</text>')
        for number, group in enumerate(groups):
            y = _ROW * number + 0.5 * (_ROW + _NAME)
            called = f"{text(_short(group.name(axes)))}<title>{text(group.name(axes))}</title>"
            out.append(f'<text x="{_LEFT:g}" y="{_ROW * number + _NAME:g}">{called}</text>')
            known = [row for row in group.rows if math.isfinite(figure(row, name))]
            for index, row in enumerate(known):
                # A little up and down, so that equal ones are told apart; always the same.
                centre = y + (index * 0.618034 % 1.0 - 0.5) * 0.5 * (_ROW - _NAME)
                value = figure(row, name)
                said = f"<title>{text(row['name'])}: {format_number(value)}</title>"
                at = f'cx="{place(value):.1f}" cy="{centre:.1f}" r="4"'
                circle = f'<circle class="fill-{number % len(SERIES)}" {at}>{said}</circle>'
                out.append(f'<a href="{text(_page(campaign, row))}">{circle}</a>')
            if known:
                x = f"{place(float(np.median([figure(row, name) for row in known]))):.1f}"
                out.append(f'<line class="median" x1="{x}" x2="{x}" y1="{y - 13:g}" y2="{y + 13:g}"/>')
        yield f"<h3>{text(words(part))}</h3>\n{''.join(out)}</svg>\n"


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    """Its begin and its end, for groups may differ in either."""
    half = (most - 5) // 2
    return name if len(name) <= most else f"{name[:half]} ... {name[-half:]}"


class _Overlay(NamedTuple):
    """Errors of a group over time: its number and name; (K,) s; (N, K) magnitudes, a row a run; (K,) as claimed."""

    number: int
    name: str
    time_s: Vector
    errors: NDArray[np.float64]
    claimed: Vector


def _overlays(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> Iterator[str]:
    """Of each part the magnitude of its error in the unit of its first dimension, as a picture."""
    gathered: dict[str, list[tuple[_Overlay, str]]] = {}
    for number, group in enumerate(groups):
        for part, runs in errors_by_part(campaign.folder, group.rows).items():
            overlay = _overlay(number, group.name(axes), runs)
            if np.isfinite(overlay.errors).any():
                gathered.setdefault(part, []).append((overlay, runs[0][1].units[0]))
    for part, found in gathered.items():
        png = io.BytesIO()
        write_figure(png, partial(_overlay_figure, [overlay for overlay, _ in found], found[0][1]))
        source = base64.b64encode(png.getvalue()).decode()
        alt = f"Errors of {words(part).lower()} over time, by group"
        yield f'<h3>{text(words(part))}</h3>\n<img alt="{text(alt)}" src="data:image/png;base64,{source}">\n'


def _overlay(number: int, name: str, runs: Sequence[tuple[Vector, PartErrors]]) -> _Overlay:
    longest = max((time_s for time_s, _ in runs), key=lambda time_s: float(time_s[-1]))
    step_s = float(longest[1] - longest[0]) if len(longest) > 1 else 1.0
    errors, claimed = (np.full((len(runs), len(longest)), np.nan) for _ in range(2))
    for run, (time_s, one) in enumerate(runs):
        alike = [unit == one.units[0] for unit in one.units]
        rows = np.minimum(np.round(time_s / step_s).astype(np.intp), len(longest) - 1)
        errors[run, rows] = np.linalg.norm(one.error[:, alike], axis=1)
        claimed[run, rows] = np.linalg.norm(one.stddev[:, alike], axis=1)
    return _Overlay(number, name, longest, errors, _quantiles(claimed, 0.5)[0])


def _overlay_figure(overlays: Sequence[_Overlay], unit: str) -> Figure:
    largest = max(float(np.nanmax(one.errors)) for one in overlays)
    shown, factor = display_unit(unit, largest)
    stated = [float(np.nanmax(one.claimed, initial=0.0)) for one in overlays]
    top = 1.05 * max(largest, min(max(stated), _MOST_STATED * largest)) or 1.0
    beyond = [f" (stated: up to {format_number(factor * most, 3)} {shown})" if most > top else "" for most in stated]
    names = [_short(one.name, _LONGEST_NAME - len(far)) + far for one, far in zip(overlays, beyond, strict=True)]
    columns = max(1, min(6, _LONGEST_NAME // (max(map(len, names)) + 8)))
    figure = Figure()
    axes = panels_of(figure, "", "", (), 1, 2.2, top_in=0.2 + 0.17 * -(-len(names) // columns))[0, 0]
    singly = sum(len(one.errors) for one in overlays) <= _MOST_LINES
    for one, name in zip(overlays, names, strict=True):
        colour = SERIES[one.number % len(SERIES)]
        low, middle, high = factor * _quantiles(one.errors, 0.1, 0.5, 0.9)
        if singly:
            axes.plot(one.time_s, factor * one.errors.T, color=colour, linewidth=0.6, alpha=0.35)
        else:
            axes.fill_between(one.time_s, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(one.time_s, middle, color=colour, linewidth=1.8, label=plain(name))
        axes.plot(one.time_s, factor * one.claimed, color=colour, linestyle="--")
    axes.set(xlabel="time (s)", ylabel=f"error ({plain(shown)})", ylim=(0.0, factor * top))
    axes.ticklabel_format(axis="y", scilimits=(-2, 4))
    axes.margins(x=0.0)
    if len(overlays) > 1 or any(beyond):
        add_legend(figure, axes, columns)
    return figure


def _quantiles(rows: NDArray[np.float64], *shares: float) -> NDArray[np.float64]:
    """(Q, K) over the rows (N, K) that are known at each instant, NaN where none is."""
    known = np.isfinite(rows).any(axis=0)
    out = np.full((len(shares), rows.shape[1]), np.nan)
    if known.any():
        out[:, known] = np.nanquantile(rows[:, known], shares, axis=0)
    return out


def _worst(campaign: Campaign, groups: Sequence[Group]) -> str:
    rows = worst_runs(groups, _REPLAYED)
    if not rows:
        return ""
    blocks = []
    for row in rows:
        shown = ", ".join(f"{metric_label(name.partition('.')[2])[0]} {_amount(row, name)}" for name in headlines(row))
        blocks.append(f"<h3>{_link(campaign, row, row['name'])}</h3>\n<p>{text(row['verdict'])}.</p>\n")
        blocks.append(f'<p class="small">{text(shown)}</p>\n')
        page = _page(campaign, row)
        if page.endswith(REPORT):
            blocks.append(f'<iframe loading="lazy" src="{text(page)}" title="{text(row["name"])}"></iframe>\n')
    return (
        f"<section>\n<h2>The worst {len(rows)} replayed</h2>\n"
        '<p class="small">Those whose errors are largest against the median of all runs.</p>\n'
        f"{''.join(blocks)}</section>\n"
    )


def _amount(row: Row, name: str) -> str:
    _, value, unit = shown_metric(name.partition(".")[2], figure(row, name), {})
    return f"{value} {unit}".strip()


def _failures(campaign: Campaign) -> str:
    if not campaign.failures:
        return ""
    rows = [(_link(campaign, row, row["name"]), text(row["reason"])) for row in campaign.failures[:_MOST_LISTED]]
    return f"<section>\n<h2>Failed</h2>\n{lined_table(('run', 'reason'), rows)}</section>\n"


def _run_table(campaign: Campaign, rows: Sequence[Row]) -> str:
    axes = [axis for axis in AXES if any(row.get(axis) for row in rows)]
    names = list(dict.fromkeys(name for row in rows for name in headlines(row)))
    headings = ["run", *axes, *(words(name.replace(".", "_")) for name in names), "verdict"]
    lines = []
    for row in rows:
        labels = (text(str(row.get(axis, ""))) for axis in axes)
        amounts = (text(_amount(row, name)) for name in names)
        lines.append([_link(campaign, row, "open"), *labels, *amounts, text(row.get("verdict") or row["reason"])])
    return lined_table(headings, lines, range(1 + len(axes), 1 + len(axes) + len(names)))
