"""Figure 6: errors of KF1, trained at 840 Hz, where accelerometers are read more or less often."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hopper_estimation.estimators.filters import FilterEntry
from hopper_estimation.model.phases import Array
from hopper_estimation.paper.trials import sensed, told
from onboard_estimation.base.errors import UserError

SCENARIOS = {"ideal": "without noise", "hardware": "with noise"}
HOPPING_S, BIN_S = 24.0, 2.0
BINS = round(HOPPING_S / BIN_S)
TRAINED_HZ = 840.0
HEIGHT_M = 3.0
SMALL, LARGE, LOST = "small", "large", "lost"
_SMALL_RATIO = 1.5


class Errors(NamedTuple):
    """(R, BINS, 2) RMS errors of height (m) and velocity (m/s) of runs, by two seconds; NaN: nothing is known."""

    rms: Array

    @property
    def overall(self) -> tuple[float, float]:
        """RMS errors of height and velocity of all runs."""
        height, velocity = np.sqrt(np.nanmean(np.square(self.rms), axis=(0, 1)))
        return float(height), float(velocity)


def sensing_errors(task: tuple[FilterEntry, str, float, int]) -> Array:
    """(BINS, 2) of a run at 3 m."""
    entry, scenario, rate_hz, seed = task
    out = np.full((BINS, 2), np.nan)
    try:
        trial = sensed(scenario, f"{HEIGHT_M:g}m", HOPPING_S, seed, rate_hz)
    except UserError:  # so slow that nothing can be told
        return out
    run = told("kf1", entry, trial).out
    square = np.square(run[:, :2] - np.column_stack([trial.true_height_m, trial.true_velocity_m_s]))
    places = ((trial.time_s - trial.time_s[0]) / BIN_S).astype(np.int64)
    for place in range(BINS):
        rows = square[(places == place) & np.isfinite(square).all(axis=1)]
        if len(rows):
            out[place] = np.sqrt(rows.mean(axis=0))
    return out


def behaviour(errors: Errors, reference: Errors) -> str:
    """Of a frequency beside 840 Hz: no more than half as large again, larger, or larger than half of the hop's height.

    The robot is controlled by its true state and goes on hopping, and touchdowns give its height anew: errors that
    would grow without end stay as large as hops are.
    """
    height_m = errors.overall[0]
    if not height_m <= HEIGHT_M / 2.0:
        return LOST
    return SMALL if height_m <= _SMALL_RATIO * reference.overall[0] else LARGE
