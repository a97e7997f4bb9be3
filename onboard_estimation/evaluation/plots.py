"""Plots of a judged run as PNG files that are the same to the byte whenever the run is the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import erf

from onboard_estimation.evaluation.plot_drawing import motion_figure, path_figure
from onboard_estimation.evaluation.plot_frame import (
    BAND,
    ESTIMATE,
    INK,
    POINTS,
    SERIES,
    STYLE,
    add_legend,
    mark_times,
    panels_of,
    plain,
    provenance_of,
    say,
)
from onboard_estimation.evaluation.plot_groups import groups_figure
from onboard_estimation.evaluation.presentation import CORRELATION_CAPTION, SIGMA_CAPTION, words
from onboard_estimation.evaluation.result import EvaluationResult, PartResult
from onboard_estimation.evaluation.views import (
    Window,
    coverage,
    extremes,
    require_estimates,
    thin,
    traces,
    worst_window,
)
from onboard_estimation.filtering.consistency import chi_square_band


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
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    drawn = figures(result)
    with style.context(STYLE, after_reset=True):
        for name, figure in drawn.items():
            FigureCanvasAgg(figure).print_png(plots / f"{name}.png", metadata={"Software": None})
    return [plots / f"{name}.png" for name in drawn]


def figures(result: EvaluationResult) -> dict[str, Figure]:
    """The plots of a run, by the names of their files without `.png`, see `write_plots`."""
    require_estimates(result)
    instants = thin(result, POINTS)
    window = worst_window(result)
    with style.context(STYLE, after_reset=True):  # the user's own matplotlibrc must not change the files
        out = {f"errors_{_file_name(part.name)}": _error_figure(result, part, window) for part in result.parts.values()}
        if not result.parts or any(part.states_its_error for part in result.parts.values()):
            out["nees"] = _nees_figure(result, window)
            out["coverage"] = _coverage_figure(result)
        if result.drawing is not None:
            if result.drawing.over_time:
                out["motion"] = motion_figure(result, result.drawing)
            else:
                out["path"] = path_figure(result, result.drawing, instants)
        provenance = provenance_of(result)
        for section in result.sections:
            columns = [(f"{group.title}: {provenance}", section.time_s, group) for group in section.groups]
            if columns:
                out[f"section_{_file_name(section.title.lower())}"] = groups_figure(section.title, columns)
    return out


def _error_figure(result: EvaluationResult, part: PartResult, window: Window | None) -> Figure:
    """Error of each dimension of a part with the filter's 3-sigma band."""
    shown, left_out = traces(part, result.time_s)
    time_s = result.time_s
    title = f"{words(part.name)}: {'error' if part.matched.any() else 'standard deviation'}"
    caption = [_truth_sentence(part), SIGMA_CAPTION if part.states_its_error else "No covariance.", left_out]
    caption += [note for note in result.notes if "truth" in note.lower() and "noise" in note.lower()]
    figure = Figure()
    with panels_of(figure, result, title, caption, len(shown), 1.45) as panels:
        for axes, trace in zip(panels, shown, strict=True):
            mark_times(axes, result, window if window and window.part == part.name else None)
            bounds, drawn = extremes(trace.stddev, POINTS), extremes(trace.error, POINTS)
            band = 3.0 * trace.stddev[bounds]
            if part.states_its_error:
                axes.fill_between(time_s[bounds], -band, band, color=BAND, alpha=0.3, linewidth=0, label="3 sigma")
            marker = "." if time_s.size < 3 else ""
            axes.plot(time_s[drawn], trace.error[drawn], color=ESTIMATE, marker=marker, label="error")
            axes.axhline(0.0, color=INK, linewidth=0.5)
            axes.set_ylim(-trace.limit, trace.limit)
            axes.set_ylabel(f"{plain(trace.name)} ({plain(trace.unit)})")
            if not part.matched.any():
                say(axes, "no truth for this part: error unknown")
            elif trace.off_scale:
                axes.text(0.995, 0.97, plain(trace.off_scale), transform=axes.transAxes, ha="right", va="top", size=7.5)
        add_legend(figure, panels[0])
    return figure


def _nees_figure(result: EvaluationResult, window: Window | None) -> Figure:
    """NEES of each part with truth against the chi-square band of one instant."""
    figure = Figure()
    parts, caption = _judged(result)
    title = "Consistency: NEES"
    with panels_of(figure, result, title, [CORRELATION_CAPTION, caption], max(len(parts), 1), 1.6) as panels:
        for axes, part in zip(panels, parts, strict=False):
            dimension = part.error.shape[1]
            low, high = chi_square_band(dimension)
            values = part.nees[np.isfinite(part.nees)]
            marker = "." if values.size < 3 else ""
            shown = np.where(part.nees > 0.0, part.nees, np.nan)
            drawn = extremes(shown, POINTS)
            mark_times(axes, result, window if window and window.part == part.name else None)
            axes.axhspan(low, high, color=BAND, alpha=0.3, linewidth=0, label="95 % chi-square band")
            axes.plot(result.time_s[drawn], shown[drawn], color=ESTIMATE, linewidth=0.8, marker=marker, label="NEES")
            axes.set_yscale("log")
            bottom = float(np.clip(np.quantile(values, 0.01), 0.05 * low, low))
            axes.set_ylim(0.7 * bottom, 1.4 * max(high, float(values.max())))
            axes.set_ylabel(plain(words(part.name)))
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
    with panels_of(figure, result, "Coverage of the standard deviations", caption, rows, 2.9, columns, False) as panels:
        for axes, part in zip(panels, parts, strict=False):
            axes.plot(sigmas, erf(sigmas / np.sqrt(2.0)), color=INK, linestyle="--", linewidth=0.9, label="Gaussian")
            for index, share in enumerate(coverage(part, sigmas).T[: len(SERIES)]):
                axes.plot(sigmas, share, color=SERIES[index], label=plain(part.names[index]))
            axes.set(xlim=(0.0, 4.0), ylim=(0.0, 1.03), title=plain(words(part.name)))
            axes.set_xlabel("k (standard deviations)")
            axes.legend(loc="lower right")
        panels[0].set_ylabel("share of errors within k sigma")
        _finish(figure, panels, len(parts), legend=False)
    return figure


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
    return judged, f"Without truth or covariance and not shown: {', '.join(others)}." if others else ""


def _finish(figure: Figure, panels: list[Axes], used: int, legend: bool = True) -> None:
    """Hide panels that nothing was drawn in; a figure without any says why."""
    for axes in panels[used:]:
        axes.set_axis_off()
    if not used:
        say(panels[0], "no truth: nothing to judge")
    elif legend:
        add_legend(figure, panels[0])


def _file_name(part: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", part) or "part"
