"""A full training run as the paper's: genetic algorithm, 1000 individuals, 20 generations, about 110 hops.

Two simulated robots at 1, 2, 3 and 4 m, with ideal stamps, on one thread and on two; and the recordings
`unknown_hopper` of four robots, whose stamps jitter, with readings that are lost or late, on one thread. In turns, from
recordings in memory to the best parameters, calibration left out. The paper needed about five hours on eight cores.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.hopper.hopper_filters_models import robot_seeds, trials
from benchmarks.recordings import recordings
from benchmarks.timing import interleaved, rounded, spread
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_training import FilterObjective
from hopper_estimation.training_trials import Trial, trials_of
from onboard_estimation.evaluation.training import TrainingOptions, read_training_bag
from onboard_estimation.learning.optimisation.minimise import minimise
from onboard_estimation.learning.optimisation.problem import Settings
from onboard_estimation.robots import find_robot

Row = dict[str, Any]

HOPPING_S = {"1m": 17.5, "2m": 24.0, "3m": 29.5, "4m": 36.0}
"""Fourteen hops each."""
RECORDED = ("robot_1", "robot_2", "robot_3", "robot_4")
TARGET_S = {1: 20.0, 2: 12.0}
"""By threads, whatever the stamps."""
TRAINING_SEED = 90
SETTINGS = Settings(individuals=1000, generations=20)
QUICK = Settings(individuals=100, generations=5)


def run(quick: bool) -> list[Row]:
    """A row for each number of threads, and one for recordings with real stamps."""
    return rows(QUICK if quick else SETTINGS, 1 if quick else 3, not quick)


def recorded() -> list[Trial]:
    """Those with real stamps."""
    folder, robot, configuration = recordings("unknown_hopper"), find_robot("hopper"), HopperConfiguration()
    read = {name: read_training_bag(robot, configuration, folder / name, TrainingOptions()) for name in RECORDED}
    return trials_of(configuration, read)


def rows(settings: Settings, repetitions: int, judged: bool = True) -> list[Row]:
    """Medians over repetitions; `judged`: whether the targets are for these settings."""
    ideal = trials(robot_seeds(TRAINING_SEED, 2), HOPPING_S)
    real = recorded()
    learned = {
        ("kf1", "", 1): ideal,
        ("kf1", "", 2): ideal,
        ("kf1", ", real stamps", 1): real,
        ("bounce", ", real stamps", 1): real,
    }
    objectives = {
        (form, stamps, threads): FilterObjective(HopperConfiguration(), form, one, threads, delays=form != "kf1")
        for (form, stamps, threads), one in learned.items()
    }
    searches = {
        one: partial(minimise, "genetic", found.problem(), found, settings) for one, found in objectives.items()
    }
    results = {one: search() for one, search in searches.items()}
    single, double = (results["kf1", "", threads].cost for threads in (1, 2))
    if single != double:
        raise RuntimeError(f"costs {single} on one thread and {double} on two")
    samples = interleaved({str(one): search for one, search in searches.items()}, repetitions, block_s=0.0)
    out: list[Row] = []
    for (form, stamps, threads), result in results.items():
        times = samples[str((form, stamps, threads))]
        hops = sum(len(trial.hops.cycles) for trial in learned[form, stamps, threads])
        count = sum(len(trial.signals) for trial in learned[form, stamps, threads])
        name = f"{form}, {threads} thread{'s' if threads > 1 else ''}{stamps}"
        row: Row = {
            "case": f"training, {settings.individuals} x {settings.generations}, {hops} hops, {name}",
            "subject": name,
            **spread(times),
            "evaluations": result.evaluations,
            "samples": count,
            "nanoseconds_per_sample": rounded(1e9 * float(np.median(times)) * threads / (result.evaluations * count)),
            "cost": result.cost,
        }
        if judged:
            row |= {"target_s": TARGET_S[threads], "met": row["median_s"] <= TARGET_S[threads]}
        out.append(row)
    return out
