"""Figures 2 and 3 of the paper on Algorithm 1, of a simulated run, in its units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from onboard_estimation.learning.reduced_rank import LearnedFunction
from onboard_estimation.report.plots import BAND, ESTIMATE, INK, SERIES, TRUTH, add_legend, panels_of
from softrobot_estimation.estimators.algorithm_1 import Algorithm1Estimator
from softrobot_estimation.judging.foresight import Filtered
from softrobot_estimation.paper.scenario import Run, newtons_per_metre, units

_COLOURS = {"particles_hyper_parameters": ESTIMATE, "ukf": SERIES[2]}
_WORDS = {"particles_hyper_parameters": "algorithm_1", "ukf": "ukf"}
_LABELS = ("dx, mm", "dy, mm", "dL, mm", "dx', mm/s", "dy', mm/s", "dL', mm/s")
_GRID = 60


def learned(found: Filtered) -> LearnedFunction:
    """What Algorithm 1 knows of the stiffness at the end of a run, N m/rad."""
    function = Algorithm1Estimator(found.configuration).learned(found.state)
    assert function is not None
    return function


def states(run: Run, shown: Mapping[str, Filtered], seed: int) -> Figure:
    """Pressures, six states, and the stiffness: true, and as filters have them."""
    figure = Figure()
    axes = panels_of(figure, "States and stiffness", f"simulated, seed {seed}", (), 8, 0.75, top_in=0.75)[:, 0]
    to_paper, start_s = units(run.known), run.truth.stamps_s[0]
    first = next(iter(shown.values()))
    for chamber, readings in enumerate(first.readings_pa.T):
        axes[0].plot(first.stamps_s - start_s, 1e-3 * readings, color=SERIES[chamber % len(SERIES)], linewidth=0.8)
    axes[0].set_ylabel("u, kPa")
    for column, label in enumerate(_LABELS, 1):
        scale = to_paper[column - 1]
        true = scale * run.truth.states[:, column - 1]
        axes[column].plot(run.truth.stamps_s - start_s, true, color=TRUTH, label="true")
        for name, one in shown.items():
            course = scale * one.rows[:, column - 1]
            axes[column].plot(one.stamps_s - start_s, course, color=_COLOURS[name], linewidth=0.8, label=_WORDS[name])
        axes[column].set_ylabel(label)
    per_metre = newtons_per_metre(run.known)
    axes[7].plot(run.truth.stamps_s - start_s, per_metre * run.stiffness, color=TRUTH)
    for name, one in shown.items():
        axes[7].plot(one.stamps_s - start_s, per_metre * one.stiffness_now, color=_COLOURS[name], linewidth=0.8)
    axes[7].set_ylabel("k, N/m")
    axes[7].set_xlabel("time, s")
    add_legend(figure, axes[1])
    return figure


def stiffness(run: Run, found: Filtered, elongation_m: float, seed: int) -> Figure:
    """Mean and variance over dx and dy at an elongation; below, particles' samples and the learned function."""
    function, per_metre, mm = learned(found), newtons_per_metre(run.known), units(run.known)
    figure = Figure()
    panels = panels_of(figure, "Learned stiffness", f"simulated, seed {seed}", (), 2, 2.9, 2, gap_in=0.6)
    reach = 1.3 * float(np.abs(found.rows[:, :2]).max())
    line = np.linspace(-reach, reach, _GRID)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    means, stddevs = function.predict(np.column_stack([grid, np.full(len(grid), elongation_m)]))
    extent = [mm[0] * end for end in (-reach, reach, -reach, reach)]
    shown = (("mean, N/m", per_metre * means), ("variance, (N/m)^2", (per_metre * stddevs) ** 2))
    for axes, (label, values) in zip(panels[0], shown, strict=True):
        image: Any = axes.imshow(values.reshape(_GRID, _GRID), origin="lower", extent=extent, aspect="auto")
        figure.colorbar(image, ax=axes)
        axes.set_title(label, size=9)
        axes.plot(mm[0] * found.rows[:, 0], mm[1] * found.rows[:, 1], ".", color=INK, markersize=1.2)
        axes.set_xlabel("dx, mm")
        axes.set_ylabel("dy, mm")
    grid_spec = panels[1, 0].get_gridspec()
    for axes in panels[1]:
        axes.remove()
    below = figure.add_subplot(grid_spec[1, :])
    time_s = found.stamps_s - found.stamps_s[0]
    samples = per_metre * found.drawn
    below.plot(
        np.repeat(time_s, samples.shape[1]), samples.ravel(), ".", color=BAND, markersize=1.0, label="samples of k"
    )
    means, _ = function.predict(found.rows[:, :3])
    below.plot(time_s, per_metre * means[:, 0], color=ESTIMATE, label="function learned by the end")
    true = np.interp(found.stamps_s, run.truth.stamps_s, run.stiffness)
    below.plot(time_s, per_metre * true, color=TRUTH, linewidth=0.8, label="true")
    low, high = np.percentile(samples, [0.5, 99.5])
    below.set_ylim(low - 0.1 * (high - low), high + 0.1 * (high - low))
    below.set_xlabel("time, s")
    below.set_ylabel("k, N/m")
    add_legend(figure, below)
    return figure
