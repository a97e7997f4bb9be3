"""Poses that somebody else's filter made: cleaned, as a record that can be judged as our own, and what is their truth.

A state is a planar `pose`, a `position` with an `attitude`, or a `position` alone, as for our robots, so that figures
have the same names. Covariances come as messages have them, along the fixed axes of the frame of the poses, and are
taken into the tangent space of the state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, POSE
from onboard_estimation.contract.tracks import BodyTrack
from onboard_estimation.filtering.planar import about_vertical, planar_pose
from onboard_estimation.filtering.state_space import StateSpace, se2, so3, vector
from onboard_estimation.judging.alignment import turned
from onboard_estimation.judging.replay import EstimateSeries
from onboard_estimation.ros.estimates import UNKNOWN_VARIANCE
from onboard_estimation.ros.measurements import is_no_rotation

Rows = NDArray[np.float64]
Kind = Literal["planar", "pose", "position", "planar position"]

SPACES = {
    "planar": StateSpace(se2("pose")),
    "pose": StateSpace(vector("position", ("x", "y", "z"), "m"), so3("attitude")),
    "position": StateSpace(vector("position", ("x", "y", "z"), "m")),
    "planar position": StateSpace(vector("position", ("x", "y"), "m")),
}
_FEWEST = 10
_END_SHARE = 0.02
_IN_PLANE = 1e-6
_SYMMETRIC = 1e-6
_LEAST_VARIANCE = 1e-20  # of a tenth of a nanometre or nanoradian
_YAW = 5
_FARTHEST_M = 1e8  # farther than any place on Earth from its centre


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses over time.

    Attributes
    ----------
    name
        File or topic.
    stamps_ns
        (K,) int64, strictly increasing.
    poses
        (K, 7) position and unit quaternion x, y, z, w, from the body to the frame of the positions.
    covariances
        (K, 6, 6) of x, y, z and rotations about the fixed axes; NaN where nothing is said. None: nowhere.
    turns
        There are orientations; else all quaternions are one.
    planar
        It lies in a plane z = constant, turned about the vertical only.
    notes
        What was left out of it, one sentence each.
    left_out
        How many poses that was.
    """

    name: str
    stamps_ns: NDArray[np.int64]
    poses: Rows
    covariances: Rows | None
    turns: bool
    planar: bool
    notes: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def track(self) -> BodyTrack:
        """As a truth."""
        return BodyTrack(self.name, self.stamps_ns, self.poses if self.turns else self.poses[:, :3])

    @property
    def kept_ratio(self) -> float:
        """Share of the poses that were read."""
        return len(self.stamps_ns) / (len(self.stamps_ns) + self.left_out)


def common_kind(trajectory: Trajectory, truth: Trajectory) -> Kind:
    """What both tell."""
    turns = trajectory.turns and truth.turns
    if trajectory.planar or truth.planar:
        return "planar" if turns else "planar position"
    return "pose" if turns else "position"


def cleaned(
    name: str,
    stamps_ns: NDArray[np.int64],
    values: Rows,
    covariances: Rows | None,
    lines: NDArray[np.int64] | None = None,
    planar: bool = False,
) -> Trajectory:
    """Trajectory of poses (K, 7) or positions (K, 3) in any order.

    Parameters
    ----------
    lines
        (K,) line of each in its file, for the notes.
    planar
        Heights are not known.

    Raises
    ------
    UserError
        Nothing is left.
    """
    notes = []
    turns = values.shape[1] == 7
    rows = np.arange(len(stamps_ns))

    def leave_out(which: ArrayLike, why: str) -> None:
        nonlocal rows
        bad = np.asarray(which, dtype=np.bool_)
        if bad.any():
            where = f" (the first in line {lines[rows[bad][0]]})" if lines is not None else ""
            notes.append(f"{name}: {np.count_nonzero(bad)} of {len(stamps_ns)} poses left out, {why}{where}.")
            rows = rows[~bad]

    leave_out(~np.isfinite(values).all(axis=1), "not finite")
    if len(rows) and (lost_ns := stamps_ns.max() - stamps_ns[rows].max()) > _END_SHARE * np.ptp(stamps_ns):
        span_s = np.ptp(stamps_ns) / NANOSECONDS_PER_SECOND
        notes.append(f"{name}: none of the last {lost_ns / NANOSECONDS_PER_SECOND:.3g} of {span_s:.3g} s is finite.")
    far = (np.abs(values[rows, :3]) > _FARTHEST_M).any(axis=1)
    leave_out(far, f"more than {_FARTHEST_M:g} m from the origin")
    if turns:
        leave_out(is_no_rotation(*values[rows, 3:].T), "no unit quaternion")
    back = np.flatnonzero(np.diff(stamps_ns[rows]) < 0)
    if len(back):
        where = f", first in line {lines[rows[back[0] + 1]]}" if lines is not None else ""
        notes.append(f"{name}: sorted by stamps, which go back {len(back)} times{where}.")
        rows = rows[np.argsort(stamps_ns[rows], kind="stable")]
    steps = np.diff(stamps_ns[rows])
    lost = np.count_nonzero((steps == 0) & np.any(np.diff(values[rows], axis=0) != 0.0, axis=1))
    if len(rows) > _FEWEST and lost > 0.5 * len(rows):
        step_s = np.gcd.reduce(stamps_ns[rows]) / NANOSECONDS_PER_SECOND
        raise UserError(
            f"{name}: {lost} of {len(rows)} poses have the stamp of another pose: digits were lost when they were "
            f"written (all are multiples of {step_s:g} s); write stamps with nine decimals (C++: std::fixed << "
            "std::setprecision(9)), or as whole nanoseconds"
        )
    leave_out(np.append(steps == 0, False)[: len(rows)], "their stamps repeat, the last one counts")
    if not len(rows):
        raise UserError(f"{name} has no pose that can be used{': ' if notes else ''}{' '.join(notes).rstrip('.')}")
    poses = np.zeros((len(rows), 7))
    poses[:, 6] = 1.0
    poses[:, : values.shape[1]] = values[rows]
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1)[:, None]
    chosen = None if covariances is None else covariances[rows]
    if turns and chosen is not None and np.all(np.diagonal(chosen[:, 3:, 3:], axis1=1, axis2=2) >= UNKNOWN_VARIANCE):
        notes.append(f"{name}: all rotations have a variance of {UNKNOWN_VARIANCE:g} or more, not estimated.")
        turns, poses[:, 3:] = False, [0.0, 0.0, 0.0, 1.0]
    flat = np.ptp(poses[:, 2]) <= _IN_PLANE and np.abs(poses[:, 3:5]).max() <= _IN_PLANE
    planar = planar or bool(flat and len(rows) > 1)
    left_out = len(stamps_ns) - len(rows)
    return Trajectory(name, stamps_ns[rows], poses, chosen, turns, planar, tuple(notes), left_out)


def shifted(trajectory: Trajectory, by_s: float) -> Trajectory:
    """With so many seconds added to its stamps."""
    if not by_s:
        return trajectory
    note = f"{trajectory.name}: {by_s:.15g} s added to its stamps."
    stamps_ns = trajectory.stamps_ns + round(by_s * NANOSECONDS_PER_SECOND)
    return replace(trajectory, stamps_ns=stamps_ns, notes=(*trajectory.notes, note))


def as_record(trajectory: Trajectory, kind: Kind) -> tuple[StateSpace, EstimateSeries, list[str]]:
    """What is compared of a trajectory, and sentences on its covariances; where there is none they are NaN."""
    space, poses = SPACES[kind], trajectory.poses
    means = _coordinates(kind, poses)
    size = space.dimension
    if trajectory.covariances is None:
        nothing = np.full((len(poses), size, size), np.nan)
        said = (
            f"{trajectory.name} has no covariance: its errors are judged, and not how sure it is of itself (no NEES)."
        )
        return space, EstimateSeries(trajectory.stamps_ns, means, nothing), [said]
    axes = [0, 1, _YAW] if kind == "planar" else list(range(size))
    fixed = trajectory.covariances[:, axes][:, :, axes]
    covariances, notes = _usable(trajectory.name, space, fixed)
    turn = np.tile(np.eye(size), (len(poses), 1, 1))
    if kind == "planar":  # the error is a twist in the body's frame
        turn = about_vertical(-means[:, 2])
    elif kind == "pose":
        turn[:, 3:, 3:] = Rotation.from_quat(poses[:, POSE.orientation]).inv().as_matrix()
    return space, EstimateSeries(trajectory.stamps_ns, means, turned(turn, covariances)), notes


def _usable(name: str, space: StateSpace, covariances: Rows) -> tuple[Rows, list[str]]:
    """Covariances (K, n, n), by block NaN where they are none, and what the reader must know of them."""
    out = np.full_like(covariances, np.nan)
    notes = []
    for block in space.blocks:
        rows = space.tangent(block.name)
        values = covariances[:, rows, rows]
        finite = np.asarray(np.isfinite(values).all(axis=(1, 2)), dtype=np.bool_)
        zero = finite & ~np.any(values, axis=(1, 2))
        variances = np.diagonal(values, axis1=1, axis2=2)
        tiny = (variances > 0.0) & (variances < _LEAST_VARIANCE)
        extreme = np.asarray((np.abs(values) >= UNKNOWN_VARIANCE).any(axis=(1, 2)) | tiny.any(axis=1), dtype=np.bool_)
        sound = finite & ~extreme & _definite(np.where((finite & ~extreme)[:, None, None], values, 0.0))
        out[sound, rows, rows] = values[sound]
        wrong, words = finite & ~(zero | extreme | sound), block.name
        for which, what in (
            (zero, f"the covariance of the {words} is all zero"),
            (extreme, f"a variance of the {words} is {UNKNOWN_VARIANCE:g} or more, or below {_LEAST_VARIANCE:g},"),
            (wrong, f"the covariance of the {words} is not symmetric and positive definite"),
        ):
            if which.any():
                notes.append(f"{name}: {what} in {_share(which)}: taken as not known.")
        if (absent := ~finite & ~extreme).any():
            notes.append(f"{name}: there is no covariance of the {words} in {_share(absent)}.")
        if sound.sum() > 1 and not np.ptp(values[sound], axis=0).any():
            notes.append(f"{name}: the covariance of the {words} never changes: it is a setting, no estimate.")
        if not sound.any():
            notes.append(f"Without a covariance of the {words} there is no NEES and no coverage of it.")
    if len(space.blocks) > 1:  # cross-covariances only where both of their blocks are known
        known = np.asarray(np.isfinite(np.diagonal(out, axis1=1, axis2=2)).all(axis=1), dtype=np.bool_)
        known &= np.asarray((np.abs(covariances) < UNKNOWN_VARIANCE).all(axis=(1, 2)), dtype=np.bool_)
        whole = np.asarray(known & _definite(np.where(known[:, None, None], covariances, 0.0)), dtype=np.bool_)
        out[whole] = covariances[whole]
    return out, notes


def _share(where: NDArray[np.bool_]) -> str:
    return f"{np.count_nonzero(where)} of {len(where)} poses"


def _definite(values: Rows) -> NDArray[np.bool_]:
    """(K,) which of the matrices (K, n, n) are symmetric and positive definite, whatever their units."""
    deviations = np.sqrt(np.maximum(np.diagonal(values, axis1=1, axis2=2), 0.0))
    positive = np.asarray((deviations > 0.0).all(axis=1), dtype=np.bool_)
    scale = np.where(positive[:, None], deviations, 1.0)
    scaled = values / (scale[:, :, None] * scale[:, None, :])
    symmetric = np.abs(scaled - scaled.transpose(0, 2, 1)).max(axis=(1, 2)) <= _SYMMETRIC
    least = np.linalg.eigvalsh(0.5 * (scaled + scaled.transpose(0, 2, 1)))[:, 0]
    return positive & symmetric & (least > values.shape[1] * np.finfo(np.float64).eps)


def true_parts(kind: Kind, values: Rows) -> dict[str, Rows]:
    """Parts of the state by name from poses (K, 7) or positions (K, 3)."""
    space, state = SPACES[kind], _coordinates(kind, values)
    return {block.name: state[:, space.coordinates(block.name)] for block in space.blocks}


def _coordinates(kind: Kind, values: Rows) -> Rows:
    """(K, a) in the state space of that kind, from poses (K, 7) or positions (K, 3)."""
    return planar_pose(values) if kind == "planar" else values[:, : SPACES[kind].coordinate_count]


def kind_of_parts(robot: str, parts: Iterable[str], dimensions: int, trajectory: Trajectory) -> Kind:
    """What a robot's truth tells of a trajectory; `dimensions` are those of its position.

    Raises
    ------
    UserError
        It has neither a pose nor a position, or a pose and the trajectory no orientation.
    """
    names = set(parts)
    if "pose" in names:
        if not trajectory.turns:
            raise UserError(f"{trajectory.name} holds positions alone; the truth of --robot {robot} is a pose")
        return "planar"
    if "position" in names:
        if dimensions == 2:
            return "planar position"
        return "pose" if "attitude" in names and trajectory.turns else "position"
    what = ", ".join(names) or "nothing"
    raise UserError(f"the truth of --robot {robot} tells {what}: no pose or position to compare with; name a --body")


def is_trajectory_file(path: Path) -> bool:
    """Whether a path is a trajectory file rather than a bag."""
    return path.is_file() and path.suffix.lower() not in (".mcap", ".db3", ".bag", ".zstd")
