"""Salp in our own scenario `hardware`, trained on few runs and on more: usual starts, and starts that are 20 deg off.

Five runs of 90 s, one a gait, or 25 of 20.5 s; judged on seeds 400 to 403 of five gaits, 60 s each. The estimator's
form shares many terms with this simulator: what it does on robots that nobody here wrote says more (`salp_unknown`).
Takes about ten minutes on two cores.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

from benchmarks.salp.salp_hardware_models import ALL_GAITS, SCENARIO, Model, TrainingSet, trained
from benchmarks.salp.salp_judged import DOUBTS, OFF_DEG, Judged, judged_off, judged_row, judged_run
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.simulated import simulated_recording
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.residual_model import ResidualModel

SETS = {"5 runs of 90 s": TrainingSet(seeds=1, duration_s=90.0), "25 runs of 20.5 s": TrainingSet()}
SEEDS = range(400, 404)
DURATION_S = 60.0
TARGETS_DEG = {"5 runs of 90 s": (1.2, 3.0), "25 runs of 20.5 s": (0.8, 2.0)}
_TABLE = "Salp, scenario `hardware`"


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each number of runs, and for starts that are off, each with one filter and in doubt."""
    runs = [("forward", 400)] if quick else list(product(ALL_GAITS, SEEDS))
    sets = dict(list(SETS.items())[1:]) if quick else SETS
    rows = []
    with ProcessPoolExecutor(2) as pool:
        models = dict(zip(sets, pool.map(_trained, sets.values()), strict=True))
        for name, (path, factor) in models.items():
            usual = list(pool.map(_usual, *zip(*((path, *one) for one in runs), strict=True)))
            row = judged_row(_TABLE, name, "calibrated", usual, f"{factor:.2f}")
            median, worst = TARGETS_DEG[name]
            found = sorted(one.rms_deg for one in usual)
            row["met"] = found[len(found) // 2] <= median and found[-1] <= worst
            rows.append(row)
        for filters in DOUBTS:
            jobs = [(models["25 runs of 20.5 s"][0], filters, *one) for one in runs]
            off = [one for some in pool.map(_off, *zip(*jobs, strict=True)) for one in some]
            rows.append(judged_row(_TABLE, f"25 runs, {OFF_DEG:g} deg off at the start, {filters}", "calibrated", off))
    return rows


def _trained(data: TrainingSet) -> tuple[str, float]:
    """File and factor of a model."""
    path = trained(Model("calibrated", data))
    return str(path), ResidualModel.from_file(path).inflation


def _settings(path: str) -> dict[str, Any]:
    return {"residual_model": path, "gyro.used_rate_hz": 50.0}


def _usual(path: str, gait: str, seed: int) -> Judged:
    recording = simulated_recording(find_robot("salp"), SalpConfiguration(), SCENARIO, gait, DURATION_S, seed)
    return judged_run(load(SalpConfiguration, None, _settings(path)), recording, seed)


def _off(path: str, filters: str, gait: str, seed: int) -> list[Judged]:
    recording = simulated_recording(find_robot("salp"), SalpConfiguration(), SCENARIO, gait, DURATION_S, seed)
    return judged_off(recording, {**_settings(path), **DOUBTS[filters]})
