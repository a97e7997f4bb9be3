"""An estimate that lives in a frame of its own is taken into the truth's before the two are compared; never scaled.

| alignment | what is fitted |
|---|---|
| `none` | nothing |
| `start` | the first matched pose onto the truth's first: turn and shift; a shift alone where one has no orientation |
| `heading` | the heading by least squares over all matched positions; the shift makes the first ones coincide |
| `se3` | turn and shift by least squares over all matched positions (Umeyama, without scale) |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Vector
from onboard_estimation.contract.robot import Alignment
from onboard_estimation.filtering.manifold_kernels import ANGLES, SE2, SO3, VECTOR
from onboard_estimation.filtering.planar import about_vertical
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.judging.replay import EstimateSeries

Rows = NDArray[np.float64]

_STRAIGHT = 1e-6
_FITTED = "What the fit takes off the errors is not in the covariance."


@dataclass(frozen=True)
class FrameAlignment:
    """Turn (3, 3) and shift (d,) that take the estimate's frame to the truth's: p' = rotation p + shift."""

    rotation: Rows
    shift: Vector

    @property
    def heading_rad(self) -> float:
        """The turn about the vertical."""
        return float(np.arctan2(self.rotation[1, 0] - self.rotation[0, 1], self.rotation[0, 0] + self.rotation[1, 1]))

    def positions(self, positions: Rows) -> Rows:
        """Positions (K, 3), or (K, 2) in the plane, in the truth's frame."""
        dimensions = positions.shape[1]
        return positions @ self.rotation[:dimensions, :dimensions].T + self.shift


def align_heading(estimate: Rows, truth: Rows) -> FrameAlignment:
    """Heading by least squares over all matched positions (K, 2) or (K, 3); shift such that the first ones coincide.

    The drift of a dead-reckoning filter is counted from its start, so the shift must not absorb it.
    """
    matched = _matched(estimate, truth)
    if len(matched) == 0:
        return FrameAlignment(np.eye(3), np.zeros(estimate.shape[1]))
    first = matched[0]
    a = estimate[matched] - estimate[first]
    b = truth[matched] - truth[first]
    heading = np.arctan2(np.sum(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]), np.sum(a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]))
    return _through(about_vertical(float(heading)), estimate[first], truth[first])


def align_se3(estimate: Rows, truth: Rows) -> FrameAlignment:
    """Turn and shift by least squares over all matched positions (K, 2) or (K, 3).

    Umeyama, "Least-squares estimation of transformation parameters between two point patterns", IEEE PAMI 13(4), 1991,
    with a scale of one.

    Raises
    ------
    UserError
        All positions lie on a line, which tells no turn.
    """
    matched = _matched(estimate, truth)
    a, b = estimate[matched], truth[matched]
    mean_a, mean_b = a.mean(axis=0), b.mean(axis=0)
    u, d, v = np.linalg.svd((b - mean_b).T @ (a - mean_a))  # eq. (38)
    dimensions = len(d)
    if d[0] == 0.0 or d[dimensions - 2] <= _STRAIGHT * d[0]:
        raise UserError(
            f"--alignment se3: the {len(matched)} matched positions lie on a line or in a point, which tells no turn; "
            "take --alignment start or heading"
        )
    sign = np.ones(dimensions)
    sign[-1] = np.sign(np.linalg.det(u) * np.linalg.det(v))  # eq. (43): no mirror image
    rotation = np.eye(3)
    rotation[:dimensions, :dimensions] = (u * sign) @ v  # eq. (40)
    return _through(rotation, mean_a, mean_b)


def _matched(estimate: Rows, truth: Rows) -> NDArray[np.intp]:
    return np.flatnonzero(np.isfinite(estimate).all(axis=1) & np.isfinite(truth).all(axis=1))


def _through(rotation: Rows, estimate: Vector, truth: Vector) -> FrameAlignment:
    """The turn with the shift that takes one position (d,) to the other."""
    turned = FrameAlignment(rotation, np.zeros(len(estimate)))
    return FrameAlignment(rotation, truth - turned.positions(estimate[None])[0])


def aligned(
    how: Alignment, space: StateSpace, record: EstimateSeries, true_parts: Mapping[str, Rows]
) -> tuple[EstimateSeries, str]:
    """The record in the truth's frame, covariances turned along, and a sentence on how it got there.

    Raises
    ------
    UserError
        The path does not tell what is to be fitted.
    """
    position = next((name for name in ("position", "pose") if name in true_parts), None)
    if how == "none" or position is None or not np.isfinite(true_parts[position]).any():
        return record, ""
    # Of a planar pose, x and y; its heading turns along.
    dimensions = 2 if space.block(position).kind == SE2 else space.block(position).dimension
    start = space.coordinates(position).start
    place = slice(start, start + dimensions)
    estimate, true = record.means[:, place], true_parts[position][:, :dimensions]
    if how == "heading":
        found = align_heading(estimate, true)
        what = f"turned by {np.rad2deg(found.heading_rad):.2f} deg about the vertical (least squares over the run) "
        note = f"Estimate {what}and shifted{_by(found)} so that it starts on the truth; no scaling. {_FITTED}"
    elif how == "se3":
        found = align_se3(estimate, true)
        note = f"Estimate {_turn(found)} and shifted{_by(found)}, by least squares over the run; no scaling. {_FITTED}"
    else:
        first = _first_pose(space, true_parts, position)
        turn = _turn_at(space, record, true_parts, first)
        found = _through(np.eye(3) if turn is None else turn, estimate[first], true[first])
        what = "not turned, for one of the two has no orientation," if turn is None else _turn(found)
        note = f"Estimate {what} and shifted{_by(found)} so that its first matched pose is the truth's; no scaling."
    return _moved(found, space, record, place), note


def _by(found: FrameAlignment) -> str:
    return f" by ({', '.join(f'{one:.3f}' for one in found.shift)}) m"


def _turn(found: FrameAlignment) -> str:
    angle = np.rad2deg(Rotation.from_matrix(found.rotation).magnitude())
    return f"turned by {angle:.2f} deg ({np.rad2deg(found.heading_rad):.2f} deg about the vertical)"


def _first_pose(space: StateSpace, true_parts: Mapping[str, Rows], position: str) -> int:
    """The first instant at which all of the true pose is known."""
    known = np.asarray(np.isfinite(true_parts[position]).all(axis=1), dtype=np.bool_)
    for block in space.blocks:
        if block.kind == SO3 and block.name in true_parts:
            whole = known & np.isfinite(true_parts[block.name]).all(axis=1)
            known = whole if whole.any() else known
    return int(np.argmax(known))


def _turn_at(space: StateSpace, record: EstimateSeries, true_parts: Mapping[str, Rows], instant: int) -> Rows | None:
    """(3, 3) turn of the estimated onto the true orientation at an instant; None where one is not known."""
    for block in space.blocks:
        if block.name not in true_parts or not np.isfinite(true_parts[block.name][instant]).all():
            continue
        true, seen = true_parts[block.name][instant], record.means[instant, space.coordinates(block.name)]
        if block.kind == SE2:
            return about_vertical(float(true[2] - seen[2]))
        if block.kind == SO3:
            return (Rotation.from_quat(true) * Rotation.from_quat(seen).inv()).as_matrix()
    return None


def _moved(found: FrameAlignment, space: StateSpace, record: EstimateSeries, place: slice) -> EstimateSeries:
    means = record.means.copy()
    means[:, place] = found.positions(means[:, place])
    turn = np.eye(space.dimension)
    for block in space.blocks:
        coordinates, tangent = space.coordinates(block.name), space.tangent(block.name)
        # Vectors of the world turn with it; body-frame quantities and rotations' body-frame errors do not.
        if block.name in ("position", "velocity") and block.kind == VECTOR:
            rotation = found.rotation[: block.dimension, : block.dimension]
            turn[tangent, tangent] = rotation
            if block.name == "velocity":
                means[:, coordinates] = means[:, coordinates] @ rotation.T
        elif block.kind == SO3:
            attitudes = Rotation.from_matrix(found.rotation) * Rotation.from_quat(means[:, coordinates])
            means[:, coordinates] = attitudes.as_quat()
        elif block.kind == SE2 or (block.kind == ANGLES and block.name == "headings"):
            first = coordinates.stop - 1 if block.kind == SE2 else coordinates.start
            headings = means[:, first : coordinates.stop] + found.heading_rad
            means[:, first : coordinates.stop] = np.arctan2(np.sin(headings), np.cos(headings))
    return EstimateSeries(record.stamps_ns, means, turned(turn, record.covariances))


def turned(turn: Rows, covariances: Rows) -> Rows:
    """Covariances (K, n, n) in a frame turned by (n, n) or (K, n, n); what is not known (NaN) stays so, and no more."""
    known = np.isfinite(covariances)
    out: Rows = turn @ np.where(known, covariances, 0.0) @ np.swapaxes(turn, -1, -2)
    return np.where(known, out, np.nan)
