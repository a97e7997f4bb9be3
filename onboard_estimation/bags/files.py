"""Which files make up a bag, and a storage for each: a folder of rosbag2, a lone .mcap or .db3, or a ROS 1 .bag.

Nothing in a folder's `metadata.yaml` is trusted; of paths, only names are taken.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import zstandard
from numpy.typing import NDArray
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime

from onboard_estimation.bags import mcap_files, ros1, sqlite
from onboard_estimation.bags.blocks import MAX_TIME_NS, BlockError, FileBytes, Storage, is_regular
from onboard_estimation.base.bounded_file import read_bounded_text, reading
from onboard_estimation.base.errors import UserError, first_of, printable
from onboard_estimation.base.parameter_file import read_yaml

METADATA = "metadata.yaml"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

LATCHED_TOPICS = frozenset({"/tf_static", "/robot_description"})
"""Topics that ROS publishes for late subscribers (transient local); others are marked with `add_topic`."""

DEPTH = 10
"""Messages that a publisher keeps for those that take them slowly."""

NEVER = QosTime(*divmod(2**63 - 1, 10**9))
"""A duration that is not set, as rosbag2 writes it."""

_MAGIC_BYTES = 16
_BAG_NAME = re.compile(r".+\.(mcap|db3)(\.zstd)?", re.IGNORECASE | re.DOTALL)
_NAMES_SHOWN, _BAGS_SHOWN = 3, 5
_FREE_SHARE = 0.5
_MAX_RATIO, _ALLOWED_BYTES = 1000, 2**30


_SHARE = 0.5

_MAX_YAML_BYTES = 8 * 2**20
MOST_NODES = 100_000
"""Of a YAML text out of a bag, which may be made to take for ever."""


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
    if not (storage.blocks and other.blocks):
        return False
    spans = [list(zip(*(block.span_ns for block in one.blocks), strict=True)) for one in (storage, other)]
    (first, last), (other_first, other_last) = ((min(firsts), max(lasts)) for firsts, lasts in spans)
    return bool(min(last, other_last) - max(first, other_first) > _SHARE * (last - first))


def _shares(storage: Storage, other: Storage) -> bool:
    known = _times(other)
    same = sum(
        np.count_nonzero(np.isin(times, known[topic])) for topic, times in _times(storage).items() if topic in known
    )
    return bool(same > _SHARE * storage.message_count)


def _times(storage: Storage) -> dict[str, NDArray[np.int64]]:
    """Log times of the messages on each topic."""
    columns = [storage.columns(block, storage.load(block))[:2] for block in storage.blocks]
    connections, times = np.concatenate(columns, axis=1)
    found: dict[str, list[NDArray[np.int64]]] = {}
    for number, connection in storage.connections.items():
        found.setdefault(connection.topic, []).append(times[connections == number])
    return {topic: np.concatenate(parts) for topic, parts in found.items()}


@dataclass
class BagFiles:
    """The files of a bag, opened.

    Attributes
    ----------
    storages
        One per file, in the order of recording.
    format
        `mcap`, `sqlite3` or `ros1`.
    faults
        What is wrong with the bag as a whole; a file's own faults are with its storage.
    metadata
        What its folder says of it.
    """

    storages: list[Storage]
    format: str
    faults: list[str]
    metadata: BagMetadata


def open_files(path: Path, stack: ExitStack) -> BagFiles:
    """Open all files of the bag at `path`; `stack` closes them.

    Raises
    ------
    UserError
        Missing, no bag, or none of its files can be read.
    """
    with reading(path):
        if path.name == METADATA and is_regular(path):
            path = path.parent
        if path.is_dir():
            return _open_folder(path, stack)
        if path.exists():
            return _open_file(path, stack)
    raise UserError(f"{path} does not exist{_bags_beside(path)}")


def _open_file(path: Path, stack: ExitStack) -> BagFiles:
    try:
        storage, kind = _open_storage(path, stack)
    except BlockError as error:
        raise UserError(f"{path} is no bag that can be read: {error}") from error
    return BagFiles([storage], kind, [], BagMetadata())


def _open_folder(folder: Path, stack: ExitStack) -> BagFiles:
    metadata, faults = read_metadata(folder)
    named = list(dict.fromkeys(metadata.names))
    there = sorted((file.name for file in folder.iterdir() if _BAG_NAME.fullmatch(file.name)), key=_natural_order)
    found = [name for name in named if is_regular(folder / name)]
    others = [name for name in there if name not in named]
    if not found and not others:
        raise UserError(f"{folder} is no bag: it holds no .mcap or .db3 file{_bags_in(folder)}")
    if missing := [name for name in named if name not in found]:
        faults.append(f"{len(missing)} of {len(named)} files are missing ({first_of(missing, _NAMES_SHOWN)})")
    if twice := [name for name in named if metadata.names.count(name) > 1]:
        faults.append(f"{METADATA} names {first_of(twice, _NAMES_SHOWN)} more than once")
    if found and others:
        faults.append(
            f"{METADATA} does not name {len(others)} more files that are there ({first_of(others, _NAMES_SHOWN)})"
        )
    storages: list[Storage] = []
    kinds: list[str] = []
    for name in found + others:
        try:
            storage, kind = _open_storage(folder / name, stack)
        except BlockError as error:
            faults.append(f"{name} cannot be read: {error}")
        else:
            storages.append(storage)
            kinds.append(kind)
    if not storages:
        raise UserError(f"{folder} cannot be read as a bag: {'; '.join(faults)}")
    storages, copies = without_copies(storages)
    if others:
        metadata = replace(metadata, message_count=None)
    return BagFiles(storages, kinds[0], faults + copies, metadata)


def _open_storage(path: Path, stack: ExitStack) -> tuple[Storage, str]:
    """The storage of a file, and its format.

    Raises
    ------
    BlockError
        The file is of no known kind, or cannot be read.
    """
    try:
        file = FileBytes(path)
    except OSError as error:
        raise BlockError(f"{(error.strerror or str(error)).lower()}") from error
    stack.callback(file.close)
    if not file.size:
        raise BlockError("it is empty (0 bytes)")
    faults: list[str] = []
    if file.read(0, min(file.size, len(ZSTD_MAGIC))) == ZSTD_MAGIC:
        file, faults = _decompress_file(file, stack)
    start = file.read(0, min(file.size, _MAGIC_BYTES))
    storage: Storage
    if start.startswith(mcap_files.MAGIC):
        kind, storage = "mcap", mcap_files.McapStorage(file)
    elif start.startswith(sqlite.MAGIC):
        kind, storage = "sqlite3", sqlite.SqliteStorage(file, stack)
    elif start.startswith(ros1.MAGIC):
        kind, storage = "ros1", ros1.Ros1Storage(file)
    else:
        raise BlockError("it starts as no .mcap, .db3 or .bag file does")
    storage.faults[:0] = faults
    return storage, kind


def _decompress_file(source: FileBytes, stack: ExitStack) -> tuple[FileBytes, list[str]]:
    """Decompress a file of rosbag2's compression mode `file` into a temporary folder; of a cut one, what is there."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-")))
    target = folder / "bag"
    allowed = min(int(shutil.disk_usage(folder).free * _FREE_SHARE), _ALLOWED_BYTES + _MAX_RATIO * source.size)
    faults = []
    with source.path.open("rb") as stream, target.open("wb") as sink:
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        try:
            while piece := reader.read(2**20):
                allowed -= len(piece)
                if allowed < 0:
                    raise BlockError(
                        f"decompressed, it is more than {_MAX_RATIO} times as long, or needs more than half of the "
                        f"space that is left in {folder.parent}"
                    )
                sink.write(piece)
        except zstandard.ZstdError:
            faults.append(f"{source.name} is damaged, only its beginning could be decompressed")
    file = FileBytes(target, source.path.name.removesuffix(".zstd"))
    stack.callback(file.close)
    return file, faults


def _natural_order(name: str) -> list[tuple[int, str]]:
    """`run_10.mcap` after `run_9.mcap`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _bags_in(folder: Path) -> str:
    """Points at the bags in a folder that is none itself."""
    found = [one.name for one in sorted(folder.iterdir()) if one.suffix == ".bag" or is_regular(one / METADATA)]
    return f"; bags in it: {first_of(found, _BAGS_SHOWN)}" if found else ""


def _bags_beside(path: Path) -> str:
    """Points at the bags beside a path that does not exist."""
    folder = path.parent
    try:
        return _bags_in(folder).replace("bags in it", f"bags in {folder}") if folder.is_dir() else ""
    except OSError:
        return ""


@dataclass(frozen=True)
class BagMetadata:
    """What is used of a bag's metadata.

    Attributes
    ----------
    names
        Of the bag's files, without their folders.
    compressed_messages
        Each message is compressed on its own (rosbag2's compression mode `message`).
    custom_data
        What the recorder noted beside the standard fields.
    """

    names: tuple[str, ...] = ()
    distribution: str | None = None
    message_count: int | None = None
    compressed_messages: bool = False
    custom_data: dict[str, str] = field(default_factory=dict)


def read_metadata(folder: Path) -> tuple[BagMetadata, list[str]]:
    """What the bag's metadata.yaml says, and what is wrong with it."""
    path = folder / METADATA
    if not is_regular(path):
        return BagMetadata(), [f"{METADATA} is missing (the recorder was killed, or it was not copied)"]
    try:
        text = read_bounded_text(path, METADATA, _MAX_YAML_BYTES)
        information = read_yaml(text, most_nodes=MOST_NODES)[0]["rosbag2_bagfile_information"]
        names, count = information["relative_file_paths"], information.get("message_count")
        distribution = information.get("ros_distro")
        if not isinstance(names, list):
            raise TypeError
        faults = []
        if not (count is None or (type(count) is int and 0 <= count <= MAX_TIME_NS)):
            count = None
            faults.append(f"{METADATA} is damaged (message_count)")
        return (
            BagMetadata(
                tuple(name for name in (Path(str(name)).name for name in names) if name),
                printable(str(distribution)) if distribution and distribution != "rosbags" else None,
                count,
                str(information.get("compression_mode") or "").lower() == "message",
                {str(key): str(value) for key, value in (information.get("custom_data") or {}).items()},
            ),
            faults,
        )
    except (UserError, ValueError, KeyError, TypeError, AttributeError):
        return BagMetadata(), [f"{METADATA} is damaged"]


def offer(
    reliable: bool = True,
    transient_local: bool = False,
    depth: int | None = None,
    deadline: QosTime = NEVER,
    lifespan: QosTime = NEVER,
    lease: QosTime = NEVER,
    automatic_liveliness: bool = True,
) -> Qos:
    """What a publisher offers, as far as it decides who can listen; by default the last 10 (transient local: one)."""
    return Qos(
        QosHistory.KEEP_LAST,
        depth or (1 if transient_local else DEPTH),
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if transient_local else QosDurability.VOLATILE,
        deadline,
        lifespan,
        QosLiveliness.AUTOMATIC if automatic_liveliness else QosLiveliness.MANUAL_BY_TOPIC,
        lease,
        avoid_ros_namespace_conventions=False,
    )
