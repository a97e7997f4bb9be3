"""The estimates of a run folder as a trajectory file: TUM for other tools, or a table with all that was estimated.

What is written are the estimates as they were compared, in the truth's frame. Read back and judged, they give the same
errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bags import Bag, open_bag
from onboard_estimation.evaluation.bulk import Column, read_channels
from onboard_estimation.evaluation.presentation import unit_suffix
from onboard_estimation.evaluation.trajectory_tables import AXES, QUATERNION, covariance_name, stddev_name
from onboard_estimation.evaluation.written_estimates import STATE_SPACE, described_space
from onboard_estimation.filtering.manifold_kernels import SO3
from onboard_estimation.filtering.state_space import StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.ros.estimates import UNKNOWN_VARIANCE

Rows = NDArray[np.float64]

_ODOMETRY, _STATE, _COVARIANCE = "odometry", "state", "state_covariance"
_TYPES = {
    _ODOMETRY: "nav_msgs/msg/Odometry",
    _STATE: "sensor_msgs/msg/JointState",
    _COVARIANCE: "sensor_msgs/msg/JointState",
}
FORMATS = ("tum", "csv")


def export_run(run: Path, format: str, output: Path) -> int:
    """Write the estimates of a run folder into a new file; how many.

    Raises
    ------
    UserError
        It is no run folder, nothing of it can be written so, or the file exists or cannot be written.
    """
    if output.exists():
        raise UserError(f"{output} exists already; name another file")
    if not (run / "estimates").exists():
        raise UserError(f"{run} has no estimates: give a run folder, as `evaluate` writes them")
    with open_bag(run / "estimates") as bag:
        space = described_space(bag.custom_data.get(STATE_SPACE, ""))
        columns = _columns(bag)
    text = _tum(run, columns) if format == "tum" else _table(space, columns)
    write_atomically(output.absolute(), text.encode(), f"cannot write {output}")
    return len(columns[_STATE].stamps_ns)


def _columns(bag: Bag) -> dict[str, Column]:
    """The topics of the estimates by their own names; those that are there."""
    topics = {name: topic for topic in bag.topics for name in _TYPES if topic.endswith(f"/{name}")}
    found = read_channels(
        bag, {topic: Channel(topic, _TYPES[name], name, field="position") for name, topic in topics.items()}
    )
    columns = {name: found[topic] for name, topic in topics.items()}
    if _STATE not in columns or any(len(one.stamps_ns) != len(columns[_STATE].stamps_ns) for one in columns.values()):
        raise UserError(f"{bag.path} holds no estimates, or not all of each: evaluate again")
    return columns


def _tum(run: Path, columns: dict[str, Column]) -> str:
    if _ODOMETRY not in columns:
        raise UserError(f"{run}: its robot has no pose, which a TUM file holds; take --format csv")
    odometry = columns[_ODOMETRY]
    rows = ["# stamp_s x_m y_m z_m qx qy qz qw"]
    for stamp_ns, pose in zip(odometry.stamps_ns.tolist(), odometry.values[:, :7].tolist(), strict=True):
        rows.append(f"{seconds(stamp_ns)} {' '.join(map(repr, pose))}")
    return "\n".join(rows) + "\n"


def seconds(stamp_ns: int) -> str:
    """A stamp in seconds with all of its digits."""
    whole, rest = divmod(stamp_ns, NANOSECONDS_PER_SECOND)
    return f"{whole}.{rest:09d}"


def _table(space: StateSpace, columns: dict[str, Column]) -> str:
    """The pose under the names that are read back, with its covariance, then every part of the state by its own."""
    state = columns[_STATE]
    names, values = _pose(space, columns)
    for block in space.blocks:
        if block.kind == SO3:
            names += [f"{block.name}.{one}" for one in QUATERNION]
        else:
            suffixes = map(unit_suffix, block.units)
            names += [f"{block.name}.{one}{suffix}" for one, suffix in zip(block.names, suffixes, strict=True)]
        values.append(state.values[:, space.coordinates(block.name)])
    if (covariance := columns.get(_COVARIANCE)) is not None:
        rows, others = np.triu_indices(space.dimension)
        units = [unit for block in space.blocks for unit in block.units]
        names += [f"{name}_stddev{unit_suffix(unit)}" for name, unit in zip(space.names, units, strict=True)]
        values.append(np.sqrt(np.maximum(covariance.values[:, rows == others], 0.0)))
    lines = [",".join(["stamp_ns", *names])]
    for stamp_ns, row in zip(state.stamps_ns.tolist(), np.hstack(values).tolist(), strict=True):
        lines.append(",".join([str(stamp_ns), *map(repr, row)]))
    return "\n".join(lines) + "\n"


def _pose(space: StateSpace, columns: dict[str, Column]) -> tuple[list[str], list[Rows]]:
    """Columns of the pose, of what the odometry says is estimated; none where there is no position."""
    if _ODOMETRY not in columns:
        return [], []
    found = columns[_ODOMETRY].values
    kinds = {block.name: block for block in space.blocks}
    if "pose" in kinds:
        axes, heading = [0, 1, 5], 2.0 * np.arctan2(found[:, 5], found[:, 6])
        names, values = ["x_m", "y_m", "heading_rad"], np.column_stack([found[:, :2], heading])
    elif "attitude" in kinds:
        axes, names, values = list(range(6)), ["x_m", "y_m", "z_m", *QUATERNION], found[:, :7]
    elif "position" in kinds:
        axes = list(range(kinds["position"].dimension))
        names, values = [f"{AXES[axis]}_m" for axis in axes], found[:, : len(axes)]
    else:  # a height alone is no position
        return [], []
    covariances = found[:, 7:].reshape(-1, 6, 6)
    if _COVARIANCE not in columns or not _stated(covariances, axes):
        return names, [values]
    planar = 2 not in axes
    pairs = [(i, j) for place, i in enumerate(axes) for j in axes[place:]]
    deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2)[:, axes], 0.0))
    spreads = np.column_stack([covariances[:, i, j] for i, j in pairs])
    names += [stddev_name(axis, planar) for axis in axes] + [covariance_name(i, j, planar) for i, j in pairs]
    return names, [values, deviations, spreads]


def _stated(covariances: Rows, axes: Sequence[int]) -> bool:
    variances = np.diagonal(covariances, axis1=1, axis2=2)[:, axes]
    return bool(np.all(variances > 0.0) and np.all(variances < UNKNOWN_VARIANCE))
