"""The page of a campaign: figures over its runs with links to them, what differs between groups, the worst replayed.

The page loads nothing but the reports of the runs, which lie beside it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pandas as pd
from matplotlib.figure import Figure

from onboard_estimation.base.atomic_file import write_atomically
from onboard_estimation.base.errors import first_of
from onboard_estimation.base.measurement import Vector
from onboard_estimation.base.presentation import metric_label, shown_metric, words
from onboard_estimation.base.workers import software
from onboard_estimation.campaigns.campaign import AXES, REPORT, RESULTS, RUNS, Campaign, Row
from onboard_estimation.campaigns.summary import (
    DIFFERENCE_CAPTION,
    DIFFERENCE_HEADINGS,
    FIGURE_CAPTION,
    FIGURE_HEADINGS,
    Difference,
    Group,
    differences,
    differing_axes,
    errors_over_time,
    groups_of,
    headline_names,
    worst_runs,
)
from onboard_estimation.contract.result import Panel, Picture
from onboard_estimation.report.charts import Charts, charts_of
from onboard_estimation.report.page import filled_page, lined_table, pictures_html, section, text
from onboard_estimation.report.plots import INK, charts_figure, panels_of, plain, write_figure

_TEMPLATE, _STYLES = "campaign.html", ("page.css", "campaign.css")
_MOST_LISTED = 2000
_REPLAYED = 5
_UNSURE = 0.25
"""Mean NEES per degree of freedom below which an estimate is called too unsure: errors are less than half as stated."""
_LONGEST_NAME = 60
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
        "spreads": pictures_html(list(_spreads(groups, axes))),
        "courses": pictures_html(list(_courses(campaign, groups, axes))),
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
    kinds = ("recorded" if one == "recorded" else "simulated" for one in found)
    return "".join(f'<p class="source {kind}">{text(one.upper())}</p>' for kind, one in zip(kinds, found, strict=True))


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
    table = lined_table(DIFFERENCE_HEADINGS, rows, range(3, 8))
    return section("What differs", f'<p class="small">{text(DIFFERENCE_CAPTION)}</p>\n{table}\n')


def _spreads(groups: Sequence[Group], axes: Sequence[str]) -> Iterator[Picture]:
    """Of each figure every run as a dot in the row of its group."""
    for name in dict.fromkeys(one.name for group in groups for one in group.figures):
        part, _, leaf = name.partition(".")
        label, unit = metric_label(leaf)
        caption = f"{words(part)}: {label}{f' ({unit})' if unit else ''}"
        yield _picture(caption, partial(_spread, groups, axes, name))


def _spread(groups: Sequence[Group], axes: Sequence[str], name: str) -> Figure:
    drawn = Figure()
    panel = panels_of(drawn, "", "", (), 1, 0.2 + 0.4 * len(groups), top_in=0.1)[0, 0]
    for number, group in enumerate(groups):
        for one in (one for one in group.figures if one.name == name):
            panel.plot(one.values, [number] * len(one.values), "o", alpha=0.5)
            panel.plot([one.median], [number], "|", color=INK, markersize=14.0)
        panel.annotate(plain(_short(group.name(axes))), (0.0, number - 0.25), size=7.5)
    panel.set(xlim=(0.0, None), ylim=(len(groups) - 0.6, -0.6), yticks=[])
    return drawn


def _courses(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> Iterator[Picture]:
    """Of each part the magnitude of its error in the unit of its first dimension, a panel for each group."""
    gathered: dict[str, dict[str, tuple[str, list[pd.DataFrame]]]] = {}
    for group in groups:
        for part, found in errors_over_time(campaign.folder, group.rows).items():
            if any(run["error"].notna().any() for run in found[1]):
                gathered.setdefault(part, {})[_short(group.name(axes))] = found
    for part, by_group in gathered.items():
        every = (run["time_s"].to_numpy() for _, runs in by_group.values() for run in runs)
        longest = max(every, key=lambda one: float(one[-1]))
        panels = [_course(name, unit, pd.concat(runs), longest) for name, (unit, runs) in by_group.items()]
        charts = Charts("", longest, charts_of(panels, longest))
        yield _picture(f"{words(part)}: errors over time", partial(charts_figure, words(part), [charts]))


def _course(name: str, unit: str, runs: pd.DataFrame, time_s: Vector) -> Panel:
    """Over the runs the errors' median and ninth decile, and the median of the stated deviations, at times (K,)."""
    step_s = float(time_s[1] - time_s[0]) if len(time_s) > 1 else 1.0
    at = runs.groupby((runs["time_s"] / step_s).round())
    lines = {f"{name}: median": at["error"].median(), "nine of ten runs": at["error"].quantile(0.9)}
    lines["stated"] = at["stddev"].median()
    return Panel("error", unit, {label: one.reindex(range(len(time_s))).to_numpy() for label, one in lines.items()})


def _picture(caption: str, draw: Callable[[], Figure]) -> Picture:
    png = io.BytesIO()
    write_figure(png, draw)
    return Picture(png.getvalue(), caption)


def _short(name: str) -> str:
    """Its begin and its end, for groups may differ in either."""
    half = (_LONGEST_NAME - 5) // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]} ... {name[-half:]}"


def _worst(campaign: Campaign, groups: Sequence[Group]) -> str:
    rows = worst_runs(groups, _REPLAYED)
    if not rows:
        return ""
    blocks = ['<p class="small">Those whose errors are largest against the median of all runs.</p>\n']
    for row in rows:
        shown = ", ".join(f"{metric_label(one.partition('.')[2])[0]} {_amount(row, one)}" for one in row["headlines"])
        blocks.append(f"<h3>{_link(campaign, row, row['name'])}</h3>\n<p>{text(row['verdict'])}.</p>\n")
        blocks.append(f'<p class="small">{text(shown)}</p>\n')
        page = _page(campaign, row)
        if page.endswith(REPORT):
            blocks.append(f'<iframe loading="lazy" src="{text(page)}" title="{text(row["name"])}"></iframe>\n')
    return section(f"The worst {len(rows)} replayed", "".join(blocks))


def _amount(row: Row, name: str) -> str:
    _, value, unit = shown_metric(name.partition(".")[2], row.get("figures", {}).get(name), {})
    return f"{value} {unit}".strip()


def _failures(campaign: Campaign) -> str:
    if not campaign.failures:
        return ""
    rows = [(_link(campaign, row, row["name"]), text(row["reason"])) for row in campaign.failures[:_MOST_LISTED]]
    return section("Failed", lined_table(("run", "reason"), rows))


def _run_table(campaign: Campaign, rows: Sequence[Row]) -> str:
    axes = [axis for axis in AXES if any(row.get(axis) for row in rows)]
    names = headline_names(rows)
    headings = ["run", *axes, *(words(name.replace(".", "_")) for name in names), "verdict"]
    lines = []
    for row in rows:
        labels = (text(str(row.get(axis, ""))) for axis in axes)
        amounts = (text(_amount(row, name)) for name in names)
        lines.append([_link(campaign, row, "open"), *labels, *amounts, text(row.get("verdict") or row["reason"])])
    return lined_table(headings, lines, range(1 + len(axes), 1 + len(axes) + len(names)))
