"""Salp in the scenario `foreign`: effects that no estimator has a term for; and each of them alone.

Trained on ten runs of 30 s (two of each gait, each another robot), judged on robots that are not among them, 60 s
each: seeds 500 to 503 with all effects, 500 and 501 with one at a time. Nothing was tuned to it. About ten minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.salp.salp_judged import Judged, judged_row, judged_run
from onboard_estimation.configuration import load
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.robots import find_robot
from salp_estimation.configuration import SalpConfiguration
from salp_estimation.foreign_effects import ForeignScenario, foreign_scenario
from salp_estimation.gaits import GAITS
from salp_estimation.hardware_simulator import HardwareSimulation
from salp_estimation.residual_training import train
from salp_estimation.training_runs import training_run

Row = dict[str, Any]

FIRST_TRAINING_SEED, TRAINING_RUNS, TRAINING_S = 920_000, 2, 30.0
SEEDS, SECONDS = range(500, 504), 60.0
ALONE_SEEDS = range(500, 502)
EFFECTS = tuple(one.name for one in fields(ForeignScenario) if one.default == 0.0)
"""Those that a zero switches off."""
_ROBOT, _CONFIGURATION = find_robot("salp"), SalpConfiguration()


def run(quick: bool) -> list[Row]:
    """A row for each form with all effects, and for `calibrated` with none and with each alone."""
    everything = foreign_scenario()
    judging = [("forward", 500)] if quick else list(product(GAITS, SEEDS))
    rows = []
    for form in ("", "calibrated", "gaussian_process"):
        judged, factor = _of(everything, form, judging)
        rows.append(judged_row("Salp, scenario `foreign`", "all effects", form or "no model", judged, factor))
        print(rows[-1]["cells"], flush=True)
    alone = [] if quick else list(product(GAITS, ALONE_SEEDS))
    for effect in ("", *EFFECTS) if alone else ():
        scenario = replace(everything, **{name: 0.0 for name in EFFECTS if name != effect})
        judged, factor = _of(scenario, "calibrated", alone)
        rows.append(judged_row("Salp, one effect at a time", effect or "none", "calibrated", judged, factor))
        print(rows[-1]["cells"], flush=True)
    return rows


def _of(scenario: ForeignScenario, form: str, judging: Sequence[tuple[str, int]]) -> tuple[list[Judged], str]:
    """Of each run that judges, and the factor of the standard deviations; without a form, of the plain filter."""
    settings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        if form:
            taught = [
                (gait, FIRST_TRAINING_SEED + 100 * number + k)
                for number, gait in enumerate(GAITS)
                for k in range(TRAINING_RUNS)
            ]
            recordings = [_recording(scenario, *one, TRAINING_S) for one in taught]
            runs = [training_run(_CONFIGURATION, one, str(of)) for one, of in zip(recordings, taught, strict=True)]
            model, _ = train(_CONFIGURATION, runs, [""] * len(runs), form, recordings=recordings)
            path = Path(folder) / "model.npz"
            model.save(path)
            settings = {"residual_model": str(path), "gyro.used_rate_hz": 50.0}
        configuration = load(SalpConfiguration, None, settings)
        judged = [judged_run(configuration, _recording(scenario, *one, SECONDS), one[1]) for one in judging]
    return judged, f"{model.inflation:.2f}" if form else "none"


def _recording(scenario: ForeignScenario, gait: str, seed: int, seconds: float) -> LoadedRecording:
    simulation = HardwareSimulation(
        _CONFIGURATION.chain, GAITS[gait].controls, np.random.default_rng(seed), foreign=scenario
    )
    specification = _ROBOT.truth_specification(_CONFIGURATION)
    return from_simulator(simulation.advance(round(1e9 * seconds) + 1), specification.bodies, specification.held)
