"""A bag that grows while it is recorded: what was written can be read, whatever happens to the recorder.

`BagWriter` shows a bag when it is complete, because a simulation can be repeated. A recording cannot: here the file
lies at its place from the first message on, is handed to the disk every second, and the readers of this package (and
`ros2 bag reindex`) take one that was cut off.
"""

from __future__ import annotations

import io
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from mcap.writer import CompressionType
from mcap.writer import Writer as McapFile
from rosbags.interfaces import Connection, MessageDefinitionFormat
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.storage_sqlite3 import Sqlite3Writer
from rosbags.typesys import get_types_from_msg

from onboard_estimation.errors import UserError, disk_fault
from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.evaluation.bag_writing import METADATA_VERSION
from onboard_estimation.evaluation.message_factory import type_hash as hash_of
from onboard_estimation.live.qos import Offer, to_rosbags

FLUSH_S = 1.0
"""A recorder that is killed loses what came since the last flush."""

_PLUGINS = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
_BUFFER_BYTES = 2**20
_TYPE = re.compile(r"([a-z][a-z0-9_]*)/msg/([A-Za-z]\w*)", re.ASCII)
_SEPARATOR = "=" * 80
_MOST_TYPES = 200
_NO_HASH = "RIHS01_" + 64 * "0"


class GrowingBag:
    """One recording under way. All calls come from the thread that made it (sqlite3 asks for that).

    Raises
    ------
    UserError
        There is something at the path already, it cannot be written, or the storage is unknown.
    """

    def __init__(self, path: Path, storage: str = "mcap", custom_data: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.message_count = 0
        self.size_bytes = 0
        self._flushed_at = time.monotonic()
        if storage not in _PLUGINS:
            raise UserError(f"storage {storage!r} is unknown; it is one of: {', '.join(_PLUGINS)}")
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} exists already and is not overwritten; name another path, or remove it")
        self._writer = _Writer(path.absolute(), version=METADATA_VERSION, storage_plugin=_PLUGINS[storage])
        for key, value in (custom_data or {}).items():
            self._writer.set_custom_data(key, value)
        try:
            self._writer.open()
        except (OSError, sqlite3.Error) as error:
            raise UserError(f"cannot write a bag at {path}: {disk_fault(error, path)}") from error

    def add_topic(
        self, topic: str, message_type: str, definition: str, type_hash: str | None, offers: Sequence[Offer]
    ) -> Connection:
        """Declare a topic before its first message; `definition` as a bag holds it, empty where it is not known.

        Raises
        ------
        UserError
            The disk is full, or fails.
        """
        with self._disk():
            return self._writer.add_connection(
                topic,
                message_type,
                msgdef=definition,
                rihs01=type_hash or _NO_HASH,
                offered_qos_profiles=[to_rosbags(offer) for offer in offers],
            )

    def write(self, connection: Connection, log_time_ns: int, publish_time_ns: int, data: bytes) -> None:
        """Append a serialised message; times are nanoseconds since the epoch. Raises as `add_topic` does."""
        with self._disk():
            self._writer.append(connection, log_time_ns, publish_time_ns, data)
        self.message_count += 1
        self.size_bytes += len(data)

    def flush(self, always: bool = False) -> None:
        """Hand what was written to the disk, once a second at most. Raises as `add_topic` does."""
        now = time.monotonic()
        if not always and now - self._flushed_at < FLUSH_S:
            return
        with self._disk():
            self._writer.flush()
        self._flushed_at = time.monotonic()

    def close(self) -> None:
        """Write index and metadata. Raises as `add_topic` does."""
        with self._disk():
            self._writer.close()

    def abandon(self) -> None:
        """Close the file as it is, after a failure; the bag can be read up to there."""
        self._writer.abort()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"recording to {self.path} stopped after {self.message_count} messages: "
                f"{disk_fault(error, self.path)}; what was written before can be read"
            ) from error


class _Mcap:
    """Storage of `rosbags`' writer on the `mcap` package: with publication times, checksums, and flushes."""

    def __init__(self, path: Path, compression: Any) -> None:
        self.path = path / f"{path.name}.mcap"
        self._disk = io.FileIO(self.path, "x")
        self._file = io.BufferedWriter(self._disk, _BUFFER_BYTES)
        self._mcap = McapFile(self._file, compression=CompressionType.NONE)
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

    def append(self, connection: Connection, log_time_ns: int, publish_time_ns: int, data: bytes) -> None:
        self._mcap.add_message(self._channels[connection.id], log_time_ns, data, publish_time_ns)

    def write(self, connection: Connection, timestamp: int, data: bytes | memoryview) -> None:
        self.append(connection, timestamp, timestamp, bytes(data))

    def flush(self) -> None:
        self._mcap.flush()
        os.fdatasync(self._file.fileno())

    def close(self, version: int, metadata: str) -> None:
        self._mcap.add_metadata("rosbag2", {"serialized_metadata": metadata})
        self._mcap.finish()
        self._file.close()

    def abort(self) -> None:
        try:
            self._file.close()
        except OSError:  # its buffer does not fit on the disk
            self._disk.close()


class _Sqlite(Sqlite3Writer):
    """rosbags' storage, with commits while it grows; a journal in the folder keeps a cut one whole."""

    def append(self, connection: Connection, log_time_ns: int, publish_time_ns: int, data: bytes) -> None:
        self.write(connection, log_time_ns, data)

    def flush(self) -> None:
        self.conn.commit()

    def abort(self) -> None:
        try:
            self.conn.commit()
        except sqlite3.Error:
            self.conn.rollback()
        finally:
            self.conn.close()


class _Writer(Writer):
    """rosbags' writer (folder, metadata, counts) on the storages above."""

    STORAGE_PLUGINS: Mapping[StoragePlugin, type[Any]] = {StoragePlugin.MCAP: _Mcap, StoragePlugin.SQLITE3: _Sqlite}

    def append(self, connection: Connection, log_time_ns: int, publish_time_ns: int, data: bytes) -> None:
        """As `write`, with the time of publication, and without a search through all connections."""
        storage: Any = self.storage
        storage.append(connection, log_time_ns, publish_time_ns, data)
        self.counts[connection.id] += 1
        self.min_timestamp = min(log_time_ns, self.min_timestamp)
        self.max_timestamp = max(log_time_ns, self.max_timestamp)

    def flush(self) -> None:
        """Hand all that was written to the disk."""
        storage: Any = self.storage
        storage.flush()


@cache
def definition(message_type: str) -> str:
    """The text of the type and of all types in it; empty where neither the standard types nor ament have it."""
    if message_type in jazzy_types().fielddefs:
        return jazzy_types().generate_msgdef(message_type, ros_version=2)[0]
    texts: dict[str, str] = {}
    waiting = [message_type]
    while waiting:
        name = waiting.pop(0)
        if name in texts:
            continue
        text = _installed(name)
        if text is None or len(texts) >= _MOST_TYPES:
            return ""
        texts[name] = text
        waiting += _parts(name, text)
    own = texts.pop(message_type)
    short = {name: name.replace("/msg/", "/") for name in texts}
    return "\n".join([own, *(f"{_SEPARATOR}\nMSG: {short[name]}\n{text}" for name, text in texts.items())])


def standard_type_hash(message_type: str) -> str | None:
    """Hash of a standard type; None of another, which only its publishers can tell."""
    return hash_of(message_type) if message_type in jazzy_types().fielddefs else None


def _installed(message_type: str) -> str | None:
    """The `.msg` file of a package that ament knows."""
    parts = _TYPE.fullmatch(message_type)
    if parts is None:
        return None
    try:
        from ament_index_python.packages import get_package_share_directory

        file = Path(get_package_share_directory(parts[1])) / "msg" / f"{parts[2]}.msg"
        return file.read_text("utf-8")
    except (ImportError, LookupError, OSError, UnicodeDecodeError):
        return None


def _parts(name: str, text: str) -> list[str]:
    """Names of the types of a definition's fields."""
    try:
        found = get_types_from_msg(text, name)
    except Exception:  # whatever the parser makes of a text that it does not understand
        return []
    return sorted(set(re.findall(r"[a-z][a-z0-9_]*/msg/[A-Za-z]\w*", repr(found[name][1]))))
