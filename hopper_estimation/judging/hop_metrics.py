"""Errors of an estimated vertical motion hop by hop: M1 to M5, equations S12 to S16 of the paper.

Over N hops, each with its points i from touchdown to next touchdown (formulas as the paper's words have them):

    M1 = mean over hops of (sum |z_est,i - z_i| / sum z_i)            height, in percent                    (S12)
    M2 = mean over hops of (sum |v_est,i - v_i| / sum |v_i|)          vertical velocity, in percent         (S13)
    M3 = mean of |h_est - h| / h                                      apex height, in percent               (S14)
    M4 = mean of |t_est - t|                                          apex time, s                          (S15)
    M5 = mean of |h - h_commanded|                                    apex height, m                        (S16)

Readings where the paper leaves a choice:

- z in M1 is the vertical position, so the body's height above the ground under it (what an optical-flow sensor needs,
  S17). Counted from the standing height instead, M1 would be larger, as the mean height is smaller.
- h in M3 and M5 is the hop height, above standing, as commanded and as in Tables IV and S1. Above ground M3 would be
  smaller.
- v in the denominator of M2 is its size: its mean over a hop is about zero.
- M5 is the control's error: the true apex against the commanded one.
- M1 and M2 take the whole true cycle.

Every true hop that the estimate spans has M1 and M2, also one that was missed; an estimate that is not a number makes
them infinite. M3 and M4 need the apex that was told: of a hop that was missed, or told without an apex, they are NaN.
The counts of missed and of extra hops stand beside the means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hopper_estimation.judging.hop_truth import TrueHops
from hopper_estimation.judging.hops import HopCycles, HopMatches, match_cycles
from hopper_estimation.model.phases import Array

METRICS = ("m1", "m2", "m3", "m4", "m5")
_KEYS = {
    "m1": "m1_height_nmae_percent",
    "m2": "m2_velocity_nmae_percent",
    "m3": "m3_apex_height_mape_percent",
    "m4": "m4_apex_time_mae_s",
    "m5": "m5_apex_height_to_command_mae_m",
}


@dataclass(frozen=True)
class HopErrors:
    """Errors of an estimate, by true hop.

    Attributes
    ----------
    values
        (N,) by metric, `m1` to `m5`; percent, percent, percent, s, m. NaN: not defined, see the module.
    matches
        Pairs, missed and extra hops.
    """

    values: dict[str, Array]
    matches: HopMatches

    def __len__(self) -> int:
        return len(self.values["m3"])

    @property
    def m3_with_missed(self) -> Array:
        """(N,) M3, percent, with 100 % for a hop whose apex was not told."""
        return np.where(np.isnan(self.values["m3"]), 100.0, self.values["m3"])

    def summary(self) -> dict[str, Any]:
        """Means over hops, the median of M3 and all counts; units in the names."""
        out: dict[str, Any] = {
            "hops": len(self),
            "missed_hops": self.matches.missed,
            "extra_hops": len(self.matches.extra),
        }
        for metric in METRICS:
            mean = mean_of(self.values[metric])
            if np.isfinite(mean):
                out[_KEYS[metric]] = mean
        known = self.values["m3"][np.isfinite(self.values["m3"])]
        if len(known):
            out["apex_height_error_median_percent"] = float(np.median(known))
        return out


def hop_errors(
    truth: TrueHops,
    time_s: ArrayLike,
    height_m: ArrayLike,
    velocity_m_s: ArrayLike,
    cycles: HopCycles,
    command_m: ArrayLike | None = None,
    from_ground: bool = False,
) -> HopErrors:
    """Errors of an estimated motion against motion capture.

    Parameters
    ----------
    time_s, height_m, velocity_m_s
        (K,) estimate, times in order, on the truth's clock; taken between its samples by straight lines.
    cycles
        The estimate's own hops, see `hopper_estimation.judging.hops.hop_cycles`.
    command_m
        (N,) commanded hop height of each true hop, or one number; None: there was none, so no M5.
    from_ground
        The estimate is a height above the ground last stood on, so the true heights of each hop are taken above that
        ground too (M1). Hop heights of both always are.
    """
    time, height, velocity = (np.asarray(one, float) for one in (time_s, height_m, velocity_m_s))
    true = truth.cycles
    count = len(true)
    commanded = np.asarray(np.nan if command_m is None else command_m, float)
    span = (float(truth.time_s[0]), float(truth.time_s[-1]))
    matches = match_cycles(true, cycles, span, truth.unknown_s)

    told = np.array([_between(truth.time_s, time, one) for one in (height, velocity)])
    along = np.array([_along(truth, told, hop, from_ground) for hop in range(count)]).reshape(-1, 2)
    values = {metric: np.full(count, np.nan) for metric in METRICS}
    values["m1"], values["m2"] = along.T
    apex_error = np.full(count, np.nan)
    paired = np.flatnonzero(matches.partner >= 0)
    other = matches.partner[paired]
    apex_error[paired] = cycles.hop_height_m[other] - true.hop_height_m[paired]
    if not from_ground:
        # The estimate's heights are in the truth's frame: what it takes for the ground does not matter.
        apex_error[paired] += cycles.ground_m[other] - true.ground_m[paired]
    values["m3"] = 100.0 * np.abs(apex_error) / true.hop_height_m
    values["m4"][paired] = np.abs(cycles.apex_s[other] - true.apex_s[paired])
    values["m5"] = np.abs(true.hop_height_m - commanded)
    return HopErrors(values, matches)


def _along(truth: TrueHops, told: Array, hop: int, from_ground: bool) -> tuple[float, float]:
    """M1 and M2 of a hop, percent; `told` (2, K) are height and velocity at the truth's times."""
    span = truth.cycles.touchdown_s[hop], truth.cycles.next_touchdown_s[hop]
    first, last = np.searchsorted(truth.time_s, span)
    points = np.arange(first, last)[np.isfinite(truth.velocity_m_s[first:last])]
    if not len(points):
        return np.nan, np.nan
    ground = truth.cycles.ground_m[hop] if from_ground else 0.0
    height, velocity = truth.height_m[points] - ground, truth.velocity_m_s[points]
    error, wrong = np.abs(told[0, points] - height).mean(), np.abs(told[1, points] - velocity).mean()
    return 100.0 * error / height.mean(), 100.0 * wrong / np.abs(velocity).mean()


def commands_at(apex_s: ArrayLike, command_time_s: ArrayLike, command_m: ArrayLike) -> Array:
    """Commanded hop height in force at each apex: the last one given before it; NaN before the first.

    Parameters
    ----------
    apex_s
        (N,) times of the apexes.
    command_time_s, command_m
        (C,) when commands were given, in order, and the hop heights.
    """
    times, heights = np.asarray(command_time_s, float), np.asarray(command_m, float)
    apexes = np.asarray(apex_s, float)
    found = np.append(np.nan, heights)[np.searchsorted(times, apexes, side="right")]
    return np.where(np.isfinite(apexes), found, np.nan)


def mean_of(values: ArrayLike) -> float:
    """Mean of what is known; NaN where nothing is. An infinite error makes it infinite."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else np.nan


def _between(at: Array, time: Array, value: Array) -> Array:
    """Value at times: NaN before and after the estimate, infinite where it is not a number, which is an error."""
    found = np.interp(at, time, value)
    found = np.where(np.isfinite(found), found, np.inf)
    return np.where((at >= time[0]) & (at <= time[-1]), found, np.nan)
