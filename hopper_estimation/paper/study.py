"""The paper's filters trained as it trains them, and what they and others are worth on robots that they do not know.

Errors are M1 to M5 of `judging.hop_metrics`, by hop. Beside them, as the paper's tables have them or leave them open:

    m1_flight, m2_flight   HVSE3 and HVSE4: only where the filter takes the robot to fly
    m4_zero                the apex where the estimated velocity is zero, no trained delay taken off

M3 counts a hop whose apex was not told as 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from hopper_estimation.estimators.filters import (
    PARAMETERS,
    FilterEntry,
    FilterModel,
    filters_of,
    load_filters,
    untrained_entry,
)
from hopper_estimation.judging.hops import HopCycles
from hopper_estimation.model.configuration import HopperConfiguration, HopperTrainingConfiguration
from hopper_estimation.model.phases import DROP, REBOUND, Array
from hopper_estimation.paper.trials import (
    CONFIGURATION,
    FIRST_TEST_SEED,
    HEIGHTS_M,
    controlled,
    judged_on,
    learned_from,
)
from hopper_estimation.training.filter_calibration import Trial, judged
from hopper_estimation.training.filter_training import PAPERS_FORM, FilterObjective, train_filter
from hopper_estimation.training.training import CHANGES_PERCENT
from onboard_estimation.base.installed import resource
from onboard_estimation.base.workers import all_of
from onboard_estimation.contract.reproduced import find_paper
from onboard_estimation.learning.optimisation.problem import Sensitivity, sensitivity

Errors = Mapping[str, Array]
"""(N,) by metric, hop by hop: percent, s, m."""
ALL_M = 0.0
"""In place of a set height: all of them."""
CONTROL_S = {"1m": 14.0, "2m": 16.0, "3m": 19.0, "4m": 22.0}
"""Ten hops or more by the estimate."""


class Subject(NamedTuple):
    """A filter that is judged.

    Attributes
    ----------
    estimator
        That runs.
    trained
        Estimator that is trained; empty: its parameters are the package's, if it has any.
    from_table
        Whether the filter's values of Table II are held.
    scenario
        In which it is judged.
    """

    estimator: str
    trained: str = ""
    from_table: bool = False
    scenario: str = "hardware"

    @property
    def learner(self) -> Subject:
        """What is trained for it."""
        return self._replace(estimator=self.trained, scenario="hardware")


PAPERS = {name: Subject(name, name) for name in ("kf1", "kf2", "eskf1", "eskf2")}
TABLE_TWO, ALL_ENTERED, FOREIGN = "Table II, rest trained", "Table II, all entered", "kf1, foreign effects"
SUBJECTS = {
    **PAPERS,
    "kf3": Subject("kf3_kf1", "kf1"),
    TABLE_TWO: Subject("kf1", "kf1", from_table=True),
    ALL_ENTERED: Subject("kf1", "kf1", from_table=True),
    FOREIGN: Subject("kf1", "kf1", scenario="foreign"),
    **{name: Subject(name) for name in ("ba1", "dr1", "ba1_best", "dr1_best", "bounce")},
}
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
        if not self.training_seeds:
            learned = "parameters as shipped"
        else:
            learned = (
                f"trained by 1000 individuals in 20 generations on {self.robots} robots each of training seeds 0 to "
                f"{self.training_seeds - 1} (other filters: {self.other_seeds} of them), median (worst)"
            )
        return f"robots {FIRST_TEST_SEED} to {FIRST_TEST_SEED + self.test_robots - 1}, {learned}"

    def seeds(self, learner: Subject) -> range:
        """Training seeds of a filter."""
        return range(max(self.training_seeds if learner == PAPERS["kf1"] else self.other_seeds, 1))


WHOLE, QUICK = Size(), Size(0, 0, 2, 2, 1, 0.55, 2, 1)


class Learned(NamedTuple):
    """A filter with parameters: its apex error on the robots it learned from, %, and what each parameter matters."""

    entry: FilterEntry
    training_m3: float
    sensitivity: Sensitivity


def table_two(filter_only: bool) -> dict[int, float]:
    """Values of the paper's Table II by their places in a parameter vector: those of the filter, or all."""
    names = [one.name for one in PARAMETERS]
    printed = find_paper("hopping").printed["Table II"].items()
    return {
        names.index(name): float(value)
        for name, value in printed
        if value != "NA" and (name in _FILTER or not filter_only)
    }


def learned(task: tuple[Subject, int, Size]) -> Learned:
    """A subject's filter, trained on the robots of that seed, or as shipped."""
    subject, seed, size = task
    trials = learned_from(seed, size.robots)
    if size.training_seeds and not subject.from_table:
        return trained_on(CONFIGURATION, subject, trials, seed)
    # That of Table II was trained so, on the robots of the first seed.
    entry = paper_entry() if subject.from_table else shipped(subject.trained)
    objective = FilterObjective(CONFIGURATION, subject.trained, trials, 1, PAPERS_FORM)
    return _learned(CONFIGURATION, entry, objective, entry.parameters[list(objective.places)], trials)


def trained_on(configuration: HopperConfiguration, subject: Subject, trials: Sequence[Trial], seed: int) -> Learned:
    """A subject's filter, trained on trials as the paper trains: 1000 individuals, 20 generations."""
    search = HopperTrainingConfiguration(seeds=(seed,), threads=1, delays=False)
    held = table_two(filter_only=True) if subject.from_table else {}
    found = train_filter(configuration, subject.trained, trials, search, held=held)
    return _learned(configuration, found.entry, found.objective, found.best.best, trials)


def _learned(
    configuration: HopperConfiguration,
    entry: FilterEntry,
    objective: FilterObjective,
    optimum: Array,
    trials: Sequence[Trial],
) -> Learned:
    errors = [judged(configuration, objective.estimator, entry, one)[0].m3_with_missed for one in trials]
    matters = sensitivity(objective.problem(), objective, optimum, CHANGES_PERCENT)
    return Learned(entry, float(np.nanmean(np.concatenate(errors))), matters)


def paper_model() -> FilterModel:
    """KF1 with Table II's cut-offs, switching g and deviations, the rest trained: what `PAPER_FILE` holds."""
    trials = learned_from(0, WHOLE.robots)
    entry = trained_on(CONFIGURATION, SUBJECTS[TABLE_TWO].learner, trials, 0).entry
    return FilterModel({"kf1": entry}, {"from Table II": list(_FILTER), "made by": f"{__name__}.paper_model"})


@cache
def paper_entry() -> FilterEntry:
    """KF1 of `PAPER_FILE`."""
    return load_filters(resource(PAPER_FILE)).entry("kf1")


def shipped(estimator: str) -> FilterEntry:
    """The package's parameters of an estimator."""
    return filters_of("").entry(estimator)


def entry_of(name: str, found: Mapping[tuple[Subject, int], Learned], seed: int) -> FilterEntry:
    """A subject's parameters."""
    subject = SUBJECTS[name]
    if not subject.trained:
        return shipped("bounce") if name == "bounce" else untrained_entry()
    entry = found[subject.learner, seed].entry
    if name != ALL_ENTERED:
        return entry
    parameters = entry.parameters.copy()
    for place, value in table_two(filter_only=False).items():
        parameters[place] = value
    return replace(entry, parameters=parameters)


class Judged(NamedTuple):
    """Errors of all hops of a set height; the truth's hops for their agility."""

    set_height_m: float
    errors: Errors
    cycles: HopCycles


def judged_known(task: tuple[Subject, FilterEntry, Size]) -> list[Judged]:
    """A filter on the test robots, which are controlled by their true state."""
    subject, entry, size = task
    return [_of_trial(subject.estimator, entry, trial) for trial in judged_on(size.test_robots, subject.scenario)]


def judged_controlled(task: tuple[FilterEntry, int, str, Size]) -> Judged:
    """KF1 on a robot that goes by its estimate."""
    entry, seed, gait, size = task
    return _of_trial("kf1", entry, controlled(entry, seed, gait, size.control_share * CONTROL_S[gait]))


def _of_trial(estimator: str, entry: FilterEntry, trial: Trial) -> Judged:
    gait = trial.name.partition(",")[0]
    errors = hop_errors_of(CONFIGURATION, estimator, entry, trial)
    return Judged(HEIGHTS_M[gait], errors, trial.hops.cycles)


def hop_errors_of(
    configuration: HopperConfiguration, estimator: str, entry: FilterEntry, trial: Trial
) -> dict[str, Array]:
    """All errors of a filter over a trial, hop by hop."""
    found, run = judged(configuration, estimator, entry, trial)
    as_seen = replace(entry, event_delay_s=np.zeros_like(entry.event_delay_s))
    zero, _ = judged(configuration, estimator, as_seen, trial)
    flight = _in_flight(trial, run.out)
    errors = {**found.values, "m4_zero": zero.values["m4"], "m1_flight": flight[0], "m2_flight": flight[1]}
    seen = np.isfinite(trial.hops.cycles.hop_height_m)
    errors["m3"] = np.where(seen, found.m3_with_missed, np.nan)
    return errors


def _in_flight(trial: Trial, out: Array) -> Array:
    """(2, N) M1 and M2 over the samples of each hop at which the filter takes the robot to fly."""
    cycles = trial.hops.cycles
    flies = np.isin(out[:, 5], (REBOUND, DROP)) & np.isfinite(trial.true_velocity_m_s)
    truth = np.column_stack([trial.true_height_m, trial.true_velocity_m_s])
    rows = []
    for begin_s, end_s in zip(cycles.touchdown_s, cycles.next_touchdown_s, strict=True):
        of_hop = flies & (trial.time_s >= begin_s) & (trial.time_s < end_s)
        size = np.abs(truth[of_hop]).mean(axis=0) if of_hop.any() else np.full(2, np.nan)
        rows.append(100.0 * np.abs(out[of_hop, :2] - truth[of_hop]).mean(axis=0) / size if of_hop.any() else size)
    return np.array(rows).reshape(-1, 2).T


def mean_error(found: Sequence[Judged], metric: str, set_height_m: float = ALL_M) -> float:
    """Over all hops of a set height."""
    chosen = [one.errors[metric] for one in found if set_height_m in (ALL_M, one.set_height_m)]
    return float(np.nanmean(np.concatenate(chosen)))


@dataclass(frozen=True)
class Study:
    """All of it: filters by subject and training seed; what they are worth, by subject, for each training seed; KF1 on
    robots that hop by it."""

    size: Size
    learned: Mapping[tuple[Subject, int], Learned]
    known: Mapping[str, list[list[Judged]]]

    def entries(self, name: str) -> list[FilterEntry]:
        """Of a subject, by training seed."""
        return [entry_of(name, self.learned, seed) for seed in self.size.seeds(SUBJECTS[name].learner)]

    def controlled(self) -> list[list[Judged]]:
        """KF1 on robots that hop by it, each with another training seed's parameters, in turns."""
        entries, robots = self.entries("kf1"), range(self.size.controlled_robots)
        tasks = [
            (entries[one % len(entries)], FIRST_TEST_SEED + one, gait, self.size)
            for one in robots
            for gait in CONTROL_S
        ]
        found = all_of(judged_controlled, tasks)
        return [found[start : start + len(CONTROL_S)] for start in range(0, len(found), len(CONTROL_S))]


def studied(size: Size) -> Study:
    """Train, or take what is shipped, and judge."""
    learners = dict.fromkeys(one.learner for one in SUBJECTS.values() if one.trained)
    tasks = [(one, seed, size) for seed in size.seeds(PAPERS["kf1"]) for one in learners if seed in size.seeds(one)]
    found = dict(zip([task[:2] for task in tasks], all_of(learned, tasks), strict=True))
    runs = [
        (name, seed)
        for name, subject in SUBJECTS.items()
        for seed in (size.seeds(subject.learner) if subject.trained else (0,))
    ]
    judging = [(SUBJECTS[name], entry_of(name, found, seed), size) for name, seed in runs]
    known: dict[str, list[list[Judged]]] = {}
    for (name, _), one in zip(runs, all_of(judged_known, judging), strict=True):
        known.setdefault(name, []).append(one)
    return Study(size, found, known)
