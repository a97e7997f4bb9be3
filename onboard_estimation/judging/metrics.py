"""Figures of a judged run, by part of the state. Units stand in the key names.

Path metrics (absolute and relative trajectory error) come from `evo`; joint angles, drift, NEES and coverage are ours.
Relative errors are those of the poses relative to earlier ones: over a second, over a metre, and over shares of the
whole path. They are taken from a pose every tenth of a second, all pairs, within stretches without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from evo.core.filters import FilterException
from evo.core.metrics import APE, RPE, PoseRelation, Unit
from evo.core.trajectory import PosePath3D
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Vector
from onboard_estimation.base.presentation import unit_suffix
from onboard_estimation.contract.result import PartResult
from onboard_estimation.contract.tracks import interpolate
from onboard_estimation.filtering.consistency import chi_square_band, coverage

Rows = NDArray[np.float64]
_POSITION_NAMES = ("x", "y", "z")
Metrics = dict[str, float | dict[str, float]]

BY_DISTANCE = "rpe_over_share_of_path"
"""Key of the group of relative errors over 10 to 100 % of the path."""

_GRID_S = 0.1
_LONGEST_STEP_S = 0.5
_SHARES_PERCENT = range(10, 101, 10)
# Pairs by distance are looked for among so many poses; of longer runs, every n-th start.
_MOST_POSES = 2000


def part_metrics(
    part: PartResult, time_s: Vector, settle_s: float, attitude: PartResult | None = None
) -> dict[str, Any]:
    """Metrics of one part, its first `settle_s` seconds left out; empty where nothing is matched.

    Keys: for positions the path metrics, for all else of one unit the RMS of all of it (see `PartResult.rms`), RMS
    errors of each dimension `<name>_rmse_<unit>`; then
    `mean_nees_per_degree_of_freedom` (1 for a consistent filter, more: overconfident), `nees_in_band_ratio`,
    `coverage_1_sigma`, `coverage_3_sigma`, where there is a covariance.

    Parameters
    ----------
    attitude
        Of the body whose position the part is; relative errors of the path are taken in its frame then.
    """
    used = part.judged(time_s, settle_s)
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
    elif part.is_turn:  # the whole of it, as evo counts it
        metrics["rotation_ate_rmse_deg"] = float(np.rad2deg(part.rms(used)["rad"]))
        metrics["rotation_ate_max_deg"] = float(np.rad2deg(np.max(np.linalg.norm(error, axis=1))))
    elif len(part.names) > 1 and len(set(part.units)) == 1:
        metrics |= _in_degrees("rmse", *part.rms(used).popitem())
        if set(part.units) == {"rad"}:
            metrics["max_abs_deg"] = float(np.rad2deg(np.max(np.abs(error))))
    for column, (name, unit) in enumerate(zip(part.names, part.units, strict=True)):
        metrics |= _in_degrees(f"{name}_rmse", unit, rms(error[:, column]))
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


def _in_degrees(name: str, unit: str, value: float) -> dict[str, float]:
    """A figure under its key, angles in degrees."""
    return {f"{name}_deg": float(np.rad2deg(value))} if unit == "rad" else {f"{name}{unit_suffix(unit)}": value}


class Path(NamedTuple):
    """Poses (K, 7) of estimate and truth at the times (K,), s: position, quaternion x, y, z, w.

    `turns` is false where one of them has no orientation; then all quaternions are one.
    """

    times_s: Vector
    estimate: Rows
    truth: Rows
    dimensions: int
    turns: bool


def path_of(part: PartResult, attitude: PartResult | None, used: NDArray[np.bool_], time_s: Vector) -> Path:
    """Path of a planar pose, or of a position (K, 2) or (K, 3) with the attitude beside it, at the instants `used`."""
    dimensions = len(part.names) if set(part.units) == {"m"} else 2
    planar = dimensions < len(part.names)
    poses = []
    for name in ("estimate", "truth"):
        values = getattr(part, name)[used]
        pose = np.zeros((len(values), 7))
        pose[:, :dimensions], pose[:, 6] = values[:, :dimensions], 1.0
        if planar:
            pose[:, 5], pose[:, 6] = np.sin(0.5 * values[:, 2]), np.cos(0.5 * values[:, 2])
        elif attitude is not None:
            pose[:, 3:] = getattr(attitude, name)[used]
        poses.append(pose)
    return Path(time_s[used], poses[0], poses[1], dimensions, planar or attitude is not None)


def path_metrics(path: Path) -> Metrics:
    """Figures of a path, units in the names; relative errors only where the path is as long."""
    estimate, truth = _evo(path.estimate), _evo(path.truth)
    absolute = APE(PoseRelation.translation_part)
    absolute.process_data((truth, estimate))
    offsets = path.estimate[:, :3] - path.truth[:, :3]
    stretches = _resampled(path)
    length_m = sum(true.path_length for true, _ in stretches)
    final_m = float(np.linalg.norm(offsets[-1]))
    metrics: Metrics = {
        "position_ate_rmse_m": rms(absolute.error),
        "position_ate_max_m": float(np.max(absolute.error)),
        "position_horizontal_rmse_m": rms(np.linalg.norm(offsets[:, :2], axis=1)),
        "final_position_error_m": final_m,
        "true_path_length_m": float(length_m),
    }
    if path.dimensions > 2:
        metrics["position_vertical_rmse_m"] = rms(offsets[:, 2])
    if length_m > 0.0:
        metrics["final_position_error_percent_of_path"] = 100.0 * final_m / length_m
    frames = round(1.0 / _GRID_S)
    metrics |= _relative(stretches, frames, Unit.frames, "_rpe_1s", path.turns)
    metrics |= _relative(stretches, 1.0, Unit.meters, "_rpe_1m", path.turns)
    by_distance: dict[str, float] = {}
    for percent in _SHARES_PERCENT:
        # The whole path is its last pose exactly; the sum of its steps may differ in the last digit.
        distance_m = 0.01 * percent * length_m
        by_distance |= _relative(stretches, distance_m, Unit.meters, f"_{percent}_percent", path.turns)
    if by_distance:
        metrics[BY_DISTANCE] = by_distance
    return metrics


def _resampled(path: Path) -> list[tuple[PosePath3D, PosePath3D]]:
    """Paths of truth and estimate with a pose every tenth of a second, one for each stretch without a gap.

    Estimates need not be evenly spaced, and the truth's noise summed up at its full rate would lengthen the path.
    """
    steps = np.diff(path.times_s)
    longest_s = max(_LONGEST_STEP_S, 2.5 * float(np.median(steps))) if len(steps) else _LONGEST_STEP_S
    stamps = np.round((path.times_s - path.times_s[0]) * NANOSECONDS_PER_SECOND).astype(np.int64)
    out = []
    for stretch in np.split(np.arange(len(path.times_s)), np.flatnonzero(steps > longest_s) + 1):
        first, last = stamps[stretch[0]], stamps[stretch[-1]]
        grid = np.arange(first, last + 1, round(_GRID_S * NANOSECONDS_PER_SECOND))
        both = (interpolate(stamps[stretch], values[stretch], grid, 2**62)[0] for values in (path.truth, path.estimate))
        true, seen = (_evo(values) for values in both)
        out.append((true, seen))
    return out


def _relative(
    stretches: list[tuple[PosePath3D, PosePath3D]], delta: float, unit: Unit, name: str, turns: bool
) -> dict[str, float]:
    """RMS of the relative errors of all pairs that far apart, by the truth; none where no stretch is as long."""
    position, rotation = f"position{name}_rmse_m", f"rotation{name}_rmse_deg"
    errors: dict[str, list[Vector]] = {position: [], rotation: []}
    for truth, estimate in stretches:
        step = -(-truth.num_poses // _MOST_POSES) if unit == Unit.meters else 1
        if step > 1:
            ids = np.arange(0, truth.num_poses, step)
            truth, estimate = _evo_at(truth, ids), _evo_at(estimate, ids)
        relative = RPE(PoseRelation.translation_part, delta, unit, all_pairs=True, pairs_from_reference=True)
        try:
            relative.process_data((truth, estimate))
        except FilterException:  # none so far apart
            continue
        errors[position].append(np.asarray(relative.error))
        if turns:  # of the same relative poses, all at once: evo takes them one by one
            turned = Rotation.from_matrix(np.asarray(relative.E)[:, :3, :3]).magnitude()
            errors[rotation].append(np.rad2deg(turned))
    return {key: rms(np.concatenate(found)) for key, found in errors.items() if found}


def _evo(poses: Rows) -> PosePath3D:
    return PosePath3D(positions_xyz=poses[:, :3], orientations_quat_wxyz=poses[:, [6, 3, 4, 5]])


def _evo_at(path: PosePath3D, ids: NDArray[np.intp]) -> PosePath3D:
    return PosePath3D(positions_xyz=path.positions_xyz[ids], orientations_quat_wxyz=path.orientations_quat_wxyz[ids])


def rms(values: Rows) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))
