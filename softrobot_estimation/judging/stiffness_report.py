"""What a report says of the stiffness: its course with the bending, and what particles learned of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.base.series import Series
from onboard_estimation.contract.result import EvaluationResult, Note, Panel, PanelGroup, Picture, ReportSection
from onboard_estimation.learning.reduced_rank import LearnedFunction
from onboard_estimation.report.plots import ESTIMATE, add_title, write_figure
from softrobot_estimation.estimators.filter_model import configured_model
from softrobot_estimation.model.configuration import SETTLE_S, SPACE, SoftRobotConfiguration
from softrobot_estimation.model.constant_curvature import coordinates_of_tip
from softrobot_estimation.model.grey_box import GreyBox

_CELLS = 81
_BEYOND = 1.15
"""Of the path's reach that is drawn."""


def draw_stiffness(file: Path | BytesIO, learned: LearnedFunction, path: Matrix, title: str) -> None:
    """Stiffness (N m/rad) over bending (rad, rad) and elongation (m), and where the robot has been (K, 3), as PNG.

    Raises
    ------
    UserError
        The file cannot be written.
    """
    write_figure(file, partial(_figure, learned, path, title))


def _figure(learned: LearnedFunction, path: Matrix, title: str) -> Figure:
    figure, axes = maps(learned, path, title, float(np.median(path[:, 2])))
    _draw_along_elongation(axes, learned, path)
    return figure


def maps(learned: LearnedFunction, path: Matrix, title: str, elongation_m: float) -> tuple[Figure, Axes]:
    """Stiffness and its deviation over bending at an elongation, and room beside them; the rest as `draw_stiffness`."""
    reach = np.minimum(_BEYOND * np.abs(path[:, :2]).max(), np.array(learned.basis.half_widths[:2])).max()
    ticks = np.linspace(-reach, reach, _CELLS)
    x, y = np.meshgrid(ticks, ticks)
    mean, stddev = learned.predict(np.column_stack([x.ravel(), y.ravel(), np.full(x.size, elongation_m)]))
    figure = Figure(figsize=(12.6, 4.4), dpi=100.0, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for axes, values, name, colours in (
        (left, mean, "stiffness (N m/rad)", "viridis"),
        (middle, stddev, "its standard deviation (N m/rad)", "magma"),
    ):
        image = axes.pcolormesh(
            ticks, ticks, values[:, 0].reshape(x.shape), cmap=colours, shading="nearest", rasterized=True
        )
        axes.plot(path[:, 0], path[:, 1], color="white", linewidth=0.3, alpha=0.3)
        axes.set(xlabel="bending x (rad)", ylabel="bending y (rad)", aspect="equal", title=name)
        axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
        axes.grid(visible=False)
        figure.colorbar(image, ax=axes, shrink=0.85)
    add_title(figure, f"{title}, at an elongation of {1e3 * elongation_m:.1f} mm; white: where the robot has been")
    return figure, right


def _draw_along_elongation(axes: Axes, learned: LearnedFunction, path: Matrix) -> None:
    """At the median bending of the path, with three standard deviations."""
    x, y = np.median(path[:, :2], axis=0)
    lengths = np.linspace(path[:, 2].min(), path[:, 2].max(), _CELLS)
    mean, stddev = learned.predict(np.column_stack([np.full(_CELLS, x), np.full(_CELLS, y), lengths]))
    low, high = (mean + sign * 3.0 * stddev for sign in (-1.0, 1.0))
    axes.fill_between(1e3 * lengths, low[:, 0], high[:, 0], color=ESTIMATE, alpha=0.2, linewidth=0.0)
    axes.plot(1e3 * lengths, mean[:, 0], color=ESTIMATE)
    axes.set(xlabel="elongation (mm)", ylabel="stiffness (N m/rad)", title=f"at bending {x:.2f}, {y:.2f} rad; 3 sigma")


def sections(
    configuration: SoftRobotConfiguration, series: Sequence[Series], result: EvaluationResult
) -> tuple[ReportSection, ...]:
    """Stiffness with three standard deviations, and the angle of bending, over time."""
    box = GreyBox(configuration)
    stiffness, tangent = result.mean[:, SPACE.coordinates("stiffness")][:, 0], SPACE.tangent("stiffness").start
    stddev = np.sqrt(result.covariance[:, tangent, tangent])
    places = result.mean[:, SPACE.coordinates("position")]
    shapes = coordinates_of_tip(box.segment, places, box.beyond_m)
    bending = np.hypot(*shapes[:, :2].T)
    lines = {
        "estimate": stiffness,
        "3 sigma above": stiffness + 3.0 * stddev,
        "3 sigma below": stiffness - 3.0 * stddev,
    }
    truth = result.parts.get("stiffness")
    if truth is not None and truth.matched.any():
        lines["truth"] = truth.truth[:, 0]
    panels = Panel("stiffness", "N m/rad", lines), Panel("bending", "rad", {"estimate": bending})
    settled = result.time_s >= min(SETTLE_S, result.time_s[-1])  # of a run shorter than that, its end
    section = ReportSection(
        "Stiffness",
        (
            "Stiffness in bending as the filter has it, the law of the configuration included, and how far the segment "
            "is bent.",
            _by_bending(stiffness[settled], bending[settled]),
        ),
        result.time_s,
        (PanelGroup("Stiffness and bending", panels),),
        () if result.learned is None else (_map(result, shapes[settled]),),
    )
    return (section,)


def _map(result: EvaluationResult, path: Matrix) -> Picture:
    """What the particles had learned by the end of the run, and where it was (K, 3)."""
    title, out = f"{result.source}, {Path(result.bag).name}: stiffness as {result.estimator} learned it", BytesIO()
    draw_stiffness(out, result.learned, path, title)
    return Picture(
        out.getvalue(),
        "Stiffness that the particles had learned by the end, without the law of the configuration, over bending: its "
        "mean and its standard deviation; right: along elongation.",
    )


def _by_bending(stiffness: Vector, bending: Vector) -> str:
    """Medians of the thirds of a run in which it was bent least and most."""
    order = np.argsort(bending)
    third = max(len(order) // 3, 1)
    (straight, low), (bent, high) = (
        (float(np.median(bending[rows])), float(np.median(stiffness[rows]))) for rows in (order[:third], order[-third:])
    )
    return (
        f"In the third of the run in which it was bent least ({straight:.2f} rad) its median is {low:.3f} N m/rad, in "
        f"that in which it was bent most ({bent:.2f} rad) {high:.3f} N m/rad: {100.0 * (high / low - 1.0):+.0f} %."
    )


def notes(
    configuration: SoftRobotConfiguration, series: Sequence[Series], result: EvaluationResult
) -> tuple[Note, ...]:
    """Parameters that came from a model, and whether particles had lost the robot."""
    found = []
    model = configured_model(configuration)
    tuned = {} if model is None else model.tuned.get(result.estimator, {})
    if tuned:
        values = ", ".join(f"{name} {value:.3g}" for name, value in tuned.items())
        found.append(Note(f"Of the model, in place of the configuration's: {values}."))
    if lost := int(result.metrics["run"].get("times_lost", 0)):
        times = "once" if lost == 1 else f"{lost} times"
        found.append(
            Note(f"The particles had lost the robot {times} and were spread anew.", f"lost {times} and found again")
        )
    return tuple(found)
