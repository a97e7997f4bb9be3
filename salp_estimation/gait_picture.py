"""Picture of gaits, one column each: controls, loop of shapes, the chain over a cycle, path (paper, figure 2)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.evaluation.plot_frame import BAND, ESTIMATE, SERIES, TRUTH, write_figure
from salp_estimation.configuration import ChainConfiguration
from salp_estimation.gait_design import DesignedGait

_SNAPSHOTS = 5
_MOST_LABELLED = 8


def write_gait_picture(gaits: Mapping[str, DesignedGait], configuration: ChainConfiguration, file: Path) -> None:
    """Write a PNG file that is the same whenever the gaits are; UserError where it cannot be written."""
    write_figure(file, partial(_figure, gaits, configuration))


def _figure(gaits: Mapping[str, DesignedGait], configuration: ChainConfiguration) -> Figure:
    names = configuration.link_names
    single = len(gaits) == 1
    figure = Figure(figsize=(8.0, 6.4) if single else (2.9 * len(gaits), 10.0), layout="constrained")
    columns = figure.subplots(2, 2).reshape(4, 1) if single else figure.subplots(4, len(gaits), squeeze=False)
    for (name, gait), axes in zip(gaits.items(), columns.T, strict=True):
        _controls(axes[0], gait, names)
        _shapes(axes[1], gait)
        _snapshots(axes[2], gait, configuration)
        _path(axes[3], gait)
        if not single:
            axes[0].set_title(name, fontweight="bold")
    if single:
        figure.suptitle(f"gait {next(iter(gaits))}", fontweight="bold")
    else:
        _same_limits(columns[0])
    return figure


def _controls(axes: Axes, gait: DesignedGait, names: tuple[str, ...]) -> None:
    controls = 100.0 * gait.gait.controls(gait.time_s)
    for index, name in enumerate(names):
        label = name if len(names) <= _MOST_LABELLED else None
        axes.plot(gait.time_s, controls[:, index], color=SERIES[index % len(SERIES)], label=label)
    axes.set(xlabel="time (s)", ylabel="rim speed (cm/s)", xlim=(0.0, gait.gait.period_s))
    if len(names) <= _MOST_LABELLED:
        axes.legend(loc="best", fontsize=7, framealpha=0.7)


def _shapes(axes: Axes, gait: DesignedGait) -> None:
    """The loop in the plane of two joint angles; of other chains all joint angles over time."""
    angles = np.rad2deg(gait.states[:, 3:])
    if angles.shape[1] != 2:
        for index in range(angles.shape[1]):
            axes.plot(gait.time_s, angles[:, index], color=SERIES[index % len(SERIES)])
        axes.set(xlabel="time (s)", ylabel="joint angles (deg)", xlim=(0.0, gait.gait.period_s))
        return
    axes.plot(*angles.T, color=ESTIMATE)
    for share in (0.125, 0.375, 0.625, 0.875):
        k = round(share * (len(angles) - 1))
        arrow = {"arrowstyle": "-|>", "color": ESTIMATE, "mutation_scale": 13.0, "shrinkA": 0.0, "shrinkB": 0.0}
        axes.annotate("", angles[k + 2], angles[k - 2], arrowprops=arrow)
    axes.plot(*angles[0], "o", color=TRUTH, markersize=5, label="start")
    axes.set(xlabel="alpha_1 (deg)", ylabel="alpha_2 (deg)", aspect="equal", adjustable="datalim")
    axes.legend(loc="best", fontsize=7, framealpha=0.7)


def _snapshots(axes: Axes, gait: DesignedGait, configuration: ChainConfiguration) -> None:
    """The chain at quarters of the cycle, one below the other, over its place at the start."""
    at = np.linspace(0, len(gait.time_s) - 1, _SNAPSHOTS).round().astype(int)
    outlines = 100.0 * configuration.build().outline(gait.states[at])
    gap, rows_cm, bottom = 0.1 * float(np.ptp(outlines[0, :, 0])), [], 0.0
    for k, outline in zip(at, outlines, strict=True):
        row_cm = bottom - gap - max(0.0, float(outline[:, 1].max()))  # below all of the chain drawn before
        bottom = row_cm + min(0.0, float(outline[:, 1].min()))
        rows_cm.append(row_cm)
        down = np.array([0.0, row_cm])
        axes.plot(*(outlines[0] + down).T, color="#BBBBBB", linewidth=1.0, linestyle="--")
        axes.plot(*(outline + down).T, "o-", color=ESTIMATE, markersize=2.5, linewidth=1.8)
        axes.plot(*(100.0 * gait.states[k, :2] + down), ".", color=TRUTH, markersize=6)
    axes.set_yticks(rows_cm, [f"{gait.time_s[k]:.3g} s" for k in at])
    axes.set(xlabel="x (cm)", aspect="equal", adjustable="datalim")
    axes.grid(axis="y", visible=False)


def _path(axes: Axes, gait: DesignedGait) -> None:
    """Of the base frame, with the heading at the end."""
    path = 100.0 * gait.states[:, :2]
    axes.plot(*path.T, color=ESTIMATE)
    axes.plot(*path[0], "o", color=TRUTH, markersize=5, label="start")
    axes.plot(*path[-1], "s", color=BAND, markersize=5, label="after a cycle", markeredgecolor="black")
    span = max(1.0, float(np.ptp(path, axis=0).max()))
    for k, colour in ((0, TRUTH), (len(path) - 1, "black")):
        heading = gait.states[k, 2]
        tip = path[k] + 0.3 * span * np.array([np.cos(heading), np.sin(heading)])
        axes.annotate("", tip, path[k], arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.0})
        axes.update_datalim([tip])
    axes.set(xlabel="x (cm)", ylabel="y (cm)", aspect="equal", adjustable="datalim")
    axes.margins(0.15)
    axes.legend(loc="best", fontsize=7, framealpha=0.7)


def _same_limits(row: np.ndarray) -> None:
    """One scale for the controls of all gaits."""
    reach = max(abs(limit) for axes in row for limit in axes.get_ylim())
    for axes in row:
        axes.set_ylim(-reach, reach)
