"""A filter on a trial: errors by hop, and whether its standard deviations hold, by phase."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hopper_estimation.configuration import HopperConfiguration
from hopper_estimation.filter_calibration import filtered
from hopper_estimation.filter_model import FilterEntry
from hopper_estimation.hop_metrics import HopErrors, Part, commands_at, hop_errors
from hopper_estimation.hops import HopEvents, hop_cycles
from hopper_estimation.phases import PHASES
from hopper_estimation.training_trials import Trial

Array = NDArray[np.float64]


class FilterJudgement(NamedTuple):
    """Attributes: errors by hop; `within` (2, 5, 3): of height and velocity in each phase, the number of samples, and
    how many were within one and within three standard deviations."""

    errors: HopErrors
    within: Array


def judge_filter(
    configuration: HopperConfiguration,
    estimator: str,
    entry: FilterEntry,
    trial: Trial,
    part: Part = "cycle",
    control: str = "GT",
) -> FilterJudgement:
    """Run a filter over a trial and compare it with the truth."""
    zz, zv, vv = entry.start_covariance
    run = filtered(configuration, estimator, entry.parameters, trial, np.array([[zz, zv], [zv, vv]]))
    kinds = run.events["kind"]
    seen_s = trial.time_s[run.events["sample"]]
    happened_s = seen_s - entry.event_delay_s[kinds]
    events = HopEvents.of(kinds, happened_s, seen_s, run.events["height"])
    height, velocity = run.out[:, 0], run.out[:, 1]
    cycles = hop_cycles(events, trial.time_s, height, configuration.robot.standing_height_m)
    command = commands_at(trial.hops.cycles.apex_s, trial.time_s, trial.signals["goal"])
    from_ground = configuration.ground_changes
    errors = hop_errors(
        estimator, trial.hops, trial.time_s, height, velocity, cycles, command, control, part, from_ground
    )
    return FilterJudgement(errors, _within(run.out, entry, trial))


def samples_within(out: Array, entry: FilterEntry, trial: Trial) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(N,) whether the height's error is within three standard deviations, and whether it is known."""
    phase = out[:, 5].astype(np.int64)
    variance = (entry.height_scale[phase] ** 2) * np.maximum(out[:, 2], 0.0) + entry.height_floor_m[phase] ** 2
    error = out[:, 0] - trial.true_height_m
    return np.abs(error) < 3.0 * np.sqrt(variance), np.isfinite(error)


def _within(out: Array, entry: FilterEntry, trial: Trial) -> Array:
    phase = out[:, 5].astype(np.int64)
    within = np.zeros((2, len(PHASES), 3))
    for quantity, (value, variance, true, scale, floor) in enumerate(
        (
            (out[:, 0], out[:, 2], trial.true_height_m, entry.height_scale, entry.height_floor_m),
            (out[:, 1], out[:, 4], trial.true_velocity_m_s, entry.velocity_scale, entry.velocity_floor_m_s),
        )
    ):
        stddev = np.sqrt(scale[phase] ** 2 * np.maximum(variance, 0.0) + floor[phase] ** 2)
        ratio = np.abs(value - true) / stddev
        known = np.isfinite(ratio)
        for number in range(len(PHASES)):
            chosen = ratio[known & (phase == number)]
            within[quantity, number] = len(chosen), np.sum(chosen < 1.0), np.sum(chosen < 3.0)
    return within
