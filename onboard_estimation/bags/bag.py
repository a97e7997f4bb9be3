"""Reading recorded bags: rosbag2 (MCAP, sqlite3, compressed or not) and ROS 1, whole or damaged.

    with open_bag("walk") as bag:
        for raw in bag.messages(["/imu/body/data_raw"]):
            imu = bag.deserialize(raw)

A bag that is cut off or damaged is read as far as that goes, and `Bag.damage` says in one sentence how far.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray
from rich.filesize import decimal
from rosbags.typesys.store import Typestore

from onboard_estimation.bags.blocks import (
    MAX_BLOCK_BYTES,
    MAX_TIME_NS,
    BlockError,
    Connection,
    Storage,
    decompress,
)
from onboard_estimation.bags.files import ZSTD_MAGIC, BagFiles, open_files
from onboard_estimation.bags.message_types import MAX_MESSAGE_BYTES, decoded, has_header, is_standard, type_store
from onboard_estimation.bags.topics import STATIC, TRANSFORM, TREE_TYPES
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND
from onboard_estimation.ros.measurements import MessageFault, transforms

_HELD_BYTES = 256 * 2**20
_NAMES_SHOWN = 12
_LOOKED_AT = 100
_FRAMES_LOOKED_FOR = 500  # messages


@dataclass(frozen=True)
class TopicInfo:
    """One topic of a bag: its name, its type as `sensor_msgs/msg/Imu`, and how many messages can be read."""

    name: str
    message_type: str
    count: int


class RawMessage(NamedTuple):
    """One message as it was recorded: when (nanoseconds since the epoch), and its bytes in the bag's encoding."""

    topic: str
    log_time_ns: int
    data: bytes


@dataclass(frozen=True)
class Block:
    """Some messages of a bag in one buffer, for reading them in bulk. All arrays have the length M.

    Attributes
    ----------
    buffer
        (B,) uint8.
    topics
        (M,) int64: index into the topics asked for.
    log_times_ns, starts, lengths
        (M,) int64, see `Storage.columns`.
    order
        (M,) int64: the message's place in the bag's log order, among all its messages.
    """

    buffer: NDArray[np.uint8]
    topics: NDArray[np.int64]
    log_times_ns: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    order: NDArray[np.int64]

    def at(self, rows: NDArray[np.int64]) -> Block:
        """Some of the messages."""
        columns = (self.topics, self.log_times_ns, self.starts, self.lengths, self.order)
        return Block(self.buffer, *(column[rows] for column in columns))


def open_bag(path: str | Path) -> Bag:
    """Open a bag: a folder, a lone .mcap or .db3 file, or a ROS 1 .bag file.

    Raises
    ------
    UserError
        The path is missing or no bag, the bag has no messages, or none that can be read.
    """
    return Bag(Path(path))


class Bag(ExitStack[None]):
    """A recorded bag; a context manager that closes its files. What was read stays valid.

    Attributes
    ----------
    path
        As it was given.
    topics
        By name, sorted. Counts are of the messages that can be read.
    format
        `mcap`, `sqlite3` or `ros1`.
    distribution
        Of the ROS that recorded it, where the metadata say so ("jazzy").
    custom_data
        What the recorder noted in the metadata (a simulator: what it simulated).
    damage
        One sentence with numbers where the bag is damaged or incomplete, else None.
    size_bytes
        Of its files.
    start_ns, end_ns
        Earliest and latest log time, nanoseconds since the epoch.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._stores: dict[str, Typestore | UserError] = {}
        self._held: OrderedDict[int, Block] = OrderedDict()
        self.callback(self._held.clear)
        try:
            files = open_files(path, self)
            self.format = files.format
            self.distribution = files.metadata.distribution
            self.custom_data = files.metadata.custom_data
            self.size_bytes = sum(storage.size_bytes for storage in files.storages)
            self._storages = files.storages
            self._connections, faults = choose_connections(files.storages)
            self._blocks = [
                (storage, topics, index)
                for storage, topics in assign_topics(files.storages, self._connections)
                for index in storage.blocks
            ]
            self._starts = np.cumsum([0, *(index.count for _, _, index in self._blocks)])
            self._compressed_messages = False
            self._compressed_messages = files.metadata.compressed_messages or self._starts_compressed()
            self._summarise(files, faults)
        except BaseException:
            self.close()
            raise

    @cached_property
    def types(self) -> Mapping[str, str]:
        """By name; of trees of transforms also the frames that move in the first messages, see `transform_trees`."""
        types = {name: topic.message_type for name, topic in self.topics.items()}
        frames: set[str] = set()
        for tree, kind in types.items():
            if kind in TREE_TYPES and not tree.endswith(STATIC):
                for raw in islice(self.messages([tree]), _FRAMES_LOOKED_FOR):
                    with suppress(UserError):
                        frames |= {f"{tree}:{child}" for _, child, _, _ in transforms(self.deserialize(raw))}
        return types | dict.fromkeys(sorted(frames), TRANSFORM)

    @property
    def duration_s(self) -> float:
        """From the earliest to the latest log time, seconds."""
        return (self.end_ns - self.start_ns) / NANOSECONDS_PER_SECOND

    def messages(self, topics: Collection[str] | None = None) -> Iterator[RawMessage]:
        """The messages of the topics (None: of all) by log time; at the same time, in the order of the file.

        Raises
        ------
        UserError
            A topic is not in the bag (says which are), or the files have changed since they were opened.
        """
        names = list(self.topics)
        for block in self._in_log_order(self.places(topics)):
            view, columns = block.buffer.data, (block.topics, block.log_times_ns, block.starts, block.lengths)
            for topic, time, start, length in zip(*(column.tolist() for column in columns), strict=True):
                yield RawMessage(names[topic], time, bytes(view[start : start + length]))

    def blocks(self, topics: Collection[str]) -> Iterator[Block]:
        """The messages of the topics, in the order of the files, many at a time. Raises as `messages` does."""
        numbers = self.places(topics)
        places = np.full(len(self.topics), -1, dtype=np.int64)
        places[numbers] = np.arange(len(numbers))
        for block in self._in_file_order(numbers):
            yield replace(block, topics=places[block.topics])

    def deserialize(self, raw: RawMessage) -> Any:
        """The message as an object with the fields of its type. Raises as `decoded` does."""
        return self.decoded(raw)[0]

    def decoded(self, raw: RawMessage) -> tuple[Any, int]:
        """The message as an object with the fields of its type, and how many bytes stand behind its end.

        Raises
        ------
        MessageFault
            The bytes are no message of the topic's type.
        UserError
            The topic's type cannot be decoded.
        """
        store, connection = self.store(raw.topic), self._connections[raw.topic]
        if isinstance(store, UserError):
            raise store
        if len(raw.data) > MAX_MESSAGE_BYTES:
            raise MessageFault(f"is {len(raw.data):,} bytes long; up to {MAX_MESSAGE_BYTES:,} are decoded")
        try:
            if connection.encoding == "ros1":
                return store.deserialize_ros1(raw.data, connection.message_type), 0
            return decoded(store, connection.message_type, raw.data)
        except Exception as error:  # code that rosbags made of a definition in the bag can fail in any way
            raise MessageFault(f"does not decode as {connection.message_type}") from error

    def encoding(self, topic: str) -> str:
        """How the topic's messages are serialised: `cdr`, `ros1`, or what else the bag says."""
        return self._connections[topic].encoding

    def offers(self, topic: str) -> list[str]:
        """Quality of service that the topic's publishers offered, as the files note it: YAML texts."""
        connections = (one for storage in self._storages for one in storage.connections.values())
        return [one.offers for one in connections if one.topic == topic and one.offers]

    def is_standard(self, topic: str) -> bool:
        """Whether the topic's type is a standard one of ROS with its standard definition."""
        return is_standard(self.store(topic))

    def has_header(self, topic: str) -> bool:
        """Whether the topic's messages start with a `std_msgs/msg/Header`; false where the type cannot be decoded."""
        store = self.store(topic)
        return not isinstance(store, UserError) and has_header(store, self.topics[topic].message_type)

    def store(self, topic: str) -> Typestore | UserError:
        """Types to decode the topic's messages with, or why there are none."""
        if topic not in self._stores:
            try:
                self._stores[topic] = type_store(self._connections[topic])
            except UserError as error:
                self._stores[topic] = error
        return self._stores[topic]

    def places(self, topics: Collection[str] | None) -> NDArray[np.int64]:
        """Places in `topics` of the names asked for, in their order; UserError where one is not there."""
        if topics is None:
            return np.arange(len(self.topics))
        names = {name: number for number, name in enumerate(self.topics)}
        if missing := [name for name in topics if name not in names]:
            there = ", ".join(list(names)[:_NAMES_SHOWN]) + (" ..." if len(names) > _NAMES_SHOWN else "")
            raise UserError(f"{self.path} has no topic {', '.join(missing)}; it has: {there}")
        return np.array([names[name] for name in topics], dtype=np.int64)

    def _in_file_order(self, numbers: NDArray[np.int64]) -> Iterator[Block]:
        """The messages on these topics, block by block."""
        for number, (_, topics, index) in enumerate(self._blocks):
            if any(topics.get(connection) in numbers for connection in index.connections):
                block = self._load(number)
                yield block.at(np.flatnonzero(np.isin(block.topics, numbers)))

    def _in_log_order(self, numbers: NDArray[np.int64]) -> Iterator[Block]:
        """The same by log time."""
        if self._disorder is None:
            yield from self._in_file_order(numbers)
            return
        topics, ranks = self._disorder
        rows = np.flatnonzero(np.isin(topics, numbers))
        rows = rows[np.argsort(ranks[rows])]
        of = np.searchsorted(self._starts, rows, side="right") - 1
        for run in filter(len, np.split(rows, np.flatnonzero(np.diff(of)) + 1)):
            number = int(np.searchsorted(self._starts, run[0], side="right")) - 1
            yield self._load_held(number).at(run - self._starts[number])

    @cached_property
    def _disorder(self) -> NDArray[np.int64] | None:
        """(2, N) topics of all messages and their places in the log order; None where log times rise all through the
        files, and nobody need know those of all at once.
        """
        spans = [index.span_ns for _, _, index in self._blocks]
        if all(index.rises for _, _, index in self._blocks) and all(a[1] <= b[0] for a, b in pairwise(spans)):
            return None
        columns = [self._content(number)[1][:2] for number in range(len(self._blocks))]
        topics, times = np.concatenate(columns, axis=1)
        return np.array([topics, np.argsort(np.argsort(times, kind="stable"))])

    def _starts_compressed(self) -> bool:
        """Whether each message is compressed on its own, where no metadata tells: none of CDR starts as those do."""
        if not self._blocks:
            return False
        buffer, (_, _, starts, _) = self._content(0)
        view = buffer.data
        return all(view[start : start + len(ZSTD_MAGIC)] == ZSTD_MAGIC for start in starts[:_LOOKED_AT].tolist())

    def _load_held(self, number: int) -> Block:
        """A block's buffer; a few are held, because messages of neighbouring blocks may alternate in log order."""
        if number in self._held:
            self._held.move_to_end(number)
            return self._held[number]
        self._held[number] = loaded = self._load(number)
        while len(self._held) > 1 and sum(len(held.buffer) for held in self._held.values()) > _HELD_BYTES:
            self._held.popitem(last=False)
        return loaded

    def _content(self, number: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """A block's buffer and columns, see `Storage.columns`, with topics (-1: none) in the place of connections."""
        storage, topics, index = self._blocks[number]
        # The file as the user knows it; what is read may be a copy.
        file = self.path.with_name(storage.name) if self.path.is_file() else self.path / storage.name
        try:
            buffer = storage.load(index)
        except BlockError as error:
            raise UserError(f"{file} cannot be read any more: {error}") from error
        connections, *others = storage.columns(index, buffer)
        if len(connections) != index.count or int((others[1] + others[2]).max()) > len(buffer):
            raise UserError(f"{file} cannot be read: it is damaged, or changed while it was read")
        found = np.full(len(connections), -1, dtype=np.int64)
        for connection in index.connections:
            found[connections == connection] = topics.get(connection, -1)
        return np.frombuffer(buffer, dtype=np.uint8), np.array([found, *others])

    def _load(self, number: int) -> Block:
        """All messages of a block."""
        buffer, (topics, times, starts, lengths) = self._content(number)
        places = slice(self._starts[number], self._starts[number + 1])
        order = np.arange(places.start, places.stop) if self._disorder is None else self._disorder[1, places]
        block = Block(buffer, topics, times, starts, lengths, order)
        return _decompress_messages(block) if self._compressed_messages else block

    def _summarise(self, files: BagFiles, faults: list[str]) -> None:
        """Topics, times and the sentence about damage."""
        counts = np.zeros(len(self._connections) + 1, dtype=np.int64)
        first, last = MAX_TIME_NS, 0
        for _, topics, index in self._blocks:
            for connection, (count, *ends) in index.connections.items():
                counts[topics.get(connection, -1) + 1] += count
                if connection in topics:
                    first, last = min(first, ends[0]), max(last, ends[1])
        self.topics: Mapping[str, TopicInfo] = {
            name: TopicInfo(name, connection.message_type or "unknown", count)
            for (name, connection), count in zip(self._connections.items(), counts[1:].tolist(), strict=True)
        }
        readable = int(counts[1:].sum())
        faults = files.faults + [fault for storage in files.storages for fault in storage.faults] + faults
        if counts[0]:
            faults.append(f"{counts[0]:,} messages belong to no topic that can be read")
        if not readable:
            raise UserError(f"{self.path} holds no messages" + (f": {_joined(faults)}" if faults else ""))
        self.start_ns, self.end_ns = first, last
        stated = _stated_messages(files)
        expected = max(stated, default=0)
        if expected > readable and not faults:
            faults.append("messages are missing")
        if stated and min(stated) < readable:
            faults.append(f"that is {readable - min(stated):,} more messages than the bag says it has")
        self.damage: str | None = None
        if faults:
            share = f" of {expected:,} ({readable / expected:.1%})" if expected > readable else ""
            there = sum(storage.readable_bytes for storage in files.storages) / max(self.size_bytes, 1)
            self.damage = printable(
                f"{_joined(faults)}; readable are {readable:,}{share} messages over {self.duration_s:.2f} s, "
                f"{there:.1%} of {decimal(self.size_bytes)}"
            )


def _decompress_messages(block: Block) -> Block:
    """Each message on its own (rosbag2's compression mode `message`); what is damaged or too long becomes empty."""
    view = block.buffer.data
    pieces, room = [], MAX_BLOCK_BYTES
    for start, length in zip(block.starts.tolist(), block.lengths.tolist(), strict=True):
        data = bytes(view[start : start + length])
        if data.startswith(ZSTD_MAGIC):
            try:
                size = zstandard.frame_content_size(data)  # -1: not known
                data = bytes(decompress(data, "zstd", min(MAX_MESSAGE_BYTES, room)))
                data = data if size in {-1, len(data)} else b""
            except (BlockError, zstandard.ZstdError):
                data = b""
        pieces.append(data)
        room -= len(data)
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    buffer = np.frombuffer(b"".join(pieces), dtype=np.uint8)
    return replace(block, buffer=buffer, starts=np.cumsum(lengths) - lengths, lengths=lengths)


def _stated_messages(files: BagFiles) -> list[int]:
    """How many messages the bag says it has, where its metadata and where its files say it."""
    counts = [storage.expected_messages for storage in files.storages]
    found = sum(count for count in counts if count is not None)
    return [count for count in (files.metadata.message_count, None if None in counts else found) if count is not None]


def _joined(faults: list[str]) -> str:
    return first_of(faults, 4, "; ", "; and {} more faults")


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
    return sum(block.connections.get(connection, (0,))[0] for block in storage.blocks)


def assign_topics(
    storages: list[Storage], chosen: Mapping[str, Connection]
) -> Iterator[tuple[Storage, dict[int, int]]]:
    """Each storage, and by its connections the number of the topic among the chosen ones, where there is one."""
    places = {name: place for place, name in enumerate(chosen)}
    kinds = {name: (one.message_type, one.encoding) for name, one in chosen.items()}
    for storage in storages:
        topics = {
            number: places[one.topic]
            for number, one in storage.connections.items()
            if (one.message_type, one.encoding) == kinds[one.topic]
        }
        yield storage, topics
