"""Hopper in the scenario `foreign`: effects that no estimator has a term for; all of them, and each of them alone.

The filters that come with the package; nothing was tuned to it. All effects: ten robots of `mixed`, 60 s; one effect at
a time: the first five of them, with the same draws of everything else. Not `varied`: hops of 0.3 m die on soft ground,
and a robot that stands is not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from benchmarks.hopper.hopper_unknown import filter_row, judged_filter
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_model import filters_of
from hopper_estimation.foreign_effects import ForeignScenario, foreign_scenario
from hopper_estimation.simulator import HopperSimulation
from hopper_estimation.training_trials import Trial, trial_of
from onboard_estimation.evaluation.recording import from_simulator
from onboard_estimation.robots import find_robot

Row = dict[str, Any]

VARIANT, SEEDS, SECONDS, ALONE = "mixed", range(7300, 7310), 60.0, 5
FILTERS = ("bounce", "kf1", "dr1_best", "bounce_encoder")
EFFECTS = tuple(one.name for one in fields(ForeignScenario) if one.default == 0.0)
"""Those that a zero switches off."""
_ROBOT, _CONFIGURATION = find_robot("hopper"), HopperConfiguration()


def run(quick: bool) -> list[Row]:
    """A row for each filter with all effects, and with none and each alone."""
    everything, shipped = foreign_scenario(), filters_of("")
    rows = []
    trials = _trials(everything, SEEDS[:2] if quick else SEEDS)
    for name in FILTERS:
        judged = [judged_filter(name, shipped.entry(name), one) for one in trials]
        rows.append(filter_row("Hopper, scenario `foreign`, 1 to 4 m, another every 12 s", name, judged, {}))
    for effect in ("",) if quick else ("", *EFFECTS):
        scenario = replace(everything, **{one: 0.0 for one in EFFECTS if one != effect})
        trials = _trials(scenario, SEEDS[:ALONE])
        for name in FILTERS:
            judged = [judged_filter(name, shipped.entry(name), one) for one in trials]
            rows.append(filter_row("Hopper, one effect at a time", f"{effect or 'none'}, {name}", judged, {}))
    return rows


def _trials(scenario: ForeignScenario, seeds: Sequence[int]) -> list[Trial]:
    specification = _ROBOT.truth_specification(_CONFIGURATION)
    trials = []
    for seed in seeds:
        simulation = HopperSimulation(_CONFIGURATION, VARIANT, np.random.default_rng(seed), foreign=scenario)
        recording = simulation.advance(round(1e9 * SECONDS) + 1)
        loaded = from_simulator(recording, specification.bodies, specification.held)
        trials.append(trial_of(_CONFIGURATION, f"seed {seed}", loaded))
    return trials
