"""The paper's results figures, drawn as it shows them, of what was computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.report.charts import error_charts
from onboard_estimation.report.plots import ESTIMATE, TRUTH, charts_figure, panels_of
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gait_design import DesignedGait
from salp_estimation.model.gait_report import draw_controls, draw_shapes

Rows = NDArray[np.float64]


def gaits_figure(gaits: Mapping[str, DesignedGait], configuration: ChainConfiguration) -> Figure:
    """Figure 2: rim speeds, and joint angles against each other, over a cycle."""
    figure = Figure()
    axes = panels_of(figure, "Gaits", "of the quasi-static model", [], 2, 2.4, len(gaits), 0.6, 14.0)
    for (above, below), (name, designed) in zip(axes.T, gaits.items(), strict=True):
        draw_controls(above, designed, configuration.link_names)
        draw_shapes(below, designed)
        above.set_title(name, size=9)
    for later in axes[:, 1:].flat:
        later.set_ylabel("")
    return figure


def histograms_figure(names: Sequence[str], values: Rows, links: int) -> Figure:
    """Figure 3: histograms of residuals (K, m), their units in the names: motion above, gyros below."""
    moving = len(names) - links
    figure, dashed = Figure(), {"linestyle": "--", "linewidth": 1.0}
    about = "dashed: zero (black) and the mean (red)"
    axes = panels_of(figure, "Residuals of the models", about, [], 2, 1.7, moving, 0.75)
    for number, (here, name, column) in enumerate(zip(axes.flat, names, values.T, strict=False)):
        here.hist(column, bins=40, color=TRUTH if number >= moving else ESTIMATE)
        here.axvline(0.0, color="black", **dashed)
        here.axvline(column.mean(), color="red", **dashed)
        here.set_xlabel(name, size=8)
        here.tick_params(labelleft=False)
    for empty in axes[1, links:]:
        empty.set_visible(False)
    return figure


def errors_figure(title: str, filters: Mapping[str, EvaluationResult]) -> Figure:
    """Figure 7: errors with three standard deviations, pose and joint angles of each filter."""
    charts = [(name, one) for name, of in filters.items() for one in error_charts(of)]
    return charts_figure(title, [replace(one, title=f"{name}, {one.title}", caption=()) for name, one in charts])
