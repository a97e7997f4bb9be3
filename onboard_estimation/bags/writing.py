"""Writing rosbag2 bags (MCAP or sqlite3) that `ros2 bag info` and `ros2 bag play` of ROS 2 Jazzy take as their own.

    with BagWriter("walk") as writer:
        writer.write("/imu/body/data_raw", "sensor_msgs/msg/Imu", stamp_ns, imu)

A bag appears at its path when it is complete, never half: it is written beside it and moved there at the end. The same
messages give the same bytes.

A simulation can be repeated, a recording cannot. One that grows lies at its place from the first message on, is handed
to the disk every second (`flush`), and the readers of this package (and `ros2 bag reindex`) take one that was cut off.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
from mcap.writer import CompressionType
from mcap.writer import Writer as McapFile
from numpy.typing import NDArray
from rosbags.interfaces import Connection, MessageDefinitionFormat, Qos
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer
from rosbags.serde import SerdeError

from onboard_estimation.bags.blocks import MAX_TIME_NS
from onboard_estimation.bags.files import LATCHED_TOPICS, offer
from onboard_estimation.bags.message_types import check_standard, jazzy_types, type_hash
from onboard_estimation.base.atomic_file import check_output, new_folder, write_atomically
from onboard_estimation.base.configuration import to_parameter_file
from onboard_estimation.base.errors import UserError, disk_fault
from onboard_estimation.base.measurement import Vector
from onboard_estimation.ros.message_templates import MessageTemplate

FLUSH_S = 1.0
"""A recorder that is killed loses what came since the last flush."""

_METADATA_VERSION: Literal[9] = 9
"""Of rosbag2 in Jazzy and newer (`rosbag2_storage/bag_metadata.hpp`)."""
_PLUGINS = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
_BUFFER_BYTES = 2**20
_NO_HASH = "RIHS01_" + 64 * "0"


class BagWriter:
    """Writes one bag; a context manager. Leaving it with an exception leaves nothing behind, but of one that grows.

    All calls come from the thread that made it (sqlite3 asks for that).

    Parameters
    ----------
    storage
        `mcap` or `sqlite3`.
    custom_data
        Goes into the bag's metadata, where `ros2 bag info` shows it and `Bag.custom_data` finds it again.
    grows
        The bag lies at its place while it is written, and whatever was flushed can be read.
    packed
        Chunks are compressed (zstd), of `mcap`.

    Raises
    ------
    UserError
        There is something at the path already, it cannot be written, or the storage is unknown.
    """

    def __init__(
        self,
        path: str | Path,
        storage: str = "mcap",
        custom_data: Mapping[str, str] | None = None,
        grows: bool = False,
        packed: bool = False,
    ) -> None:
        self.path = Path(path)
        self.message_count = self.size_bytes = 0
        self._connections: dict[str, Connection] = {}
        self._flushed_at = time.monotonic()
        self._grows = grows
        if storage not in _PLUGINS:
            raise UserError(f"storage {storage!r} is unknown; it is one of: {', '.join(_PLUGINS)}")
        check_output(self.path, folder=True)
        if grows and self.path.exists():
            raise UserError(f"{self.path} exists already; name another path, or remove it")
        with ExitStack() as stack, self._guarded():
            place = self.path.absolute()
            if not grows:
                place = stack.enter_context(new_folder(self.path))
                place.rmdir()  # rosbags makes it itself
            self._writer = _Writer(place, version=_METADATA_VERSION, storage_plugin=_PLUGINS[storage])
            if packed:
                self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
            for key, value in (custom_data or {}).items():
                self._writer.set_custom_data(key, value)
            self._writer.open()
            self._stack = stack.pop_all()

    def __enter__(self) -> BagWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if kind is None:
            self.close()
        else:
            self.abort()
            self._stack.__exit__(kind, error, trace)
        return False

    def add_topic(
        self,
        topic: str,
        message_type: str,
        definition: str | None = None,
        type_hash: str | None = None,
        offered: Sequence[Qos] = (),
    ) -> None:
        """Declare a topic, also one that will have no messages; `write` does it by itself for ordinary topics.

        Parameters
        ----------
        definition, type_hash
            Of a type that is no standard one, as a bag holds them; empty where the definition is not known.
        offered
            What its publishers offer; by default the usual.

        Raises
        ------
        ValueError
            The type is no standard one and not defined, or the topic is there with another type.
        UserError
            The disk is full, or fails.
        """
        name = topic if topic.startswith("/") else f"/{topic}"
        if name in self._connections:
            if self._connections[name].msgtype != message_type:
                raise ValueError(f"topic {name} is {self._connections[name].msgtype}, it cannot be {message_type} too")
            return
        if definition is None:
            definition, type_hash = standard_definition(message_type)
        with self._guarded():
            self._connections[name] = self._writer.add_connection(
                name,
                message_type,
                msgdef=definition,
                rihs01=type_hash or _NO_HASH,
                offered_qos_profiles=offered or [offer(transient_local=name in LATCHED_TOPICS)],
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
        check_standard(message_type)
        try:
            data = jazzy_types().serialize_cdr(message, message_type)
        except (SerdeError, struct.error, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"a message on {topic} is no {message_type}: {error}") from error
        self.write_serialized(topic, message_type, stamp_ns, data)

    def write_serialized(
        self,
        topic: str,
        message_type: str,
        stamp_ns: int,
        data: bytes | memoryview,
        published_ns: int | None = None,
    ) -> None:
        """Append a message that is serialised (CDR) already, e.g. as it came from another bag. Raises as `write`."""
        connection = self._connections.get(topic)
        if connection is None or connection.msgtype != message_type:
            self.add_topic(topic, message_type)
            connection = self._connections[topic if topic.startswith("/") else f"/{topic}"]
        if not 0 <= stamp_ns <= MAX_TIME_NS:
            raise ValueError(f"log time {stamp_ns} ns of a message on {topic} is outside 0 to 2^63 - 1")
        with self._guarded():
            self._writer.append(connection, int(stamp_ns), stamp_ns if published_ns is None else published_ns, data)
        self.message_count += 1
        self.size_bytes += len(data)

    def flush(self) -> None:
        """Hand what was written to the disk, once a second at most; UserError where that is full, or fails."""
        now = time.monotonic()
        if now - self._flushed_at >= FLUSH_S:
            with self._guarded():
                self._writer.flush()
            self._flushed_at = now

    def close(self) -> None:
        """Finish the bag and move it to its path."""
        with self._stack, self._guarded():
            self._writer.close()

    def abort(self) -> None:
        """Close what grows as it is, so that it can be read; of any other nothing is left that was not there."""
        with suppress(OSError, sqlite3.Error):  # what is in its buffers does not fit on the disk either
            self._writer.abort()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What the disk refuses, as an error for the user."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            fault = disk_fault(error, self.path)
            if self._grows:
                raise UserError(f"recording to {self.path} stopped: {fault}") from error
            needed = f"{self.message_count} messages of {self.size_bytes / 1e6:.1f} MB, and more was to come"
            said = f"cannot write the bag at {self.path}: {fault} after {needed}; nothing is left of it"
            raise UserError(said) from error


class _Mcap:
    """Storage of `rosbags`' writer on the `mcap` package: with publication times, checksums, and flushes."""

    def __init__(self, path: Path, compression: CompressionMode) -> None:
        self.path = path / f"{path.name}.mcap"
        self._file = self.path.open("xb", _BUFFER_BYTES)
        kind = CompressionType.ZSTD if compression == CompressionMode.STORAGE else CompressionType.NONE
        self._mcap = McapFile(self._file, compression=kind)
        self._mcap.start("ros2", "onboard_estimation")
        self._schemas: dict[str, int] = {}
        self._channels: dict[int, int] = {}

    def add_msgtype(self, connection: Connection) -> None:
        encoding = "ros2msg" if connection.msgdef.format == MessageDefinitionFormat.MSG else "ros2idl"
        self._schemas[connection.msgtype] = self._mcap.register_schema(
            connection.msgtype, encoding, connection.msgdef.data.encode()
        )

    def add_connection(self, connection: Connection, offered_qos_profiles: str) -> None:
        about = {"offered_qos_profiles": offered_qos_profiles, "topic_type_hash": connection.digest}
        schema = self._schemas[connection.msgtype]
        self._channels[connection.id] = self._mcap.register_channel(connection.topic, "cdr", schema, about)

    def append(self, connection: Connection, log_time_ns: int, published_ns: int, data: bytes | memoryview) -> None:
        self._mcap.add_message(self._channels[connection.id], log_time_ns, bytes(data), published_ns)

    def flush(self) -> None:
        self._mcap.flush()
        os.fdatasync(self._file.fileno())

    def close(self, version: int, metadata: str) -> None:
        self._mcap.add_metadata("rosbag2", {"serialized_metadata": metadata})
        self._mcap.finish()
        self._file.close()

    def abort(self) -> None:
        self._file.close()


class _Sqlite(Sqlite3Writer):
    """rosbags' storage, with commits while it grows; a journal in the folder keeps a cut one whole."""

    def append(self, connection: Connection, log_time_ns: int, _: int, data: bytes | memoryview) -> None:
        self.write(connection, log_time_ns, data)

    def flush(self) -> None:
        self.conn.commit()

    def abort(self) -> None:
        with closing(self.conn):
            self.conn.commit()


class _Writer(Writer):
    """rosbags' writer (folder, metadata, counts) on the storages above."""

    STORAGE_PLUGINS: Mapping[StoragePlugin, type[Any]] = {StoragePlugin.MCAP: _Mcap, StoragePlugin.SQLITE3: _Sqlite}
    storage: Any

    def append(self, connection: Connection, log_time_ns: int, published_ns: int, data: bytes | memoryview) -> None:
        """As `write`, with the time of publication, and without a search through all connections."""
        self.storage.append(connection, log_time_ns, published_ns, data)
        self.counts[connection.id] += 1
        self.min_timestamp = min(log_time_ns, self.min_timestamp)
        self.max_timestamp = max(log_time_ns, self.max_timestamp)

    def flush(self) -> None:
        """Hand all that was written to the disk."""
        self.storage.flush()


def standard_definition(message_type: str) -> tuple[str, str]:
    """Definition, with all types in it, and hash of a standard type; ValueError where it is none."""
    check_standard(message_type)
    return jazzy_types().generate_msgdef(message_type, ros_version=2)[0], type_hash(message_type)


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


def write_configuration(bag: Path, robot: str, configuration: Any) -> Path:
    """Write a robot's configuration into the folder of a bag; the file."""
    file = bag / f"{robot}.yaml"
    write_atomically(file, to_parameter_file(configuration).encode(), f"configuration {file}")
    return file
