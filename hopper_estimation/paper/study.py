"""The paper's filters trained as it trains them, and what they and others are worth on robots that they do not know.

Errors are M1 to M5 of `judging.hop_metrics`, by hop. Beside them, as the paper's tables have them or leave them open:

    m1_flight, m2_flight   HVSE3 and HVSE4: only where the filter takes the robot to fly
    m4_zero                the apex where the estimated velocity is zero, no trained delay taken off

M3 counts a hop whose apex was not told as 100 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hopper_estimation.estimators.filters import PARAMETERS, FilterEntry, FilterModel, filters_of, load_filters
from hopper_estimation.judging.hop_metrics import mean_of
from hopper_estimation.judging.hops import HopCycles
from hopper_estimation.model.configuration import HopperConfiguration, HopperTrainingConfiguration
from hopper_estimation.model.phases import DROP, REBOUND, Array
from hopper_estimation.paper import trials as robots
from hopper_estimation.paper.trials import CONFIGURATION, FIRST_TEST_SEED, HEIGHTS_M, judged_on, learned_from
from hopper_estimation.training.filter_calibration import Trial, judged
from hopper_estimation.training.filter_training import PAPERS_FORM, FilterObjective, train_filter
from hopper_estimation.training.training import CHANGES_PERCENT
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.reproduced import find_paper
from onboard_estimation.learning.optimisation.problem import Sensitivity, sensitivity

ALL_M = 0.0
"""In place of a set height: all of them."""
CONTROL_S = {"1m": 14.0, "2m": 16.0, "3m": 19.0, "4m": 22.0}
"""Ten hops or more by the estimate."""
PAPERS = ("kf1", "kf2", "eskf1", "eskf2")
TABLE_TWO, ALL_ENTERED, FOREIGN = "Table II, rest trained", "Table II, all entered", "kf1, foreign effects"
CONTROLLED = "kf1, hopping by its estimate"
_AS_SHIPPED = ("ba1", "dr1", "ba1_best", "dr1_best", "bounce")
JUDGED = {
    **{name: (name, name) for name in (*PAPERS, *_AS_SHIPPED)},
    "kf3": ("kf3_kf1", "kf1"),
    FOREIGN: ("kf1", "kf1"),
    **{name: ("kf1", name) for name in (TABLE_TWO, ALL_ENTERED)},
}
"""Which estimator is judged on robots that hop by their true state, with whose parameters."""
_FILTER = ("state_cutoff_hz", "phase_cutoff_hz", "switching_g", "acceleration_stddev_m_s2", "velocity_stddev_m_s",
           "position_stddev_m")  # fmt: skip
"""What of Table II means here what it means there; its fit belongs to a formula that the text has lost."""
PAPER_FILE = "config/hopper_paper.json"


class Size(NamedTuple):
    """How much is done: training seeds of KF1 (0: parameters as shipped) and of other filters, robots of each, test
    robots, robots that hop by estimates and for what share of `CONTROL_S`, robots of Figure 5 and of each frequency."""

    training_seeds: int = 5
    other_seeds: int = 2
    robots: int = 8
    test_robots: int = 10
    controlled_robots: int = 3
    control_share: float = 1.0
    ground_robots: int = 5
    sensing_robots: int = 5

    @property
    def about(self) -> str:
        """Which robots, for titles of tables."""
        learned = (
            f"trained by 1000 individuals in 20 generations on {self.robots} robots each of training seeds 0 to "
            f"{self.training_seeds - 1} (other filters: {self.other_seeds} of them), median (worst)"
        )
        learned = learned if self.training_seeds else "parameters as shipped"
        return f"robots {FIRST_TEST_SEED} to {FIRST_TEST_SEED + self.test_robots - 1}, {learned}"

    def seeds(self, name: str) -> range:
        """Training seeds of a filter."""
        return range(max(self.training_seeds if name == "kf1" else self.other_seeds, 1))


WHOLE, QUICK = Size(), Size(0, 0, 2, 2, 1, 0.55, 2, 1)


class Learned(NamedTuple):
    """A filter with parameters: its apex error on the robots it learned from, %, and what each parameter matters."""

    entry: FilterEntry
    training_m3: float
    sensitivity: Sensitivity


class Judged(NamedTuple):
    """Errors of all hops of a set height, (N,) by metric, percent, s, m; the truth's hops for their agility."""

    set_height_m: float
    errors: Mapping[str, Array]
    cycles: HopCycles


Runs = Sequence[Sequence[Judged]]
"""By training seed."""


class Study(NamedTuple):
    """All of it, by name and training seed: what was learned; parameters; what filters are worth."""

    size: Size
    learned: Mapping[str, list[Learned]]
    entries: Mapping[str, list[FilterEntry]]
    known: Mapping[str, Runs]


def studied(size: Size) -> Study:
    """Train, or take what is shipped, and judge."""
    tasks = [(name, seed, size) for seed in size.seeds("kf1") for name in PAPERS if seed in size.seeds(name)]
    found = by_name(learned, tasks)
    entries = {name: [one.entry for one in each] for name, each in found.items()}
    entries |= {name: [shipped(name)] for name in _AS_SHIPPED}
    entered = paper_entry().parameters.copy()
    entered[list(table_two(filter_only=False))] = list(table_two(filter_only=False).values())
    entries |= {TABLE_TWO: [paper_entry()], ALL_ENTERED: [replace(paper_entry(), parameters=entered)]}
    known = by_name(_judged_known, [(name, one, size) for name, (_, its) in JUDGED.items() for one in entries[its]])
    # Each robot that hops by the estimate has another training seed's parameters, in turns.
    kf1 = entries["kf1"]
    turns = [(n, kf1[n % len(kf1)], gait, size) for n in range(size.controlled_robots) for gait in CONTROL_S]
    known[CONTROLLED] = list(by_name(_judged_controlled, turns).values())
    return Study(size, found, entries, known)


def by_name(function: Callable[[Any], Any], tasks: Sequence[Any]) -> dict[Any, list[Any]]:
    """What came of tasks, by their first element."""
    found: dict[Any, list[Any]] = {}
    for task, one in zip(tasks, all_of(function, tasks), strict=True):
        found.setdefault(task[0], []).append(one)
    return found


def table_two(filter_only: bool) -> dict[int, float]:
    """Values of the paper's Table II by their places in a parameter vector: those of the filter, or all."""
    printed = find_paper("hopping").printed["Table II"]
    return {
        place: float(printed[one.name])
        for place, one in enumerate(PARAMETERS)
        if printed.get(one.name, "NA") != "NA" and (one.name in _FILTER or not filter_only)
    }


def learned(task: tuple[str, int, Size]) -> Learned:
    """A filter, trained on the robots of that seed, or as shipped."""
    name, seed, size = task
    trials = learned_from(seed, size.robots)
    entry = trained(CONFIGURATION, name, trials, seed) if size.training_seeds else shipped(name)
    objective = FilterObjective(CONFIGURATION, name, trials, 1, PAPERS_FORM)
    errors = [judged(CONFIGURATION, name, entry, one)[0].m3_with_missed for one in trials]
    optimum = entry.parameters[list(objective.places)]
    matters = sensitivity(objective.problem(), objective, optimum, CHANGES_PERCENT)
    return Learned(entry, mean_of(np.concatenate(errors)), matters)


def trained(
    configuration: HopperConfiguration,
    name: str,
    trials: Sequence[Trial],
    seed: int,
    held: Mapping[int, float] = MappingProxyType({}),
) -> FilterEntry:
    """A filter, trained on trials as the paper trains: 1000 individuals, 20 generations."""
    search = HopperTrainingConfiguration(seeds=(seed,), threads=1, delays=False)
    return train_filter(configuration, name, trials, search, held=held).entry


def paper_model() -> FilterModel:
    """KF1 with Table II's cut-offs, switching g and deviations, the rest trained: what `PAPER_FILE` holds."""
    entry = trained(CONFIGURATION, "kf1", learned_from(0, WHOLE.robots), 0, table_two(filter_only=True))
    return FilterModel({"kf1": entry}, {"from Table II": list(_FILTER), "made by": f"{__name__}.paper_model"})


@cache
def paper_entry() -> FilterEntry:
    """KF1 of `PAPER_FILE`."""
    return load_filters(resource(PAPER_FILE)).entry("kf1")


def shipped(estimator: str) -> FilterEntry:
    """The package's parameters of an estimator."""
    return filters_of("").entry(estimator)


def _judged_known(task: tuple[str, FilterEntry, Size]) -> list[Judged]:
    """A filter on the test robots, which are controlled by their true state."""
    name, entry, size = task
    trials = judged_on(size.test_robots, "foreign" if name == FOREIGN else "hardware")
    return [_of_trial(JUDGED[name][0], entry, trial) for trial in trials]


def _judged_controlled(task: tuple[int, FilterEntry, str, Size]) -> Judged:
    """KF1 on a robot that goes by its estimate."""
    robot, entry, gait, size = task
    seconds = size.control_share * CONTROL_S[gait]
    return _of_trial("kf1", entry, robots.controlled(entry, FIRST_TEST_SEED + robot, gait, seconds))


def _of_trial(estimator: str, entry: FilterEntry, trial: Trial) -> Judged:
    errors = hop_errors_of(CONFIGURATION, estimator, entry, trial)
    return Judged(HEIGHTS_M[trial.name.partition(",")[0]], errors, trial.hops.cycles)


def hop_errors_of(
    configuration: HopperConfiguration, estimator: str, entry: FilterEntry, trial: Trial
) -> dict[str, Array]:
    """All errors of a filter over a trial, hop by hop."""
    found, run = judged(configuration, estimator, entry, trial)
    zero, _ = judged(configuration, estimator, replace(entry, event_delay_s=0.0 * entry.event_delay_s), trial)
    flight = dict(zip(("m1_flight", "m2_flight"), _in_flight(trial, run.out), strict=True))
    m3 = np.where(np.isfinite(trial.hops.cycles.hop_height_m), found.m3_with_missed, np.nan)
    return {**found.values, "m3": m3, "m4_zero": zero.values["m4"], **flight}


def _in_flight(trial: Trial, out: Array) -> Array:
    """(2, N) M1 and M2 over the samples of each hop at which the filter takes the robot to fly."""
    cycles = trial.hops.cycles
    flies = np.isin(out[:, 5], (REBOUND, DROP)) & np.isfinite(trial.true_velocity_m_s)
    truth = np.column_stack([trial.true_height_m, trial.true_velocity_m_s])
    rows = []
    for begin_s, end_s in zip(cycles.touchdown_s, cycles.next_touchdown_s, strict=True):
        of_hop = flies & (trial.time_s >= begin_s) & (trial.time_s < end_s)
        error, size = (np.abs(one[of_hop]).sum(axis=0) for one in (out[:, :2] - truth, truth))
        rows.append(100.0 * error / size if of_hop.any() else np.full(2, np.nan))
    return np.array(rows).reshape(-1, 2).T


def values_of(runs: Runs, metric: str, set_height_m: float = ALL_M) -> list[float]:
    """Mean over all hops of a set height, by training seed."""
    chosen = [[one.errors[metric] for one in run if set_height_m in (ALL_M, one.set_height_m)] for run in runs]
    return [mean_of(np.concatenate(one)) for one in chosen]


def shown(values: Sequence[float] | Array, scale: float = 1.0) -> str:
    """Median and, in brackets, the worst of several."""
    middle, worst = scale * float(np.median(values)), scale * float(np.max(values))
    return f"{middle:.3g} ({worst:.3g})" if len(values) > 1 else f"{middle:.3g}"
