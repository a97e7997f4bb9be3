"""Several filters on the same recordings, as a table and figure of a paper asks for it (`reproduce PAPER BAG...`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.presentation import percent, quantity, words
from onboard_estimation.contract.recorded import LoadedRecording
from onboard_estimation.contract.reproduced import Item, Outcome
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.contract.robot import Robot
from onboard_estimation.contract.trained import ReportTable
from onboard_estimation.judging.judge import judge

HEADINGS = ("recording", "filter", "part", "RMS error", "1 sigma", "3 sigma", "NEES")
COVERED = 0.95
"""Share of the instants that have to lie within three sigma."""


def side_by_side(
    robot: Robot[Any],
    filters: Mapping[str, tuple[Any, str]],
    recordings: Mapping[str, LoadedRecording],
    place: str,
    judged: Callable[..., EvaluationResult] = judge,
) -> Item:
    """Errors and coverage of each filter, part by part.

    Parameters
    ----------
    filters
        Configuration and estimator by what they are called in the table; the first is the paper's.
    place
        In the paper, that they make again.

    Raises
    ------
    UserError
        No filter gives an estimate of any recording that can be judged.
    """
    rows: list[tuple[str, ...]] = []
    faults: dict[str, None] = {}
    held: list[bool] = []
    papers, missed = next(iter(filters)), 0
    for name, recording in recordings.items():
        for label, (configuration, estimator) in filters.items():
            try:
                result = judged(robot, configuration, estimator, recording)
            except UserError as error:
                faults[f"{name}, {label}: {error}"] = None
                missed += label == papers
                continue
            for part, one in result.parts.items():
                chosen, figures = one.judged(result.time_s, result.settle_s), result.metrics.get(part, {})
                if not chosen.any():
                    continue
                sizes = ", ".join(quantity(rms, unit) for unit, rms in one.rms(chosen).items())
                shares = [figures.get(f"coverage_{count}_sigma", np.nan) for count in (1, 3)]
                nees = figures.get("mean_nees_per_degree_of_freedom", np.nan)
                rows.append((name, label, words(part), sizes, *map(percent, shares), f"{nees:.2f}"))
                if label == papers and np.isfinite(shares[1]):
                    held.append(bool(shares[1] >= COVERED))
    if not rows:
        raise UserError(f"no filter gives an estimate that can be judged: {'; '.join(faults)}")
    all_held = bool(held) and all(held) and not missed
    outcome: Outcome = "reproduced" if all_held else "partly" if any(held) else "not reproduced"
    because = f"{sum(held)} of {len(held)} parts of the paper's filter lie within 3 sigma for {percent(COVERED)}"
    because += f"; without an estimate: {'; '.join(faults)}" if faults else ""
    table = ReportTable("From the end of settling on", HEADINGS, tuple(rows), HEADINGS[3:])
    return Item(place, "filters on these recordings", outcome, because, (table,))
