"""Plots of a judged run as PNG files that are the same to the byte whenever the run is the same."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import erf

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.presentation import (
    CORRELATION_CAPTION,
    SIGMA_CAPTION,
    axis_label,
    display_unit,
    printable,
    words,
)
from onboard_estimation.evaluation.report import panel_view
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, PartResult
from onboard_estimation.evaluation.views import (
    ELLIPSE_SCALE,
    Window,
    coverage,
    extremes,
    require_estimates,
    thin,
    traces,
    truth_centre,
    worst_window,
)
from onboard_estimation.filtering.consistency import chi_square_band
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.robots import Panel, PanelGroup

# Okabe and Ito's palette: told apart with every common colour blindness, and by brightness in grey.
ESTIMATE, TRUTH, BAND, WORST, INK = "#0072B2", "#D55E00", "#56B4E9", "#F0E442", "#333333"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
EVENTS = ("#999999", "#CC79A7", "#009E73")

_POINTS = 6000
_WIDTH_IN, _LEFT_IN, _RIGHT_IN = 8.0, 0.68, 0.15
_DPI = 110.0
_STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": _DPI,
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


def write_plots(result: EvaluationResult, folder: Path) -> list[Path]:
    """Write the plots of a run into `folder/plots` and return their paths.

    `errors_<part>.png` for each part, `nees.png`, `coverage.png`, `path.png` where the robot can be drawn, and
    `section_<title>.png` for what the robot adds. The files hold no date and no version.

    Raises
    ------
    UserError
        If the record holds no estimate.
    """
    require_estimates(result)
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    instants = thin(result, _POINTS)
    window = worst_window(result)
    with style.context(_STYLE, after_reset=True):  # the user's own matplotlibrc must not change the files
        figures = {
            f"errors_{_file_name(part.name)}.png": _error_figure(result, part, window) for part in result.parts.values()
        }
        figures["nees.png"] = _nees_figure(result, window)
        figures["coverage.png"] = _coverage_figure(result)
        if result.drawing is not None:
            figures["path.png"] = _path_figure(result, result.drawing, instants)
        provenance = _provenance(result)
        for section in result.sections:
            columns = [(f"{group.title}: {provenance}", section.time_s, group) for group in section.groups]
            if columns:
                figures[f"section_{_file_name(section.title.lower())}.png"] = _groups_figure(section.title, columns)
        for name, figure in figures.items():
            FigureCanvasAgg(figure).print_png(plots / name, metadata={"Software": None})
    return [plots / name for name in figures]


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
        with style.context(_STYLE, after_reset=True):
            FigureCanvasAgg(_groups_figure(title, columns)).print_png(path, metadata={"Software": None})
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from error


def _groups_figure(title: str, columns: Sequence[Column]) -> Figure:
    """One column a group, its panels below each other; rows of a height, so that columns can be compared."""
    rows = max(len(group.panels) for _, _, group in columns)
    width, height = max(_WIDTH_IN, 4.6 * len(columns)), 1.35 + 1.75 * rows
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(
        left=_LEFT_IN / width,
        right=1.0 - _RIGHT_IN / width,
        top=1.0 - 0.85 / height,
        bottom=0.5 / height,
        hspace=0.25,
        wspace=0.25,
    )
    figure.text(0.12 / width, 1.0 - 0.12 / height, _plain(title), va="top", size=12, weight="bold")
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for column, (heading, time_s, group) in enumerate(columns):
        grid[0, column].set_title("\n".join(textwrap.wrap(_plain(heading), 62)[:2]), size=8.5, loc="left")
        kept = np.unique(np.linspace(0, len(time_s) - 1, min(len(time_s), _POINTS)).astype(np.intp))
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
        axes.plot(time_s[kept], values[kept] * view.factor, color=SERIES[index % len(SERIES)], label=_plain(name))
    axes.axhline(0.0, color=INK, linewidth=0.5)
    axes.set_ylim(view.low, view.high)
    axes.set_ylabel(f"{_plain(panel.label)} ({_plain(view.unit)})")
    if len(panel.lines) > 1:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 0.95)}
        axes.legend(ncols=4, fontsize=7.0, handlelength=1.0, columnspacing=0.8, **place)
    if not any(np.isfinite(values).any() for values in panel.lines.values()):
        _say(axes, "not known")
    elif view.off_scale:
        axes.text(0.995, 0.97, view.off_scale, transform=axes.transAxes, ha="right", va="top", size=7.5)


def _error_figure(result: EvaluationResult, part: PartResult, window: Window | None) -> Figure:
    """Error of each dimension of a part with the filter's 3-sigma band."""
    shown, left_out = traces(part, result.time_s)
    time_s = result.time_s
    title = f"{words(part.name)}: {'error' if part.matched.any() else 'standard deviation'}"
    caption = [_truth_sentence(part), SIGMA_CAPTION, left_out]
    caption += [note for note in result.notes if "truth" in note.lower() and "noise" in note.lower()]
    figure = Figure()
    with _panels(figure, result, title, caption, len(shown), 1.45) as panels:
        for axes, trace in zip(panels, shown, strict=True):
            _mark_times(axes, result, window if window and window.part == part.name else None)
            bounds, drawn = extremes(trace.stddev, _POINTS), extremes(trace.error, _POINTS)
            band = 3.0 * trace.stddev[bounds]
            axes.fill_between(time_s[bounds], -band, band, color=BAND, alpha=0.3, linewidth=0, label="3 sigma")
            marker = "." if time_s.size < 3 else ""
            axes.plot(time_s[drawn], trace.error[drawn], color=ESTIMATE, marker=marker, label="error")
            axes.axhline(0.0, color=INK, linewidth=0.5)
            axes.set_ylim(-trace.limit, trace.limit)
            axes.set_ylabel(f"{_plain(trace.name)} ({_plain(trace.unit)})")
            if not part.matched.any():
                _say(axes, "no truth for this part: error unknown")
            elif trace.off_scale:
                axes.text(
                    0.995, 0.97, _plain(trace.off_scale), transform=axes.transAxes, ha="right", va="top", size=7.5
                )
        _legend(figure, panels[0])
    return figure


def _nees_figure(result: EvaluationResult, window: Window | None) -> Figure:
    """NEES of each part with truth against the chi-square band of one instant."""
    figure = Figure()
    parts, caption = _judged(result)
    title = "Consistency: NEES"
    with _panels(figure, result, title, [CORRELATION_CAPTION, caption], max(len(parts), 1), 1.6) as panels:
        for axes, part in zip(panels, parts, strict=False):
            dimension = part.error.shape[1]
            low, high = chi_square_band(dimension)
            values = part.nees[np.isfinite(part.nees)]
            marker = "." if values.size < 3 else ""
            shown = np.where(part.nees > 0.0, part.nees, np.nan)
            drawn = extremes(shown, _POINTS)
            _mark_times(axes, result, window if window and window.part == part.name else None)
            axes.axhspan(low, high, color=BAND, alpha=0.3, linewidth=0, label="95 % chi-square band")
            axes.plot(result.time_s[drawn], shown[drawn], color=ESTIMATE, linewidth=0.8, marker=marker, label="NEES")
            axes.set_yscale("log")
            bottom = float(np.clip(np.quantile(values, 0.01), 0.05 * low, low))
            axes.set_ylim(0.7 * bottom, 1.4 * max(high, float(values.max())))
            axes.set_ylabel(_plain(words(part.name)))
            inside = 100.0 * float(np.mean((values >= low) & (values <= high)))
            summary = f"mean {values.mean():.3g} (expected {dimension}), {inside:.0f} % of the instants in the band"
            axes.text(0.995, 1.02, summary, transform=axes.transAxes, ha="right", va="bottom", size=7.5)
        _finish(figure, panels, len(parts))
    return figure


def _coverage_figure(result: EvaluationResult) -> Figure:
    """Share of the errors within k standard deviations for each part with truth, against that of a Gaussian."""
    figure = Figure()
    parts, left_out = _judged(result)
    sigmas: NDArray[np.float64] = np.linspace(0.0, 4.0, 161, dtype=np.float64)
    caption = [
        "Above the dashed line (a Gaussian) the filter is underconfident, below it overconfident.",
        "The whole record, its start included. " + SIGMA_CAPTION,
        "One run: its errors are correlated in time, so that its shares are themselves uncertain.",
        left_out,
    ]
    columns = min(max(len(parts), 1), 3)
    rows = -(-max(len(parts), 1) // columns)
    with _panels(figure, result, "Coverage of the standard deviations", caption, rows, 2.9, columns, False) as panels:
        for axes, part in zip(panels, parts, strict=False):
            axes.plot(sigmas, erf(sigmas / np.sqrt(2.0)), color=INK, linestyle="--", linewidth=0.9, label="Gaussian")
            for index, share in enumerate(coverage(part, sigmas).T[: len(SERIES)]):
                axes.plot(sigmas, share, color=SERIES[index], label=_plain(part.names[index]))
            axes.set(xlim=(0.0, 4.0), ylim=(0.0, 1.03), title=_plain(words(part.name)))
            axes.set_xlabel("k (standard deviations)")
            axes.legend(loc="lower right")
        panels[0].set_ylabel("share of errors within k sigma")
        _finish(figure, panels, len(parts), legend=False)
    return figure


def _path_figure(result: EvaluationResult, drawing: Drawing, instants: NDArray[np.intp]) -> Figure:
    """Path of the robot with the robot itself at a few instants, the truth, and 95 % ellipses."""
    trail, true_trail = drawing.centre[instants], truth_centre(drawing)[instants]
    drawn = _few_instants(drawing)
    robots = [points[drawn].reshape(-1, 2) for points in (drawing.estimate, drawing.truth)]
    low, high = _bounds(np.concatenate([trail, true_trail, *robots]))
    span = float(max((high - low).max(), 1e-3))
    unit, factor = display_unit("m", 0.5 * span)
    extent = np.maximum(high - low, 0.12 * span) + 0.12 * span
    box = np.array([_WIDTH_IN - _LEFT_IN - _RIGHT_IN, 0.0])
    box[1] = np.clip(box[0] * extent[1] / extent[0], 1.6, 6.0)
    half = 0.5 * box * (extent / box).max()  # both axes at one scale
    centre = 0.5 * (low + high)
    caption = ["Ellipses hold the estimated position with 95 % probability by the filter's own covariance."]
    if not np.isfinite(true_trail).any():
        caption.append("No truth for the path.")
    figure = Figure()
    with _panels(figure, result, "Path", caption, 1, float(box[1]), time_axis=False) as (axes,):
        axes.plot(*(true_trail * factor).T, color=TRUTH, linestyle="--", label="truth")
        axes.plot(*(trail * factor).T, color=ESTIMATE, label="estimate")
        for order, index in enumerate(drawn):
            look: dict[str, Any] = {"marker": "o", "markersize": 3.0, "alpha": 0.35 + 0.65 * (order + 1) / drawn.size}
            axes.plot(*(drawing.truth[index] * factor).T, color=TRUTH, linestyle="--", linewidth=1.8, **look)
            axes.plot(*(drawing.estimate[index] * factor).T, color=ESTIMATE, linewidth=1.8, **look)
            outline = _ellipse(drawing.centre[index], drawing.ellipse[index]) * factor
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
        axes.set_xlim(*(centre[0] + np.array([-1.0, 1.0]) * half[0]) * factor)
        axes.set_ylim(*(centre[1] + np.array([-1.0, 1.0]) * half[1]) * factor)
        axes.set_xlabel(_plain(axis_label(drawing.axes[0], unit)))
        axes.set_ylabel(_plain(axis_label(drawing.axes[1], unit)))
        _legend(figure, axes)
    return figure


def _few_instants(drawing: Drawing) -> NDArray[np.intp]:
    """Where the robot itself is drawn: start and end, and more where the path is long against the robot."""
    size = float(np.max(_extent(drawing.estimate[0])))
    path = float(np.max(_extent(drawing.centre)))
    count = 4 if size == 0.0 else int(np.clip(round(path / size), 2, 5))
    return np.unique(np.linspace(0, len(drawing.centre) - 1, count).astype(np.intp))


def _extent(points: Matrix) -> Matrix:
    low, high = _bounds(points)
    return high - low


def _bounds(points: Matrix) -> tuple[Matrix, Matrix]:
    """Smallest and largest coordinates of the finite points; zeros if there are none."""
    finite = points[np.isfinite(points).all(axis=1)]
    return (finite.min(axis=0), finite.max(axis=0)) if finite.size else (np.zeros(2), np.zeros(2))


def _ellipse(centre: Matrix, covariance: Matrix, points: int = 73) -> Matrix:
    """(points, 2) outline of the 95 % ellipse of a 2-D Gaussian; NaN where it is not known."""
    if not (np.isfinite(covariance).all() and np.isfinite(centre).all()):
        return np.full((points, 2), np.nan)
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, points)
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    return centre + circle * np.sqrt(ELLIPSE_SCALE * np.maximum(values, 0.0)) @ vectors.T


@contextmanager
def _panels(
    figure: Figure,
    result: EvaluationResult,
    title: str,
    caption: list[str],
    rows: int,
    row_height_in: float,
    columns: int = 1,
    time_axis: bool = True,
) -> Iterator[list[Axes]]:
    """Axes with title, provenance and caption, placed in inches because a layout engine takes 0.1 s a figure."""
    lines = [line for sentence in caption if sentence for line in textwrap.wrap(_plain(sentence), 145)]
    top, bottom, gap = 0.70, 0.55 + 0.16 * len(lines), 0.28 if columns == 1 else 0.75
    height = top + bottom + rows * row_height_in + (rows - 1) * gap
    figure.set_size_inches(_WIDTH_IN, height)
    figure.subplots_adjust(
        left=_LEFT_IN / _WIDTH_IN,
        right=1.0 - _RIGHT_IN / _WIDTH_IN,
        top=1.0 - top / height,
        bottom=bottom / height,
        hspace=gap / row_height_in,
        wspace=0.22,
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=columns == 1)
    panels = list(grid.flat)
    left = 0.12 / _WIDTH_IN
    provenance = _provenance(result)
    figure.text(left, 1.0 - 0.12 / height, _plain(title), va="top", size=12, weight="bold")
    figure.text(
        left, 1.0 - 0.36 / height, _plain(textwrap.shorten(provenance, 120, placeholder=" ...")), va="top", size=8.5
    )
    figure.text(left, 0.08 / height, "\n".join(lines), va="bottom", size=7.5, linespacing=1.25)
    yield panels
    if time_axis:
        span = result.time_s[-1] - result.time_s[0]
        margin = 0.005 * span if span > 0.0 else 0.5
        panels[-1].set_xlim(result.time_s[0] - margin, result.time_s[-1] + margin)
        panels[-1].set_xlabel("time since the first estimate (s)")
        figure.align_ylabels(panels)


def _provenance(result: EvaluationResult) -> str:
    return f"{result.source.upper()} data, {result.robot}, {result.estimator}, {Path(result.bag).name}"


def _mark_times(axes: Axes, result: EvaluationResult, window: Window | None) -> None:
    """The worst seconds as a band, events as strips along the time axis."""
    if window is not None:
        label = f"worst {window.end_s - window.start_s:.3g} s"
        axes.axvspan(window.start_s, window.end_s, color=WORST, alpha=0.35, linewidth=0, label=label)
    for row, (name, spans) in enumerate(result.events.items()):
        if len(spans):
            pieces = [(float(start), float(end - start)) for start, end in spans]
            axes.broken_barh(
                pieces,
                (0.045 * row, 0.035),
                transform=axes.get_xaxis_transform(),
                color=EVENTS[row % len(EVENTS)],
                linewidth=0,
                label=_plain(name),
            )


def _truth_sentence(part: PartResult) -> str:
    if not part.matched.any():
        return "No truth for this part: only the filter's own standard deviations are shown."
    convention = f"Error: estimate minus truth{', ' + part.convention if part.convention else ''}."
    share = part.matched.mean()
    return convention if share == 1.0 else f"{convention} Truth for {100.0 * share:.1f} % of the estimates."


def _judged(result: EvaluationResult) -> tuple[list[PartResult], str]:
    """Parts with a NEES, and a sentence that names the others (empty if none)."""
    judged = [part for part in result.parts.values() if np.isfinite(part.nees).any()]
    others = [words(part.name).lower() for part in result.parts.values() if not np.isfinite(part.nees).any()]
    return judged, f"Without truth and not shown: {', '.join(others)}." if others else ""


def _finish(figure: Figure, panels: list[Axes], used: int, legend: bool = True) -> None:
    """Hide panels that nothing was drawn in; a figure without any says why."""
    for axes in panels[used:]:
        axes.set_axis_off()
    if not used:
        _say(panels[0], "no truth: nothing to judge")
    elif legend:
        _legend(figure, panels[0])


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    top = 1.0 - 0.02 / figure.get_figheight()
    figure.legend(handles, labels, loc="upper right", bbox_to_anchor=(1.0, top), ncols=6, handlelength=1.6)


def _say(axes: Axes, text: str) -> None:
    background = {"facecolor": "white", "alpha": 0.85, "linewidth": 0}
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", size=10, bbox=background)


def _plain(text: str) -> str:
    """Text that matplotlib prints as it is: `$` would start a formula, and a faulty formula is an error."""
    return printable(text).replace("$", r"\$")


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", part) or "part"
