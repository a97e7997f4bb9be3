"""The robot's way as a plot: its path from above with the robot at a few instants, or its height over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.evaluation.plot_frame import (
    BAND,
    ESTIMATE,
    INK,
    TRUTH,
    WIDTH_IN,
    add_legend,
    panels_of,
    plain,
)
from onboard_estimation.evaluation.presentation import axis_label, display_unit
from onboard_estimation.evaluation.result import Drawing, EvaluationResult, Phases
from onboard_estimation.evaluation.views import POINTS, extremes, truth_centre
from onboard_estimation.measurement import Matrix, Vector
from onboard_estimation.picture import NORMAL_SCALE, ellipse

# As in the report, in the order of the cycle.
PHASE_COLOURS = ("#8a94a3", "#d55e00", "#c79a00", "#3a91cc", "#b36a99", "#00805d")


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
        corners = np.stack([starts, ends, ends, starts], axis=1)
        # All at once: one patch for each of an hour's phases takes longer to add than the hour takes to read.
        bars = PolyCollection(
            list(np.stack([corners, np.broadcast_to([0.0, 0.0, 1.0, 1.0], corners.shape)], axis=2)),
            transform=axes.get_xaxis_transform(),
            color=PHASE_COLOURS[number % len(PHASE_COLOURS)],
            alpha=0.25,
            linewidth=0,
            label=plain(name),
        )
        axes.add_collection(bars, autolim=False)
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
