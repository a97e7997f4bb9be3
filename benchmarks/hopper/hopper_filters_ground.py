"""Ground height over many hops for `hopper_filters`: flat ground, and ground that steps up or down from hop to hop.

Four ways to sum it up: equation 12 of the paper (each touchdown's height), equation 13 (its mean with the change of the
drops), the estimator as it is shipped (equation 12 less what training knows of its error), and equation 12 of a filter
that was never trained: position updates at touchdown alone, with textbook settings.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hopper.hopper_filters_jobs import Job
from benchmarks.hopper.hopper_filters_models import Search, entry_of, recording_of, training_job
from hopper_estimation import phases
from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.estimator import HopperEstimator
from hopper_estimation.filter_calibration import filtered
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.filter_training import neutral_parameters
from hopper_estimation.filters import Filtered
from hopper_estimation.ground_height import DIRECT, PAPER_DROP_WEIGHT, ground_heights
from hopper_estimation.phases import APEX, TOUCHDOWN
from hopper_estimation.training_trials import Trial, trial_of
from onboard_estimation.evaluation.recording import LoadedRecording
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Array = NDArray[np.float64]

HOPPING_S = 78.0
"""Some thirty-five hops of 1 to 4 m."""
GAIT = "mixed"
HOPS = 30
DROP_EQUATION, DIRECT_EQUATION, SHIPPED, UNTRAINED = "eq. (13)", "eq. (12)", "as shipped", "untrained KF, eq. (12)"
STEPS_M = {"hardware": 0.01, "uneven": 0.04}
"""By how much the estimator is told that ground changes from hop to hop (`ground_step_stddev_m`), m."""
_NEAR_S = 0.12
_UNTRAINED = {
    phases.F_STATE: 100.0,
    phases.F_PHASE: 100.0,
    phases.SWITCH: 14.0,
    phases.SIGMA_A: 1.0,
    phases.SIGMA_P: 0.01,
    phases.JERK: 4000.0,
}
"""Hz, Hz, g, m/s^2, m, m/s^3."""


def ground_job(search: Search, training_seed: int, robots: int, scenario: str, seed: int) -> Job:
    """To sum up the ground under one robot."""
    return Job.of(
        "hopper_filters_ground.summed",
        search=asdict(search),
        training_seed=training_seed,
        robots=robots,
        scenario=scenario,
        seed=seed,
    )


@lru_cache(maxsize=2)
def _recorded(scenario: str, seed: int) -> tuple[LoadedRecording, Trial]:
    recording = recording_of(scenario, GAIT, HOPPING_S, seed)
    configuration = HopperConfiguration(ground_changes=scenario == "uneven")
    return recording, trial_of(configuration, f"{scenario}, seed {seed}", recording)


def summed(search: dict[str, Any], training_seed: int, robots: int, scenario: str, seed: int) -> dict[str, Any]:
    """Error of the ground's height, m, after each hop, by way of summing up; `change_m` is the ground's own."""
    wanted = Search(**search)
    entry = entry_of(wanted.estimator, training_job(wanted, training_seed, robots))
    recording, trial = _recorded(scenario, seed)
    standing = HopperConfiguration().robot.standing_height_m
    true = np.asarray(trial.hops.ground_m if scenario == "uneven" else np.zeros(len(trial.hops.ground_m)))
    out: dict[str, Any] = {"change_m": true[: HOPS + 1].tolist(), "errors_m": {}}
    apex, touchdown = _heights(_run(wanted.estimator, entry, trial), entry.parameters[phases.DELAY_TD], trial)
    for name, weight in ((DIRECT_EQUATION, DIRECT), (DROP_EQUATION, PAPER_DROP_WEIGHT)):
        out["errors_m"][name] = _errors(ground_heights(apex, touchdown, standing, weight), true)
    out["errors_m"][SHIPPED] = _errors(_shipped(wanted.estimator, entry, recording, trial, STEPS_M[scenario]), true)
    parameters = neutral_parameters()
    parameters[list(_UNTRAINED)] = list(_UNTRAINED.values())
    apex, touchdown = _heights(_run("kf3", replace(entry, parameters=parameters), trial), 0.0, trial)
    out["errors_m"][UNTRAINED] = _errors(ground_heights(apex, touchdown, standing, DIRECT), true)
    return out


def _run(estimator: str, entry: FilterEntry, trial: Trial) -> Filtered:
    zz, zv, vv = entry.start_covariance
    return filtered(HopperConfiguration(), estimator, entry.parameters, trial, np.array([[zz, zv], [zv, vv]]))


def _heights(run: Filtered, delay_s: float, trial: Trial) -> tuple[Array, Array]:
    """Heights (N,) of the apex before each true touchdown and at it, before its update; NaN apex: not seen.

    A touchdown that was not told counts as one at the standing height: nothing is known of a change.
    """
    kinds = run.events["kind"]
    told_s = trial.time_s[run.events["sample"]]
    height = run.events["height"]
    # The filter takes a touchdown for as late as its position update does.
    at_touchdown = height - delay_s * run.events["velocity"]
    true_s = trial.hops.events.times_s(TOUCHDOWN)
    apex = np.full(len(true_s), np.nan)
    touchdown = np.full(len(true_s), HopperConfiguration().robot.standing_height_m)
    rows = np.flatnonzero(kinds == TOUCHDOWN)
    before_s = -np.inf
    for number, at_s in enumerate(true_s):
        near = rows[np.abs(told_s[rows] - at_s) < _NEAR_S]
        if len(near):
            touchdown[number] = at_touchdown[near[0]]
        apexes = np.flatnonzero((kinds == APEX) & (told_s > before_s) & (told_s < at_s))
        if len(apexes):
            apex[number] = height[apexes[0]]
        elif number == 0:
            apex[number] = trial.start_height_m
        before_s = at_s
    return apex, touchdown


def _shipped(estimator: str, entry: FilterEntry, recording: LoadedRecording, trial: Trial, step_m: float) -> Array:
    """(N,) ground under each true touchdown, by the estimator as a user has it: what it adds to heights."""
    configuration = HopperConfiguration(ground_step_stddev_m=step_m)
    from_start, from_below = (
        one.filter_recording(one.start(None), recording.series, recording.arrival, 0.0)
        for changes in (True, False)
        for one in [HopperEstimator(replace(configuration, ground_changes=changes), estimator, entry)]
    )
    assert from_start is not None
    assert from_below is not None
    start_ns = int(recording.tracks[HopperConfiguration().truth_body].stamps_ns[0])
    time_s = (from_start.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    ground = from_start.means[:, 0] - from_below.means[:, 0]
    return ground[np.searchsorted(time_s, trial.hops.events.times_s(TOUCHDOWN) + _NEAR_S) - 1]


def _errors(estimated_m: Array, true_m: Array) -> list[float]:
    """After each of the hops; the first touchdown ends the flight to the start and is where the sum begins."""
    error = estimated_m - true_m
    return [float(f"{value:.5g}") for value in (error - error[0])[: HOPS + 1]]
