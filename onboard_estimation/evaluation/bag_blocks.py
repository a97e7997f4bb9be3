"""What the storages of a bag have in common: an index of their messages, in blocks, and bounded reading.

A storage (`bag_mcap`, `bag_sqlite`, `bag_ros1`) walks its file once when it is opened, from the start to the end or to
the place where it is cut off or damaged, and notes where each whole message lies. Messages are then read through this
index, block by block: one by one (`bags`) or with NumPy (`bulk`). Whole and damaged files take the same way; the
readers of `rosbags` and `mcap` need the index at a file's end, or drop the chunk that a cut falls into.

Nothing in a file is trusted: a length is checked against the bytes that are there, decompressed data against a limit,
and the number of messages is capped, so that memory stays bounded whatever the file says. Nor is a file trusted to stay
as it is: it is read in pieces and not mapped, because a mapped file that shrinks ends the process.
"""

from __future__ import annotations

import bz2
import io
import os
import re
import stat
from array import array
from dataclasses import dataclass, field
from pathlib import Path

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from numpy.typing import NDArray

from onboard_estimation.printable import printable

MAX_BLOCK_BYTES = 512 * 2**20
"""A chunk that holds more is not decompressed (rosbag2 writes chunks of about 1 MB)."""

MAX_MESSAGES = 40_000_000
"""Messages beyond are left unread, and the bag says so: 40 million take 1.3 GB of index."""

MAX_TIME_NS = 2**63 - 1

BLOCK_MESSAGES = 65_536

COMPILED_FROM_BYTES = 64 * 2**20
"""A smaller file is indexed before numba is imported."""

_PIECE_BYTES = 2**20
_WINDOW_BYTES = 2 * 2**20
_MAX_NAME_CHARACTERS = 256


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
            text = printable(getattr(self, name)[:_MAX_NAME_CHARACTERS], "?")
            object.__setattr__(self, name, text)


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


def is_regular(path: Path) -> bool:
    """Whether a regular file can be reached by this name, whatever the name is; through links too."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):  # too long, or not allowed
        return False


class FileBytes:
    """A regular file, read in pieces. Whatever else (a pipe, a device) could block, or never end.

    Attributes
    ----------
    path
        Where it is.
    name
        For sentences: its own, unless another is given.
    size
        When it was opened, bytes.

    Raises
    ------
    BlockError
        It is no regular file.
    OSError
        It cannot be opened.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = printable(name or path.name)
        if not stat.S_ISREG(path.stat().st_mode):
            raise BlockError("it is no regular file")
        # Should it have become a pipe since, this does not wait for a writer.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._opened = os.fstat(self._descriptor)
        self.size = self._opened.st_size
        self._window, self._window_start = memoryview(b""), 0

    def read(self, start: int, stop: int) -> bytes:
        """All bytes from `start` to `stop`, which is in the file; BlockError where it is not as it was any more."""
        try:
            pieces = [os.pread(self._descriptor, stop - start, start)]
            while pieces[-1] and (left := stop - start - sum(map(len, pieces))) > 0:
                pieces.append(os.pread(self._descriptor, left, stop - left))
        except OSError as error:
            raise BlockError(f"it cannot be read ({error.strerror or error})") from error
        self.check()
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def window(self, start: int, least: int) -> memoryview:
        """The bytes from `start` on: at least so many, or what there is up to the end. For reading through the file."""
        offset = start - self._window_start
        if offset < 0 or len(self._window) - offset < min(least, self.size - start):
            stop = min(start + max(least, _WINDOW_BYTES), self.size)
            self._window, self._window_start, offset = memoryview(self.read(start, stop)), start, 0
        return self._window[offset:]

    def check(self) -> None:
        """BlockError where the file has become shorter, or was written to without growing, since it was opened."""
        now = os.fstat(self._descriptor)
        if now.st_size < self.size:
            raise BlockError(f"it became shorter while it was read ({now.st_size:,} of {self.size:,} bytes)")
        if now.st_size == self.size and now.st_mtime_ns != self._opened.st_mtime_ns:
            raise BlockError("it was changed while it was read")

    def close(self) -> None:
        """Close the file; once."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


@dataclass(frozen=True, slots=True)
class Span:
    """Where a block's data lies in the file, how it is compressed, and how many bytes it holds at most."""

    start: int
    stop: int
    compression: str = ""
    limit: int = 0


@dataclass
class Storage:
    """One recording in a file of a bag; what its subclasses find in it when they are made.

    Attributes
    ----------
    connections
        By their number in the file. A message whose number is not here belongs to no known topic.
    blocks, spans
        The index of each block, in the order of the file, and where its data lies.
    size_bytes, readable_bytes
        Of the file (a cut sqlite3 file: as its header announces it), and what of it can be read.
    faults
        What is wrong with the file, a clause each ("a.mcap ends in the middle of a record").
    distribution
        The ROS distribution that recorded it, where the file says so.
    expected_messages
        How many messages the file says it holds.
    """

    file: FileBytes
    connections: dict[int, Connection] = field(default_factory=dict)
    blocks: list[BlockIndex] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    size_bytes: int = 0
    readable_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    distribution: str | None = None
    expected_messages: int | None = None
    message_count: int = 0

    def __post_init__(self) -> None:
        self.size_bytes = self.readable_bytes = self.file.size

    @property
    def name(self) -> str:
        """Of the file, for sentences."""
        return self.file.name

    def load(self, block: int) -> bytes:
        """The buffer that the `starts` of the block refer to.

        Raises
        ------
        BlockError
            The file has changed since it was opened.
        """
        span = self.spans[block]
        data = self.file.read(span.start, span.stop)
        return decompress(data, span.compression, span.limit) if span.compression else data

    def add_block(self, index: BlockIndex, span: Span) -> None:
        """Append a block."""
        self.message_count += len(index.starts)
        self.blocks.append(index)
        self.spans.append(span)

    @property
    def full(self) -> bool:
        """The cap on messages is reached."""
        return self.message_count >= MAX_MESSAGES


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
