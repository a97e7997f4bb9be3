"""Thruster chains of unknown build (simulated): headings, joint angles, masses and inertias of the estimator `robust`.

Nothing is trained on any run, so that every run is of a robot left out. There are two kinds, both simulated: the six
recordings of `unknown_thruster_chain`, by a simulator that is not ours, and the scenarios `hardware` and `load` with
2, 3, 5 and 8 links, where every seed is another robot and its variant goes by the seed.

    python -m benchmarks --only thruster_chain_unknown
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.scenarios import scenario_hash
from benchmarks.thruster_chain_unknown_runs import (
    FOUND_WITHIN_S,
    Job,
    Line,
    compute,
    data_folder,
    scenario_load_s,
    step_share,
)
from onboard_estimation.errors import UserError
from salp_estimation.thruster_chain.hardware_scenario import FILE

Array = NDArray[np.float64]
Row = dict[str, Any]

FOLDERS = tuple(f"robot_{robot}/run_{number}" for robot in "ab" for number in (1, 2, 3))
LINKS = (2, 3, 5, 8)
VARIANTS = {101: "mixed", 102: "one_off", 103: "mixed", 104: "one_off", 105: "mixed"}
"""Of each test seed; none was looked at while the estimator was written."""
STEPPED = (3, 5, 10)
RATIO, COVERAGE, BY_A_THIRD = 0.08, 0.95, 2.0 / 3.0


def run(quick: bool) -> list[Row]:
    """All rows."""
    recorded, simulated = recorded_jobs(("gyros", "robust", "paper_ukf")), simulated_jobs()
    if quick:
        recorded, simulated = recorded_jobs(("gyros", "robust"))[:2], simulated[:2]
    lines = compute([*recorded, *simulated])
    tables = [*_recorded_rows(lines, recorded), *_simulated_rows(lines, simulated)]
    return [*_targets(lines, recorded), *_found(lines, simulated), *([] if quick else _steps()), *tables]


def recorded_jobs(estimators: Sequence[str]) -> list[Job]:
    """The six recordings; none where they are not there."""
    try:
        data_folder()
    except UserError as error:
        print(error)
        return []
    return [Job(estimator, folder) for folder in FOLDERS for estimator in estimators]


def simulated_jobs() -> list[Job]:
    """Seed by seed; gyros, to which masses are nothing, without loads."""
    return [
        Job(estimator, "", links, scenario, variant, seed)
        for seed, variant in VARIANTS.items()
        for links in LINKS
        for scenario, estimator in (("load", "robust"), ("hardware", "robust"), ("hardware", "gyros"))
    ]
