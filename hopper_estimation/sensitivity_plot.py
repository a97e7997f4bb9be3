"""Picture of a sensitivity: how the cost follows each parameter, and which parameters matter most."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.evaluation.plot_frame import INK, SERIES, add_title, plain, write_figure
from onboard_estimation.learning.optimisation.sensitivity import Sensitivity

# Without its yellow and grey, which are hard to see on white; with the markers, each line is its own.
_COLOURS, _GREY = SERIES[:7], "#AAAAAA"
_MARKERS = "osD^vPX"
_LINEAR_PERCENT = 10.0
_DECADES = 1e5  # that the right picture shows below the largest


def write_sensitivity(result: Sensitivity, path: Path, title: str = "") -> None:
    """Write the picture as PNG, the same to the byte for the same result.

    Left: change of the cost over change of the parameter (the paper's figure 4); above the dotted lines the cost
    changes by more percents than the parameter. Right: each parameter's largest percent of the cost for a percent of
    the parameter, and the colours and marks of the left picture: the seven that matter most have one, the others are
    grey.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    write_figure(path, partial(_figure, result, title))


def _figure(result: Sensitivity, title: str) -> Figure:
    figure = Figure(figsize=(10.0, max(4.2, 1.2 + 0.24 * len(result.names))), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1.0))
    order = np.argsort(-np.nan_to_num(result.largest_ratios, nan=-1.0), kind="stable")
    _draw_curves(left, result, order)
    _draw_ratios(right, result, order)
    if title:
        add_title(figure, title)
    return figure


def _draw_curves(axes: Axes, result: Sensitivity, order: NDArray[np.intp]) -> None:
    changes = result.changes_percent
    finite = np.where(np.isfinite(result.cost_changes_percent), result.cost_changes_percent, np.nan)
    for rank, number in reversed(list(enumerate(order))):  # the most important last, on top
        named = rank < len(_COLOURS)
        axes.plot(
            changes,
            finite[number],
            color=_COLOURS[rank] if named else _GREY,
            marker=_MARKERS[rank] if named else None,
            markersize=4.0,
        )
    for slope in (1.0, -1.0):
        axes.plot(changes, slope * changes, color=INK, linestyle=":", linewidth=0.9)
    # Costs jump where a hop is missed: hundreds of percent beside fractions of one.
    if np.nanmax(np.abs(finite), initial=0.0) > 10.0 * max(np.abs(changes).max(), _LINEAR_PERCENT):
        axes.set_yscale("symlog", linthresh=_LINEAR_PERCENT)
    axes.set_xlabel("change of the parameter (%)")
    axes.set_ylabel("change of the cost (%)")
    axes.set_title("dotted: 1 % for 1 %", loc="left", size=8.5)


def _draw_ratios(axes: Axes, result: Sensitivity, order: NDArray[np.intp]) -> None:
    largest = result.largest_ratios[order]
    highest = max(float(np.nanmax(largest, initial=0.0)), 1.0)
    left, right = highest / _DECADES, 10.0 * highest
    for rank, value in enumerate(largest.tolist()):
        shown = left if np.isnan(value) else max(value, left)
        colour = _COLOURS[rank] if rank < len(_COLOURS) else _GREY
        axes.plot([left, shown], [rank, rank], color=colour)
        if shown > left:
            axes.plot(shown, rank, color=colour, marker=_MARKERS[rank] if rank < len(_MARKERS) else "|")
        axes.text(1.35 * shown, rank, "no value" if np.isnan(value) else f"{value:.3g}", va="center", size=7.5)
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    axes.axvline(1.0, color=INK, linestyle=":", linewidth=0.9)
    axes.set_yticks(np.arange(len(order)), [plain(result.names[number]) for number in order])
    axes.set_ylim(len(order) - 0.5, -0.5)  # the most important on top
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("% of the cost for 1 % of the parameter")
