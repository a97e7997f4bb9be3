"""Figure 5: the ground's height summed up over thirty hops, as the paper does and as this package does.

With heights of the filter at touchdown, z_TD (before its update), and at the apex before, z_HA, L the standing height:

    eq. (11)   change = (z_HA,k-1 - z_TD,k-1) - (z_HA,k - z_TD,k)      a drop that is shorter ends higher
    eq. (12)   change = z_TD,k - L
    eq. (13)   their mean

The text has lost the formulas; these follow from its words. Summed up, eq. (11) leaves nothing but the first and the
last drop: it neither drifts nor follows the ground. Eq. (12) adds up what each touchdown is seen too high.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hopper_estimation.estimators.estimator import HopperEstimator
from hopper_estimation.estimators.filters import FilterEntry
from hopper_estimation.model import phases
from hopper_estimation.model.phases import APEX, TOUCHDOWN, Array
from hopper_estimation.paper.trials import CONFIGURATION, START_S, recorded, told
from hopper_estimation.training.filter_calibration import Trial, trial_of
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

HOPS, SECONDS = 30, 86.0
"""More than thirty hops, of 4 m too."""
FLOORS = {
    "level, hops of 1 to 4 m": ("hardware", "mixed"),
    "level, hops of 4 m": ("hardware", "4m"),
    "uneven by 4 cm a hop": ("uneven", "mixed"),
}
"""Scenario and variant."""
_TOLD_M = {"as shipped, told 1 cm": 0.01, "as shipped, told 4 cm": 0.04}
"""By how much the estimator is told that the ground changes from hop to hop; uneven ground changes by 4 cm."""
_NEAR_S = 0.12


class Statistics(NamedTuple):
    """Errors of the ground's height over runs, m: mean size and mean after the last hop, mean along the runs; of a hop
    alone, mean and standard deviation."""

    last_size: float
    last: float
    along: float
    hop_mean: float
    hop_stddev: float

    @property
    def foretold(self) -> float:
        """Mean size after so many hops, if each hop's error has that mean and deviation and knows nothing of others."""
        spread = np.sqrt(HOPS) * self.hop_stddev
        drawn = HOPS * self.hop_mean + spread * np.random.default_rng(0).normal(size=20_000)
        return float(np.abs(drawn).mean())


def statistics(errors: Array) -> Statistics:
    """Of (R, HOPS + 1) errors, the first of each run zero."""
    hops = np.diff(errors, axis=1)
    last = errors[:, -1]
    parts = np.abs(last).mean(), last.mean(), errors[:, 1:].mean(), hops.mean(), hops.std()
    return Statistics(*map(float, parts))


def ground_errors(task: tuple[FilterEntry, str, int]) -> dict[str, Array]:
    """(HOPS + 1,) errors of the ground's height under each touchdown, m, by way; the first is where the sum begins."""
    entry, floor, seed = task
    scenario, variant = FLOORS[floor]
    recording = recorded(scenario, variant, START_S + SECONDS, seed)
    trial = trial_of(replace(CONFIGURATION, ground_changes=scenario == "uneven"), f"seed {seed}", recording)
    true_m = trial.hops.ground_m if scenario == "uneven" else np.zeros(len(trial.hops.ground_m))
    ways = _summed(entry, trial)
    ways |= {name: _shipped(entry, recording, trial, told_m) for name, told_m in _TOLD_M.items()}
    errors = {way: one - true_m for way, one in ways.items()}
    return {way: (one - one[0])[: HOPS + 1] for way, one in errors.items()}


def _shipped(entry: FilterEntry, recording: Any, trial: Trial, told_m: float) -> Array:
    """(N,) ground under each true touchdown, by the estimator as a user has it: what it adds to heights."""
    configuration = replace(CONFIGURATION, ground_step_stddev_m=told_m)
    from_start, from_below = (
        one.filter_recording(one.start(None), recording.series, recording.arrival, 0.0)
        for changes in (True, False)
        for one in [HopperEstimator(replace(configuration, ground_changes=changes), "kf1", entry)]
    )
    assert from_start is not None
    assert from_below is not None
    start_ns = int(recording.tracks[configuration.truth_body].stamps_ns[0])
    time_s = (from_start.stamps_ns - start_ns) / NANOSECONDS_PER_SECOND
    rows = np.searchsorted(time_s, trial.hops.events.times_s(TOUCHDOWN) + _NEAR_S) - 1
    ground: Array = (from_start.means[:, 0] - from_below.means[:, 0])[rows]
    return ground


def _summed(entry: FilterEntry, trial: Trial) -> dict[str, Array]:
    """(N,) the same by eqs. (11) to (13) as printed; of a touchdown or an apex that was not told no change is known."""
    run = told("kf1", entry, trial).events
    seen_s = trial.time_s[run["sample"]]
    # The filter takes a touchdown for as late as its position update does.
    height = run["height"] - np.where(run["kind"] == TOUCHDOWN, entry.parameters[phases.DELAY_TD] * run["velocity"], 0)
    true_s = trial.hops.events.times_s(TOUCHDOWN)
    touchdown, drop = np.full((2, len(true_s)), np.nan)
    for number, at_s in enumerate(true_s):
        near = np.flatnonzero((run["kind"] == TOUCHDOWN) & (np.abs(seen_s - at_s) < _NEAR_S))
        if len(near):
            touchdown[number] = height[near[0]]
            before = [row for row in range(near[0]) if run["kind"][row] in (APEX, TOUCHDOWN)]
            if before and run["kind"][before[-1]] == APEX:
                drop[number] = height[before[-1]] - touchdown[number]
    by_drop = -np.diff(drop, prepend=drop[:1])
    by_touchdown = touchdown - CONFIGURATION.robot.standing_height_m
    changes = {"eq. (11)": by_drop, "eq. (12)": by_touchdown, "eq. (13)": 0.5 * (by_drop + by_touchdown)}
    return {way: np.cumsum(np.nan_to_num(one)) for way, one in changes.items()}
