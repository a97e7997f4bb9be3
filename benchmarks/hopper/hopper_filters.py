"""Hopper in the scenario `hardware`: errors by hop of trained filters and baselines on robots not learned from.

Every seed is another robot on another day. Each of five training seeds has eight robots of its own (from 900000 up) at
1, 2, 3 and 4 m, and random numbers of its own in the optimiser; test robots have seeds from 7000 up. Given are medians
and the worst over training seeds. Sections: errors M1 to M4, coverage and events by phase, optimisers at equal
evaluations, control by truth and by estimate (Table III), ground height after 30 hops (figure 5), sensing frequency
(figure 6).

    python -m benchmarks --only hopper_filters          # all of it: about an hour on one core
    python -m benchmarks.hopper.hopper_filters --seeds 2 --sections errors ground

The second form does a part, prints it and keeps nothing but its pieces, which the first then does not do again.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hopper import hopper_filters_ground as ground
from benchmarks.hopper import hopper_filters_rates as rates
from benchmarks.hopper import hopper_filters_runs as runs
from benchmarks.hopper.hopper_filters_jobs import Job, compute
from benchmarks.hopper.hopper_filters_models import Search, training_job
from benchmarks.hopper.hopper_filters_pictures import write_pictures
from benchmarks.hopper.hopper_filters_tables import (
    coverage_rows,
    error_rows,
    event_rows,
    ground_rows,
    optimiser_rows,
    paper_table_rows,
    rate_rows,
    target_rows,
)
from benchmarks.scenarios import scenario_hash
from benchmarks.table import case_lines, further_lines
from hopper_estimation.scenario import FILE

Array = NDArray[np.float64]
Row = dict[str, Any]

SECTIONS = ("errors", "ground", "control", "rates", "optimisers", "pictures")


@dataclass(frozen=True)
class Subject:
    """An estimator as it is judged; without a search it is not trained."""

    label: str
    estimator: str
    search: Search | None = None


@dataclass(frozen=True)
class Plan:
    """What is compared, and on how much.

    Attributes
    ----------
    individuals, generations
        Of the genetic algorithm; other optimisers have as many evaluations.
    error_state
        Individuals and generations of ESKF1 and ESKF2, whose steps take five to ten times as long.
    workers
        Processes; None: one for each core. 0: none but this.
    """

    training_seeds: int = 5
    robots: int = 8
    individuals: int = 1000
    generations: int = 20
    error_state: Mapping[str, tuple[int, int]] = field(default_factory=lambda: {"eskf1": (150, 20), "eskf2": (60, 10)})
    test_seeds: int = 10
    first_test_seed: int = runs.FIRST_TEST_SEED
    control_s: Mapping[str, float] = field(default_factory=lambda: {"1m": 14.0, "2m": 16.0, "3m": 19.0, "4m": 22.0})
    draws: int = 20
    sections: tuple[str, ...] = SECTIONS
    workers: int | None = None

    @property
    def followed(self) -> Search:
        """What the sections after the first are about: KF1 as it is trained by default."""
        return Search("kf1", True, "genetic", self.individuals, self.generations)

    def subjects(self) -> dict[str, Subject]:
        """By short names; those that come first are shown first."""

        def search(estimator: str, delays: bool = True) -> Search:
            individuals, generations = self.error_state.get(estimator, (self.individuals, self.generations))
            return Search(estimator, delays, "genetic", individuals, generations)

        return {
            "bounce": Subject("bounce", "bounce", search("bounce")),
            "kf1": Subject("KF1", "kf1", self.followed),
            "kf1_paper": Subject("KF1, paper's form", "kf1", search("kf1", False)),
            "kf2": Subject("KF2", "kf2", search("kf2")),
            "eskf1": Subject("ESKF1", "eskf1", search("eskf1")),
            "eskf2": Subject("ESKF2", "eskf2", search("eskf2")),
            "kf3": Subject("KF3, retrained", "kf3", search("kf3")),
            "kf3_kf1": Subject("KF3, parameters of KF1", "kf3_kf1", self.followed),
            "ba1": Subject("BA1, as published", "ba1"),
            "ba1_best": Subject("BA1, best form", "ba1_best"),
            "dr1": Subject("DR1, as published", "dr1"),
            "dr1_best": Subject("DR1, best form", "dr1_best"),
        }

    def optimisers(self) -> dict[str, Subject]:
        """KF1 by other optimisers, at as many evaluations as the genetic algorithm, whose elites cost none."""
        evaluations = self.individuals + (self.generations - 1) * (self.individuals - round(0.05 * self.individuals))
        out = {}
        for method, individuals in (("differential_evolution", 150), ("cma", 50)):
            individuals = min(individuals, evaluations // 4)
            search = Search("kf1", True, method, individuals, round(evaluations / individuals))
            out[method] = Subject(f"KF1, {method.replace('_', ' ')}", "kf1", search)
        return out


QUICK = Plan(
    training_seeds=2,
    robots=1,
    individuals=60,
    generations=4,
    error_state={"eskf1": (20, 4), "eskf2": (20, 3)},
    test_seeds=2,
    first_test_seed=5900,
    control_s={"1m": 5.0, "3m": 7.0},
    draws=2,
    sections=SECTIONS[:-1],
    workers=0,
)


def run(quick: bool) -> list[Row]:
    """All rows."""
    return rows(QUICK if quick else Plan())


def rows(plan: Plan) -> list[Row]:
    """Targets first, then the tables."""
    subjects = plan.subjects()
    sections: dict[str, Callable[[], list[Row]]] = {
        "errors": lambda: _errors(plan, subjects),
        "optimisers": lambda: _optimisers(plan),
        "control": lambda: _control(plan),
        "ground": lambda: _ground(plan),
        "rates": lambda: _rates(plan),
    }
    hops = compute(
        [training_job(plan.followed, seed, plan.robots) for seed in range(plan.training_seeds)], plan.workers
    )
    trained_on = f"{min(one['hops'] for one in hops)} to {max(one['hops'] for one in hops)} hops"
    few = ", ".join(f"{name.upper()} {one[0]} x {one[1]}" for name, one in plan.error_state.items())
    conditions: Row = {
        "case": "scenario file; training and test",
        "figure": f"hash {scenario_hash(FILE)}; {plan.training_seeds} training seeds of {trained_on}, "
        f"{plan.individuals} x {plan.generations} ({few}); "
        f"{plan.test_seeds} test robots",
        "scenario_hash": scenario_hash(FILE),
    }
    found = [conditions]
    for name in plan.sections:
        if name in sections:
            new = sections[name]()
            # An hour's work shows what it has as it comes.
            print("\n".join([*case_lines({"cases": new}), *further_lines({"cases": new})]), flush=True)
            found += new
    if "pictures" in plan.sections:
        write_pictures(plan.followed, plan.training_seeds, plan.robots, plan.draws, _test_seeds(plan), plan.workers)
    return [*(row for row in found if "cells" not in row), *(row for row in found if "cells" in row)]


def _test_seeds(plan: Plan) -> list[int]:
    return list(range(plan.first_test_seed, plan.first_test_seed + plan.test_seeds))


def _judged(plan: Plan, subjects: Mapping[str, Subject]) -> dict[str, list[Any]]:
    """Of each subject a result for each training seed; of those that are not trained, one."""
    searches = list(dict.fromkeys(one.search for one in subjects.values() if one.search is not None))
    compute(
        [training_job(one, seed, plan.robots) for one in searches for seed in range(plan.training_seeds)], plan.workers
    )
    jobs: dict[str, list[Job]] = {}
    for name, one in subjects.items():
        seeds = range(plan.training_seeds if one.search is not None else 1)
        jobs[name] = [
            runs.judging_job(one.estimator, one.search, seed, plan.robots, _test_seeds(plan)) for seed in seeds
        ]
    done = iter(compute([job for some in jobs.values() for job in some], plan.workers))
    return {name: [next(done) for _ in some] for name, some in jobs.items()}


def _errors(plan: Plan, subjects: Mapping[str, Subject]) -> list[Row]:
    results = _judged(plan, subjects)
    labels = {name: one.label for name, one in subjects.items()}
    shown = {name: results[name] for name in ("bounce", "kf1", "kf1_paper", "kf2", "eskf1", "eskf2")}
    return [
        *target_rows(results),
        *error_rows(results, labels),
        *coverage_rows(shown, labels),
        *event_rows({name: results[name] for name in ("bounce", "kf1", "kf1_paper")}, labels),
    ]


def _optimisers(plan: Plan) -> list[Row]:
    subjects = {"genetic": Subject("KF1, genetic algorithm", "kf1", plan.followed), **plan.optimisers()}
    results = _judged(plan, subjects)
    searched = {
        name: compute(
            [training_job(one.search, seed, plan.robots) for seed in range(plan.training_seeds)], plan.workers
        )
        for name, one in subjects.items()
        if one.search is not None
    }
    sizes = {name: (one.search.individuals, one.search.generations) for name, one in subjects.items() if one.search}
    return optimiser_rows(results, searched, sizes, {name: one.label for name, one in subjects.items()})


def _control(plan: Plan) -> list[Row]:
    """Each training seed's KF1 on test robots of its own, so that all of them are in the table."""
    shown = ("kf1", "kf3", "kf3_kf1", "ba1", "ba1_best", "dr1", "dr1_best")
    subjects = {name: plan.subjects()[name] for name in shown}
    results = _judged(plan, subjects)
    seeds, length = _test_seeds(plan), plan.control_s
    owner = {seed: number % plan.training_seeds for number, seed in enumerate(seeds)}
    jobs = [
        runs.control_job(plan.followed, owner[seed], plan.robots, seed, gait, seconds)
        for seed in seeds
        for gait, seconds in length.items()
    ]
    return paper_table_rows(results, owner, compute(jobs, plan.workers))


def _ground(plan: Plan) -> list[Row]:
    seeds, scenarios = _test_seeds(plan), ("hardware", "uneven")
    jobs = [
        ground.ground_job(plan.followed, number, plan.robots, scenario, seed)
        for scenario in scenarios
        for number in range(plan.training_seeds)
        for seed in seeds
    ]
    done = iter(compute(jobs, plan.workers))
    return ground_rows(
        {scenario: [[next(done) for _ in seeds] for _ in range(plan.training_seeds)] for scenario in scenarios}
    )


def _rates(plan: Plan) -> list[Row]:
    jobs = [rates.rate_job(plan.followed, 0, plan.robots, rate, plan.draws) for rate in rates.RATES_HZ]
    return rate_rows(compute(jobs, plan.workers))


def main(arguments: list[str] | None = None) -> None:
    """A part of it."""
    plan = Plan()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hopper.hopper_filters", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--sections", nargs="+", default=list(SECTIONS), choices=SECTIONS)
    parser.add_argument("--seeds", type=int, default=plan.training_seeds, help="training seeds")
    parser.add_argument("--test-seeds", type=int, default=plan.test_seeds, help="test robots, from 7000 up")
    parser.add_argument("--workers", type=int, help="processes; 0: none but this")
    options = parser.parse_args(arguments)
    plan = replace(
        plan,
        sections=tuple(options.sections),
        training_seeds=options.seeds,
        test_seeds=options.test_seeds,
        workers=options.workers,
    )
    result = {"cases": rows(plan)}
    print("\n".join([*case_lines(result), *further_lines(result)]))


if __name__ == "__main__":
    main()
