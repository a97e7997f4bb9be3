"""What the storages of a bag have in common: an index of their messages, in blocks, and bounded decompression.

A storage (`bag_mcap`, `bag_sqlite`, `bag_ros1`) walks its file once when it is opened, from the start to the end or to
the place where it is cut off or damaged, and notes where each whole message lies. Messages are then read through this
index, block by block: one by one (`bags`) or with NumPy (`bulk`). Whole and damaged files take the same way; the
readers of `rosbags` and `mcap` need the index at a file's end, or drop the chunk that a cut falls into.

Nothing in a file is trusted: a length is checked against the bytes that are there, decompressed data against a limit,
and the number of messages is capped, so that memory stays bounded whatever the file says.
"""

from __future__ import annotations

import bz2
import io
import re
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from numpy.typing import NDArray

MAX_BLOCK_BYTES = 512 * 2**20
"""A chunk that holds more is not decompressed (rosbag2 writes chunks of about 1 MB)."""

MAX_MESSAGES = 40_000_000
"""Messages beyond are left unread, and the bag says so: 40 million take 1.3 GB of index."""

MAX_TIME_NS = 2**63 - 1

BLOCK_MESSAGES = 65_536

_PIECE_BYTES = 2**20


class BlockError(Exception):
    """A file or a chunk of it cannot be read; the message says why, as a clause that starts with "it"."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One publisher's stream in a file, as the file describes it; names are made printable.

    Attributes
    ----------
    message_type
        In ROS 2's form, `sensor_msgs/msg/Imu`; empty where the file does not tell.
    encoding
        `cdr` (ROS 2), `ros1`, or what else the file says.
    definition, definition_format
        The type's definition where the file holds it (`ros2msg`, `ros2idl`, `ros1msg`), else empty.
    """

    topic: str
    message_type: str
    encoding: str
    definition: str = ""
    definition_format: str = ""

    def __post_init__(self) -> None:
        for name in ("topic", "message_type", "encoding"):
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Where the messages of one block lie, in the order of the file. All arrays have the length M.

    Attributes
    ----------
    connections
        (M,) int64: the connection's number in its storage.
    log_times_ns
        (M,) int64: when it was recorded, nanoseconds since the epoch.
    starts, lengths
        (M,) int64: the serialised message in the block's buffer, bytes.
    """

    connections: NDArray[np.int64]
    log_times_ns: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


class IndexBuilder:
    """Collects the messages of a block; arrays of plain numbers, because a walk appends millions."""

    def __init__(self) -> None:
        self.connections = array("q")
        self.log_times_ns = array("q")
        self.starts = array("q")
        self.lengths = array("q")

    def __len__(self) -> int:
        return len(self.starts)

    def extend(self, rows: NDArray[np.int64]) -> None:
        """Append (4, M) int64: connection, log time, start and length of M messages."""
        columns = (self.connections, self.log_times_ns, self.starts, self.lengths)
        for column, values in zip(columns, rows, strict=True):
            column.frombytes(values.tobytes())

    def index(self) -> BlockIndex:
        """What was collected, without a copy."""
        columns = (self.connections, self.log_times_ns, self.starts, self.lengths)
        return BlockIndex(*(np.frombuffer(column, dtype=np.int64) for column in columns))


@dataclass
class Storage:
    """One file of a bag; what its subclasses find in it when they are made.

    Attributes
    ----------
    connections
        By their number in the file. A message whose number is not here belongs to no known topic.
    blocks
        The index of each block, in the order of the file.
    size_bytes, readable_bytes
        Of the file (a cut sqlite3 file: as its header announces it), and what of it can be read.
    faults
        What is wrong with the file, a clause each ("a.mcap ends in the middle of a record").
    distribution
        The ROS distribution that recorded it, where the file says so.
    expected_messages
        How many messages the file says it holds.
    """

    path: Path
    connections: dict[int, Connection] = field(default_factory=dict)
    blocks: list[BlockIndex] = field(default_factory=list)
    size_bytes: int = 0
    readable_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    distribution: str | None = None
    expected_messages: int | None = None
    message_count: int = 0

    def load(self, block: int) -> bytes | memoryview:
        """The buffer that the `starts` of the block refer to.

        Raises
        ------
        BlockError
            The file has changed since it was opened.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the file."""

    def add_block(self, builder: IndexBuilder) -> None:
        """Append what the builder holds as a block."""
        self.message_count += len(builder)
        self.blocks.append(builder.index())

    @property
    def full(self) -> bool:
        """The cap on messages is reached."""
        return self.message_count >= MAX_MESSAGES


def printable(text: str, most: int = 256) -> str:
    """Text from a file, for a line in a terminal: no control characters, no end of line, not too long."""
    return "".join(character if character.isprintable() else "?" for character in text[:most])


def ros2_type_name(name: str) -> str:
    """`sensor_msgs/Imu` (ROS 1) as `sensor_msgs/msg/Imu`; other names, wrong ones too, as they are."""
    return re.sub(r"^(\w+)/(\w+)$", r"\1/msg/\2", name)


def decompress(data: bytes | memoryview, compression: str, limit: int) -> bytes:
    """Decompress a chunk, or what there is of a chunk whose end is missing.

    Raises
    ------
    BlockError
        Unknown compression, damaged data, or more than `limit` bytes.
    """
    try:
        if compression == "zstd":
            raw = _decompress_zstd(data, limit + 1)
        elif compression == "lz4":
            raw = _decompress_lz4(data, limit + 1)
        elif compression == "bz2":
            raw = bz2.BZ2Decompressor().decompress(data, max_length=limit + 1)
        else:
            raise BlockError(f"its compression {compression[:20]!r} is not supported")
    except (zstandard.ZstdError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise BlockError(f"its {compression} data is damaged") from error
    if len(raw) > limit:
        raise BlockError(f"it holds more than the {limit:,} bytes that it should")
    return raw


# In pieces, because both allocate at once what they are asked for, and `limit` comes from the file.


def _decompress_zstd(data: bytes | memoryview, limit: int) -> bytes:
    pieces = []
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        while limit > 0 and (piece := reader.read(min(limit, _PIECE_BYTES))):
            pieces.append(piece)
            limit -= len(piece)
    return b"".join(pieces)


def _decompress_lz4(data: bytes | memoryview, limit: int) -> bytes:
    pieces = []
    reader = lz4.frame.LZ4FrameDecompressor()
    while limit > 0 and not reader.eof and (piece := reader.decompress(data, max_length=min(limit, _PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
        data = b""
    return b"".join(pieces)
