"""Plots of a judged run as PNG files that are the same to the byte whenever the run is the same."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import erf

from onboard_estimation.capabilities.reported import PanelGroup
from onboard_estimation.evaluation.charts import (
    Chart,
    Charts,
    charts_of,
    consistency_charts,
    error_charts,
    judged_parts,
    section_charts,
)
from onboard_estimation.evaluation.plot_drawing import motion_figure, path_figure
from onboard_estimation.evaluation.plot_frame import (
    BAND,
    EVENTS,
    INK,
    SERIES,
    STYLE,
    WIDTH_IN,
    WORST,
    add_legend,
    panels_of,
    plain,
    say,
    write_figure,
)
from onboard_estimation.evaluation.presentation import SIGMA_CAPTION, words
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.views import (
    POINTS,
    Window,
    coverage,
    extremes,
    require_estimates,
    states_errors,
    thin,
    worst_window,
)
from onboard_estimation.measurement import Vector


def write_plots(result: EvaluationResult, folder: Path) -> list[Path]:
    """Write the plots of a run into `folder/plots` and return their paths.

    `errors_<part>.png` for each part, `nees.png` and `coverage.png` where there is a covariance, `path.png` or
    `motion.png` where the robot can be drawn, and
    `section_<title>.png` for what the robot adds. The files hold no date and no version.

    Raises
    ------
    UserError
        If the record holds no estimate.
    """
    paths = []
    for name, draw in _drawn(result).items():
        paths.append(folder / "plots" / f"{name}.png")
        write_figure(paths[-1], draw)
    return paths


def figures(result: EvaluationResult) -> dict[str, Figure]:
    """The plots of a run, by the names of their files without `.png`, see `write_plots`."""
    with style.context(STYLE, after_reset=True):
        return {name: draw() for name, draw in _drawn(result).items()}


def _drawn(result: EvaluationResult) -> dict[str, Callable[[], Figure]]:
    require_estimates(result)
    out: dict[str, Callable[[], Figure]] = {}
    for one in error_charts(result):
        out[f"errors_{_file_name(one.parts[0])}"] = partial(charts_figure, one.title, [one], result)
    if states_errors(result):
        nees = consistency_charts(result)
        out["nees"] = partial(charts_figure, nees.title, [nees], result)
        out["coverage"] = partial(_coverage_figure, result)
    if result.drawing is not None and result.drawing.over_time:
        out["motion"] = partial(motion_figure, result, result.drawing)
    elif result.drawing is not None:
        out["path"] = partial(path_figure, result, result.drawing, thin(result, POINTS))
    for section in result.sections:
        if columns := section_charts(section):
            name = f"section_{_file_name(section.title.lower())}"
            out[name] = partial(charts_figure, section.title, columns, result)
    return out


def charts_figure(title: str, columns: Sequence[Charts], result: EvaluationResult | None = None) -> Figure:
    """Each group of charts as a column; the result is that of which they are, for its provenance and events."""
    rows = max(max((len(one.charts) for one in columns), default=0), 1)
    alone = len(columns) == 1 and result is not None
    remarks = [f"{one.remark[:1].upper()}{one.remark[1:]}." for one in columns if one.remark]
    caption = [*remarks, *(sentence for one in columns for sentence in one.caption)]
    figure = Figure()
    width_in = max(WIDTH_IN, 4.6 * len(columns))
    provenance = "" if result is None else result.provenance
    top_in = 0.70 if alone else 0.95
    grid = panels_of(figure, title, provenance, caption, rows, 1.5, len(columns), 0.32, width_in, top_in)
    window = None if result is None else worst_window(result)
    for panels, group in zip(grid.T, columns, strict=True):
        if not alone:
            panels[0].set_title("\n".join(textwrap.wrap(plain(group.title), 62)[:2]), size=8.5, loc="left", pad=18.0)
        margin_s = 0.005 * float(group.time_s[-1] - group.time_s[0]) or 0.5
        for axes, chart, part in zip_longest(panels, group.charts, group.parts):
            if chart is None:
                axes.set_axis_off()
                continue
            if result is not None and alone:  # elsewhere there is no room for them
                _mark_times(axes, result, window if window is not None and window.part == part else None)
            _draw_chart(axes, chart, group.time_s)
            axes.set_xlim(group.time_s[0] - margin_s, group.time_s[-1] + margin_s)
            axes.tick_params(labelbottom=chart is group.charts[-1])
            if len(chart.panel.lines) > 1:
                place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.95)}
                axes.legend(ncols=4, fontsize=7.0, handlelength=1.0, columnspacing=0.8, **place)
        if group.charts:
            panels[len(group.charts) - 1].set_xlabel("time since the first estimate (s)")
            figure.align_ylabels(panels)
        else:
            say(panels[0], "no truth: nothing to judge")
        if alone and group.charts and len(group.charts[0].panel.lines) == 1:
            add_legend(figure, panels[0])
    return figure


def write_groups(path: Path, title: str, columns: Sequence[tuple[str, Vector, PanelGroup]]) -> None:
    """Draw groups of panels side by side into a PNG file, each with its heading and time (K,), s.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    charts = [Charts(heading, time_s, charts_of(group.panels, time_s)) for heading, time_s, group in columns]
    write_figure(path, partial(charts_figure, title, charts))


def _draw_chart(axes: Axes, chart: Chart, time_s: Vector) -> None:
    """Of long records what their lines look like: the lowest and highest of stretches."""
    panel = chart.panel
    if panel.interval is not None:
        axes.axhspan(*panel.interval, color=BAND, alpha=0.3, linewidth=0, label="95 % band")
        axes.set_yscale("log")
    else:
        axes.axhline(0.0, color=INK, linewidth=0.5)
    if panel.band is not None:
        kept = extremes(panel.band, POINTS)
        band = chart.factor * panel.band[kept]
        axes.fill_between(time_s[kept], -band, band, color=BAND, alpha=0.3, linewidth=0, label="3 sigma")
    marker = "." if len(time_s) < 3 else ""
    for index, (name, values) in enumerate(panel.lines.items()):
        kept = extremes(values, POINTS)
        look: dict[str, Any] = {"color": SERIES[index % len(SERIES)], "label": plain(name), "marker": marker}
        axes.plot(time_s[kept], chart.factor * values[kept], **look)
    axes.set_ylim(chart.low, chart.high)
    axes.set_ylabel(plain(chart.title))
    if chart.note == "not known":
        say(axes, chart.note)
    else:
        axes.text(0.005, 1.01, plain(chart.note), transform=axes.transAxes, va="bottom", size=7.5)


def _mark_times(axes: Axes, result: EvaluationResult, window: Window | None) -> None:
    """The worst seconds as a band, events as strips along the time axis."""
    if window is not None:
        label = f"worst {window.end_s - window.start_s:.3g} s"
        axes.axvspan(window.start_s, window.end_s, color=WORST, alpha=0.35, linewidth=0, label=label)
    for row, (name, spans) in enumerate(result.events.items()):
        if len(spans):
            axes.broken_barh(
                [(float(start), float(end - start)) for start, end in spans],
                (0.045 * row, 0.035),
                transform=axes.get_xaxis_transform(),
                color=EVENTS[row % len(EVENTS)],
                linewidth=0,
                label=plain(name),
            )


def _coverage_figure(result: EvaluationResult) -> Figure:
    """Share of the errors within k standard deviations for each part with truth, against that of a Gaussian."""
    figure = Figure()
    parts, left_out = judged_parts(result)
    sigmas: NDArray[np.float64] = np.linspace(0.0, 4.0, 161, dtype=np.float64)
    caption = [
        "Above the dashed line (a Gaussian) the filter is underconfident, below it overconfident.",
        "The whole record, its start included. " + SIGMA_CAPTION,
        "One run: its errors are correlated in time, so that its shares are themselves uncertain.",
        left_out,
    ]
    columns = min(max(len(parts), 1), 3)
    rows = -(-max(len(parts), 1) // columns)
    title = "Coverage of the standard deviations"
    grid = panels_of(figure, title, result.provenance, caption, rows, 2.9, columns, 0.75)
    for axes, part in zip(grid.flat, parts, strict=False):
        axes.plot(sigmas, erf(sigmas / np.sqrt(2.0)), color=INK, linestyle="--", linewidth=0.9, label="Gaussian")
        for index, share in enumerate(coverage(part, sigmas).T[: len(SERIES)]):
            axes.plot(sigmas, share, color=SERIES[index], label=plain(part.names[index]))
        axes.set(xlim=(0.0, 4.0), ylim=(0.0, 1.03), title=plain(words(part.name)))
        axes.set_xlabel("k (standard deviations)")
        axes.legend(loc="lower right")
    grid[0, 0].set_ylabel("share of errors within k sigma")
    for axes in list(grid.flat)[len(parts) :]:
        axes.set_axis_off()
    if not parts:
        say(grid[0, 0], "no truth: nothing to judge")
    return figure


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", part) or "part"
