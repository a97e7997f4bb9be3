"""What the plots of a run share: style, axes with title, provenance and caption, marks of times, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.evaluation.views import Window

# Okabe and Ito's palette: told apart with every common colour blindness, and by brightness in grey.
ESTIMATE, TRUTH, BAND, WORST, INK = "#0072B2", "#D55E00", "#56B4E9", "#F0E442", "#333333"
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
EVENTS = ("#999999", "#CC79A7", "#009E73")

POINTS = 6000
WIDTH_IN, LEFT_IN, RIGHT_IN = 8.0, 0.68, 0.15
DPI = 110.0
STYLE = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": DPI,
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


@contextmanager
def panels_of(
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
    lines = [line for sentence in caption if sentence for line in textwrap.wrap(plain(sentence), 145)]
    top, bottom, gap = 0.70, 0.55 + 0.16 * len(lines), 0.28 if columns == 1 else 0.75
    height = top + bottom + rows * row_height_in + (rows - 1) * gap
    figure.set_size_inches(WIDTH_IN, height)
    figure.subplots_adjust(
        left=LEFT_IN / WIDTH_IN,
        right=1.0 - RIGHT_IN / WIDTH_IN,
        top=1.0 - top / height,
        bottom=bottom / height,
        hspace=gap / row_height_in,
        wspace=0.22,
    )
    grid = figure.subplots(rows, columns, squeeze=False, sharex=columns == 1 and time_axis)
    panels = list(grid.flat)
    left = 0.12 / WIDTH_IN
    provenance = provenance_of(result)
    figure.text(left, 1.0 - 0.12 / height, plain(title), va="top", size=12, weight="bold")
    figure.text(
        left, 1.0 - 0.36 / height, plain(textwrap.shorten(provenance, 120, placeholder=" ...")), va="top", size=8.5
    )
    figure.text(left, 0.08 / height, "\n".join(lines), va="bottom", size=7.5, linespacing=1.25)
    yield panels
    if time_axis:
        span = result.time_s[-1] - result.time_s[0]
        margin = 0.005 * span if span > 0.0 else 0.5
        panels[-1].set_xlim(result.time_s[0] - margin, result.time_s[-1] + margin)
        panels[-1].set_xlabel("time since the first estimate (s)")
        figure.align_ylabels(panels)


def provenance_of(result: EvaluationResult) -> str:
    """What every figure says of itself: simulated or recorded, robot, estimator, bag."""
    return f"{result.source.upper()} data, {result.robot}, {result.estimator}, {Path(result.bag).name}"


def mark_times(axes: Axes, result: EvaluationResult, window: Window | None) -> None:
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
                label=plain(name),
            )


def add_legend(figure: Figure, axes: Axes, columns: int = 6) -> None:
    """One legend for the whole figure, above it, of what is drawn in `axes`."""
    handles, labels = axes.get_legend_handles_labels()
    top = 1.0 - 0.02 / figure.get_figheight()
    figure.legend(
        handles,
        labels,
        loc="upper right",
        bbox_to_anchor=(1.0, top),
        ncols=columns,
        handlelength=1.6 if columns <= 6 else 1.1,
        columnspacing=2.0 if columns <= 6 else 1.2,
    )


def say(axes: Axes, text: str) -> None:
    """Words in the middle of axes with nothing else in them."""
    background = {"facecolor": "white", "alpha": 0.85, "linewidth": 0}
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", size=10, bbox=background)


def plain(text: str) -> str:
    """Text that matplotlib prints as it is: `$` would start a formula, and a faulty formula is an error."""
    return printable(text).replace("$", r"\$")
