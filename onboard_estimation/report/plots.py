"""Plots of a judged run as PNG files that are the same to the byte whenever the run is the same."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import erf

from onboard_estimation.base.errors import UserError, printable
from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.presentation import SIGMA_CAPTION, axis_label, display_unit, words
from onboard_estimation.contract.picture import BAND_COLOUR, ESTIMATE_COLOUR, NORMAL_SCALE, TRUTH_COLOUR, ellipse
from onboard_estimation.contract.result import FAULT, Drawing, EvaluationResult, PanelGroup, Phases
from onboard_estimation.report.charts import (
    POINTS,
    Chart,
    Charts,
    Window,
    charts_of,
    consistency_charts,
    coverage,
    error_charts,
    extremes,
    judged_parts,
    section_charts,
    states_errors,
    thin,
    truth_centre,
    worst_window,
)

# What plots share: style and colours, writing a file, axes with title, provenance and caption, legends.

# Okabe and Ito's palette: told apart with every common colour blindness, and by brightness in grey.
ESTIMATE, TRUTH, BAND, WORST, INK = ESTIMATE_COLOUR, TRUTH_COLOUR, BAND_COLOUR, "#F0E442", "#333333"
SERIES = (ESTIMATE, TRUTH, "#009E73", "#CC79A7", "#E69F00", BAND, "#000000", "#999999")
EVENTS = ("#999999", "#CC79A7", "#009E73")

WIDTH_IN, LEFT_IN, RIGHT_IN = 8.0, 0.68, 0.15
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 110.0,
    "font.size": 9.0,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.1,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def write_figure(file: Path | IO[bytes], draw: Callable[[], Figure]) -> None:
    """Draw a figure in this style into a PNG file, the same to the byte whenever the figure is.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    with style.context(STYLE, after_reset=True):  # the user's own matplotlibrc must not change the file
        figure = draw()
        try:
            if isinstance(file, Path):
                file.parent.mkdir(parents=True, exist_ok=True)
            FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
        except OSError as error:
            raise UserError(f"cannot write {file}: {error.strerror or error}") from error


def panels_of(
    figure: Figure,
    title: str,
    provenance: str,
    caption: Sequence[str],
    rows: int,
    row_height_in: float,
    columns: int = 1,
    gap_in: float = 0.28,
    width_in: float = WIDTH_IN,
    top_in: float = 0.70,
) -> Any:
    """(rows, columns) axes below title and provenance, placed in inches: a layout engine takes 0.1 s a figure."""
    lines = [line for sentence in caption if sentence for line in textwrap.wrap(plain(sentence), 145)]
    bottom = 0.55 + 0.16 * len(lines)
    height = top_in + bottom + rows * row_height_in + (rows - 1) * gap_in
    figure.set_size_inches(width_in, height)
    figure.subplots_adjust(
        left=LEFT_IN / width_in,
        right=1.0 - RIGHT_IN / width_in,
        top=1.0 - top_in / height,
        bottom=bottom / height,
        hspace=gap_in / row_height_in,
        wspace=0.24,
    )
    left = 0.12 / width_in
    figure.text(left, 1.0 - 0.12 / height, plain(title), va="top", size=12, weight="bold")
    shortened = plain(textwrap.shorten(provenance, 120, placeholder=" ..."))
    figure.text(left, 1.0 - 0.36 / height, shortened, va="top", size=8.5)
    figure.text(left, 0.08 / height, "\n".join(lines), va="bottom", size=7.5, linespacing=1.25)
    return figure.subplots(rows, columns, squeeze=False)


def add_legend(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend for the whole figure, above it, of what is drawn in `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="upper right",
        bbox_to_anchor=(1.0, 1.0 - 0.02 / figure.get_figheight()),
        ncols=columns,
        handlelength=1.6 if columns <= 6 else 1.1,
        columnspacing=2.0 if columns <= 6 else 1.2,
    )


def add_title(figure: Figure, title: str) -> None:
    """A sentence above a figure that a layout engine arranges."""
    figure.suptitle(plain(title), size=9.5, x=0.01, ha="left")


def say(axes: Axes, text: str) -> None:
    """Words in the middle of axes with nothing else in them."""
    background = {"facecolor": "white", "alpha": 0.85, "linewidth": 0}
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", size=10, bbox=background)


def plain(text: str) -> str:
    """Text that matplotlib prints as it is: `$` would start a formula, and a faulty formula is an error."""
    return printable(text).replace("$", r"\$")


# As in the report, in the order of the cycle.
PHASE_COLOURS = ("#8a94a3", "#d55e00", "#c79a00", "#3a91cc", "#b36a99", "#00805d")


def write_plots(result: EvaluationResult, folder: Path) -> list[Path]:
    """Write the plots of a run into `folder/plots` and return their paths.

    `errors_<part>.png` for each part, `nees.png` and `coverage.png` where there is a covariance, `path.png` or
    `motion.png` where the robot can be drawn, and
    `section_<title>.png` for what the robot adds. The files hold no date and no version.
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
    out: dict[str, Callable[[], Figure]] = {}
    window = worst_window(result)
    for one in error_charts(result):
        out[f"errors_{_file_name(one.parts[0])}"] = partial(charts_figure, one.title, [one], result, window)
    if states_errors(result):
        nees = consistency_charts(result)
        out["nees"] = partial(charts_figure, nees.title, [nees], result, window)
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


def charts_figure(
    title: str, columns: Sequence[Charts], result: EvaluationResult | None = None, window: Window | None = None
) -> Figure:
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
            since = "" if result is None else " since the first estimate"
            panels[len(group.charts) - 1].set_xlabel(f"time{since} (s)")
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
        for start in spans[:, 0] if name == FAULT else ():
            axes.axvline(float(start), color=EVENTS[row % len(EVENTS)], linewidth=1.0)
        if len(spans):
            axes.broken_barh(
                [(float(start), float(end - start)) for start, end in spans],
                (0.045 * row, 0.035),
                transform=axes.get_xaxis_transform(),
                color=EVENTS[row % len(EVENTS)],
                linewidth=0,
                label=plain(name),
            )


def motion_figure(result: EvaluationResult, drawing: Drawing) -> Figure:
    """Height over time with the phases by name: the whole run, and the cycle in the middle of it."""
    spans = [(float(result.time_s[0]), float(result.time_s[-1]))]
    cycles = result.phases.cycles if result.phases is not None else np.zeros((0, 2))
    if len(cycles):
        spans.append((float(cycles[len(cycles) // 2, 0]), float(cycles[len(cycles) // 2, 1])))
    caption = ["Band: 95 % by the filter's own standard deviation."]
    figure = Figure()
    panels = panels_of(figure, "Motion", result.provenance, caption, len(spans), 2.3)[:, 0]
    for axes, (start_s, end_s) in zip(panels, spans, strict=True):
        _draw_motion(axes, result, drawing, start_s, end_s)
        axes.set_ylabel(plain(drawing.axes[1]))
    panels[-1].set_xlabel("time since the first estimate (s)")
    add_legend(figure, panels[0], columns=8)
    return figure


def _draw_motion(axes: Axes, result: EvaluationResult, drawing: Drawing, start_s: float, end_s: float) -> None:
    inside = np.flatnonzero((result.time_s >= start_s) & (result.time_s <= end_s))
    kept = inside[extremes(drawing.centre[inside, 1], POINTS)]
    time_s, height = result.time_s[kept], drawing.centre[kept, 1]
    reach = NORMAL_SCALE * np.sqrt(np.maximum(drawing.ellipse[kept, 1, 1], 0.0))
    axes.fill_between(time_s, height - reach, height + reach, color=BAND, alpha=0.4, linewidth=0)
    axes.plot(time_s, drawing.truth[kept, -1, 1], color=TRUTH, linestyle="--", label="truth")
    axes.plot(time_s, height, color=ESTIMATE, label="estimate")
    axes.set_xlim(start_s, end_s if end_s > start_s else start_s + 1.0)
    if result.phases is not None:
        _shade(axes, result.phases)


def _shade(axes: Axes, phases: Phases) -> None:
    low, high = axes.get_xlim()
    for number, (name, spans) in enumerate(phases.spans.items()):
        if not len(spans):
            continue
        starts, ends = np.clip(spans.T, low, high)
        colour, place = PHASE_COLOURS[number % len(PHASE_COLOURS)], axes.get_xaxis_transform()
        look: dict[str, Any] = {"color": colour, "alpha": 0.25, "linewidth": 0, "label": plain(name)}
        axes.broken_barh(np.column_stack([starts, ends - starts]).tolist(), (0.0, 1.0), transform=place, **look)
    axes.set_xlim(low, high)


def path_figure(result: EvaluationResult, drawing: Drawing, instants: NDArray[np.intp]) -> Figure:
    """Path of the robot with the robot itself at a few instants, the truth, and 95 % ellipses."""
    trail, true_trail = drawing.centre[instants], truth_centre(drawing)[instants]
    drawn = _few_instants(drawing)
    shown = [trail, true_trail, *(points[drawn].reshape(-1, 2) for points in (drawing.estimate, drawing.truth))]
    extent = _extent(np.concatenate(shown))
    unit, factor = display_unit("m", 0.5 * float(max(extent.max(), 1e-3)))
    # As high as the path is against its width; both axes have one scale.
    height_in = float(np.clip(WIDTH_IN * (extent[1] + 1e-3) / (extent[0] + 1e-3), 1.6, 6.0))
    stated = bool(np.isfinite(drawing.ellipse).any())
    ellipses = "Ellipses hold the estimated position with 95 % probability by the filter's own covariance."
    caption = [ellipses if stated else "No covariance."]
    if not np.isfinite(true_trail).any():
        caption.append("No truth for the path.")
    figure = Figure()
    axes = panels_of(figure, "Path", result.provenance, caption, 1, height_in)[0, 0]
    axes.plot(*(true_trail * factor).T, color=TRUTH, linestyle="--", label="truth")
    axes.plot(*(trail * factor).T, color=ESTIMATE, label="estimate")
    for order, index in enumerate(drawn):
        look: dict[str, Any] = {"marker": "o", "markersize": 3.0, "alpha": 0.35 + 0.65 * (order + 1) / drawn.size}
        axes.plot(*(drawing.truth[index] * factor).T, color=TRUTH, linestyle="--", linewidth=1.8, **look)
        axes.plot(*(drawing.estimate[index] * factor).T, color=ESTIMATE, linewidth=1.8, **look)
        # Where it is not known, the time stands beside the point.
        known = stated and bool(np.isfinite(drawing.ellipse[index]).all())
        outline = factor * ellipse(drawing.centre[index], drawing.ellipse[index] if known else np.zeros((2, 2)), 73)
        if known:
            axes.plot(*outline.T, color=INK, linewidth=0.8, label="95 % ellipse" if order == 0 else None)
        if np.isfinite(drawing.centre[index]).all():
            axes.annotate(
                f"{result.time_s[index]:.0f} s",
                outline[np.argmax(outline[:, 1])],
                xytext=(0.0, 6.0),
                textcoords="offset points",
                ha="center",
                size=8,
                bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.8},
            )
    axes.margins(0.06)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel(plain(axis_label(drawing.axes[0], unit)))
    axes.set_ylabel(plain(axis_label(drawing.axes[1], unit)))
    add_legend(figure, axes)
    return figure


def _few_instants(drawing: Drawing) -> NDArray[np.intp]:
    """Where the robot itself is drawn: start and end, and more where the path is long against the robot."""
    size = float(_extent(drawing.estimate[0]).max())
    path = float(_extent(drawing.centre).max())
    count = 4 if size == 0.0 else int(np.clip(round(path / size), 2, 5))
    return np.unique(np.linspace(0, len(drawing.centre) - 1, count).astype(np.intp))


def _extent(points: Matrix) -> Vector:
    """Of the finite points along both axes; zeros if there are none."""
    finite = points[np.isfinite(points).all(axis=1)]
    return np.ptp(finite, axis=0) if finite.size else np.zeros(2)


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
