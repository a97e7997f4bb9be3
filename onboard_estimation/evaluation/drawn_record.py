"""A judged record as a picture: the robot and its truth from above, or from the side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.capabilities.drawn import outline_of, planar_position, point_outline
from onboard_estimation.evaluation.replay import EstimateSeries
from onboard_estimation.evaluation.result import Drawing
from onboard_estimation.filtering.manifold_kernels import SE2
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.robots import Robot

Rows = NDArray[np.float64]


def drawing_of(
    robot: Robot | None, configuration: Any, space: StateSpace, record: EstimateSeries, true_parts: Mapping[str, Rows]
) -> Drawing | None:
    """Robot and truth from above; from the side where a robot with a position moves mostly up and down."""
    true_means = record.means.copy()
    known = np.zeros(len(true_means), dtype=np.bool_)
    for name, values in true_parts.items():
        true_means[:, space.coordinates(name)] = values
        known |= np.isfinite(values).all(axis=1)
    if "position" in (block.name for block in space.blocks):
        extent = np.ptp(record.means[:, space.coordinates("position")], axis=0)
        if len(extent) == 3 and extent[2] > 1.5 * max(extent[:2]):
            start = space.coordinates("position").start
            columns = [start, start + 2]
            tangent = space.tangent("position").start
            ellipse = record.covariances[:, [[tangent], [tangent + 2]], [tangent, tangent + 2]]
            true = np.where(known[:, None], true_means[:, columns], np.nan)
            estimate = record.means[:, columns]
            return Drawing(estimate[:, None], true[:, None], ellipse, estimate, ("x (m)", "z (m)"))
    outline = _outline(robot, configuration, space, record.means)
    if outline is None:
        return None
    true = np.full_like(outline, np.nan)
    if known.any():
        true[known] = _outline(robot, configuration, space, true_means[known])
    where = planar_position(space)
    if where is None:  # drawn by a robot that turns on the spot: there is no position to be unsure of
        return Drawing(outline, true, np.zeros((len(outline), 2, 2)), outline[:, 0])
    return Drawing(outline, true, _planar_covariance(space, record, where), record.means[:, where])


def _planar_covariance(space: StateSpace, record: EstimateSeries, where: slice) -> Rows:
    """(K, 2, 2) covariance of x and y along the world's axes."""
    block = next(block for block in space.blocks if space.coordinates(block.name).start == where.start)
    tangent = space.tangent(block.name).start
    covariance = record.covariances[:, tangent : tangent + 2, tangent : tangent + 2]
    if block.kind != SE2:
        return covariance
    heading = record.means[:, where.start + 2]
    turn = np.stack([np.cos(heading), -np.sin(heading), np.sin(heading), np.cos(heading)], axis=-1).reshape(-1, 2, 2)
    out: Rows = turn @ covariance @ turn.transpose(0, 2, 1)
    return out


def _outline(robot: Robot | None, configuration: Any, space: StateSpace, means: Rows) -> Rows | None:
    """Of a robot that nobody knows, a point."""
    return point_outline(space, means) if robot is None else outline_of(robot, configuration, space, means)
