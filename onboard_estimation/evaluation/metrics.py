"""Figures of a judged run, by part of the state. Units stand in the key names.

Path metrics (absolute and relative trajectory error) come from `evo`; joint angles, drift, NEES and coverage are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from evo.core.metrics import APE, RPE, PoseRelation, Unit
from evo.core.trajectory import PosePath3D
from numpy.typing import NDArray

from onboard_estimation.evaluation.presentation import unit_suffix
from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.filtering.consistency import chi_square_band, coverage
from onboard_estimation.measurement import Vector

Rows = NDArray[np.float64]
_POSITION_NAMES = ("x", "y", "z")
_GRID_S = 0.1
_LONGEST_STEP_S = 0.5


def part_metrics(part: PartResult, time_s: Vector, settle_s: float) -> dict[str, Any]:
    """Metrics of one part, its first `settle_s` seconds left out; empty where nothing is matched.

    Keys: RMS errors `<name>_rmse_<unit>`, for positions the path metrics, for groups of angles their common RMS; then
    `mean_nees_per_degree_of_freedom` (1 for a consistent filter, more: overconfident), `nees_in_band_ratio`,
    `coverage_1_sigma`, `coverage_3_sigma`.
    """
    used = part.matched & (time_s >= time_s[0] + settle_s)
    if not used.any():
        return {}
    error = part.error[used]
    metrics: dict[str, Any] = {}
    position = [i for i, name in enumerate(part.names) if name in _POSITION_NAMES and part.units[i] == "m"]
    if len(position) >= 2:
        metrics |= path_metrics(part, used, time_s, position)
    elif len(part.names) > 1 and set(part.units) == {"rad"}:
        metrics["rmse_deg"] = _rms_deg(error)
        metrics["max_abs_deg"] = float(np.rad2deg(np.max(np.abs(error))))
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
    metrics["coverage_1_sigma"] = coverage(error, part.stddev[used], 1.0)
    metrics["coverage_3_sigma"] = coverage(error, part.stddev[used], 3.0)
    return metrics


def path_metrics(part: PartResult, used: NDArray[np.bool_], time_s: Vector, position: list[int]) -> dict[str, float]:
    """Absolute and relative trajectory errors of a part whose first coordinates are a position."""
    estimate, truth = (_path(values[used], len(position)) for values in (part.estimate, part.truth))
    absolute = APE(PoseRelation.translation_part)
    absolute.process_data((truth, estimate))
    offsets = estimate.positions_xyz - truth.positions_xyz
    stretches = _resampled(time_s[used], part.truth[used], part.estimate[used], len(position))
    length_m = float(sum(np.linalg.norm(np.diff(true.positions_xyz, axis=0), axis=1).sum() for true, _ in stretches))
    final_m = float(np.linalg.norm(offsets[-1]))
    metrics = {
        "position_ate_rmse_m": float(np.sqrt(np.mean(np.square(absolute.error)))),
        "position_ate_max_m": float(np.max(absolute.error)),
        "position_horizontal_rmse_m": float(np.sqrt(np.mean(np.sum(offsets[:, :2] ** 2, axis=1)))),
        "final_position_error_m": final_m,
        "true_path_length_m": length_m,
    }
    if len(position) > 2:
        metrics["position_vertical_rmse_m"] = float(np.sqrt(np.mean(offsets[:, 2] ** 2)))
    if length_m > 0.0:
        metrics["final_position_error_percent_of_path"] = 100.0 * final_m / length_m
    relative = _relative_errors(stretches)
    if len(relative):
        metrics["position_rpe_1s_rmse_m"] = float(np.sqrt(np.mean(np.square(relative))))
    return metrics


def _resampled(times: Vector, truth: Rows, estimate: Rows, dimensions: int) -> list[tuple[PosePath3D, PosePath3D]]:
    """Paths of truth and estimate with a pose every tenth of a second, one for each stretch without a gap.

    Estimates need not be evenly spaced, and the truth's noise summed up at its full rate would lengthen the path.
    """
    out = []
    for stretch in np.split(np.arange(len(times)), np.flatnonzero(np.diff(times) > _LONGEST_STEP_S) + 1):
        first, last = times[stretch[0]], times[stretch[-1]]
        grid = first + _GRID_S * np.arange(int((last - first) / _GRID_S + 1e-6) + 1)
        planar = dimensions == 2 and truth.shape[1] == 3
        resampled = (_at(grid, times[stretch], values[stretch], planar) for values in (truth, estimate))
        true, seen = (_path(values, dimensions) for values in resampled)
        out.append((true, seen))
    return out


def _at(grid: Vector, times: Vector, values: Rows, planar: bool) -> Rows:
    """Positions, or planar poses with their heading along the shorter way, (K, d) at other times (G,)."""
    columns = list(values.T)
    if planar:
        columns[2] = np.unwrap(columns[2])
    return np.column_stack([np.interp(grid, times, column) for column in columns]).astype(np.float64)


def _relative_errors(stretches: list[tuple[PosePath3D, PosePath3D]]) -> Vector:
    """Errors of the displacement over one second, from all pairs within the stretches."""
    frames = round(1.0 / _GRID_S)
    errors = []
    for truth, estimate in stretches:
        if truth.num_poses <= frames:
            continue
        relative = RPE(PoseRelation.translation_part, delta=frames, delta_unit=Unit.frames, all_pairs=True)
        relative.process_data((truth, estimate))
        errors.append(np.asarray(relative.error))
    return np.concatenate(errors) if errors else np.empty(0)


def _path(values: Rows, dimensions: int) -> PosePath3D:
    """Path for evo: planar poses with their heading, positions with no rotation."""
    positions = np.zeros((len(values), 3))
    positions[:, :dimensions] = values[:, :dimensions]
    quaternions = np.zeros((len(values), 4))
    heading = values[:, 2] if dimensions == 2 and values.shape[1] == 3 else np.zeros(len(values))
    quaternions[:, 0], quaternions[:, 3] = np.cos(0.5 * heading), np.sin(0.5 * heading)
    return PosePath3D(positions_xyz=positions, orientations_quat_wxyz=quaternions)


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
        if found := part_metrics(part, time_s, settle_s):
            metrics[name] = found
    return metrics


def _rms_deg(angles_rad: NDArray[np.float64]) -> float:
    return float(np.rad2deg(np.sqrt(np.mean(np.square(angles_rad)))))
