"""Small valid bags in every format that is read, by our own writer and by others: what `fuzz_bags` changes."""

from __future__ import annotations

import io
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import zstandard
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Ros1Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Rosbag2Writer
from rosbags.typesys import Stores, get_typestore

from onboard_estimation.bags.message_types import new
from onboard_estimation.bags.writing import BagWriter

Files = dict[str, bytes]

START_NS = 1_700_000_000_000_000_000
METADATA = "metadata.yaml"
STRING, POINT = "std_msgs/msg/String", "geometry_msgs/msg/Point"
TOPICS = {"/text": STRING, "/point": POINT, "/rare": STRING}
TYPES = get_typestore(Stores.ROS2_JAZZY)
ROS1_TYPES = get_typestore(Stores.ROS1_NOETIC)


@dataclass(frozen=True)
class Message:
    """One message to record."""

    topic: str
    stamp_ns: int
    content: Any

    @property
    def message_type(self) -> str:
        return TOPICS[self.topic]

    @property
    def data(self) -> bytes:
        return bytes(TYPES.serialize_cdr(self.content, self.message_type))


@dataclass(frozen=True)
class Seed:
    """A bag: its files, and which of them is opened (empty: the folder that holds them)."""

    name: str
    files: Files
    entry: str = ""


@dataclass(frozen=True)
class Case:
    """A bag that is judged: the valid one, and its files, which were changed."""

    bag_format: str
    number: int
    seed: Seed
    files: Files
    name: str = ""

    def write(self, folder: Path) -> Path:
        """Write the files into an empty folder; gives the path to open."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)
        return folder / self.seed.entry if self.seed.entry else folder


def walk(count: int = 24, longest: int = 60, first: int = 0) -> list[Message]:
    """Messages of three topics, no two of them alike, their stamps rising."""
    rng = Random(count)
    messages = []
    for number in range(first, first + count):
        stamp = START_NS + number * 1_234_567
        if number % 3 == 1:
            content: Any = new(POINT, x=rng.random(), y=float(number), z=-1.0)
            messages.append(Message("/point", stamp, content))
        else:
            text = f"{number} " + "".join(rng.choices("abcdefgh", k=rng.randrange(longest)))
            messages.append(Message("/rare" if number % 8 == 0 else "/text", stamp, new(STRING, data=text)))
    return messages


@cache
def seeds(bag_format: str) -> tuple[Seed, ...]:
    """The bags of a format: `mcap`, `sqlite3` or `ros1`."""
    with scratch_folder() as folder:
        return tuple({"mcap": _mcap_seeds, "sqlite3": _sqlite_seeds, "ros1": _ros1_seeds}[bag_format](folder))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder, in memory where there is one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def _mcap_seeds(folder: Path) -> list[Seed]:
    messages = walk()
    lone = {
        "none": _mcap(messages, "none", enable_data_crcs=True),
        "none-no-crc": _mcap(messages, "none", enable_crcs=False),
        "lz4": _mcap(messages, "lz4"),
        "zstd": _mcap(messages, "zstd", enable_data_crcs=True),
        "unchunked": _mcap(messages, "none", use_chunking=False),
        "unchunked-crc": _mcap(messages, "none", use_chunking=False, enable_data_crcs=True),
        "no-index": _mcap(messages, "zstd", index_types=IndexType.NONE, use_statistics=False),
    }
    found = [Seed(name, {"a.mcap": content}, "a.mcap") for name, content in lone.items()]
    ours = _our_bag(folder / "ours", "mcap", messages)
    found.append(Seed("ours", {"a.mcap": ours}, "a.mcap"))
    found.append(Seed("folder", {"a.mcap": lone["zstd"], METADATA: metadata("mcap", {"a.mcap": messages})}))
    halves = {"a_0.mcap": messages[:12], "a_1.mcap": messages[12:]}
    split = {name: _mcap(half, "lz4") for name, half in halves.items()}
    found.append(Seed("split", {**split, METADATA: metadata("mcap", halves)}))
    packed = {"a.mcap.zstd": zstandard.compress(lone["unchunked-crc"])}
    found.append(
        Seed("file-zstd", {**packed, METADATA: metadata("mcap", {"a.mcap.zstd": messages}, compression="file")})
    )
    return found


def _sqlite_seeds(folder: Path) -> list[Seed]:
    messages = walk()
    ours = _our_bag(folder / "ours", "sqlite3", messages)
    small = _small_pages(folder / "small.db3", ours, 512)
    long = _small_pages(folder / "long.db3", _our_bag(folder / "long", "sqlite3", walk(12, 1500)), 512)
    halves = {"a_0.db3": messages[:12], "a_1.db3": messages[12:]}
    split = {
        name: _small_pages(folder / name, _our_bag(folder / f"{name} whole", "sqlite3", half), 1024)
        for name, half in halves.items()
    }
    described = metadata("sqlite3", {"a.db3": messages})
    return [
        Seed("ours", {"a.db3": ours}, "a.db3"),
        Seed("pages-512", {"a.db3": small}, "a.db3"),
        Seed("overflow", {"a.db3": long}, "a.db3"),
        Seed("folder", {"a.db3": small, METADATA: described}),
        Seed("split", {**split, METADATA: metadata("sqlite3", halves)}),
        Seed("messages-zstd", _packed_messages(folder / "packed", messages)),
        Seed("wal", _interrupted(folder / "wal", small, "WAL"), "a.db3"),
        Seed("journal", _interrupted(folder / "journal", small, "DELETE"), "a.db3"),
    ]


def _ros1_seeds(folder: Path) -> list[Seed]:
    messages = walk()
    found = [
        Seed(compression, {"a.bag": _ros1(folder / f"{compression}.bag", messages, compression)}, "a.bag")
        for compression in ("none", "lz4", "bz2")
    ]
    return [*found, Seed("long", {"a.bag": _ros1(folder / "long.bag", walk(30, 700), "none")}, "a.bag")]


def metadata(storage: str, files: dict[str, list[Message]], compression: str = "") -> bytes:
    """A short metadata.yaml as rosbag2 writes them."""
    messages = [message for part in files.values() for message in part]
    stamps = [message.stamp_ns for message in messages]
    lines = [
        "rosbag2_bagfile_information:",
        "  version: 5",
        f"  storage_identifier: {storage}",
        f"  duration: {{nanoseconds: {max(stamps) - min(stamps)}}}",
        f"  starting_time: {{nanoseconds_since_epoch: {min(stamps)}}}",
        f"  message_count: {len(messages)}",
        f"  compression_format: '{'zstd' if compression else ''}'",
        f"  compression_mode: '{compression}'",
        "  topics_with_message_count:",
    ]
    for topic, kind in TOPICS.items():
        count = sum(message.topic == topic for message in messages)
        lines.append(f"  - message_count: {count}")
        lines.append(f"    topic_metadata: {{name: {topic}, type: {kind}, serialization_format: cdr}}")
    lines += ["  relative_file_paths:", *(f"  - {name}" for name in files)]
    return ("\n".join(lines) + "\n").encode()


def _mcap(messages: Sequence[Message], compression: str, **options: Any) -> bytes:
    file = io.BytesIO()
    writer = McapWriter(file, chunk_size=700, compression=CompressionType[compression.upper()], **options)
    writer.start(profile="ros2", library="fuzz")
    schemas = {
        kind: writer.register_schema(kind, "ros2msg", TYPES.generate_msgdef(kind, ros_version=2)[0].encode())
        for kind in dict.fromkeys(TOPICS.values())
    }
    channels = {topic: writer.register_channel(topic, "cdr", schemas[kind]) for topic, kind in TOPICS.items()}
    for message in messages:
        writer.add_message(channels[message.topic], message.stamp_ns, message.data, message.stamp_ns)
    writer.add_metadata("rosbag2", {"serialized_metadata": "ros_distro: jazzy"})
    writer.add_attachment(0, 0, "note", "text/plain", b"attached")
    writer.finish()
    return file.getvalue()


def _our_bag(path: Path, storage: Any, messages: Sequence[Message]) -> bytes:
    with BagWriter(path, storage) as writer:
        for message in messages:
            writer.write(message.topic, message.message_type, message.stamp_ns, message.content)
    return next(file for file in path.iterdir() if file.name != METADATA).read_bytes()


def _small_pages(path: Path, content: bytes, page_bytes: int) -> bytes:
    """A database in smaller pages, so that few messages already make a tree of them; without the topics' QoS."""
    path.write_bytes(content)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("UPDATE topics SET offered_qos_profiles = ''")  # `metadata` has none either
    database.execute(f"PRAGMA page_size = {page_bytes}")
    database.execute("VACUUM")
    database.close()
    return path.read_bytes()


def _packed_messages(path: Path, messages: Sequence[Message]) -> Files:
    writer = Rosbag2Writer(path, version=9, storage_plugin=StoragePlugin.SQLITE3)
    writer.set_compression(CompressionMode.MESSAGE, CompressionFormat.ZSTD)
    with writer:
        connections = {topic: writer.add_connection(topic, kind, typestore=TYPES) for topic, kind in TOPICS.items()}
        for message in messages:
            writer.write(connections[message.topic], message.stamp_ns, message.data)
    content = _small_pages(path / "packed.db3", (path / "packed.db3").read_bytes(), 512)
    return {"a.db3": content, METADATA: metadata("sqlite3", {"a.db3": list(messages)}, compression="message")}


def _interrupted(folder: Path, content: bytes, mode: str) -> Files:
    """What a recorder that is killed leaves: messages in a write-ahead log, or half a transaction and its journal."""
    folder.mkdir()
    path = folder / "a.db3"
    path.write_bytes(content)
    recorder = sqlite3.connect(path, isolation_level=None)
    recorder.execute(f"PRAGMA journal_mode = {mode}")
    recorder.execute("PRAGMA cache_size = 2")
    recorder.execute("BEGIN")
    for message in walk(12, 200, first=100):
        recorder.execute("INSERT INTO messages VALUES (NULL, 1, ?, ?)", (message.stamp_ns, message.data))
    if mode == "WAL":
        recorder.execute("COMMIT")
    left = {
        name: (folder / name).read_bytes() for name in ("a.db3", "a.db3-wal", "a.db3-journal") if _there(folder / name)
    }
    recorder.close()
    return left


def _there(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _ros1(path: Path, messages: Sequence[Message], compression: str) -> bytes:
    writer = Ros1Writer(path)
    if compression != "none":
        writer.set_compression(Ros1Writer.CompressionFormat[compression.upper()])
    writer.chunk_threshold = 700
    with writer:
        connections = {
            topic: writer.add_connection(topic, kind, typestore=ROS1_TYPES) for topic, kind in TOPICS.items()
        }
        for message in messages:
            kind = message.message_type
            names = [name for name, _ in ROS1_TYPES.fielddefs[kind][1]]
            fields = {name: getattr(message.content, name) for name in names}
            data = ROS1_TYPES.serialize_ros1(ROS1_TYPES.types[kind](**fields), kind)
            writer.write(connections[message.topic], message.stamp_ns, bytes(data))
    return path.read_bytes()
