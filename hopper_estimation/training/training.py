"""What the command `train` makes of recordings of the hopper: trained filters, and a report on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from hopper_estimation.estimators.filters import PARAMETERS, TRAINED, FilterModel, filters_of
from hopper_estimation.judging.hop_metrics import METRICS, HopErrors, mean_of
from hopper_estimation.model.configuration import HopperConfiguration
from hopper_estimation.model.phases import EVENTS
from hopper_estimation.training.filter_calibration import Trial, judged, trials_of
from hopper_estimation.training.filter_training import TrainedFilter, train_filter
from onboard_estimation.base.errors import UserError
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.learning.optimisation.problem import Progress, Sensitivity, sensitivity
from onboard_estimation.report.plots import INK, SERIES, add_title, plain, write_figure

ALL = "all"
DEFAULT_FORM = "bounce"
CHANGES_PERCENT = (-20.0, -10.0, -5.0, 5.0, 10.0, 20.0)
# Without its yellow and grey, which are hard to see on white.
_COLOURS, _GREY = SERIES[:7], "#AAAAAA"
_MARKERS = "osD^vPX"
_LINEAR_PERCENT = 10.0


@dataclass(frozen=True, eq=False)
class HopperTraining:
    """Trained filters by name, with their errors on the hops that they were trained with."""

    filters: Mapping[str, TrainedFilter]
    model: FilterModel
    errors: Mapping[str, tuple[HopErrors, ...]]
    sensitivities: Mapping[str, Sensitivity]
    trials: tuple[Trial, ...]
    duration_s: float

    def summary(self) -> dict[str, Any]:
        """All figures, units in the names."""
        return {
            "robot": "hopper",
            "trials": {trial.name: {"hops": len(trial.hops.cycles)} for trial in self.trials},
            "hops": self._hops,
            "training_s": self.duration_s,
            "filters": {name: self._filter_summary(name) for name in self.filters},
        }

    @property
    def _hops(self) -> int:
        return sum(len(trial.hops.cycles) for trial in self.trials)

    def _filter_summary(self, name: str) -> dict[str, Any]:
        trained, entry = self.filters[name], self.filters[name].entry
        found, steepness = self.sensitivities[name], self.sensitivities[name].largest_ratios
        return {
            "cost": trained.best.cost,
            "cost_by_seed": {one.seed: one.cost for one in trained.results},
            "evaluations": sum(one.evaluations for one in trained.results),
            "parameters": {one.name: float(value) for one, value in zip(PARAMETERS, entry.parameters, strict=True)},
            "event_delay_s": dict(zip(EVENTS, entry.event_delay_s.tolist(), strict=True)),
            "event_stddev_s": dict(zip(EVENTS, entry.event_stddev_s.tolist(), strict=True)),
            "on_training_hops": self._means(name),
            "sensitivity_percent_per_percent": dict(zip(found.names, steepness.tolist(), strict=True)),
        }

    def _means(self, name: str) -> dict[str, float]:
        """M1 to M4 over all hops where they are known."""
        values = {one: np.concatenate([each.values[one] for each in self.errors[name]]) for one in METRICS[:4]}
        return {metric: mean_of(known[np.isfinite(known)]) for metric, known in values.items()}

    def sentences(self) -> list[str]:
        """What it was trained with, and what the reader must know."""
        out = [
            f"{self._hops} hops of {len(self.trials)} trials, {self.duration_s:.0f} s of training.",
            "Figures are those of the hops that were trained with; judge the model on others, with `evaluate --model`.",
        ]
        for name, trained in self.filters.items():
            edge = _at_bounds(trained)
            if edge:
                out.append(f"{name}: {', '.join(edge)} at the bound of what was searched.")
            missed = sum(one.matches.missed for one in self.errors[name])
            if missed:
                out.append(f"{name} misses {missed} of the {self._hops} hops.")
        return out

    def tables(self) -> list[ReportTable]:
        """Errors, parameters with their sensitivity, events."""
        rows, events = [], []
        for name, trained in self.filters.items():
            entry = trained.entry
            m1, m2, m3, m4 = self._means(name).values()
            costs = " ".join(f"{one.cost:.4f}" for one in trained.results)
            rows.append((name, f"{m1:.1f} %", f"{m2:.1f} %", f"{m3:.1f} %", f"{m4:.3f} s", costs))
            times_ms = zip(1e3 * entry.event_delay_s, 1e3 * entry.event_stddev_s, strict=True)
            events.append((name, *(f"{delay:.1f} ± {stddev:.1f} ms" for delay, stddev in times_ms)))
        metrics = "height (M1)", "velocity (M2)", "apex height (M3)", "apex time (M4)"
        headings = "filter", *metrics, "cost by seed"
        seen = "events: seen so much later than they happen (median), and how that varies (standard deviation)"
        return [
            ReportTable("errors on the training hops (mean)", headings, tuple(rows), metrics),
            *(self._parameter_table(name) for name in self.filters),
            ReportTable(seen, ("filter", *EVENTS), tuple(events), EVENTS),
        ]

    def _parameter_table(self, name: str) -> ReportTable:
        found, entry = self.sensitivities[name], self.filters[name].entry
        known = {one.name: (one, value) for one, value in zip(PARAMETERS, entry.parameters, strict=True)}
        rows = []
        for parameter, ratio in zip(found.names, found.largest_ratios, strict=True):
            one, value = known[parameter]
            unit = f" {one.unit}" if one.unit else ""
            bounds = f"{one.lower:g} to {one.upper:g}{unit}"
            rows.append((parameter, f"{value:.5g}{unit}", bounds, f"{ratio:.2f}", one.meaning))
        return ReportTable(
            f"{name}: parameters; by how many percent the cost changes when they change by one",
            ("parameter", "found", "searched", "sensitivity", "meaning"),
            tuple(rows),
            ("found", "searched", "sensitivity"),
        )

    def save(self, path: Path) -> Sequence[Path]:
        """The model's file, and beside it a picture of each filter's sensitivity (the paper's figure 4)."""
        self.model.save(path)
        pictures = {name: path.with_name(f"{path.stem}_{name}_sensitivity.png") for name in self.sensitivities}
        for name, picture in pictures.items():
            title = f"{name}: change of the cost when one parameter changes"
            write_figure(picture, partial(sensitivity_figure, self.sensitivities[name], title))
        return list(pictures.values())


def train_hopper(
    configuration: HopperConfiguration,
    recordings: Mapping[str, Any],
    hashes: Sequence[str],
    form: str | None,
    progress: Callable[[float, str], None],
) -> HopperTraining:
    """Train one filter, or `all` of them; those that are not trained keep the configured model's parameters.

    Raises
    ------
    UserError
        A recording does not do, or `training` asks for what there is not.
    """
    started = time.perf_counter()
    names = TRAINED if form == ALL else (form or DEFAULT_FORM,)
    trials = trials_of(configuration, recordings)
    search = configuration.training
    filters, errors, sensitivities = {}, {}, {}
    for number, name in enumerate(names):

        def told(one: Progress, number: int = number, name: str = name) -> None:
            share = (number + one.share) / len(names)
            progress(share, f"{name}, seed {one.seed}, generation {one.generation}: cost {one.best_cost:.4f}")

        progress(number / len(names), f"{name}: first generation")
        trained = train_filter(configuration, name, trials, search, told)
        filters[name] = trained
        errors[name] = tuple(judged(configuration, name, trained.entry, trial)[0] for trial in trials)
        objective, best = trained.objective, trained.best.best
        sensitivities[name] = sensitivity(objective.problem(), objective, best, CHANGES_PERCENT)
    try:
        kept = dict(filters_of(configuration.filter_model).entries)
    except UserError:
        kept = {}
    training = {
        "date_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": version("onboard_estimation"),
        "trained": {name: {"cost": one.best.cost, "seed": one.best.seed} for name, one in filters.items()},
        "hops": sum(len(trial.hops.cycles) for trial in trials),
        "recordings": dict(zip(recordings, hashes, strict=True)),
    }
    model = FilterModel({**kept, **{name: one.entry for name, one in filters.items()}}, training)
    return HopperTraining(filters, model, errors, sensitivities, tuple(trials), time.perf_counter() - started)


def _at_bounds(trained: TrainedFilter) -> list[str]:
    """Names of parameters that were found within a hundredth of the range of a bound."""
    problem = trained.objective.problem()
    shares = np.ravel(problem.to_shares(trained.best.best))
    return [name for name, share in zip(problem.names, shares, strict=True) if min(share, 1.0 - share) < 0.01]


def sensitivity_figure(result: Sensitivity, title: str) -> Figure:
    """Change of the cost over change of each parameter (the paper's figure 4).

    Above the dotted lines the cost changes by more percents than the parameter. The seven that matter most have a
    colour and a mark each, and stand by name in the legend; the others are grey.
    """
    figure = Figure(figsize=(10.0, 4.8), layout="constrained")
    axes, changes = figure.subplots(), result.changes_percent
    finite = np.where(np.isfinite(result.cost_changes_percent), result.cost_changes_percent, np.nan)
    order = np.argsort(-np.nan_to_num(result.largest_ratios, nan=-1.0), kind="stable").tolist()
    named = zip(order, _COLOURS, _MARKERS, strict=False)
    axes.plot(changes, finite[order[len(_COLOURS) :]].T, color=_GREY)
    for number, colour, marker in reversed(list(named)):  # the most important last, on top
        ratio = f"{result.largest_ratios[number]:.3g} % for 1 %"
        label = f"{plain(result.names[number])}: {ratio}"
        axes.plot(changes, finite[number], color=colour, marker=marker, markersize=4.0, label=label)
    for slope in (1.0, -1.0):
        axes.plot(changes, slope * changes, color=INK, linestyle=":", linewidth=0.9)
    # Costs jump where a hop is missed: hundreds of percent beside fractions of one.
    if np.nanmax(np.abs(finite), initial=0.0) > 10.0 * max(np.abs(changes).max(), _LINEAR_PERCENT):
        axes.set_yscale("symlog", linthresh=_LINEAR_PERCENT)
    axes.set(xlabel="change of the parameter (%)", ylabel="change of the cost (%)")
    figure.legend(loc="outside right upper", reverse=True)
    add_title(figure, title)
    return figure
