"""The paper's results figures, drawn as it shows them, of what was computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from onboard_estimation.base.measurement import Vector
from onboard_estimation.report.plots import BAND, ESTIMATE, INK, SERIES, TRUTH, add_legend, panels_of
from salp_estimation.model.configuration import ChainConfiguration
from salp_estimation.model.gait_design import DesignedGait
from salp_estimation.paper.models import Followed
from salp_estimation.paper.runs import Judged

Rows = NDArray[np.float64]


def gaits_figure(gaits: Mapping[str, DesignedGait]) -> Figure:
    """Figure 2: rim speeds, and joint angles against each other, over a cycle."""
    figure = Figure()
    axes = panels_of(
        figure, "Gaits", "rim speeds, and joint angles of the quasi-static model", [], 2, 2.0, len(gaits), 0.4
    )
    for column, (name, designed) in enumerate(gaits.items()):
        time_s = np.linspace(0.0, designed.gait.period_s, 200)
        for wheel, speeds in enumerate(100.0 * designed.gait.controls(time_s).T):
            axes[0, column].plot(time_s, speeds, color=SERIES[wheel], label=f"u_{wheel + 1}")
        axes[0, column].set_title(name, size=9)
        axes[0, column].tick_params(labelsize=7)
        axes[1, column].tick_params(labelsize=7)
        axes[1, column].plot(*np.rad2deg(designed.states[:, 3:5]).T, color=ESTIMATE)
        axes[1, column].set_xlabel("alpha_1, deg")
    axes[0, 0].set_ylabel("rim speed, cm/s")
    axes[1, 0].set_ylabel("alpha_2, deg")
    add_legend(figure, axes[0, 0])
    return figure


def histograms_figure(names: Sequence[str], units: Sequence[str], values: Rows, links: int) -> Figure:
    """Figure 3: histograms of residuals (K, m): motion above, gyros below; dashed: zero and mean."""
    moving = len(names) - links
    figure = Figure()
    axes = panels_of(
        figure, "Residuals of the models", "dashed: zero (black) and the mean (red)", [], 2, 1.7, moving, 0.6
    )
    for number, (name, unit, column) in enumerate(zip(names, units, values.T, strict=True)):
        row, place = divmod(number, moving)
        here = axes[row, place]
        here.hist(column, bins=40, color=TRUTH if row else ESTIMATE)
        here.axvline(0.0, color="black", linestyle="--")
        here.axvline(column.mean(), color="red", linestyle="--")
        here.set_xlabel(f"{name}, {unit}", size=8)
        here.tick_params(labelleft=False)
    for empty in axes[1, links:]:
        empty.set_visible(False)
    return figure


def snapshots_figure(configuration: ChainConfiguration, states: Rows, time_s: Vector) -> Figure:
    """Figure 5: the chain at the states (K, N + 2)."""
    figure = Figure()
    axes = panels_of(figure, "Forward gait, from left to right", "true poses", [], 1, 2.2, len(states))
    outlines = configuration.build().outline(states)
    middle = states[:, :2].mean(axis=0)
    reach = 0.55 * np.ptp(outlines.reshape(-1, 2), axis=0).max()
    for here, outline, state, at_s in zip(axes[0], outlines, states, time_s, strict=True):
        here.plot(*outline.T, color=INK, marker="o", markersize=3)
        here.plot(*state[:2], color=ESTIMATE, marker="+")
        here.set_aspect("equal")
        here.set_xlim(middle[0] - reach, middle[0] + reach)
        here.set_ylim(middle[1] - reach, middle[1] + reach)
        here.set_title(f"{at_s:.1f} s", size=9)
        here.tick_params(labelleft=False, labelbottom=False)
    return figure


def validation_figure(followed: Followed, gyro: int) -> Figure:
    """Figure 6: measured (solid, band of one deviation over the cycles) and modelled (dashed) over a cycle."""
    figure = Figure()
    axes = panels_of(figure, "Model validation", f"mean of {followed.cycles} cycles", [], 1, 2.4, 3)
    columns = [range(2), range(2, 2 + followed.links), [2 + followed.links + gyro]]
    for here, chosen in zip(axes[0], columns, strict=True):
        for colour, column in enumerate(chosen):
            mean, spread = followed.measured_cycle[:, column], followed.spread_cycle[:, column]
            here.fill_between(followed.phase_s, mean - spread, mean + spread, color=SERIES[colour], alpha=0.2)
            here.plot(followed.phase_s, mean, color=SERIES[colour], label=followed.names[column])
            here.plot(followed.phase_s, followed.modelled_cycle[:, column], "--", color=SERIES[colour])
        here.set_xlabel("time in the cycle, s")
        here.legend(loc="upper right", fontsize=7)
    axes[0, 0].set_ylabel("m/s; rad/s")
    return figure


_LABELS = (("forward, cm", 100.0), ("left, cm", 100.0), ("heading, deg", np.rad2deg(1.0)))


def errors_figure(title: str, filters: Mapping[str, Judged]) -> Figure:
    """Figure 7: errors with three standard deviations, a column for each filter."""
    figure = Figure()
    joints = next(iter(filters.values())).error.shape[1] - 3
    labels = (*_LABELS, *((f"alpha_{joint + 1}, deg", float(np.rad2deg(1.0))) for joint in range(joints)))
    axes = panels_of(figure, title, "errors against motion capture, and 3 sigma", [], len(labels), 1.0, len(filters))
    for column, (name, one) in enumerate(filters.items()):
        for row, (label, factor) in enumerate(labels):
            here = axes[row, column]
            band = 3.0 * factor * one.stddev[:, row]
            here.fill_between(one.time_s, -band, band, color=BAND, alpha=0.3)
            here.plot(one.time_s, factor * one.error[:, row], color=TRUTH if column == 0 else ESTIMATE)
            if column == 0:
                here.set_ylabel(label, size=8)
        axes[0, column].set_title(name, size=9)
        axes[-1, column].set_xlabel("time, s")
    return figure


def observability_figure(one: Judged, total: Vector, contributions: Rows) -> Figure:
    """Figure 8: error of the first joint angle, Lambda, lambda_i, commands."""
    figure = Figure()
    axes = panels_of(figure, "Left gait, multi-gait filter", "first joint angle", [], 4, 1.2)[:, 0]
    band = np.rad2deg(3.0 * one.stddev[:, 3])
    axes[0].fill_between(one.time_s, -band, band, color=BAND, alpha=0.3)
    axes[0].plot(one.time_s, np.rad2deg(one.error[:, 3]), color=ESTIMATE)
    axes[0].set_ylabel("error, deg")
    axes[1].plot(one.time_s, total, color=INK)
    axes[1].set_ylabel("Lambda, 1/s")
    for wheel in range(contributions.shape[1]):
        axes[2].plot(one.time_s, contributions[:, wheel], color=SERIES[wheel], label=f"{wheel + 1}")
        axes[3].plot(one.time_s, 100.0 * one.controls[:, wheel], color=SERIES[wheel])
    axes[2].set_ylabel("lambda_i, 1/s")
    axes[3].set_ylabel("command, cm/s")
    axes[3].set_xlabel("time, s")
    add_legend(figure, axes[2])
    return figure
