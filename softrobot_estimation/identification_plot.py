"""Picture of an identification: the tip by motion capture and by pressures alone, one row a recording."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from onboard_estimation.evaluation.plot_frame import ESTIMATE, TRUTH, add_title, plain, write_figure
from softrobot_estimation.identification_tables import FreeRun

_ROWS = 8
_BEFORE = "#999999"


def write_free_runs(runs: Sequence[FreeRun], path: Path, source: str) -> None:
    """Write the picture as PNG; of more than eight recordings the first eight.

    Parameters
    ----------
    source
        `simulated` or `recorded`, for the title.
    """
    write_figure(path, partial(_figure, runs, source))


def _figure(runs: Sequence[FreeRun], source: str) -> Figure:
    shown = runs[:_ROWS]
    figure = Figure(figsize=(13.0, 0.9 + 2.4 * len(shown)), dpi=100.0, layout="constrained")
    grid = figure.subplots(len(shown), 3, squeeze=False)
    for row, run in zip(grid, shown, strict=True):
        errors = run.errors_mm(run.after_m)[1:]
        for number, (axes, error) in enumerate(zip(row, errors, strict=True)):
            for places, colour, label in (
                (run.before_m, _BEFORE, "configured"),
                (run.measured_m, TRUTH, "motion capture"),
                (run.after_m, ESTIMATE, "identified"),
            ):
                axes.plot(run.times_s, 1e3 * places[:, number], color=colour, linewidth=0.8, label=label)
            seen = 1e3 * run.measured_m[:, number]
            axes.set_title(f"{'xyz'[number]}: {error:.2f} mm RMS", loc="left")
            low, high = float(min(seen[seen == seen])), float(max(seen[seen == seen]))
            margin = 0.3 * (high - low) + 1.0  # a configured model may be far away
            axes.set_ylim(low - margin, high + margin)
        row[0].set_ylabel(f"{plain(run.name)}\n(mm)")
    for axes in grid[-1]:
        axes.set_xlabel("time (s)")
    grid[0][2].legend(loc="upper right", ncols=3)
    more = f", the first {_ROWS} of {len(runs)} recordings" if len(runs) > _ROWS else ""
    tip = "tip in the base's frame, by motion capture and by pressures alone"
    add_title(figure, f"{source.upper()} data{more}: {tip}")
    return figure
