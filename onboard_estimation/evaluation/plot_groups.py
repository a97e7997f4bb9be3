"""Diagrams over time side by side, as a robot's section of the report has them, in one PNG file."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.capabilities.reported import Panel, PanelGroup
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.plot_frame import (
    BAND,
    INK,
    LEFT_IN,
    POINTS,
    RIGHT_IN,
    SERIES,
    STYLE,
    WIDTH_IN,
    plain,
    say,
)
from onboard_estimation.evaluation.views import panel_view
from onboard_estimation.measurement import Vector

Column = tuple[str, Vector, PanelGroup]
"""A group of panels to be drawn as a column: its heading, time (K,) s, the group."""


def write_groups(path: Path, title: str, columns: Sequence[Column]) -> None:
    """Draw groups of panels side by side into a PNG file.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with style.context(STYLE, after_reset=True):
            FigureCanvasAgg(groups_figure(title, columns)).print_png(path, metadata={"Software": None})
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def groups_figure(title: str, columns: Sequence[Column]) -> Figure:
    """One column a group, its panels below each other; rows of a height, so that columns can be compared."""
    rows = max(len(group.panels) for _, _, group in columns)
    width, height = max(WIDTH_IN, 4.6 * len(columns)), 1.35 + 1.75 * rows
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(
        left=LEFT_IN / width,
        right=1.0 - RIGHT_IN / width,
        top=1.0 - 0.85 / height,
        bottom=0.5 / height,
        hspace=0.25,
        wspace=0.25,
    )
    figure.text(0.12 / width, 1.0 - 0.12 / height, plain(title), va="top", size=12, weight="bold")
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for column, (heading, time_s, group) in enumerate(columns):
        # A legend stands above its panel, between it and the heading.
        pad = 18.0 if len(group.panels[0].lines) > 1 else None
        grid[0, column].set_title("\n".join(textwrap.wrap(plain(heading), 62)[:2]), size=8.5, loc="left", pad=pad)
        kept = np.unique(np.linspace(0, len(time_s) - 1, min(len(time_s), POINTS)).astype(np.intp))
        for row in range(rows):
            if row < len(group.panels):
                _draw_panel(grid[row, column], group.panels[row], time_s, kept)
            else:
                grid[row, column].set_axis_off()
        grid[len(group.panels) - 1, column].set_xlabel("time since the first estimate (s)")
    return figure


def _draw_panel(axes: Axes, panel: Panel, time_s: Vector, kept: NDArray[np.intp]) -> None:
    view = panel_view(panel, time_s)
    if panel.band is not None:
        band = panel.band[kept] * view.factor
        axes.fill_between(time_s[kept], -band, band, color=BAND, alpha=0.3, linewidth=0, label="3 sigma")
    for index, (name, values) in enumerate(panel.lines.items()):
        axes.plot(time_s[kept], values[kept] * view.factor, color=SERIES[index % len(SERIES)], label=plain(name))
    axes.axhline(0.0, color=INK, linewidth=0.5)
    axes.set_ylim(view.low, view.high)
    axes.set_ylabel(f"{plain(panel.label)} ({plain(view.unit)})")
    if len(panel.lines) > 1:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.95)}
        axes.legend(ncols=4, fontsize=7.0, handlelength=1.0, columnspacing=0.8, **place)
    if not any(np.isfinite(values).any() for values in panel.lines.values()):
        say(axes, "not known")
    elif view.off_scale:
        axes.text(0.995, 0.97, view.off_scale, transform=axes.transAxes, ha="right", va="top", size=7.5)
