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


class Event(NamedTuple):
    """What happened to an endpoint since the last look: totals and their changes."""

    kind: str  # "incompatible_qos", "deadline_missed", "liveliness_lost", "liveliness_changed", "matched", "lost"
    total: int
    change: int
    current: int = 0
    current_change: int = 0
    policy: str = ""


class _Endpoint:
    """What writers and readers share. `condition` is what a waitset waits on."""

    _events: tuple[tuple[int, str, Any, Any], ...] = ()  # (status bit, kind, function, structure)
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
        dds.set_status_mask(entity, sum(bit for bit, *_ in self._events))

    @property
    def events(self) -> EventSource:
        """Attach it to a waitset to wait for events of this endpoint (see `take_events`)."""
        return EventSource(self)

    def take_events(self) -> list[Event]:
        """What happened since the last call."""
        if self.closed:
            return []
        bits = ct.c_uint32()
        mask = sum(bit for bit, *_ in self._events)
        if dds.take_status(self.entity, ct.byref(bits), mask) < 0 or not bits.value:
            return []
        found = []
        for bit, kind, function, structure in self._events:
            if bits.value & bit:
                status = structure()
                if function(self.entity, ct.byref(status)) >= 0:
                    found.append(self._event(kind, status))
        return found

    def _event(self, kind: str, status: Any) -> Event:
        if kind == "incompatible_qos":
            policy = POLICIES.get(status.policy, f"policy {status.policy}")
            self._incompatible_total, self._incompatible_policy = status.total, policy
            return Event(kind, status.total, status.change, policy=policy)
        if kind == "liveliness_changed":
            return Event(kind, status.alive, status.alive_change, status.not_alive, status.not_alive_change)
        if kind == "matched":
            return Event(kind, status.total, status.change, status.current, status.current_change)
        return Event(kind, status.total, status.change)

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


class EventSource:
    """An endpoint's events, as something a waitset can wait on."""

    def __init__(self, endpoint: _Endpoint) -> None:
        self.endpoint = endpoint
        self.condition = endpoint.entity


class Writer(_Endpoint):
    """Publishes serialized messages on one topic."""

    _events = (
        (dds.OFFERED_INCOMPATIBLE_QOS, "incompatible_qos", dds.offered_incompatible_qos, dds.IncompatibleStatus),
        (dds.OFFERED_DEADLINE_MISSED, "deadline_missed", dds.offered_deadline_missed, dds.DeadlineStatus),
        (dds.LIVELINESS_LOST, "liveliness_lost", dds.liveliness_lost, dds.CountStatus),
        (dds.PUBLICATION_MATCHED, "matched", dds.publication_matched, dds.MatchedStatus),
    )
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

    def assert_liveliness(self) -> None:
        """Tell readers that the publisher lives, where liveliness is by topic."""
        dds.checked(dds.assert_liveliness(self.entity), f"asserting liveliness on {self.topic}")

    def matched_gids(self) -> set[bytes]:
        """GIDs of the readers that get what is written now."""
        return _matched_gids(self.entity, dds.matched_subscriptions, ddspy_get_matched_subscription_data)


class Reader(_Endpoint):
    """Receives serialized messages of one topic."""

    _events = (
        (dds.REQUESTED_INCOMPATIBLE_QOS, "incompatible_qos", dds.requested_incompatible_qos, dds.IncompatibleStatus),
        (dds.REQUESTED_DEADLINE_MISSED, "deadline_missed", dds.requested_deadline_missed, dds.DeadlineStatus),
        (dds.LIVELINESS_CHANGED, "liveliness_changed", dds.liveliness_changed, dds.LivelinessStatus),
        (dds.SUBSCRIPTION_MATCHED, "matched", dds.subscription_matched, dds.MatchedStatus),
        (dds.SAMPLE_LOST, "lost", dds.sample_lost, dds.CountStatus),
    )
    _matched = staticmethod(dds.matched_publications)
    _incompatible = staticmethod(dds.requested_incompatible_qos)

    def __init__(self, entity: int, topic: str, qos: Qos, on_close: Callable[[Any], None]) -> None:
        super().__init__(entity, topic, qos, on_close)
        self.condition = dds.checked(dds.create_readcondition(entity, dds.ANY_STATE), f"waiting on {topic}")
        self._writers: dict[int, bytes] = {}

    def take(self, limit: int = 64) -> list[Sample]:
        """The oldest samples that were not taken yet, at most `limit`; empty where there are none."""
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
    gids = (data(entity, handle, _endpoint_key, _no_qos) for handle in handles[: max(count, 0)])
    return {gid for gid in gids if isinstance(gid, bytes)}
