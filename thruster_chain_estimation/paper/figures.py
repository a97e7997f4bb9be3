"""Figures 3 and 4 of the paper, drawn as they are there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from onboard_estimation.base.measurement import Matrix, Vector
from onboard_estimation.report.plots import INK, SERIES, add_legend, panels_of
from thruster_chain_estimation.judging.observability import Conditions


def draw_snapshots(outlines: Matrix, times_s: Sequence[float], title: str, provenance: str) -> Figure:
    """Figure 3 from polylines (T, N + 1, 2) at T instants, m: one below the other would hide how the chain turns."""
    figure = Figure()
    (axes,) = panels_of(figure, title, provenance, (), 1, 4.0)[0]
    for line, time_s, colour in zip(outlines, times_s, SERIES, strict=False):
        axes.plot(*line.T, "o-", color=colour, label=f"{time_s:.1f} s", markersize=3.5)
        axes.plot(*line[0], "s", color=colour, markersize=6)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("x [m]")
    axes.set_ylabel("y [m]")
    add_legend(figure, axes)
    return figure


def draw_run(
    time_s: Vector, thrust_n: Matrix, conditions: Conditions, error: Matrix, stddev: Matrix, sigma: float, words: str
) -> Figure:
    """Figure 4, a to f, of a run: thrusts (K, N), Theorem 4's conditions, errors (K, 4N) with their bounds."""
    figure = Figure()
    panels = panels_of(figure, "Figure 4: thrusts, conditions, errors", words, (), 3, 1.7, columns=2, width_in=10.0)
    (thrust, condition), (headings, rates), (masses, inertias) = panels
    _lines(thrust, "(a) thrust [N]", time_s, thrust_n, "link")
    _lines(condition, "(b) |u sin psi|, net force [N]", time_s, np.abs(conditions.normal_n), "")
    for link, net in enumerate(np.abs(conditions.net_n).T):
        condition.plot(time_s, net, "--", color=SERIES[link])
    names = ("(c) angle [rad]", "(d) rate [rad/s]", "(e) mass [kg]", "(f) inertia [kg m^2]")
    parts = zip((headings, rates, masses, inertias), names, np.split(error, 4, 1), np.split(stddev, 4, 1), strict=True)
    for axes, name, errors, deviations in parts:
        _lines(axes, name, time_s, errors, "")
        for link, one in enumerate(sigma * deviations.T):
            for side in (one, -one):
                axes.plot(time_s, side, ":", color=SERIES[link], linewidth=0.8)
        axes.axhline(0.0, color=INK, linewidth=0.5)
        # What is seen of later times counts: the prior would hide it.
        late = sigma * deviations[len(time_s) // 3 :].max()
        axes.set_ylim(-1.5 * late, 1.5 * late)
    for axes in (masses, inertias):
        axes.set_xlabel("time [s]")
    add_legend(figure, thrust)
    return figure


def _lines(axes: Axes, label: str, time_s: Vector, values: Matrix, name: str) -> None:
    for link, one in enumerate(values.T):
        axes.plot(time_s, one, color=SERIES[link], label=f"{name} {link + 1}" if name else None)
    axes.set_ylabel(label)
