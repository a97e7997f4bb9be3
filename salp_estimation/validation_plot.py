"""Picture of a validation: measured and predicted rates over a gait's cycle, one row a recording (paper, figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.evaluation.plot_frame import INK, SERIES, add_title, plain, write_figure
from salp_estimation.validation import Signal, Validation

_ROWS = 8
_PANELS = ("base, speed", "base and joints, rates", "gyros")


def write_validation(validations: Sequence[Validation], path: Path, source: str) -> None:
    """Write the picture as PNG; of more than eight recordings the first eight.

    Parameters
    ----------
    source
        `simulated` or `recorded`, for the title.
    """
    write_figure(path, partial(_figure, validations, source))


def _figure(validations: Sequence[Validation], source: str) -> Figure:
    shown = validations[:_ROWS]
    figure = Figure(figsize=(11.0, 0.9 + 2.5 * len(shown)), dpi=110.0, layout="constrained")
    grid = figure.subplots(len(shown), len(_PANELS), squeeze=False, sharex=True)
    for row, validation in zip(grid, shown, strict=True):
        for axes, signals, title in zip(row, _panels(validation), _PANELS, strict=True):
            _draw(axes, validation, signals)
            axes.set_title(title if validation is shown[0] else "", loc="left")
        row[0].set_ylabel(
            f"{plain(validation.name)}\n{validation.cycles} cycles of {validation.period_s:.3g} s\n(cm/s)"
        )
        row[1].set_ylabel("(deg/s)")
    for axes in grid[-1]:
        axes.set_xlabel("phase of the cycle")
    more = f", the first {_ROWS} of {len(validations)} recordings" if len(validations) > _ROWS else ""
    add_title(
        figure,
        f"{source.upper()} data{more}: measured (solid, band: one standard deviation over cycles) and predicted "
        "from shape and commands (dashed)",
    )
    return figure


def _panels(validation: Validation) -> list[list[Signal]]:
    signals = validation.signals
    speeds = [one for one in signals if one.unit == "m/s"]
    rates = [one for one in signals if one.unit != "m/s" and one.group != "gyros"]
    return [speeds, rates, [one for one in signals if one.group == "gyros"]]


def _draw(axes: Axes, validation: Validation, signals: list[Signal]) -> None:
    phase = validation.phase
    for number, signal in enumerate(signals):
        factor = 100.0 if signal.unit == "m/s" else float(np.rad2deg(1.0))
        colour = SERIES[number % len(SERIES)]
        mean, spread = factor * signal.measured
        label = f"{signal.name} ({100.0 * signal.explained:.1f} %)"
        axes.fill_between(phase, mean - spread, mean + spread, color=colour, alpha=0.25, linewidth=0)
        axes.plot(phase, mean, color=colour, label=label)
        axes.plot(phase, factor * signal.predicted[0], color=INK, linestyle="--", linewidth=0.9)
    if signals:
        axes.legend(loc="upper right", ncols=2, title="variance explained", title_fontsize=7.0)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    else:
        axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", va="center")
    axes.set_xlim(0.0, 1.0)
