"""Planar poses from poses in space, and states of bodies that have a place or a height, but no heading."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import POSE, Matrix
from onboard_estimation.filtering.manifold_kernels import VECTOR
from onboard_estimation.filtering.state_space import StateSpace

HEIGHT, VERTICAL_VELOCITY = "height", "vertical_velocity"
PLANAR = np.array([0, 1, 5])
"""x, y, yaw among x, y, z, roll, pitch, yaw."""


def point_dimension(space: StateSpace) -> int:
    """Of a `position` x, y or x, y, z (m) that turns with nothing: a centre of mass, a soft robot's tip; else 0."""
    blocks = {block.name: block for block in space.blocks}
    place = blocks.get("position")
    if place is None or place.kind != VECTOR or {"pose", "attitude"} & blocks.keys():
        return 0
    return place.dimension if place.dimension in (2, 3) else 0


def is_vertical(space: StateSpace) -> bool:
    """Whether a state has the blocks `height` (m) and `vertical_velocity` (m/s), one number each, and no place."""
    sizes = {block.name: block.dimension for block in space.blocks}
    return sizes.get(HEIGHT) == sizes.get(VERTICAL_VELOCITY) == 1 and not {"pose", "position"} & sizes.keys()


def planar_pose(poses: NDArray[np.float64]) -> NDArray[np.float64]:
    """x, y, heading (K, 3) of poses (K, 7 or more): position and quaternion x, y, z, w, see `POSE`."""
    x, y, z, w = poses[:, POSE.orientation].T
    heading = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    return np.column_stack([poses[:, POSE.position][:, :2], heading])


def planar_poses(places: NDArray[np.float64], headings: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., 7) positions and quaternions of bodies at places (..., 2) with headings (...)."""
    poses = np.zeros((*headings.shape, 7))
    poses[..., :2] = places
    poses[..., 5], poses[..., 6] = np.sin(0.5 * headings), np.cos(0.5 * headings)
    return poses


def about_vertical(heading_rad: ArrayLike) -> NDArray[np.float64]:
    """(..., 3, 3) turns about z by headings (...)."""
    headings = np.asarray(heading_rad, dtype=np.float64)
    turns = np.zeros((*headings.shape, 3, 3))
    turns[..., 0, 0] = turns[..., 1, 1] = np.cos(headings)
    turns[..., 1, 0], turns[..., 0, 1] = np.sin(headings), -np.sin(headings)
    turns[..., 2, 2] = 1.0
    return turns


def planar_covariance(covariance: ArrayLike, heading_rad: float) -> Matrix:
    """(3, 3) covariance of a planar pose's error as a body-frame twist.

    From the 36 numbers of a `PoseWithCovariance`, which are along the fixed axes of its frame.
    """
    fixed = np.asarray(covariance, dtype=np.float64).reshape(6, 6)[np.ix_(PLANAR, PLANAR)]
    turn = about_vertical(heading_rad)
    return turn.T @ (0.5 * (fixed + fixed.T)) @ turn
