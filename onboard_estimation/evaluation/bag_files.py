"""Which files make up a bag, and a storage for each: a folder of rosbag2, a lone .mcap or .db3, or a ROS 1 .bag."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
import zstandard

from onboard_estimation.errors import UserError
from onboard_estimation.evaluation import bag_mcap, bag_ros1, bag_sqlite
from onboard_estimation.evaluation.bag_blocks import BlockError, Storage, printable
from onboard_estimation.evaluation.bag_mcap import McapStorage
from onboard_estimation.evaluation.bag_ros1 import Ros1Storage
from onboard_estimation.evaluation.bag_sqlite import SqliteStorage

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
METADATA = "metadata.yaml"

_MAX_METADATA_BYTES = 16 * 2**20
_BAG_NAME = re.compile(r".+\.(mcap|db3)(\.zstd)?", re.IGNORECASE)
_MISSING_NAMES_SHOWN = 3
_FREE_SHARE = 0.5


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
    compressed_messages
        Each message is compressed on its own (rosbag2's compression mode `message`).
    custom_data
        What the recorder noted in the metadata beside the standard fields.
    """

    storages: list[Storage]
    format: str
    distribution: str | None = None
    expected_messages: int | None = None
    faults: list[str] = field(default_factory=list)
    compressed_messages: bool = False
    custom_data: dict[str, str] = field(default_factory=dict)


def open_files(path: Path, stack: ExitStack) -> BagFiles:
    """Open all files of the bag at `path`; `stack` closes them.

    Raises
    ------
    UserError
        Missing, no bag, or none of its files can be read.
    """
    try:
        if path.name == METADATA and path.is_file():
            path = path.parent
        if path.is_dir():
            return _open_folder(path, stack)
        if path.is_file():
            return _open_file(path, stack)
        missing = not path.exists()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error
    raise UserError(
        f"{path} does not exist{_bags_beside(path)}" if missing else f"{path} is neither a file nor a folder"
    )


def _open_file(path: Path, stack: ExitStack) -> BagFiles:
    try:
        storage, kind = _open_storage(path, stack)
    except BlockError as error:
        raise UserError(f"{path} is no bag that can be read: {error}") from error
    return BagFiles([storage], kind, storage.distribution, storage.expected_messages)


def _open_folder(folder: Path, stack: ExitStack) -> BagFiles:
    there = sorted((file for file in folder.iterdir() if _BAG_NAME.fullmatch(file.name)), key=_natural_order)
    metadata, faults = _read_metadata(folder)
    named = [folder / name for name in metadata.names]
    files = [file for file in named if file.is_file()] or there
    if not files:
        raise UserError(f"{folder} is no bag: it holds no .mcap or .db3 file{_bags_in(folder)}")
    if missing := [file.name for file in named if not file.is_file()]:
        names = ", ".join(missing[:_MISSING_NAMES_SHOWN]) + (" ..." if len(missing) > _MISSING_NAMES_SHOWN else "")
        faults.append(f"{len(missing)} of {len(named)} files are missing ({names})")
    storages: list[Storage] = []
    kinds: list[str] = []
    for file in files:
        try:
            storage, kind = _open_storage(file, stack)
        except BlockError as error:
            faults.append(f"{file.name} cannot be read: {error}")
        else:
            storages.append(storage)
            kinds.append(kind)
    if not storages:
        raise UserError(f"{folder} cannot be read as a bag: {'; '.join(faults)}")
    return BagFiles(
        storages,
        kinds[0],
        metadata.distribution or next((storage.distribution for storage in storages if storage.distribution), None),
        metadata.message_count,
        faults,
        metadata.compressed_messages,
        metadata.custom_data,
    )


def _open_storage(path: Path, stack: ExitStack) -> tuple[Storage, str]:
    """The storage of a file, and its format.

    Raises
    ------
    BlockError
        The file is of no known kind, or cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(16)
    if not start:
        raise BlockError("it is empty (0 bytes)")
    faults: list[str] = []
    if start.startswith(ZSTD_MAGIC):
        path, faults = _decompress_file(path, stack)
        with path.open("rb") as file:
            start = file.read(16)
    storage: Storage
    if start.startswith(bag_mcap.MAGIC):
        storage, kind = McapStorage(path), "mcap"
    elif start.startswith(bag_sqlite.MAGIC):
        storage, kind = SqliteStorage(path), "sqlite3"
    elif start.startswith(bag_ros1.MAGIC):
        storage, kind = Ros1Storage(path), "ros1"
    else:
        raise BlockError("it starts as no .mcap, .db3 or .bag file does")
    stack.callback(storage.close)
    storage.faults[:0] = faults
    return storage, kind


def _decompress_file(path: Path, stack: ExitStack) -> tuple[Path, list[str]]:
    """Decompress a file of rosbag2's compression mode `file` into a temporary folder; of a cut one, what is there."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bag-")))
    target = folder / path.name.removesuffix(".zstd")
    allowed = int(shutil.disk_usage(folder).free * _FREE_SHARE)
    faults = []
    with path.open("rb") as source, target.open("wb") as sink:
        reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        try:
            while piece := reader.read(2**20):
                allowed -= len(piece)
                if allowed < 0:
                    raise BlockError(f"it needs more than half of the space that is left in {folder.parent}")
                sink.write(piece)
        except zstandard.ZstdError:
            faults.append(f"{path.name} is damaged, only its beginning could be decompressed")
    return target, faults


@dataclass(frozen=True)
class _Metadata:
    names: tuple[str, ...] = ()
    distribution: str | None = None
    message_count: int | None = None
    compressed_messages: bool = False
    custom_data: dict[str, str] = field(default_factory=dict)


def _read_metadata(folder: Path) -> tuple[_Metadata, list[str]]:
    """What the bag's metadata.yaml says, and what is wrong with it. Only names of files are taken from it, no paths."""
    path = folder / METADATA
    if not path.is_file():
        return _Metadata(), [f"{METADATA} is missing (the recorder was killed, or it was not copied)"]
    try:
        if path.stat().st_size > _MAX_METADATA_BYTES:
            raise ValueError
        # The loader in Python: deep nesting makes the one in C crash the process.
        content: Any = yaml.load(path.read_text("utf-8"), Loader=yaml.SafeLoader)
        information = content["rosbag2_bagfile_information"]
        names = tuple(Path(str(name)).name for name in information["relative_file_paths"])
        count = information.get("message_count")
        distribution = information.get("ros_distro")
        return (
            _Metadata(
                tuple(name for name in names if name),
                printable(str(distribution)) if distribution and distribution != "rosbags" else None,
                count if isinstance(count, int) and count >= 0 else None,
                str(information.get("compression_mode") or "").lower() == "message",
                {str(key): str(value) for key, value in (information.get("custom_data") or {}).items()},
            ),
            [],
        )
    except (yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _Metadata(), [f"{METADATA} is damaged"]


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """`run_10.mcap` after `run_9.mcap`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _bags_in(folder: Path) -> str:
    """Points at the bags in a folder that is none itself."""
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.suffix == ".bag" or (entry.is_dir() and (entry / METADATA).is_file()):
            found.append(entry.name)
    return f"; bags in it: {_shown(found)}" if found else ""


def _bags_beside(path: Path) -> str:
    """Points at the bags beside a path that does not exist."""
    folder = path.parent
    try:
        return _bags_in(folder).replace("bags in it", f"bags in {folder}") if folder.is_dir() else ""
    except OSError:
        return ""


def _shown(names: Sequence[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
