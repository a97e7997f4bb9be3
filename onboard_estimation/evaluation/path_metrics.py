"""Absolute and relative trajectory errors of a path, by `evo`.

Relative errors are those of the poses relative to earlier ones: over a second, over a metre, and over shares of the
whole path. They are taken from a pose every tenth of a second, all pairs, within stretches without a gap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from evo.core.filters import FilterException
from evo.core.metrics import APE, RPE, PoseRelation, Unit
from evo.core.trajectory import PosePath3D
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.evaluation.result import PartResult
from onboard_estimation.evaluation.truth_kernels import interpolate
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Vector

Rows = NDArray[np.float64]
Metrics = dict[str, float | dict[str, float]]

BY_DISTANCE = "rpe_over_share_of_path"
"""Key of the group of relative errors over 10 to 100 % of the path."""

_GRID_S = 0.1
_LONGEST_STEP_S = 0.5
_SHARES_PERCENT = range(10, 101, 10)
# Pairs by distance are looked for among so many poses; of longer runs, every n-th start.
_MOST_POSES = 2000


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
        "position_ate_rmse_m": _rms(absolute.error),
        "position_ate_max_m": float(np.max(absolute.error)),
        "position_horizontal_rmse_m": _rms(np.linalg.norm(offsets[:, :2], axis=1)),
        "final_position_error_m": final_m,
        "true_path_length_m": float(length_m),
    }
    if path.dimensions > 2:
        metrics["position_vertical_rmse_m"] = _rms(offsets[:, 2])
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
    return {key: _rms(np.concatenate(found)) for key, found in errors.items() if found}


def _evo(poses: Rows) -> PosePath3D:
    return PosePath3D(positions_xyz=poses[:, :3], orientations_quat_wxyz=poses[:, [6, 3, 4, 5]])


def _evo_at(path: PosePath3D, ids: NDArray[np.intp]) -> PosePath3D:
    return PosePath3D(positions_xyz=path.positions_xyz[ids], orientations_quat_wxyz=path.orientations_quat_wxyz[ids])


def _rms(values: Vector) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
