"""The page of a campaign: figures over its runs with links to them, what differs between groups, the worst replayed.

The page loads nothing but the reports of the runs, which lie beside it.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Sequence

import numpy as np

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.evaluation.campaign import REPORT, RESULTS, RUNS, Campaign, Row, figure
from onboard_estimation.evaluation.campaign_case import AXES, ERRORS
from onboard_estimation.evaluation.campaign_charts import Bundle, Dot, key, overlay, strips
from onboard_estimation.evaluation.campaign_lines import difference_lines, figure_lines
from onboard_estimation.evaluation.campaign_summary import (
    Difference,
    Group,
    differences,
    differing_axes,
    groups_of,
    headlines,
    worst_runs,
)
from onboard_estimation.evaluation.error_table import PartErrors, read_errors, thinning
from onboard_estimation.evaluation.presentation import format_number, metric_label, short_unit, words
from onboard_estimation.evaluation.report_tables import text
from onboard_estimation.measurement import Vector
from onboard_estimation.resources import packaged_text
from onboard_estimation.workers import software

_TEMPLATE, _STYLES = "campaign_template.html", ("report_template.css", "campaign_template.css")
_MOST_LISTED = 2000
_REPLAYED = 5
_UNSURE = 0.25
"""Mean NEES per degree of freedom below which an estimate is called too unsure."""
_NEES = (
    "NEES is the mean over the runs of the squared error over the stated variance, per degree of freedom: 1 is "
    "consistent, more is overconfident; in brackets its 95 % interval from the scatter between runs."
)

_OVERLAYS = (
    "Thick: the median of a group's errors at each instant. Thin: its runs, the largest error of each interval; where "
    "there are more than 60 lines, the range of the middle 80 % in their place. Dashed: the median of the stated "
    "standard deviations."
)


def write_campaign_report(campaign: Campaign, name: str) -> tuple[tuple[Group, ...], list[Difference]]:
    """Write `report.html` into the campaign's folder; gives the groups and differences that it shows.

    The same campaign gives the same file, to the byte.
    """
    groups, found = groups_of(campaign), list(differences(campaign))
    page = _render(campaign, name, groups, found)
    write_atomically(campaign.folder / REPORT, page.encode(), f"report of the campaign {campaign.folder}")
    return groups, found


def _render(campaign: Campaign, name: str, groups: Sequence[Group], found: Sequence[Difference]) -> str:
    style = "\n".join(packaged_text(__package__, part) for part in _STYLES)
    axes = differing_axes(groups)
    listed = sorted(campaign.rows, key=lambda row: row["status"] == "done")[:_MOST_LISTED]
    left_out = len(campaign.rows) - len(listed)
    fields = {
        "title": text(f"Campaign {name}"),
        "sources": _sources(groups),
        "facts": text(_facts(campaign, groups)),
        "verdict": text(_verdict(groups, axes)),
        "nees_caption": text(_NEES),
        "groups": _group_table(campaign, groups),
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
        "versions": text("Made with " + ", ".join(f"{key} {value}" for key, value in software().items()) + "."),
        "style": style,
        "style_hash": base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: fields[found[1]], packaged_text(__package__, _TEMPLATE))


def _sources(groups: Sequence[Group]) -> str:
    found = sorted({str(row["source"]) for group in groups for row in group.rows})
    kind = {"recorded": "recorded"}
    return "".join(f'<p class="source {kind.get(one, "simulated")}">{text(one.upper())}</p>' for one in found)


def _facts(campaign: Campaign, groups: Sequence[Group]) -> str:
    done = len(campaign.rows) - len(campaign.failures)
    failed = f", {len(campaign.failures)} failed" if campaign.failures else ""
    count = f"{len(groups)} groups" if len(groups) > 1 else "one group"
    return f"{done} runs done{failed}; {count} of runs that differ in recording and seed alone."


def _verdict(groups: Sequence[Group], axes: Sequence[str]) -> str:
    """Which parts are overconfident: surely, by the interval of the mean NEES, or by coverage."""
    faults = []
    for group in groups:
        for part, one in group.consistency.items():
            if one.interval[0] > 1.0 or one.within_3_sigma < 0.95:
                where = f" ({group.name(axes)})" if axes else ""
                faults.append(
                    f"{words(part).lower()}{where}: NEES {one.nees:.2f}, {one.within_3_sigma:.3f} within 3 sigma"
                )
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        return f"overconfident in {'; '.join(faults[:3])}{more}."
    if not any(group.consistency for group in groups):
        return "no run has a truth to compare with." if any(group.rows for group in groups) else "no run is done."
    parts = dict.fromkeys(
        words(part).lower() for group in groups for part, one in group.consistency.items() if one.interval[1] < _UNSURE
    )
    unsure = f"; errors are less than half of what is stated in {', '.join(parts)}" if parts else ""
    return f"no part is shown to be overconfident over the runs{unsure}."


def _page(campaign: Campaign, row: Row) -> str:
    """Where a run is looked at, relative to the campaign's page; its folder where it has no report."""
    place = f"{RUNS}/{row['name']}"
    return f"{place}/{REPORT}" if (campaign.folder / place / REPORT).is_file() else f"{place}/"


def _link(campaign: Campaign, row: Row, shown: str) -> str:
    return f'<a href="{text(_page(campaign, row))}" title="{text(row["name"])}">{text(shown)}</a>'


def _head(*headings: str, numbers: Sequence[str] = ()) -> str:
    cells = (
        f'<th scope="col"{" class=number" if heading in numbers else ""}>{text(heading)}</th>' for heading in headings
    )
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _group_table(campaign: Campaign, groups: Sequence[Group]) -> str:
    numbers = ("runs", "median", "worst", "NEES", "within 1 sigma", "within 3 sigma")
    lines = []
    for one in figure_lines(groups):
        cells = [f'<th scope="row">{text(one.group)}</th>', _number(text(one.runs)), _figure(one.figure, one.key)]
        cells += [
            _number(_link(campaign, one.of.middle, one.median)),
            _number(_link(campaign, one.of.worst, one.worst)),
        ]
        cells += [_number(text(shown)) for shown in one.consistency]
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    head = _head("group", "runs", "figure", *numbers[1:], numbers=numbers)
    return f"<table>{head}<tbody>\n{''.join(lines)}</tbody></table>"


def _figure(figure: str, key: str) -> str:
    return f'<td>{text(figure)} <span class="unit">{text(metric_label(key)[1])}</span></td>'


def _number(content: str) -> str:
    return f'<td class="number">{content}</td>'


def _difference_section(found: Sequence[Difference]) -> str:
    if not found:
        return ""
    numbers = ("pairs", "before", "after", "mean change")
    lines = []
    for one in difference_lines(found):
        cells = f'<th scope="row">{text(f"{one.axis}: {one.change}")}</th>{_figure(one.figure, one.key)}'
        cells += "".join(_number(text(cell)) for cell in one.numbers)
        lines.append(f"<tr>{cells}<td>{text(one.verdict)}</td></tr>\n")
    head = _head("from, to", "figure", *numbers, "", numbers=numbers)
    return (
        "<section>\n<h2>What differs</h2>\n"
        '<p class="small">Pairs of runs that are alike but for one label; in brackets the 95 % interval of the mean '
        "change (bootstrap). An interval on one side of zero is no chance.</p>\n"
        f'<div class="scroll"><table>{head}<tbody>\n{"".join(lines)}</tbody></table></div>\n</section>\n'
    )


def _names(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(one.name for group in groups for one in group.figures))


def _strips(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> Iterator[str]:
    for name in _names(groups):
        part, _, leaf = name.partition(".")
        label, unit = metric_label(leaf)
        rows = [
            (
                group.name(axes),
                number,
                [Dot(figure(row, name), row["name"], _page(campaign, row)) for row in group.rows],
            )
            for number, group in enumerate(groups)
        ]
        yield f"<h3>{text(words(part))}</h3>\n{strips(rows, f'{label} ({unit})' if unit else label)}\n"


def _overlays(campaign: Campaign, groups: Sequence[Group], axes: Sequence[str]) -> Iterator[str]:
    """Of each part the magnitude of its error in the unit of its first dimension."""
    gathered: dict[str, list[tuple[Bundle, str]]] = {}
    for number, group in enumerate(groups):
        parts: dict[str, list[tuple[Vector, PartErrors]]] = {}
        every = thinning(len(group.rows))
        for row in group.rows:
            time_s, errors, _ = read_errors(campaign.folder / RUNS / row["name"] / ERRORS, every)
            for part, one in errors.items():
                parts.setdefault(part, []).append((time_s, one))
        for part, runs in parts.items():
            gathered.setdefault(part, []).append((_bundle(group.name(axes), number, runs), runs[0][1].units[0]))
    if len(groups) > 1:
        keys = (f"<li>{key(number)}{text(group.name(axes))}</li>" for number, group in enumerate(groups))
        yield f'<ul class="keys">{"".join(keys)}</ul>\n'
    for part, found in gathered.items():
        bundles = [bundle for bundle, _ in found if np.isfinite(bundle.errors).any()]
        if bundles:
            yield f"<h3>{text(words(part))}</h3>\n{overlay(bundles, words(part), found[0][1])}\n"


def _bundle(name: str, colour: int, runs: Sequence[tuple[Vector, PartErrors]]) -> Bundle:
    longest = max((time_s for time_s, _ in runs), key=lambda time_s: float(time_s[-1]))
    step_s = float(longest[1] - longest[0]) if len(longest) > 1 else 1.0
    errors, claimed = (np.full((len(runs), len(longest)), np.nan) for _ in range(2))
    for number, (time_s, one) in enumerate(runs):
        alike = [unit == one.units[0] for unit in one.units]
        rows = np.minimum(np.round(time_s / step_s).astype(np.intp), len(longest) - 1)
        errors[number, rows] = np.linalg.norm(one.error[:, alike], axis=1)
        claimed[number, rows] = np.linalg.norm(one.stddev[:, alike], axis=1)
    known = np.isfinite(claimed).any(axis=0)
    middle = np.full(len(longest), np.nan)
    middle[known] = np.nanmedian(claimed[:, known], axis=0)
    return Bundle(name, colour, longest, errors, middle)


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
    leaf = name.partition(".")[2]
    value = figure(row, name)
    return f"{format_number(value, 3)} {short_unit(leaf)}".strip() if math.isfinite(value) else "unknown"


def _failures(campaign: Campaign) -> str:
    if not campaign.failures:
        return ""
    lines = "".join(
        f'<tr><th scope="row">{_link(campaign, row, row["name"])}</th><td>{text(row["reason"])}</td></tr>\n'
        for row in campaign.failures[:_MOST_LISTED]
    )
    return f"<section>\n<h2>Failed</h2>\n<table>{_head('run', 'reason')}<tbody>\n{lines}</tbody></table></section>\n"


def _run_table(campaign: Campaign, rows: Sequence[Row]) -> str:
    axes = [axis for axis in AXES if any(row.get(axis) for row in rows)]
    names = list(dict.fromkeys(name for row in rows for name in headlines(row)))
    head = _head("run", *axes, *(words(name.replace(".", "_")) for name in names), "verdict")
    lines = []
    for row in rows:
        labels = "".join(f"<td>{text(str(row.get(axis, '')))}</td>" for axis in axes)
        amounts = "".join(_number(text(_amount(row, name))) for name in names)
        said = row.get("verdict") or row["reason"]
        lines.append(
            f'<tr><th scope="row">{_link(campaign, row, "open")}</th>{labels}{amounts}<td>{text(said)}</td></tr>\n'
        )
    return f"<table>{head}<tbody>\n{''.join(lines)}</tbody></table>"
