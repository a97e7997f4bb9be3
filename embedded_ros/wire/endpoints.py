"""Writers and readers of serialized messages."""

from __future__ import annotations

import ctypes as ct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from embedded_ros.wire import dds
from embedded_ros.wire.dds import (
    ddspy_get_matched_publication_data,
    ddspy_get_matched_subscription_data,
    ddspy_take,
    ddspy_write,
)
from embedded_ros.wire.interruption import uninterrupted
from embedded_ros.wire.qos import POLICIES, Qos

_now_ns = time.time_ns
_PADDED_HEADERS = tuple(bytes([0, 1, 0, padding]) for padding in range(4))
NO_GID = bytes(16)


class Sample(NamedTuple):
    """One message as it came: CDR with its header, when it was written and taken (ns since 1970), and by whom."""

    payload: bytes
    source_stamp_ns: int
    received_stamp_ns: int
    writer_gid: bytes


class _Endpoint:
    """What writers and readers share. `condition` is what a waitset waits on."""

    _matched: Any
    _incompatible: Any

    def __init__(self, entity: int, topic: str, qos: Qos, on_close: Callable[[Any], None]) -> None:
        self.entity = entity
        self.condition = entity
        self.topic = topic
        self.qos = qos
        self.gid = dds.guid(entity)
        self.closed = False
        self._on_close = on_close
        self._incompatible_total, self._incompatible_policy = 0, ""

    def incompatible_qos(self) -> tuple[int, str]:
        """(endpoints refused since the start for their quality of service, policy that was last at fault)."""
        if not self.closed:
            status = dds.IncompatibleStatus()
            if self._incompatible(self.entity, ct.byref(status)) >= 0 and status.total:
                self._incompatible_total = status.total
                self._incompatible_policy = POLICIES.get(status.policy, f"policy {status.policy}")
        return self._incompatible_total, self._incompatible_policy

    def matched(self) -> int:
        """Endpoints on the other side, now."""
        return 0 if self.closed else max(0, self._matched(self.entity, None, 0))

    def close(self) -> None:
        """Take the endpoint off the graph; once is enough, twice is allowed."""
        if not self.closed:
            self.closed = True
            self._on_close(self)
            dds.delete(self.entity)


class Writer(_Endpoint):
    """Publishes serialized messages on one topic."""

    _matched = staticmethod(dds.matched_subscriptions)
    _incompatible = staticmethod(dds.offered_incompatible_qos)

    def write(self, payload: bytes) -> bool:
        """Publish CDR with its header. False where reliable readers did not keep up for 100 ms: nothing was sent then.

        Raises ValueError for data that is not of the topic's type, DdsError on a closed writer.
        """
        if len(payload) & 3:
            padding = -len(payload) & 3
            payload = payload[:3] + bytes([padding]) + payload[4:] + bytes(padding)
        code = ddspy_write(self.entity, payload)
        if code == 0:
            return True
        if code == dds.TIMEOUT:
            return False
        if code == -3 and not self.closed:
            raise ValueError(f"{len(payload)} bytes that are no message of {self.topic}'s type")
        raise dds.DdsError(code, f"writing to {self.topic}")

    def wait_for_acknowledgements(self, timeout_s: float) -> bool:
        """Wait until all reliable readers have everything that was written; False if the time was not enough."""
        timeout_ns = dds.INFINITE if timeout_s < 0 else int(timeout_s * 1e9)
        code = dds.wait_for_acks(self.entity, timeout_ns)
        if code == dds.TIMEOUT:
            return False
        dds.checked(code, f"waiting for readers of {self.topic}")
        return True

    def matched_gids(self) -> set[bytes]:
        """GIDs of the readers that get what is written now."""
        return _matched_gids(self.entity, dds.matched_subscriptions, ddspy_get_matched_subscription_data)


class Reader(_Endpoint):
    """Receives serialized messages of one topic."""

    _matched = staticmethod(dds.matched_publications)
    _incompatible = staticmethod(dds.requested_incompatible_qos)

    def __init__(self, entity: int, topic: str, qos: Qos, on_close: Callable[[Any], None]) -> None:
        super().__init__(entity, topic, qos, on_close)
        self.condition = dds.checked(dds.create_readcondition(entity, dds.ANY_STATE), f"waiting on {topic}")
        self._writers: dict[int, bytes] = {}

    def take(self, limit: int = 64) -> list[Sample]:
        """The oldest samples that were not taken yet, at most `limit`; empty where there are none."""
        with uninterrupted:
            taken = ddspy_take(self.entity, 127, limit)
        if type(taken) is int:
            raise dds.DdsError(taken, f"reading {self.topic}")
        if not taken:
            return []
        now = _now_ns()
        writers = self._writers
        return [
            Sample(
                payload,
                info.source_timestamp,
                now,
                writers.get(info.publication_handle) or self._writer_gid(info.publication_handle),
            )
            for payload, info in taken
            if info.valid_data
        ]

    def _writer_gid(self, handle: int) -> bytes:
        """GID of a writer, asked for once; zeros where it has gone since."""
        with uninterrupted:
            gid = ddspy_get_matched_publication_data(self.entity, handle, _endpoint_key, _no_qos)
        if not isinstance(gid, bytes):
            return NO_GID
        if len(self._writers) > 1000:
            self._writers.clear()
        self._writers[handle] = gid
        return gid

    def matched_gids(self) -> set[bytes]:
        """GIDs of the writers whose samples come here now."""
        return _matched_gids(self.entity, dds.matched_publications, ddspy_get_matched_publication_data)


def _endpoint_key(key: bytes, *_: Any) -> bytes:
    return key


def _no_qos(_: Any) -> None:
    return None


def _matched_gids(entity: int, list_handles: Any, data: Any) -> set[bytes]:
    count = list_handles(entity, None, 0)
    if count <= 0:
        return set()
    handles = (ct.c_uint64 * count)()
    count = min(count, list_handles(entity, handles, count))
    with uninterrupted:
        gids = [data(entity, handle, _endpoint_key, _no_qos) for handle in handles[: max(count, 0)]]
    return {gid for gid in gids if isinstance(gid, bytes)}
