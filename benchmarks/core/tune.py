"""Tuning from noise that is ten times too large or too small, on five recordings, judged on others.

Simulated: the salp, five runs (one of each gait, seeds 7000 to 7004) teach; twenty others (seeds 7100 to 7119, each
with an initial error and disturbances of its own) judge; 60 s each, in `ideal`. NEES is per degree of
freedom, a mean over the runs that judge. About 10 minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from onboard_estimation.evaluation.evaluate import load_configuration
from onboard_estimation.evaluation.options import EvaluateOptions
from onboard_estimation.evaluation.simulated import SimulatedRun
from onboard_estimation.evaluation.tunable import Tunable, tunables
from onboard_estimation.evaluation.tuning import Tuning, TuningSettings, tune
from onboard_estimation.evaluation.tuning_score import By, Score, Scored, score
from onboard_estimation.resources import resource
from onboard_estimation.robots import find_robot
from onboard_estimation.workers import Workers, WorkersAsked, all_of, open_workers

Row = dict[str, Any]

GAITS = ("forward", "backward", "left", "right", "turning")
TEACHING, JUDGING = range(7000, 7005), range(7100, 7120)
FACTORS = (10.0, 0.1)
LOWEST, HIGHEST = 0.8, 1.25


class Case(NamedTuple):
    """A robot in a scenario, and which part of its state tells whether its noise is right.

    `seconds` of each run, and candidates in a search.
    """

    robot: str
    scenario: str
    config: str | None
    part: str
    seconds: float
    evaluations: int


CASES = (Case("salp", "ideal", "config/salp_ideal.yaml", "joint_angles", 60.0, 44),)


def run(quick: bool) -> list[Row]:
    """A row for each robot, factor and objective."""
    rows = []
    with open_workers(WorkersAsked(2)) as workers:
        for case in CASES:
            rows.append(_untouched(case, workers))
            for factor in FACTORS[:1] if quick else FACTORS:
                for by in ("truth", "innovations"):
                    rows.append(_simulated(case, factor, by, workers, 40 if quick else case.evaluations))
                    print(rows[-1]["cells"], flush=True)
    return rows


def _options(case: Case, overrides: Mapping[str, Any]) -> EvaluateOptions:
    config = resource(case.config) if case.config else None
    return EvaluateOptions(robot=case.robot, config=config, overrides=overrides)


def _wrong(case: Case, factor: float) -> dict[str, Any]:
    """All parameters that are tuned by default, times a factor."""
    configuration = load_configuration(find_robot(case.robot), _options(case, {}))
    return {one.name: _times(one, factor) for one in tunables(configuration)}


def _times(one: Tunable, factor: float) -> Any:
    return one.changed(factor if isinstance(one.value, tuple) else factor * one.value)


def _recordings(case: Case, seeds: range) -> dict[str, SimulatedRun]:
    gaits = [GAITS[place % len(GAITS)] for place in range(len(seeds))]
    return {
        f"{gait} {seed}": SimulatedRun(case.robot, case.scenario, gait, case.seconds, seed)
        for gait, seed in zip(gaits, seeds, strict=True)
    }


def _judged(case: Case, options: EvaluateOptions, changes: Mapping[str, Any], workers: Workers) -> list[Score]:
    tasks = [Scored(one, options, changes, "truth") for one in _recordings(case, JUDGING).values()]
    return all_of(score, tasks, workers=workers)


def _untouched(case: Case, workers: Workers) -> Row:
    judged = _judged(case, _options(case, {}), {}, workers)
    return _row(case, "as shipped", "", judged, None, None)


def _simulated(case: Case, factor: float, by: By, workers: Workers, evaluations: int) -> Row:
    wrong = _options(case, _wrong(case, factor))
    chosen = tunables(load_configuration(find_robot(case.robot), wrong))
    settings = TuningSettings(by, evaluations=evaluations, folds=0)
    tuning = tune(_recordings(case, TEACHING), wrong, chosen, settings, workers)
    before, after = (_judged(case, wrong, changes, workers) for changes in ({}, tuning.values))
    return _row(case, f"noise times {factor:g}", by, after, before, tuning)


def _row(
    case: Case, start: str, by: str, judged: list[Score], before: list[Score] | None, tuning: Tuning | None
) -> Row:
    nees, rmse_deg = _nees(case, judged), _rmse(case, judged)
    cells = {
        "robot, scenario": f"{case.robot}, {case.scenario}",
        "begun with": start,
        "tuned by": by or "not tuned",
        f"NEES of {case.part.replace('_', ' ')} before": "" if before is None else f"{_nees(case, before):.3g}",
        "now (runs that were not seen)": f"{nees:.2f}",
        "worst run": f"{max(one.nees[case.part] for one in judged):.2f}",
        "RMS before": "" if before is None else f"{_rmse(case, before):.2f} deg",
        "now": f"{rmse_deg:.2f} deg",
        "parameters": "" if tuning is None else f"{len(tuning.chosen)} of {len(tuning.chosen) + len(tuning.untouched)}",
    }
    row: Row = {"case": f"{case.robot}, {case.scenario}, {start}, {by}", "table": "NEES after tuning", "cells": cells}
    row |= {"nees": nees, "values": {} if tuning is None else dict(tuning.values)}
    if tuning is not None:
        met = LOWEST <= nees <= HIGHEST
        cells["target 0.8 to 1.25"] = "met" if met else "**missed**"
        row["met"] = met
    else:
        cells["target 0.8 to 1.25"] = ""
    return row


def _nees(case: Case, judged: list[Score]) -> float:
    return float(np.mean([one.nees[case.part] for one in judged]))


def _rmse(case: Case, judged: list[Score]) -> float:
    return float(np.median([one.rmse[f"{case.part}.rmse_deg"] for one in judged]))
