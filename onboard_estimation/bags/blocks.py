"""What the storages of a bag have in common: an index of their messages, in blocks, and bounded reading.

A storage (`mcap_files`, `sqlite`, `ros1`) walks its file once when it is opened, from the start to the end or to
the place where it is cut off or damaged, and notes where each whole message lies. Messages are then read through this
index, block by block: one by one (`bag`) or with NumPy (`bulk`). Whole and damaged files take the same way; the
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
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from numpy.typing import NDArray

from onboard_estimation.base.bounded_file import open_regular
from onboard_estimation.base.errors import printable

MAX_BLOCK_BYTES = 512 * 2**20
"""A chunk that holds more is not decompressed (rosbag2 writes chunks of about 1 MB)."""

MAX_MESSAGES = 40_000_000
"""Messages beyond are left unread, and the bag says so: where they are indexed one by one, 40 million take 1.3 GB."""

MAX_TIME_NS = 2**63 - 1

BLOCK_MESSAGES = 65_536

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
    offers
        Quality of service that its publishers offered, as the file notes it (YAML); empty where it does not.
    """

    topic: str
    message_type: str
    encoding: str
    definition: str = ""
    definition_format: str = ""
    offers: str = ""

    def __post_init__(self) -> None:
        for name in ("topic", "message_type", "encoding"):
            text = printable(getattr(self, name)[:_MAX_NAME_CHARACTERS], "?")
            object.__setattr__(self, name, text)


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """What lies in one block of a storage.

    Attributes
    ----------
    connections
        By the connection's number in its storage: how many messages, their first and last log time, nanoseconds.
    count
        Messages.
    span_ns
        First and last log time of all.
    rises
        Log times never fall.
    place
        Where its data lies, as the storage has it.
    columns
        As `Storage.columns` gives them; None: they are found anew, for those of a long recording fill the memory.
    """

    connections: Mapping[int, tuple[int, int, int]]
    count: int
    span_ns: tuple[int, int]
    rises: bool
    place: Any
    columns: NDArray[np.int64] | None = None


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
    OSError
        It is no regular file, or cannot be opened.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = printable(name or path.name)
        self._file = open_regular(path)
        self._opened = os.fstat(self._file.fileno())
        self.size = self._opened.st_size
        self._window, self._window_start = memoryview(b""), 0

    def read(self, start: int, stop: int) -> bytes:
        """All bytes from `start` to `stop`, which is in the file; BlockError where it is not as it was any more."""
        try:
            content = os.pread(self._file.fileno(), stop - start, start)
        except OSError as error:
            raise BlockError(f"it cannot be read ({error.strerror or error})") from error
        self.check()
        return content

    def window(self, start: int, least: int) -> memoryview:
        """The bytes from `start` on: at least so many, or what there is up to the end. For reading through the file."""
        offset = start - self._window_start
        if offset < 0 or len(self._window) - offset < min(least, self.size - start):
            stop = min(start + max(least, _WINDOW_BYTES), self.size)
            self._window, self._window_start, offset = memoryview(self.read(start, stop)), start, 0
        return self._window[offset:]

    def check(self) -> None:
        """BlockError where the file has become shorter, or was written to without growing, since it was opened."""
        now = os.fstat(self._file.fileno())
        if now.st_size < self.size:
            raise BlockError(f"it became shorter while it was read ({now.st_size:,} of {self.size:,} bytes)")
        if now.st_size == self.size and now.st_mtime_ns != self._opened.st_mtime_ns:
            raise BlockError("it was changed while it was read")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Span:
    """Where a block's data lies in the file, its compression, how many bytes it holds, and their CRC-32 (0: none)."""

    start: int
    stop: int
    compression: str = ""
    size: int = 0
    crc: int = 0


@dataclass
class Storage(ABC):
    """One recording in a file of a bag; what its subclasses find in it when they are made.

    Attributes
    ----------
    connections
        By their number in the file. A message whose number is not here belongs to no known topic.
    blocks
        The index of each, in the order of the file.
    size_bytes, readable_bytes
        Of the file (a cut sqlite3 file: as its header announces it), and what of it can be read.
    faults
        What is wrong with the file, a clause each ("a.mcap ends in the middle of a record").
    expected_messages
        How many messages the file says it holds.
    """

    file: FileBytes
    connections: dict[int, Connection] = field(default_factory=dict)
    blocks: list[BlockIndex] = field(default_factory=list)
    size_bytes: int = 0
    readable_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    expected_messages: int | None = None
    message_count: int = 0
    keeps_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.size_bytes = self.readable_bytes = self.file.size

    @property
    def name(self) -> str:
        """Of the file, for sentences."""
        return self.file.name

    @abstractmethod
    def load(self, block: BlockIndex) -> bytes | memoryview:
        """The buffer that the block's columns refer to.

        Raises
        ------
        BlockError
            The file has changed since it was opened.
        """

    def columns(self, block: BlockIndex, buffer: bytes | memoryview) -> NDArray[np.int64]:
        """(4, M) of the block's messages, in the order of the file, from its buffer: connection, log time (nanoseconds
        since the epoch), start and length of the serialised message in the buffer, bytes.
        """
        assert block.columns is not None
        return block.columns

    def add_block(self, columns: NDArray[np.int64], place: Any) -> None:
        """Append a block, unless it is empty, by its `columns`."""
        numbers, times = columns[:2]
        if not len(numbers):
            return
        self.message_count += len(numbers)
        found = {number: times[numbers == number] for number in np.unique(numbers).tolist()}
        told = {number: (len(one), int(one.min()), int(one.max())) for number, one in found.items()}
        span_ns, rises = (int(times.min()), int(times.max())), bool((times[1:] >= times[:-1]).all())
        kept = columns if self.keeps_columns else None
        self.blocks.append(BlockIndex(told, len(numbers), span_ns, rises, place, kept))

    @property
    def full(self) -> bool:
        """The cap on messages is reached."""
        return self.message_count >= MAX_MESSAGES

    def say_full(self) -> None:
        """Add the fault that the cap on messages is reached, where it is."""
        if self.full:
            self.faults.append(f"{self.name} holds more than {MAX_MESSAGES:,} messages, the rest was left out")


@dataclass
class ChunkedStorage(Storage):
    """A file of records, some of which are chunks that hold further records: MCAP, and ROS 1 bags.

    Attributes
    ----------
    anchors
        Where records start by what the index at the file's end says, sorted: where to go on behind damage.
    closed
        The recording ends here, whatever follows.
    damaged_places
        (start, stop) in the file of what could not be followed.
    """

    anchors: Sequence[int] = ()
    closed: bool = False
    chunk_count: int = 0
    damaged_chunks: list[str] = field(default_factory=list)
    damaged_places: list[tuple[int, int]] = field(default_factory=list)
    damaged_descriptions: int = 0
    contradictions: int = 0

    def load(self, block: BlockIndex) -> bytes | memoryview:
        span: Span = block.place
        return decompress(self.file.read(span.start, span.stop), span.compression, span.size)

    @abstractmethod
    def take_record(self, position: int, anchor: int | None) -> int | None:
        """Take in what starts here, and give the place behind it; None where it cannot be followed.

        `anchor` is the next place where a record starts, where the index tells one.
        """

    def walk(self, position: int) -> int:
        """Index the records from here on, past damaged places as far as anchors tell where to go on; where it ends."""
        while position < self.file.size and not (self.closed or self.full):
            place = bisect_right(self.anchors, position)
            anchor = self.anchors[place] if place < len(self.anchors) else None
            following = self.take_record(position, anchor)
            if following is None:
                if anchor is None:
                    break
                following = anchor
                self.damaged_places.append((position, anchor))
                self.readable_bytes -= anchor - position
            position = following
        return position

    @abstractmethod
    def walk_chunk(self, buffer: memoryview, cut: bool, found: list[NDArray[np.int64]]) -> None:
        """Append to `found` what `add_block` takes of the messages in a chunk; BlockError at a damaged record."""

    def index_chunk(self, position: int, stop: int, span: Span | None) -> None:
        """Index the chunk whose record lies from `position` to `stop`; where the file's end cuts it off, what is there.

        `span` is where its data lies; None where its header is damaged.
        """
        self.chunk_count += 1
        cut = stop > self.file.size
        found: list[NDArray[np.int64]] = []
        try:
            if span is None:
                raise BlockError("its header is damaged")
            length = span.stop - span.start
            if max(span.size, length) > MAX_BLOCK_BYTES:
                says = f"it says it holds {max(span.size, length):,} bytes"
                raise BlockError(f"{says}, more than the {MAX_BLOCK_BYTES:,} allowed")
            packed = self.file.window(span.start, length)[:length]
            data = memoryview(decompress(packed, span.compression, span.size))
            if not cut and span.crc and crc32(data) != span.crc:
                raise BlockError("its checksum is wrong")
            self.walk_chunk(data, cut, found)
            if not cut and len(data) != span.size:
                raise BlockError(f"it holds {len(data):,} bytes of {span.size:,}")
        except BlockError as error:
            if not cut:
                self.damaged_chunks.append(str(error))
                self.readable_bytes -= stop - position
        if span is not None and found:
            self.add_block(np.concatenate(found, axis=1), span)

    def say_damage(self) -> None:
        """Add the faults that were counted."""
        if self.damaged_places:
            count = sum(stop - start for start, stop in self.damaged_places)
            first = self.damaged_places[0][0]
            self.faults.append(f"{count:,} bytes of {self.name} are damaged, from byte {first:,} on")
        if self.damaged_chunks:
            share = f"{len(self.damaged_chunks):,} of {self.chunk_count:,} chunks"
            self.faults.append(f"{share} of {self.name} are damaged (the first one: {self.damaged_chunks[0]})")
        for count, what in ((self.damaged_descriptions, "are damaged"), (self.contradictions, "contradict others")):
            if count:
                self.faults.append(f"{count:,} of the descriptions of topics and types in {self.name} {what}")
        self.say_full()


def gather(buffer: NDArray[np.uint8], starts: NDArray[np.int64], length: int) -> NDArray[np.uint8]:
    """(M, length) uint8: the bytes from each of the starts; all must lie within the buffer."""
    if not len(starts) or not length:
        return np.empty((len(starts), length), dtype=np.uint8)
    # One item of `length` bytes at each byte of the buffer: taking items is a plain copy of each message.
    items: NDArray[np.void] = np.ndarray(
        shape=(len(buffer) - length + 1,), dtype=np.dtype((np.void, length)), buffer=buffer.data, strides=(1,)
    )
    return items[starts].view(np.uint8).reshape(len(starts), length)


def ros2_type_name(name: str) -> str:
    """`sensor_msgs/Imu` (ROS 1) as `sensor_msgs/msg/Imu`; other names, wrong ones too, as they are."""
    return re.sub(r"^(\w+)/(\w+)$", r"\1/msg/\2", name)


def decompress(data: bytes | memoryview, compression: str, limit: int) -> bytes | memoryview:
    """Decompress a chunk, or what there is of a chunk whose end is missing; without compression, the data itself.

    Raises
    ------
    BlockError
        Unknown compression, damaged data, or more than `limit` bytes.
    """
    if not compression:
        return data
    if compression not in _READERS:
        raise BlockError(f"its compression {compression[:20]!r} is not supported")
    pieces, room = [], limit + 1
    try:
        with _READERS[compression](io.BytesIO(data)) as reader:
            # In pieces: `limit` comes from the file, and memory for all of it would be taken at once.
            while room > 0 and (piece := reader.read1(min(room, _PIECE_BYTES))):
                pieces.append(piece)
                room -= len(piece)
    except EOFError:
        pass  # its end is missing
    except (zstandard.ZstdError, RuntimeError, OSError, ValueError) as error:
        raise BlockError(f"its {compression} data is damaged") from error
    if room <= 0:
        raise BlockError(f"it holds more than the {limit:,} bytes that it should")
    return b"".join(pieces)


_READERS: Mapping[str, Callable[[io.BytesIO], Any]] = {
    "zstd": lambda stream: zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True),
    "lz4": lz4.frame.LZ4FrameFile,
    "bz2": bz2.BZ2File,
}
