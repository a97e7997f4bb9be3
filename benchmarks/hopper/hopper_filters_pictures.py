"""Pictures of `hopper_filters` for the documentation: the paper's figures 4, 5 and 6 on the simulated robot."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.hopper import hopper_filters_ground as ground
from benchmarks.hopper import hopper_filters_rates as rates
from benchmarks.hopper.hopper_filters_jobs import Job, compute
from benchmarks.hopper.hopper_filters_models import Search
from onboard_estimation.learning.optimisation.sensitivity import Sensitivity
from onboard_estimation.learning.optimisation.sensitivity_plot import write_sensitivity

FOLDER = Path(__file__).parent.parent / "docs"
SENSITIVITY, GROUND, RATES = "hopper_sensitivity.png", "hopper_ground.png", "hopper_sensing_frequency.png"
_STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 8.5,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.1,
    "legend.frameon": False,
}
_BLUE, _RED, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#888888"
_SHOWN_HZ = (3360.0, 840.0, 600.0, 400.0, 200.0, 100.0)
_SHOWN_S = 12.0


def write_pictures(
    search: Search,
    training_seeds: int,
    robots: int,
    draws: int,
    test_seeds: list[int],
    workers: int | None,
    folder: Path = FOLDER,
) -> None:
    """All three, from kept results where they are there."""
    job = Job.of("hopper_filters_models.sensitivity_of", search=asdict(search), training_seed=0, robots=robots)
    write_sensitivity_picture(compute([job], workers)[0], folder / SENSITIVITY)
    found = {
        scenario: compute(
            [
                ground.ground_job(search, training, robots, scenario, seed)
                for training in range(training_seeds)
                for seed in test_seeds
            ],
            workers,
        )
        for scenario in ("hardware", "uneven")
    }
    write_ground_picture(found, folder / GROUND)
    jobs = [rates.rate_job(search, 0, robots, rate, draws) for rate in rates.RATES_HZ]
    write_rate_picture(compute(jobs, workers), folder / RATES)


def write_sensitivity_picture(found: dict[str, Any], path: Path) -> None:
    """Figure 4."""
    arrays = {
        name: np.array(found[name], dtype=float) for name in ("changes_percent", "values", "cost_changes_percent")
    }
    result = Sensitivity(
        tuple(found["names"]),
        arrays["changes_percent"],
        arrays["values"],
        found["cost"],
        arrays["cost_changes_percent"],
    )
    write_sensitivity(result, path, "KF1: change of the training cost when one parameter changes, the others as found")


def write_ground_picture(found: dict[str, list[Any]], path: Path) -> None:
    """Figure 5: mean size of the error after each hop, and all runs of the shipped way."""
    with style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(10.0, 3.8), dpi=110.0, layout="constrained")
        for axes, (scenario, runs), title in zip(
            figure.subplots(1, 2, sharey=True), found.items(), ("flat ground", "ground that steps by 4 cm"), strict=True
        ):
            hops = np.arange(ground.HOPS + 1)
            for way, colour, mark in (
                (ground.UNTRAINED, _GREY, "^"),
                (ground.DIRECT_EQUATION, _RED, "s"),
                (ground.DROP_EQUATION, _GREEN, "D"),
                (ground.SHIPPED, _BLUE, "o"),
            ):
                errors = np.abs([one["errors_m"][way] for one in runs])
                label = way if way == ground.UNTRAINED else f"KF1, {way}"
                axes.plot(hops[1:], errors.mean(axis=0)[1:], color=colour, marker=mark, markersize=3, label=label)
            axes.axhline(0.018, color="black", linestyle=":", linewidth=0.9)
            axes.text(1, 0.0195, "0.018 m: the paper's figure after 30 hops, another robot's", size=7.5)
            axes.set_yscale("log")
            axes.set_xlabel("hops of 1 to 4 m")
            axes.set_title(f"{title}, {len(runs)} runs", loc="left", size=8.5)
            if scenario == "hardware":
                axes.set_ylabel("mean size of the ground height's error (m)")
                axes.legend(loc="lower right", fontsize=7.5)
        _save(figure, path)


def write_rate_picture(found: list[dict[str, Any]], path: Path) -> None:
    """Figure 6: mean and standard deviation of the errors over draws of the noise, and the error without noise."""
    shown = [one for one in found if one["rate_hz"] in _SHOWN_HZ]
    with style.context(_STYLE, after_reset=True):
        figure = Figure(figsize=(11.0, 5.2), dpi=110.0, layout="constrained")
        grid = figure.subplots(2, len(shown), sharex=True, sharey="row", squeeze=False)
        for column, one in enumerate(shown):
            time_s = np.array(one["time_s"]) - one["time_s"][0]
            kept = time_s <= _SHOWN_S
            for row in range(2):
                mean, deviation, exact = (np.array(one[name])[row][kept] for name in ("mean", "deviation", "exact"))
                axes = grid[row][column]
                axes.fill_between(
                    time_s[kept],
                    mean - deviation,
                    mean + deviation,
                    color=_BLUE,
                    alpha=0.25,
                    linewidth=0.0,
                    label="with noise: mean ± deviation",
                )
                axes.plot(time_s[kept], mean, color=_BLUE, linewidth=0.9)
                axes.plot(time_s[kept], exact, color=_RED, linewidth=0.8, label="without noise")
            grid[0][column].set_title(f"{one['rate_hz']:g} Hz", loc="left", size=8.5)
            grid[1][column].set_xlabel("since the drop (s)")
        grid[0][0].set_ylabel("error of the height (m)")
        grid[1][0].set_ylabel("error of the velocity (m/s)")
        grid[0][0].set_ylim(-3.0, 3.0)
        grid[1][0].set_ylim(-3.0, 3.0)
        grid[0][0].legend(loc="upper left", fontsize=7.0)
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    FigureCanvasAgg(figure).print_png(path, metadata={"Software": None})
