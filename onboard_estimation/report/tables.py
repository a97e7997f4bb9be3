"""HTML of reports: filled templates, and tables: every metric with its unit, what became of each sensor's readings."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np

from onboard_estimation.base.errors import printable
from onboard_estimation.base.installed import packaged_text
from onboard_estimation.base.presentation import format_number, format_value, metric_label, words

_SENSOR_COLUMNS = {
    "received": "received",
    "used": "used",
    "late": "late",
    "gated": "gated",
    "duplicates": "duplicates",
    "invalid": "invalid",
    "out_of_range": "out of range",
    "incomplete": "incomplete",
    "rate_hz": "rate (Hz)",
    "mean_nis": "mean NIS",
}
_LOSSES = ("late", "gated", "duplicates", "invalid", "out_of_range", "incomplete")


def asset(name: str) -> str:
    """Text of a part of a page: template, style sheet or script. UserError where the installation lacks it."""
    return packaged_text(__package__, f"assets/{name}")


def filled_page(template: str, fields: Mapping[str, str]) -> str:
    """A template with its fields, in one pass, so that a name that looks like a placeholder stays a name."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: fields[found[1]], asset(template))


def style_hash(content: str) -> str:
    """Of a style or script, as a content security policy names it."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def text(value: str) -> str:
    """Text of unknown origin as HTML that shows it as it is."""
    return escape(printable(value))


def table(head: Iterable[tuple[str, str]], rows: Iterable[str]) -> str:
    """A table of head cells (escaped text, class) and finished rows."""
    cells = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in head)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>\n{"".join(rows)}</tbody></table></div>'


def metrics_tables(metrics: Mapping[str, Any]) -> str:
    """Metrics of the top level as one table, and a table for each group of them below, all folded."""
    blocks = []
    if any(not isinstance(value, Mapping) for value in metrics.values()):
        blocks.append(f"<details><summary>Whole run</summary>{_metric_table(metrics)}</details>")
    groups = [_metric_group((key,), value) for key, value in metrics.items() if isinstance(value, Mapping)]
    if groups:
        blocks.append(f'<div class="groups">{"".join(groups)}</div>')
    return "\n".join(blocks) or "<p>None.</p>"


def _metric_group(path: tuple[str, ...], metrics: Mapping[str, Any]) -> str:
    leaves = [value for value in metrics.values() if not isinstance(value, Mapping)]
    name = text(words(path[0]) + "".join(f" / {key}" for key in path[1:]))
    below = [_metric_group((*path, key), value) for key, value in metrics.items() if isinstance(value, Mapping)]
    block = ""
    if leaves or not below:
        block = f"<details><summary>{name}</summary>{_metric_table(metrics)}</details>"
    return block + "".join(below)


def _metric_table(metrics: Mapping[str, Any]) -> str:
    rows = []
    for key, value in metrics.items():
        if isinstance(value, Mapping):
            continue
        label, unit = metric_label(key)
        kind = "number list" if isinstance(value, (str, list, tuple, np.ndarray)) else "number"
        rows.append(
            f'<tr><th scope="row" title="{text(key)}">{text(label)}</th>'
            f'<td class="{kind}">{text(format_value(value))}</td><td class="unit">{text(unit)}</td></tr>\n'
        )
    return table([("metric", ""), ("value", "number"), ("unit", "")], rows)


def sensor_table(sensors: Mapping[str, Mapping[str, float]]) -> str:
    """What became of each sensor's readings, losses raised."""
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
        rows.append(f'<tr><th scope="row">{text(name)}</th>{cells}</tr>\n')
    return table([("sensor", ""), *((text(name), "number") for name in columns.values())], rows)


def _sensor_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else format_number(value)
