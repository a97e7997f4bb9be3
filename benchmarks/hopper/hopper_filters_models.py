"""What `hopper_filters` trains: filters, optimisers, and the simulated robots that they learn from.

Every training seed has robots of its own and random numbers of its own in the optimiser.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hopper.hopper_filters_jobs import SCRATCH, SEARCH_CODE, Job, code_hash, result_of
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_model import FilterEntry, FilterModel, load_filters, untrained_entry
from hopper_estimation.filter_training import FilterObjective, SearchSettings, train_filter
from hopper_estimation.training_trials import Trial, trial_of
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.learning.optimisation.sensitivity import sensitivity
from onboard_estimation.robots import find_robot

FIRST_TRAINING_SEED = 900_000
"""Test seeds count from 7000 and stay far below."""
TRAINING_S = {"1m": 5.2, "2m": 7.2, "3m": 8.8, "4m": 10.6}
"""Of hopping, by commanded height: about four hops each, of many robots."""
START_S = 6.0
"""A run begins with rest on the ground and the flight to its first drop."""
_PROBES = 64
CHANGES_PERCENT = tuple(float(change) for change in range(-20, 21, 2) if change)


@dataclass(frozen=True)
class Search:
    """How a filter's parameters are found.

    Attributes
    ----------
    estimator
        One of those that are trained.
    delays
        Whether the delays of event detection are searched too; the paper's form is without.
    """

    estimator: str
    delays: bool = True
    method: str = "genetic"
    individuals: int = 1000
    generations: int = 20


def robot_seeds(training_seed: int, robots: int) -> list[int]:
    """Of the robots of a training seed."""
    return [FIRST_TRAINING_SEED + 10 * training_seed + number for number in range(robots)]


def recording_of(scenario: str, gait: str, hopping_s: float, seed: int) -> LoadedRecording:
    """A simulated recording with so much hopping in it, as an evaluation reads a bag."""
    robot, configuration = find_robot("hopper"), HopperConfiguration()
    simulated = robot.simulate(configuration, scenario, gait, START_S + hopping_s, np.random.default_rng(seed))
    return from_simulator(simulated, (configuration.truth_body,))


def trials(seeds: list[int], hopping_s: dict[str, float]) -> list[Trial]:
    """Of all commanded heights of each robot."""
    return [
        trial_of(HopperConfiguration(), f"{gait}, seed {seed}", recording_of("hardware", gait, seconds, seed))
        for seed in seeds
        for gait, seconds in hopping_s.items()
    ]


@lru_cache(maxsize=1)
def training_trials(training_seed: int, robots: int) -> list[Trial]:
    """Those of a training seed."""
    return trials(robot_seeds(training_seed, robots), TRAINING_S)


def training_job(search: Search, training_seed: int, robots: int) -> Job:
    """To train a filter."""
    return Job.of("hopper_filters_models.trained", search=asdict(search), training_seed=training_seed, robots=robots)


def trained(search: dict[str, Any], training_seed: int, robots: int) -> dict[str, Any]:
    """Train a filter: the file of its model, cost, evaluations, hops."""
    wanted = Search(**search)
    learned = training_trials(training_seed, robots)
    settings = SearchSettings(
        wanted.method,
        wanted.individuals,
        wanted.generations,
        (training_seed,),
        1,
        wanted.delays,
        _state_file(wanted, learned),
    )
    SCRATCH.mkdir(parents=True, exist_ok=True)
    found = train_filter(HopperConfiguration(), wanted.estimator, learned, settings)
    model = training_job(wanted, training_seed, robots).path().with_suffix(".model.json")
    FilterModel({wanted.estimator: found.entry}, {"search": search, "seed": training_seed}).save(model)
    best = found.search.best
    return {
        "model": model.name,
        "cost": best.cost,
        "evaluations": best.evaluations,
        "stopped": best.stopped,
        "hops": sum(len(trial.hops.cycles) for trial in learned),
        "parameters": dict(zip(found.problem.names, best.best.tolist(), strict=True)),
    }


def _state_file(search: Search, learned: list[Trial]) -> Path:
    """Of a search, by all that it comes from: optimiser, training data, and the costs of some individuals.

    What changes neither, calibration or what filters do with faulty sensors, does not search anew.
    """
    objective = FilterObjective(HopperConfiguration(), search.estimator, learned, 1, search.delays)
    problem = objective.problem()
    probes = problem.to_units(np.random.default_rng(0).random((_PROBES, problem.count)))
    costs = np.sort(objective(probes))[: _PROBES // 4]  # those that lose no hops
    told = [f"{cost:.8g}" for cost in costs]
    known = json.dumps([asdict(search), problem.as_dict(), code_hash(SEARCH_CODE), told], sort_keys=True)
    return SCRATCH / f"search_{hashlib.sha256(known.encode()).hexdigest()[:16]}.npz"


def entry_of(estimator: str, training: Job | None) -> FilterEntry:
    """Of an estimator, by the search that it goes by; None: it is not trained."""
    if training is None:
        return untrained_entry()
    return load_filters(SCRATCH / result_of(training)["model"]).entry(estimator)


def sensitivity_of(search: dict[str, Any], training_seed: int, robots: int) -> dict[str, Any]:
    """How the cost follows each parameter about the optimum (the paper's figure 4)."""
    wanted = Search(**search)
    optimum = result_of(training_job(wanted, training_seed, robots))["parameters"]
    learned = training_trials(training_seed, robots)
    objective = FilterObjective(HopperConfiguration(), wanted.estimator, learned, 1, wanted.delays)
    found = sensitivity(objective.problem(), objective, list(optimum.values()), CHANGES_PERCENT)
    return {
        "names": list(found.names),
        "changes_percent": found.changes_percent.tolist(),
        "values": found.values.tolist(),
        "cost": found.cost,
        "cost_changes_percent": found.cost_changes_percent.tolist(),
    }
