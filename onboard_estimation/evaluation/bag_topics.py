"""One bag from many files and publishers: which connections make up a topic, and which topic each message is on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard_estimation.evaluation.bag_blocks import BlockIndex, Connection, Storage


@dataclass(frozen=True)
class IndexedBlock:
    """A block of a storage, and the topic of each of its messages.

    Attributes
    ----------
    number
        Of the block in its storage.
    topics
        (M,) int64: place of the topic in the bag; -1 where a message is on no topic that can be read.
    """

    storage: Storage
    number: int
    topics: NDArray[np.int64]
    index: BlockIndex


def choose_connections(storages: list[Storage]) -> tuple[dict[str, Connection], list[str]]:
    """The connection that stands for each topic, by name, and what speaks against it.

    Several publishers are one topic. Where they disagree on the type, the one with the most messages is right.
    """
    found: dict[str, dict[tuple[str, str], list[tuple[Storage, int, Connection]]]] = {}
    for storage in storages:
        for number, connection in storage.connections.items():
            kind = (connection.message_type, connection.encoding)
            found.setdefault(connection.topic, {}).setdefault(kind, []).append((storage, number, connection))
    chosen, faults = {}, []
    for topic, kinds in sorted(found.items()):
        best = next(iter(kinds))
        if len(kinds) > 1:
            best = max(kinds, key=lambda kind: sum(_count(storage, number) for storage, number, _ in kinds[kind]))
            others = ", ".join(kind[0][:100] or "unknown" for kind in kinds if kind != best)
            faults.append(f"topic {topic} carries {best[0]} and also {others}, which is left out")
        connections = [connection for _, _, connection in kinds[best]]
        chosen[topic] = next((connection for connection in connections if connection.definition), connections[0])
    return chosen, faults


def _count(storage: Storage, connection: int) -> int:
    return sum(int(np.count_nonzero(block.connections == connection)) for block in storage.blocks)


def assign_topics(storages: list[Storage], chosen: Mapping[str, Connection]) -> Iterator[IndexedBlock]:
    """Give each message the number of its topic among the chosen ones; -1 where it has none."""
    places = {name: place for place, name in enumerate(chosen)}
    for storage in storages:
        numbers = np.array(sorted(storage.connections), dtype=np.int64)
        topics = np.full(len(numbers) + 1, -1, dtype=np.int64)
        for row, number in enumerate(numbers.tolist()):
            connection = storage.connections[number]
            right = chosen[connection.topic]
            if (connection.message_type, connection.encoding) == (right.message_type, right.encoding):
                topics[row] = places[connection.topic]
        for number, block in enumerate(storage.blocks):
            rows = np.searchsorted(numbers, block.connections)
            known = np.append(numbers, -1)[rows] == block.connections
            yield IndexedBlock(storage, number, np.where(known, topics[rows], -1), block)
