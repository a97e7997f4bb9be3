"""Writing rosbag2 bags (MCAP or sqlite3) that `ros2 bag info` and `ros2 bag play` of ROS 2 Jazzy take as their own.

    with BagWriter("walk") as writer:
        writer.write("/imu/body/data_raw", "sensor_msgs/msg/Imu", stamp_ns, imu)

A bag appears at its path when it is complete, never half: it is written beside it and moved there at the end. The same
messages give the same bytes.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.serde import SerdeError

from onboard_estimation.atomic_file import write_atomically
from onboard_estimation.configuration import to_parameter_file
from onboard_estimation.errors import UserError, disk_fault
from onboard_estimation.evaluation.bag_blocks import MAX_TIME_NS
from onboard_estimation.evaluation.bag_metadata import METADATA
from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.evaluation.message_factory import new, type_hash
from onboard_estimation.measurement import Vector
from onboard_estimation.ros.message_templates import MessageTemplate

__all__ = ["BagWriter", "new", "serialise_alike"]

Storage = Literal["mcap", "sqlite3"]

METADATA_VERSION: Literal[9] = 9
"""Of rosbag2 in Jazzy and newer (`rosbag2_storage/bag_metadata.hpp`)."""

LATCHED_TOPICS = frozenset({"/tf_static", "/robot_description"})
"""Topics that ROS publishes for late subscribers (transient local); others are marked with `add_topic`."""

_PLUGINS = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
_BAG_SUFFIXES = {".mcap", ".db3", ".zstd", ".db3-wal", ".db3-shm"}
_DEPTH = 10


class BagWriter:
    """Writes one bag; a context manager. Leaving it with an exception leaves nothing behind.

    `custom_data` goes into the bag's metadata, where `ros2 bag info` shows it and `Bag.custom_data` finds it again.

    Raises
    ------
    UserError
        There is something at the path already (and `overwrite` is false, or it is no bag), or it cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        storage: Storage = "mcap",
        overwrite: bool = False,
        custom_data: Mapping[str, str] | None = None,
    ) -> None:
        self.path = Path(path)
        self.message_count = 0
        self._size_bytes = 0
        self._overwrite = overwrite
        self._connections: dict[str, Connection] = {}
        if storage not in _PLUGINS:
            raise UserError(f"storage {storage!r} is unknown; it is one of: {', '.join(_PLUGINS)}")
        self._refuse_to_overwrite()
        try:
            parent = self.path.absolute().parent
            parent.mkdir(parents=True, exist_ok=True)
            self._workshop = Path(tempfile.mkdtemp(prefix=".bag-", dir=parent))
        except OSError as error:
            raise UserError(f"cannot write a bag at {self.path}: {disk_fault(error, self.path)}") from error
        self._writer = Writer(
            self._workshop / self.path.absolute().name, version=METADATA_VERSION, storage_plugin=_PLUGINS[storage]
        )
        for key, value in (custom_data or {}).items():
            self._writer.set_custom_data(key, value)
        try:
            with self._guarded():
                self._writer.open()
        except UserError:
            self.abort()
            raise

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if kind is None:
            self.close()
        else:
            self.abort()
        return False

    def add_topic(self, topic: str, message_type: str, transient_local: bool = False) -> None:
        """Declare a topic, also one that will have no messages; `write` does it by itself for ordinary topics.

        Raises
        ------
        ValueError
            The type is no standard one, or the topic is there with another type.
        UserError
            The disk is full, or fails.
        """
        name = topic if topic.startswith("/") else f"/{topic}"
        if name in self._connections:
            if self._connections[name].msgtype != message_type:
                raise ValueError(f"topic {name} is {self._connections[name].msgtype}, it cannot be {message_type} too")
            return
        _check_type(message_type)
        definition, _ = jazzy_types().generate_msgdef(message_type, ros_version=2)
        with self._guarded():
            self._connections[name] = self._writer.add_connection(
                name,
                message_type,
                msgdef=definition,
                rihs01=type_hash(message_type),
                offered_qos_profiles=[_offered_qos(transient_local or name in LATCHED_TOPICS)],
            )

    def write(self, topic: str, message_type: str, stamp_ns: int, message: Any) -> None:
        """Append a message (of `new`); `stamp_ns` is its log time, nanoseconds since the epoch.

        Raises
        ------
        ValueError
            The message is not of the type, or the time is none.
        UserError
            The disk is full, or fails.
        """
        _check_type(message_type)
        try:
            data = jazzy_types().serialize_cdr(message, message_type)
        except (SerdeError, struct.error, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"a message on {topic} is no {message_type}: {error}") from error
        self.write_serialized(topic, message_type, stamp_ns, data)

    def write_serialized(self, topic: str, message_type: str, stamp_ns: int, data: bytes | memoryview) -> None:
        """Append a message that is serialised (CDR) already, e.g. as it came from another bag. Raises as `write`."""
        connection = self._connections.get(topic)
        if connection is None or connection.msgtype != message_type:
            self.add_topic(topic, message_type)
            connection = self._connections[topic if topic.startswith("/") else f"/{topic}"]
        if not 0 <= stamp_ns <= MAX_TIME_NS:
            raise ValueError(f"log time {stamp_ns} ns of a message on {topic} is outside 0 to 2^63 - 1")
        with self._guarded():
            self._writer.write(connection, int(stamp_ns), data)
        self.message_count += 1
        self._size_bytes += len(data)

    def close(self) -> None:
        """Finish the bag and move it to its path."""
        try:
            with self._guarded():
                self._writer.close()
                self._refuse_to_overwrite()
                if self.path.is_dir():
                    shutil.rmtree(self.path)
                self._writer.path.replace(self.path)
        finally:
            shutil.rmtree(self._workshop, ignore_errors=True)

    def abort(self) -> None:
        """Give up: nothing is left at the path that was not there before."""
        with suppress(OSError, sqlite3.Error):  # what is in its buffers does not fit on the disk either
            self._writer.abort()
        shutil.rmtree(self._workshop, ignore_errors=True)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What the disk refuses, as an error for the user."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            needed = f"{self.message_count} messages of {self._size_bytes / 1e6:.1f} MB, and more was to come"
            fault = f"{disk_fault(error, self.path)} after {needed}; nothing is left of it"
            raise UserError(f"cannot write the bag at {self.path}: {fault}") from error

    def _refuse_to_overwrite(self) -> None:
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return
        if not self._overwrite:
            raise UserError(f"{self.path} exists already; name another path, or remove it")
        if not _is_bag_folder(self.path):
            raise UserError(f"{self.path} is not a bag and is not overwritten; name another path")


def _check_type(message_type: str) -> None:
    if message_type not in jazzy_types().fielddefs:
        raise ValueError(f"{message_type!r} is no standard type of ROS 2 Jazzy")


def _is_bag_folder(path: Path) -> bool:
    """Whether a folder holds the files of a bag and nothing else, so that it may be replaced."""
    return path.is_dir() and all(
        entry.is_file() and (entry.name == METADATA or entry.suffix in _BAG_SUFFIXES) for entry in path.iterdir()
    )


def serialise_alike(
    message_type: str,
    make: Callable[[int, Vector], Any],
    stamps_ns: NDArray[np.int64],
    values: NDArray[np.float64],
) -> NDArray[np.uint8]:
    """CDR of K messages, (K, bytes), that differ in stamps (K,) and numbers (K, m) only, see `MessageTemplate`.

    A column that is NaN throughout is not measured, and `make` gets NaN for it.
    """

    def serialize(message: Any) -> bytes:
        return bytes(jazzy_types().serialize_cdr(message, message_type))

    measured = np.asarray((~np.isnan(values)).any(axis=0), dtype=np.bool_) if len(values) else None
    return MessageTemplate(make, serialize, values.shape[1], measured).messages(stamps_ns, values)


def _offered_qos(transient_local: bool) -> Qos:
    """What a publisher of the topic offers: reliable, the last 10 (transient local: the last 1)."""
    unspecified = QosTime(0, 0)
    return Qos(
        QosHistory.KEEP_LAST,
        1 if transient_local else _DEPTH,
        QosReliability.RELIABLE,
        QosDurability.TRANSIENT_LOCAL if transient_local else QosDurability.VOLATILE,
        unspecified,
        unspecified,
        QosLiveliness.AUTOMATIC,
        unspecified,
        avoid_ros_namespace_conventions=False,
    )


def configuration_in(bag: Path, robot: str) -> Path | None:
    """The robot's parameter file in the folder of a bag; None where there is none.

    A converter writes `<robot>.yaml` there; all that read bags take it in the place of the robot's default file. A
    parameter file that the user names goes before it.
    """
    file = bag / f"{robot}.yaml"
    return file if file.is_file() else None


def write_configuration(bag: Path, robot: str, configuration: Any) -> Path:
    """Write a robot's configuration into the folder of a bag; the file."""
    file = bag / f"{robot}.yaml"
    write_atomically(file, to_parameter_file(configuration).encode(), f"configuration {file}")
    return file
