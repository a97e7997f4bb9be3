"""Picture of an identification: the tip by motion capture and by pressures alone, one row a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.plot_frame import ESTIMATE, STYLE, TRUTH
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
    shown = runs[:_ROWS]
    with style.context(STYLE, after_reset=True):  # the user's own matplotlibrc must not change the file
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
            row[0].set_ylabel(f"{printable(run.name)}\n(mm)".replace("$", r"\$"))
        for axes in grid[-1]:
            axes.set_xlabel("time (s)")
        grid[0][2].legend(loc="upper right", ncols=3)
        more = f", the first {_ROWS} of {len(runs)} recordings" if len(runs) > _ROWS else ""
        figure.suptitle(
            f"{source.upper()} data{more}: tip in the base's frame, by motion capture and by pressures alone",
            size=9.5,
            x=0.01,
            ha="left",
        )
        FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})
