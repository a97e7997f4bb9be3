"""Figures of a judged run, by part of the state. Units stand in the key names.

Path metrics (absolute and relative trajectory error) come from `evo`; joint angles, drift, NEES and coverage are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.path_metrics import BY_DISTANCE, path_metrics, path_of
from onboard_estimation.evaluation.presentation import unit_suffix
from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.filtering.consistency import chi_square_band, coverage
from onboard_estimation.measurement import Vector

Rows = NDArray[np.float64]
_POSITION_NAMES = ("x", "y", "z")
_HEADLINES = ("position_ate_rmse_m", "rmse_deg")


def headline_keys(keys: Iterable[str]) -> list[str]:
    """Of a part's figures the one to look at: the distance of a position, the RMS of several angles, else of each
    dimension.
    """
    known = list(keys)
    return [key for key in _HEADLINES if key in known][:1] or [key for key in known if "_rmse" in key]


def part_metrics(
    part: PartResult, time_s: Vector, settle_s: float, attitude: PartResult | None = None
) -> dict[str, Any]:
    """Metrics of one part, its first `settle_s` seconds left out; empty where nothing is matched.

    Keys: RMS errors `<name>_rmse_<unit>`, for positions the path metrics, for groups of angles their common RMS; then
    `mean_nees_per_degree_of_freedom` (1 for a consistent filter, more: overconfident), `nees_in_band_ratio`,
    `coverage_1_sigma`, `coverage_3_sigma`, where there is a covariance.

    Parameters
    ----------
    attitude
        Of the body whose position the part is; relative errors of the path are taken in its frame then.
    """
    used = part.matched & (time_s >= time_s[0] + settle_s)
    if not used.any():
        return {}
    error = part.error[used]
    metrics: dict[str, Any] = {}
    by_distance = None
    position = [i for i, name in enumerate(part.names) if name in _POSITION_NAMES and part.units[i] == "m"]
    if len(position) >= 2:
        figures = path_metrics(path_of(part, attitude, used, time_s))
        by_distance = figures.pop(BY_DISTANCE, None)
        metrics |= figures
    elif len(part.names) > 1 and set(part.units) == {"rad"}:
        metrics["rmse_deg"] = _rms_deg(error)
        metrics["max_abs_deg"] = float(np.rad2deg(np.max(np.abs(error))))
        if part.truth.shape[1] > len(part.names):  # a quaternion: of the whole turn, as evo counts it
            metrics["rotation_ate_rmse_deg"] = _rms_deg(np.linalg.norm(error, axis=1))
    for column, (name, unit) in enumerate(zip(part.names, part.units, strict=True)):
        if unit == "rad":
            metrics[f"{name}_rmse_deg"] = _rms_deg(error[:, column])
        else:
            metrics[f"{name}_rmse{unit_suffix(unit)}"] = float(np.sqrt(np.mean(error[:, column] ** 2)))
    degrees = len(part.names)
    nees = part.nees[used & np.isfinite(part.nees)]  # a singular covariance has none
    if len(nees):
        low, high = chi_square_band(degrees)
        metrics["mean_nees_per_degree_of_freedom"] = float(np.mean(nees) / degrees)
        metrics["nees_in_band_ratio"] = float(np.mean((nees >= low) & (nees <= high)))
    if np.isfinite(part.stddev[used]).any():
        metrics["coverage_1_sigma"] = coverage(error, part.stddev[used], 1.0)
        metrics["coverage_3_sigma"] = coverage(error, part.stddev[used], 3.0)
    if by_distance:
        metrics[BY_DISTANCE] = by_distance
    return metrics


def all_metrics(
    parts: Mapping[str, PartResult], time_s: Vector, settle_s: float, matched_ratio: float
) -> dict[str, Any]:
    """What `metrics.json` holds."""
    duration = float(time_s[-1] - time_s[0]) if len(time_s) else 0.0
    metrics: dict[str, Any] = {
        "run": {
            "duration_s": duration,
            "estimates": len(time_s),
            "matched_ratio": matched_ratio,
            "left_out_at_start_s": settle_s,
        }
    }
    for name, part in parts.items():
        attitude = parts.get("attitude") if name == "position" else None
        if attitude is not None and not attitude.matched[part.matched].all():
            attitude = None
        if found := part_metrics(part, time_s, settle_s, attitude):
            metrics[name] = found
    return metrics


def _rms_deg(angles_rad: NDArray[np.float64]) -> float:
    return float(np.rad2deg(np.sqrt(np.mean(np.square(angles_rad)))))
