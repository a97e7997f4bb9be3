"""The record as a bag, with the messages that a live node publishes; thinned where it is very long."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.evaluation.bag_writing import BagWriter, new, serialise_alike
from onboard_estimation.evaluation.result import EvaluationResult
from onboard_estimation.filtering.manifold_kernels import ANGLES, SE2, SO3, VECTOR
from onboard_estimation.filtering.state_space import Block, StateSpace
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.ros.estimates import EstimateMessages
from onboard_estimation.ros.phases import event_messages

MOST_ESTIMATES = 300_000
"""More are thinned where no rate is asked for: an hour at 840 Hz would take 3 GB."""

_THINNED_TO = 150_000
_AT_ONCE = 20_000

STATE_SPACE = "state_space"
"""Key under which the bag says what the numbers on `state` are."""

Written = tuple[int, str, str, memoryview]
"""Log time, topic, type and content of a message."""


def write_estimates(result: EvaluationResult, space: StateSpace, path: Path, rate_hz: float | None = None) -> str:
    """Write the record, and the phase events that the filter saw; a sentence on what was left out.

    Parameters
    ----------
    rate_hz
        Largest rate of the estimates; infinity: all. None: all, unless there are more than `MOST_ESTIMATES`.
    """
    kept = thinned(result.stamps_ns, rate_hz)
    frame = "map" if result.parts else "odom"
    with BagWriter(path, custom_data={"source": result.source, STATE_SPACE: described(space)}) as writer:
        estimates = _estimates(result, EstimateMessages(space, new, frame_id=frame), kept)
        for log_time_ns, topic, message_type, data in heapq.merge(estimates, _events(result, frame), key=_log_time):
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
    """Rows of stamps (K,) to write: evenly spread, at no more than the rate, see `write_estimates`."""
    count = len(stamps_ns)
    if rate_hz is None:
        step = 1 if count <= MOST_ESTIMATES else math.ceil(count / _THINNED_TO)
        return np.arange(0, count, step)
    if not math.isfinite(rate_hz) or count < 2:
        return np.arange(count)
    # The first stamp in each period of the rate.
    periods = ((stamps_ns - stamps_ns[0]) * (rate_hz / NANOSECONDS_PER_SECOND) + 1e-6).astype(np.int64)
    return np.flatnonzero(np.diff(periods, prepend=-1))


def _log_time(message: Written) -> int:
    return message[0]


def _estimates(result: EvaluationResult, messages: EstimateMessages, kept: NDArray[np.intp]) -> Iterator[Written]:
    """The messages of each estimate, logged at its stamp."""
    wanted = set(messages.types())
    if not np.isfinite(result.covariance).all():
        wanted -= {"state_covariance", "joint_states_stddev", "inertial_parameters_stddev"}
    for start in range(0, len(kept), _AT_ONCE):
        rows = kept[start : start + _AT_ONCE]
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
