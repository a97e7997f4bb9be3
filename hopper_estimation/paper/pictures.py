"""The paper's figures 5 to 8, drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hopper_estimation.model.phases import PHASES, Array
from hopper_estimation.paper.ground import HOPS
from hopper_estimation.paper.sensing import BIN_S, BINS, Errors
from hopper_estimation.training.filter_calibration import Trial
from onboard_estimation.contract.picture import ESTIMATE_COLOUR, TRUTH_COLOUR
from onboard_estimation.report.plots import SERIES, add_legend, panels_of

_PHASE_COLOURS = ("#DDEEFF", "#FFE0CC", "#FFF3CC", "#DDF3E4", "#EEEEEE")


def ground_figure(errors: Mapping[str, Mapping[str, Array]]) -> Figure:
    """By floor and way (R, HOPS + 1) errors of the ground's height: their mean size from hop to hop."""
    figure = Figure()
    axes = panels_of(figure, "Ground height", "KF1, over thirty hops", (), len(errors), 1.7, gap_in=0.55)[:, 0]
    for one, (floor, ways) in zip(axes, errors.items(), strict=True):
        for colour, (way, values) in zip(SERIES, ways.items(), strict=False):
            one.plot(np.arange(HOPS + 1), np.abs(values).mean(axis=0), color=colour, label=way)
        one.set_yscale("symlog", linthresh=0.01)
        one.set(ylabel="mean error (m)", title=floor)
    axes[-1].set(xlabel="hop")
    add_legend(figure, axes[0])
    return figure


def sensing_figure(errors: Mapping[tuple[str, float], Errors]) -> Figure:
    """By scenario in words and frequency: RMS errors of height and velocity over time."""
    scenarios = list(dict.fromkeys(name for name, _ in errors))
    rates = list(dict.fromkeys(rate for _, rate in errors))
    figure = Figure()
    axes = panels_of(figure, "Sensing frequency", "KF1 trained at 840 Hz", (), 2, 2.2, 2)
    time_s = BIN_S * (np.arange(BINS) + 0.5)
    for column, name in enumerate(scenarios):
        for row, quantity in enumerate(("height (m)", "velocity (m/s)")):
            one = axes[row, column]
            for number, rate in enumerate(rates):
                middle = np.sqrt(np.nanmean(np.square(errors[name, rate].rms[..., row]), axis=0))
                shade = str(0.75 * number / len(rates)) if rate < 600 else None
                one.plot(time_s, middle, color=shade, linestyle="-" if rate >= 600 else "--", label=f"{rate:g} Hz")
            one.set_yscale("log")
            one.set(ylabel=f"RMS error of {quantity}", title=name if row == 0 else "")
        axes[1, column].set(xlabel="time (s)")
    add_legend(figure, axes[0, 0], 6)
    return figure


def hops_figure(
    title: str, trials: Sequence[Trial], outs: Sequence[Array], span_s: Sequence[tuple[float, float]]
) -> Figure:
    """Height and velocity over time by the filter and in truth; the background is the phase that the filter tells."""
    figure = Figure()
    axes = panels_of(figure, title, "shaded: drop, stance down, stance up, rebound", (), 2, 1.8, len(trials))
    for column, (trial, out, (start_s, stop_s)) in enumerate(zip(trials, outs, span_s, strict=True)):
        rows = (trial.time_s >= start_s) & (trial.time_s < stop_s)
        truth = trial.true_height_m, trial.true_velocity_m_s
        for row, name in enumerate(("height (m)", "velocity (m/s)")):
            one = axes[row, column]
            _shade(one, trial.time_s[rows], out[rows, 5].astype(int))
            one.plot(trial.time_s[rows], truth[row][rows], color=TRUTH_COLOUR, label="truth")
            one.plot(trial.time_s[rows], out[rows, row], color=ESTIMATE_COLOUR, label="KF1")
            one.set(ylabel=name if column == 0 else "", title=trial.name if row == 0 else "")
        axes[1, column].set(xlabel="time (s)")
    add_legend(figure, axes[0, 0])
    return figure


def _shade(axes: Axes, time_s: Array, phase: Array) -> None:
    edges = [0, *(np.flatnonzero(np.diff(phase)) + 1), len(phase) - 1]
    for start, stop in pairwise(edges):
        axes.axvspan(time_s[start], time_s[stop], color=_PHASE_COLOURS[phase[start] % len(PHASES)], linewidth=0)
