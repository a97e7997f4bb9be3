"""What the command `train` makes of recordings of the hopper: trained filters, and a report on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_judgement import judge_filter
from hopper_estimation.filter_model import PARAMETERS, TRAINED, FilterModel, filters_of
from hopper_estimation.filter_training import FilterObjective, SearchSettings, TrainedFilter, train_filter
from hopper_estimation.hop_metrics import HopErrors
from hopper_estimation.phases import EVENTS
from hopper_estimation.sensitivity_plot import write_sensitivity
from hopper_estimation.training_trials import Trial, trials_of
from onboard_estimation.capabilities.tables import ReportTable
from onboard_estimation.errors import UserError
from onboard_estimation.learning.optimisation.problem import Progress
from onboard_estimation.learning.optimisation.sensitivity import Sensitivity, sensitivity

ALL = "all"
DEFAULT_FORM = "bounce"
CHANGES_PERCENT = (-20.0, -10.0, -5.0, 5.0, 10.0, 20.0)


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
            "cost": trained.search.best.cost,
            "cost_by_seed": {one.seed: one.cost for one in trained.search.results},
            "method": trained.search.best.method,
            "evaluations": sum(one.evaluations for one in trained.search.results),
            "parameters": {one.name: float(value) for one, value in zip(PARAMETERS, entry.parameters, strict=True)},
            "event_delay_s": dict(zip(EVENTS, entry.event_delay_s.tolist(), strict=True)),
            "event_stddev_s": dict(zip(EVENTS, entry.event_stddev_s.tolist(), strict=True)),
            "on_training_hops": {metric: _mean(self.errors[name], metric) for metric in ("m1", "m2", "m3", "m4")},
            "sensitivity_percent_per_percent": dict(zip(found.names, steepness.tolist(), strict=True)),
        }

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
        names = list(self.filters)
        errors = ReportTable(
            "errors on the training hops (mean)",
            ("filter", "height (M1)", "velocity (M2)", "apex height (M3)", "apex time (M4)", "cost by seed"),
            tuple(self._error_row(name) for name in names),
            ("height (M1)", "velocity (M2)", "apex height (M3)", "apex time (M4)"),
        )
        events = ReportTable(
            "events: seen so much later than they happen (median), and how that varies (standard deviation)",
            ("filter", *EVENTS),
            tuple(self._event_row(name) for name in names),
            EVENTS,
        )
        return [errors, *(self._parameter_table(name) for name in names), events]

    def _error_row(self, name: str) -> tuple[str, ...]:
        m1, m2, m3, m4 = (_mean(self.errors[name], metric) for metric in ("m1", "m2", "m3", "m4"))
        costs = " ".join(f"{one.cost:.4f}" for one in self.filters[name].search.results)
        return (name, f"{m1:.1f} %", f"{m2:.1f} %", f"{m3:.1f} %", f"{m4:.3f} s", costs)

    def _event_row(self, name: str) -> tuple[str, ...]:
        entry = self.filters[name].entry
        return (
            name,
            *(
                f"{1e3 * delay:.1f} ± {1e3 * stddev:.1f} ms"
                for delay, stddev in zip(entry.event_delay_s, entry.event_stddev_s, strict=True)
            ),
        )

    def _parameter_table(self, name: str) -> ReportTable:
        found, entry = self.sensitivities[name], self.filters[name].entry
        values = {one.name: float(value) for one, value in zip(PARAMETERS, entry.parameters, strict=True)}
        described = {one.name: one for one in PARAMETERS}
        rows = []
        for parameter, ratio in zip(found.names, found.largest_ratios, strict=True):
            one = described[parameter]
            unit = f" {one.unit}" if one.unit else ""
            bounds = f"{one.lower:g} to {one.upper:g}{unit}"
            rows.append((parameter, f"{values[parameter]:.5g}{unit}", bounds, f"{ratio:.2f}", one.meaning))
        return ReportTable(
            f"{name}: parameters; by how many percent the cost changes when they change by one",
            ("parameter", "found", "searched", "sensitivity", "meaning"),
            tuple(rows),
            ("found", "searched", "sensitivity"),
        )

    def save(self, path: Path) -> None:
        """The model's file, and beside it a picture of each filter's sensitivity (the paper's figure 4)."""
        self.model.save(path)
        for name, found in self.sensitivities.items():
            picture = path.with_name(f"{path.stem}_{name}_sensitivity.png")
            write_sensitivity(found, picture, f"{name}: change of the cost when one parameter changes")


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
        state = Path(f"{search.state_file}_{name}.npz") if search.state_file else None
        settings = SearchSettings(
            search.method,
            search.individuals,
            search.generations,
            tuple(search.seeds),
            search.threads or None,
            search.delays,
            state,
        )
        trained = train_filter(configuration, name, trials, settings, told)
        objective = FilterObjective(configuration, name, trials, settings.threads, settings.delays)
        filters[name] = trained
        errors[name] = tuple(judge_filter(configuration, name, trained.entry, trial).errors for trial in trials)
        sensitivities[name] = sensitivity(trained.problem, objective, trained.search.best.best, CHANGES_PERCENT)
    try:
        kept = dict(filters_of(configuration.filter_model).entries)
    except UserError:
        kept = {}
    training = {
        "date_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "version": version("onboard_estimation"),
        "trained": {
            name: {"cost": one.search.best.cost, "seed": one.search.best.seed} for name, one in filters.items()
        },
        "method": search.method,
        "hops": sum(len(trial.hops.cycles) for trial in trials),
        "recordings": dict(zip(recordings, hashes, strict=True)),
    }
    model = FilterModel({**kept, **{name: one.entry for name, one in filters.items()}}, training)
    return HopperTraining(filters, model, errors, sensitivities, tuple(trials), time.perf_counter() - started)


def _mean(errors: Sequence[HopErrors], metric: str) -> float:
    values = np.concatenate([one.values[metric] for one in errors])
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _at_bounds(trained: TrainedFilter) -> list[str]:
    """Names of parameters that were found within a hundredth of the range of a bound."""
    shares = trained.problem.to_shares(trained.search.best.best)
    return [
        name
        for name, share in zip(trained.problem.names, np.ravel(shares), strict=True)
        if min(share, 1.0 - share) < 0.01
    ]
