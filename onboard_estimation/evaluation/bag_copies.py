"""Files of a bag that hold the same messages twice: a copy beside the original, or a compressed one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import Storage

_SHARE = 0.5


def without_copies(storages: Sequence[Storage]) -> tuple[list[Storage], list[str]]:
    """The files without those whose messages are for the most part in one before them, and what was left out.

    Messages are the same where topic and log time are, to the nanosecond. Files that follow each other in time, as
    rosbag2 splits a recording, are not looked at more closely.
    """
    kept: list[Storage] = []
    faults = []
    for storage in storages:
        original = next((other for other in kept if _overlap(storage, other) and _shares(storage, other)), None)
        if original is None:
            kept.append(storage)
        else:
            faults.append(
                f"{storage.name} was left out: most of its {storage.message_count:,} messages are in {original.name} "
                "too, with the same times"
            )
    return kept, faults


def _overlap(storage: Storage, other: Storage) -> bool:
    """Whether more than half of the time of one file lies within that of the other."""
    (first, last), (other_first, other_last) = _span(storage), _span(other)
    return min(last, other_last) - max(first, other_first) > _SHARE * (last - first)


def _span(storage: Storage) -> tuple[int, int]:
    times = [block.log_times_ns for block in storage.blocks if len(block.log_times_ns)]
    return (min(int(part.min()) for part in times), max(int(part.max()) for part in times)) if times else (0, 0)


def _shares(storage: Storage, other: Storage) -> bool:
    known = _times(other)
    same = sum(
        np.count_nonzero(np.isin(times, known[topic])) for topic, times in _times(storage).items() if topic in known
    )
    return bool(same > _SHARE * storage.message_count)


def _times(storage: Storage) -> dict[str, NDArray[np.int64]]:
    """Log times of the messages on each topic."""
    connections = np.concatenate([block.connections for block in storage.blocks])
    times = np.concatenate([block.log_times_ns for block in storage.blocks])
    found: dict[str, list[NDArray[np.int64]]] = {}
    for number, connection in storage.connections.items():
        found.setdefault(connection.topic, []).append(times[connections == number])
    return {topic: np.concatenate(parts) for topic, parts in found.items()}
