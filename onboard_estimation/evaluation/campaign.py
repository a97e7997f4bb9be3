"""Many seeds of a simulated scenario: is the filter accurate, and consistent, over all of them?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from onboard_estimation.capabilities.simulated import Simulated
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.judge import judge
from onboard_estimation.evaluation.options import JudgeSettings, WhatIf
from onboard_estimation.evaluation.recording import LoadedRecording, from_simulator
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.filtering.consistency import Consistency, judge_consistency


@dataclass(frozen=True)
class PartCampaign:
    """One part of the state over all seeds of a variant.

    Attributes
    ----------
    rmse
        Per seed, after the settling time: RMS over time and dimensions, in the part's units mixed only where they are
        the same (None where they differ).
    unit
        Of the RMS.
    consistency
        NEES judged across the seeds, at each instant of the whole run; coverage.
    """

    unit: str | None
    rmse: tuple[float, ...] | None
    consistency: Consistency

    def to_mapping(self) -> dict[str, Any]:
        """For JSON, with median and worst case."""
        out: dict[str, Any] = {"consistency": asdict(self.consistency)}
        if self.rmse is not None:
            suffix = f"_{self.unit}" if self.unit else ""
            out[f"rmse_median{suffix}"] = float(np.median(self.rmse))
            out[f"rmse_worst{suffix}"] = float(np.max(self.rmse))
            out[f"rmse_by_seed{suffix}"] = list(self.rmse)
        return out


def simulated_runs(
    robot: Simulated[Any],
    configuration: Any,
    scenario: str,
    variant: str,
    duration_s: float,
    seeds: Iterable[int],
    estimator: str,
    settings: JudgeSettings | None = None,
    what_if: WhatIf | None = None,
    progress: Callable[[], None] = lambda: None,
) -> list[EvaluationResult]:
    """Simulate and judge one run a seed; the initial error and the noise are drawn anew for each."""
    runs = []
    base = settings or JudgeSettings()
    for seed in seeds:
        recording = simulated_recording(robot, configuration, scenario, variant, duration_s, seed)
        if what_if is not None:
            recording = recording.changed(what_if)
        known = robot.known_in(configuration, scenario)
        runs.append(judge(robot, known, estimator, recording, replace(base, seed=seed)))
        progress()
    return runs


def simulated_recording(
    robot: Simulated[Any], configuration: Any, scenario: str, variant: str, duration_s: float, seed: int
) -> LoadedRecording:
    """A simulated recording as a bag of it would be read."""
    rng = np.random.default_rng(seed)
    recording = robot.simulate(configuration, scenario, variant, duration_s, rng)
    specification = robot.truth_specification(configuration)
    return from_simulator(recording, specification.bodies, specification.held)


def judge_campaign(runs: list[EvaluationResult]) -> dict[str, PartCampaign]:
    """Each part over all runs, at the instants that they share.

    Raises
    ------
    UserError
        There are no runs, or they differ in length by more than a fifth.
    """
    if not runs:
        raise UserError("a campaign needs at least one seed")
    count = min(len(run.time_s) for run in runs)
    if count < 0.8 * max(len(run.time_s) for run in runs):
        raise UserError(f"runs of {count} to {max(len(run.time_s) for run in runs)} estimates cannot be compared")
    out = {}
    for name in runs[0].parts:
        parts = [run.parts[name] for run in runs]
        errors = np.array([part.error[:count] for part in parts])
        stddevs = np.array([part.stddev[:count] for part in parts])
        values = np.array([part.nees[:count] for part in parts])
        settle_s = float(runs[0].metrics["run"]["left_out_at_start_s"])
        settled = runs[0].time_s[:count] >= settle_s
        units = set(parts[0].units)
        unit: str | None = units.pop() if len(units) == 1 else None
        rmse = None
        if unit is not None:
            rms = np.sqrt(np.nanmean(errors[:, settled] ** 2, axis=(1, 2)))
            if unit == "rad":
                unit, rms = "deg", np.rad2deg(rms)
            rmse = tuple(float(value) for value in rms)
        out[name] = PartCampaign(unit, rmse, judge_consistency(values, errors, stddevs))
    return out
