"""The record as a bag, with the messages that a live node publishes; and of a run folder as a trajectory file.

The bag is thinned where it is long. A trajectory file is TUM for other tools, or a table with all that was
estimated: the estimates as they were compared, in the truth's frame. Read back and judged, they give the same errors.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.bags.bag import Bag, open_bag
from onboard_estimation.bags.bulk import Column, read_channels
from onboard_estimation.bags.message_types import jazzy_types, new
from onboard_estimation.bags.writing import BagWriter, serialise_alike
from onboard_estimation.base.atomic_file import check_output, write_atomically
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND, Channel
from onboard_estimation.base.presentation import unit_suffix
from onboard_estimation.contract.result import EvaluationResult
from onboard_estimation.filtering.manifold_kernels import ANGLES, SE2, SO3, VECTOR
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.ros.estimates import UNKNOWN_VARIANCE, EstimateMessages
from onboard_estimation.ros.phases import event_messages
from onboard_estimation.trajectories.columns import AXES, QUATERNION, covariance_name, stddev_name

USUAL_RATE_HZ = 100.0
MOST_ESTIMATES = 100_000
"""In all, where no rate is asked for."""
_FEW_ESTIMATES = 10_000
"""So many are not thinned."""
_BYTES_AT_ONCE = 2**22
"""Of covariances that are made messages of together: 3,600 of 12 dimensions, 34 of a chain of 30 links."""

STATE_SPACE = "state_space"
"""Key under which the bag says what the numbers on `state` are."""

Written = tuple[int, str, str, memoryview]
"""Log time, topic, type and content of a message."""

Rows = NDArray[np.float64]

_ODOMETRY, _STATE, _COVARIANCE = "odometry", "state", "state_covariance"
_TYPES = {
    _ODOMETRY: "nav_msgs/msg/Odometry",
    _STATE: "sensor_msgs/msg/JointState",
    _COVARIANCE: "sensor_msgs/msg/JointState",
}
FORMATS = ("tum", "csv")


def write_estimates(result: EvaluationResult, space: StateSpace, path: Path, rate_hz: float | None = None) -> str:
    """Write the record, and the phase events that the filter saw; a sentence on what was left out.

    Parameters
    ----------
    rate_hz
        Largest rate of the estimates; infinity: all. None: all of a short run, see `thinned`.

    Its chunks are compressed: the names in every message take far more room than the numbers.
    """
    kept = thinned(result.stamps_ns, rate_hz)
    frame = "map" if result.parts else "odom"
    with BagWriter(path, custom_data={"source": result.source, STATE_SPACE: described(space)}, packed=True) as writer:
        estimates = _estimates(result, EstimateMessages(space, new, frame_id=frame), kept)
        for log_time_ns, topic, message_type, data in heapq.merge(estimates, _events(result, frame), key=itemgetter(0)):
            writer.write_serialized(f"/{result.robot}/{topic}", message_type, log_time_ns, data)
    if len(kept) == len(result.stamps_ns):
        return ""
    span_s = (result.stamps_ns[kept[-1]] - result.stamps_ns[kept[0]]) / NANOSECONDS_PER_SECOND
    rate = f" ({(len(kept) - 1) / span_s:.3g} Hz)" if span_s > 0.0 else ""
    return (
        f"The bag `estimates` holds {len(kept)} of the {len(result.stamps_ns)} estimates, evenly thinned{rate}; "
        "metrics and plots are made of all (--estimates-rate all writes all)."
    )


def described(space: StateSpace) -> str:
    """A state space as JSON, for `described_space`."""
    return json.dumps([[one.name, one.kind, list(one.names), list(one.units)] for one in space.blocks])


def described_space(text: str) -> StateSpace:
    """The state space that `described` was given; UserError where it is none."""
    try:
        blocks = [
            Block(str(name), int(kind), tuple(names), tuple(units)) for name, kind, names, units in json.loads(text)
        ]
        sound = all(
            one.kind in (VECTOR, ANGLES, SE2, SO3)
            and len(one.names) == len(one.units) > 0
            and all(isinstance(word, str) for word in (*one.names, *one.units))
            and (one.kind not in (SE2, SO3) or len(one.names) == 3)
            for one in blocks
        )
        if sound and blocks:
            return StateSpace(*blocks)
    except (ValueError, TypeError, RecursionError):
        pass
    raise UserError("the estimates do not say what their numbers are: evaluate again")


def thinned(stamps_ns: NDArray[np.int64], rate_hz: float | None) -> NDArray[np.intp]:
    """Rows of stamps (K,) to write: evenly spread, at no more than the rate.

    None: all of a few; of more, at `USUAL_RATE_HZ`, and of a very long run `MOST_ESTIMATES`.
    """
    count = len(stamps_ns)
    if rate_hz is None and count > _FEW_ESTIMATES:
        span_s = (stamps_ns[-1] - stamps_ns[0]) / NANOSECONDS_PER_SECOND
        rate_hz = min(USUAL_RATE_HZ, MOST_ESTIMATES / count * (count - 1) / span_s)
    if rate_hz is None or not math.isfinite(rate_hz) or count < 2:
        return np.arange(count)
    # The first stamp in each period of the rate.
    periods = ((stamps_ns - stamps_ns[0]) * (rate_hz / NANOSECONDS_PER_SECOND) + 1e-6).astype(np.int64)
    return np.flatnonzero(np.diff(periods, prepend=-1))


def _estimates(result: EvaluationResult, messages: EstimateMessages, kept: NDArray[np.intp]) -> Iterator[Written]:
    """The messages of each estimate, logged at its stamp."""
    wanted = set(messages.types())
    if not np.isfinite(result.covariance).all():
        wanted -= {"state_covariance", "joint_states_stddev", "inertial_parameters_stddev"}
    at_once = max(1, _BYTES_AT_ONCE // (8 * result.covariance[0].size))
    for start in range(0, len(kept), at_once):
        rows = kept[start : start + at_once]
        stamps_ns = result.stamps_ns[rows]
        topics = []
        # What is not known is zero in an odometry, and no message of its own.
        covariances = np.nan_to_num(result.covariance[rows])
        for topic, message_type, values in messages.numbers(result.mean[rows], covariances, wanted):
            serialised = serialise_alike(message_type, partial(messages.message, topic), stamps_ns, values)
            topics.append((topic, message_type, serialised))
        for row, stamp_ns in enumerate(stamps_ns.tolist()):
            for topic, message_type, serialised in topics:
                yield stamp_ns, topic, message_type, serialised[row].data


def _events(result: EvaluationResult, frame: str) -> Iterator[Written]:
    """The messages of each phase event, logged when it was seen."""
    store: Any = jazzy_types()
    for event in result.phase_events:
        for topic, message_type, message in event_messages(new, event, frame):
            yield event.seen_ns, topic, message_type, store.serialize_cdr(message, message_type)


def export_run(run: Path, format: str, output: Path) -> int:
    """Write the estimates of a run folder into a new file; how many.

    Raises
    ------
    UserError
        It is no run folder, nothing of it can be written so, or the file exists or cannot be written.
    """
    check_output(output)
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
    stamps = map(seconds, odometry.stamps_ns.tolist())
    return _lines("# stamp_s x_m y_m z_m qx qy qz qw", stamps, odometry.values[:, :7], " ")


def _lines(header: str, stamps: Iterable[str], values: Rows, between: str) -> str:
    """A file's text of stamps (K,) and numbers (K, d), each with all of its digits."""
    rows = (between.join([stamp, *map(repr, row)]) for stamp, row in zip(stamps, values.tolist(), strict=True))
    return "\n".join([header, *rows]) + "\n"


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
    return _lines(",".join(["stamp_ns", *names]), map(str, state.stamps_ns.tolist()), np.hstack(values), ",")


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
    variances = np.diagonal(covariances, axis1=1, axis2=2)[:, axes]
    if _COVARIANCE not in columns or not np.all((variances > 0.0) & (variances < UNKNOWN_VARIANCE)):
        return names, [values]
    planar = 2 not in axes
    pairs = [(i, j) for place, i in enumerate(axes) for j in axes[place:]]
    spreads = np.column_stack([covariances[:, i, j] for i, j in pairs])
    names += [stddev_name(axis, planar) for axis in axes] + [covariance_name(i, j, planar) for i, j in pairs]
    return names, [values, np.sqrt(variances), spreads]
