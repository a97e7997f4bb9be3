"""What a picture of an estimate shows, as numbers: 95 % ellipses, the wedge of the heading, errors in words.

The markers for RViz and the browser are made of it. Everything is seen from above, but for a robot
of which only the height is estimated: that one is seen from the side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onboard_estimation.base.measurement import Estimate, Matrix, Vector
from onboard_estimation.contract.reported import outline_of, poses_of_bodies
from onboard_estimation.contract.robot import Robot
from onboard_estimation.filtering.manifold_kernels import SE2, SO3
from onboard_estimation.filtering.planar import HEIGHT, is_vertical
from onboard_estimation.filtering.state_space import Block, StateSpace

# Okabe and Ito's palette, as in the reports.
ESTIMATE_COLOUR, TRUTH_COLOUR, BAND_COLOUR = "#0072B2", "#D55E00", "#56B4E9"

ELLIPSE_SCALE = float(-2.0 * np.log(1.0 - 0.95))
"""95 % quantile of chi-square with two degrees of freedom: scales a covariance to the ellipse that is drawn."""
NORMAL_SCALE = 1.959964
"""Standard deviations that hold a Gaussian with 95 % probability."""

_SMALLEST_M, _VERTICAL_M = 0.2, 1.0
_STEP = 1e-5
_DISPLAY = {"m": ("cm", 100.0), "rad": ("deg", float(np.rad2deg(1.0))), "m/s": ("cm/s", 100.0)}


@dataclass(frozen=True)
class BaseUncertainty:
    """The base from above: position (2,) and its covariance (2, 2) along the fixed axes, heading and its deviation.

    Both of the heading are None where the state has none. The height is that of the state, zero in the plane.
    """

    position_m: Vector
    covariance_m2: Matrix
    heading_rad: float | None
    heading_stddev_rad: float | None
    height_m: float = 0.0


class HeightUncertainty(NamedTuple):
    """Height of a robot over the ground of its start, and the half-length of the interval that holds it with 95 %."""

    height_m: float
    half_width_m: float


ErrorRow = tuple[str, float | None, float, str]
"""One line of the text: name, error (None without truth) and standard deviation in the unit, which is the last."""


def size_m(robot: Robot, configuration: Any, space: StateSpace) -> float:
    """Length of the robot, which letters and margins follow from; 0.2 m for one that is drawn as a point.

    1 m for one that hops: it is seen from so far that its whole way fits in.
    """
    if is_vertical(space):
        return _VERTICAL_M
    outline = outline_of(robot, configuration, space, space.origin()[None])
    return _SMALLEST_M if outline is None else max(_SMALLEST_M, float(np.ptp(outline[0], axis=0).max()))


def base_uncertainty(space: StateSpace, estimate: Estimate) -> BaseUncertainty | None:
    """Of a state with a planar `pose`, or a `position` in x and y with or without an `attitude`; else None."""
    kinds = {block.name: block.kind for block in space.blocks}
    if kinds.get("pose") == SE2:
        x, y, heading = estimate.mean[space.coordinates("pose")].tolist()
        body = estimate.covariance[space.tangent("pose"), space.tangent("pose")]
        turn = np.array([[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]])
        return BaseUncertainty(np.array([x, y]), turn @ body[:2, :2] @ turn.T, heading, _root(body[2, 2]))
    if "position" not in kinds or space.block("position").dimension < 2:
        return None
    place = estimate.mean[space.coordinates("position")]
    position, height_m = place[:2], float(place[2]) if len(place) > 2 else 0.0
    rows = space.tangent("position")
    covariance = estimate.covariance[rows, rows][:2, :2]
    if kinds.get("attitude") != SO3:
        return BaseUncertainty(position, covariance, None, None, height_m)
    x, y, z, w = estimate.mean[space.coordinates("attitude")].tolist()
    heading = float(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)))
    # The attitude's error is in the body frame; the fixed z axis as the body sees it takes it to the heading.
    up = np.array([2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)])
    rows = space.tangent("attitude")
    return BaseUncertainty(position, covariance, heading, _root(up @ estimate.covariance[rows, rows] @ up), height_m)


def height_uncertainty(space: StateSpace, estimate: Estimate) -> HeightUncertainty | None:
    """Of a state of which only the height is known; None of any other."""
    if not is_vertical(space):
        return None
    row = space.tangent(HEIGHT).start
    half_width_m = NORMAL_SCALE * _root(estimate.covariance[row, row])
    return HeightUncertainty(float(estimate.mean[space.coordinates(HEIGHT).start]), half_width_m)


def bar(height: HeightUncertainty, beside_m: float, cap_m: float) -> NDArray[np.float64]:
    """Segments (3, 2, 3) of the interval of a height as a bar with ends `cap_m` to each side, at x = `beside_m`."""
    low, high = height.height_m - height.half_width_m, height.height_m + height.half_width_m
    segments = np.zeros((3, 2, 3))
    segments[:, :, 0] = [[beside_m, beside_m], *[[beside_m - cap_m, beside_m + cap_m]] * 2]
    segments[:, :, 2] = [[low, high], [low, low], [high, high]]
    return segments


def body_covariances(robot: Robot, configuration: Any, space: StateSpace, estimate: Estimate) -> dict[str, Matrix]:
    """Covariances (2, 2) of the bodies' positions, along the fixed axes: J P J^T with the whole state's P.

    So much of it as comes from the joint angles differs from body to body; what comes from the base is common to all.
    """
    steps = _STEP * np.eye(space.dimension)
    points = space.plus(estimate.mean, np.vstack([steps, -steps]))
    count = space.dimension
    out = {}
    for name, poses in poses_of_bodies(robot, configuration, space, points).items():
        jacobian = (poses[:count, :2] - poses[count:, :2]).T / (2.0 * _STEP)
        out[name] = jacobian @ estimate.covariance @ jacobian.T
    return out


def ellipse(centre: ArrayLike, covariance: Matrix, points: int = 49) -> NDArray[np.float64]:
    """(points, 2) closed outline of the 95 % ellipse of a Gaussian in the plane."""
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, points)
    circle = np.column_stack((np.cos(angle), np.sin(angle)))
    return np.asarray(centre, dtype=np.float64) + circle * np.sqrt(ELLIPSE_SCALE * np.maximum(values, 0.0)) @ vectors.T


def wedge(base: BaseUncertainty, radius_m: float, points: int = 25) -> NDArray[np.float64] | None:
    """(points, 2) arc of the headings that the estimate holds possible with 95 %; None where it has no heading."""
    if base.heading_rad is None or base.heading_stddev_rad is None:
        return None
    half = min(NORMAL_SCALE * base.heading_stddev_rad, np.pi)
    angle = base.heading_rad + np.linspace(-half, half, points)
    return base.position_m + radius_m * np.column_stack((np.cos(angle), np.sin(angle)))


def error_rows(space: StateSpace, estimate: Estimate, truth: Mapping[str, Vector] | None = None) -> list[ErrorRow]:
    """Error against the truth and standard deviation: of the position as one distance, of all else one by one.

    Parameters
    ----------
    truth
        Coordinates of blocks by name, in the frame of the estimate; those that are not there are not known.
    """
    rows = []
    for block in space.blocks:
        tangent = space.tangent(block.name)
        variances = np.maximum(np.diagonal(estimate.covariance)[tangent], 0.0)
        error = None
        true = None if truth is None else truth.get(block.name)
        if true is not None and np.isfinite(true).all():
            error = space.part(block.name).minus(estimate.mean[space.coordinates(block.name)], true)
        joined = (2 if block.kind == SE2 else block.dimension) if block.name in ("pose", "position") else 0
        if joined:
            distance = None if error is None else float(np.linalg.norm(error[:joined]))
            rows.append(_row("position", block.units[0], distance, float(np.sqrt(variances[:joined].sum()))))
        for index in range(joined, block.dimension):
            one = None if error is None else float(error[index])
            name = dimension_name(space, block, index)
            rows.append(_row(name, block.units[index], one, float(np.sqrt(variances[index]))))
    return rows


def error_text(rows: list[ErrorRow], most: int = 10) -> str:
    """The rows as lines for a picture; of more than `most` the first."""
    lines = []
    for name, error, stddev, unit in rows[:most]:
        said = "" if error is None else f"{error:+.2f} {unit}  " if name != "position" else f"{error:.2f} {unit}  "
        lines.append(f"{name}: {said}(sigma {stddev:.2f} {unit})" if said else f"{name}: sigma {stddev:.2f} {unit}")
    if len(rows) > most:
        lines.append(f"and {len(rows) - most} more")
    return "\n".join(lines)


def dimension_name(space: StateSpace, block: Block, index: int) -> str:
    """Name of a dimension, with its block's where other blocks have one of that name as well."""
    name = block.names[index]
    shared = sum(name in one.names for one in space.blocks) > 1
    return f"{block.name} {name}" if shared else name


def display_unit(unit: str) -> tuple[str, float]:
    """The unit that people read, and the factor to it: cm for m, deg for rad."""
    return _DISPLAY.get(unit, (unit, 1.0))


def _row(name: str, unit: str, error: float | None, stddev: float) -> ErrorRow:
    shown, factor = display_unit(unit)
    return name, None if error is None else error * factor, stddev * factor, shown


def _root(variance: float) -> float:
    return float(np.sqrt(max(variance, 0.0)))
