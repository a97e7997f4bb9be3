"""Picture of a learned stiffness: mean and deviation over bending, where the robot has been, and along elongation."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from onboard_estimation.errors import printable
from onboard_estimation.evaluation.plot_frame import ESTIMATE, STYLE
from onboard_estimation.learning.learned_function import LearnedFunction
from onboard_estimation.measurement import Matrix

_CELLS = 81
_BEYOND = 1.15
"""Of the path's reach that is drawn."""


@dataclass(frozen=True, eq=False)
class LearnedStiffness:
    """What is drawn.

    Attributes
    ----------
    function
        N m/rad over bending (rad, rad) and elongation (m).
    path
        (K, 3) where the robot has been.
    """

    function: LearnedFunction
    path: Matrix


def stiffness_picture(learned: LearnedStiffness, title: str) -> bytes:
    """The picture as PNG; the same in, the same out, to the byte."""
    elongation_m = float(np.median(learned.path[:, 2]))
    reach = np.minimum(
        _BEYOND * np.abs(learned.path[:, :2]).max(), np.array(learned.function.basis.half_widths[:2])
    ).max()
    ticks = np.linspace(-reach, reach, _CELLS)
    x, y = np.meshgrid(ticks, ticks)
    mean, stddev = learned.function.predict(np.column_stack([x.ravel(), y.ravel(), np.full(x.size, elongation_m)]))
    with style.context(["default", STYLE], after_reset=True):  # the user's matplotlibrc must not change the file
        figure = Figure(figsize=(12.6, 4.4), dpi=100.0, layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for axes, values, name, colours in (
            (left, mean, "stiffness (N m/rad)", "viridis"),
            (middle, stddev, "its standard deviation (N m/rad)", "magma"),
        ):
            image = axes.pcolormesh(
                ticks, ticks, values[:, 0].reshape(x.shape), cmap=colours, shading="nearest", rasterized=True
            )
            axes.plot(learned.path[:, 0], learned.path[:, 1], color="white", linewidth=0.3, alpha=0.3)
            axes.set(xlabel="bending x (rad)", ylabel="bending y (rad)", aspect="equal", title=name)
            axes.grid(visible=False)
            axes.set_xlim(-reach, reach)
            axes.set_ylim(-reach, reach)
            figure.colorbar(image, ax=axes, shrink=0.85)
        _draw_along_elongation(right, learned)
        figure.suptitle(
            f"{printable(title)}, at an elongation of {1e3 * elongation_m:.1f} mm; "
            "white: where the robot has been".replace("$", r"\$"),
            size=9.5,
            x=0.01,
            ha="left",
        )
        out = BytesIO()
        FigureCanvasAgg(figure).print_png(out, metadata={"Software": None})
    return out.getvalue()


def _draw_along_elongation(axes: Axes, learned: LearnedStiffness) -> None:
    """At the median bending of the path, with three standard deviations."""
    x, y = np.median(learned.path[:, :2], axis=0)
    lengths = np.linspace(learned.path[:, 2].min(), learned.path[:, 2].max(), _CELLS)
    mean, stddev = learned.function.predict(np.column_stack([np.full(_CELLS, x), np.full(_CELLS, y), lengths]))
    low, high = (mean + sign * 3.0 * stddev for sign in (-1.0, 1.0))
    axes.fill_between(1e3 * lengths, low[:, 0], high[:, 0], color=ESTIMATE, alpha=0.2, linewidth=0.0)
    axes.plot(1e3 * lengths, mean[:, 0], color=ESTIMATE)
    axes.set(xlabel="elongation (mm)", ylabel="stiffness (N m/rad)", title=f"at bending {x:.2f}, {y:.2f} rad; 3 sigma")
