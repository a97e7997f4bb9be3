"""Who is there: nodes, topics, services and their endpoints, as the participants of a domain announce them.

CycloneDDS's built-in topics tell of participants and endpoints; `ros_discovery_info` tells which node an endpoint
belongs to. One thread follows both, so that neither piles up in a process that never asks. Nothing here is trusted.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

from embedded_ros.messages import MessageSupport
from embedded_ros.wire import dds, names
from embedded_ros.wire.endpoints import Sample
from embedded_ros.wire.qos import Qos, read_qos, user_data_value
from embedded_ros.wire.waitset import Guard

_log = logging.getLogger(__name__)
_ALIVE = 16


@dataclass(frozen=True)
class EndpointInfo:
    """One endpoint of a topic. `node` is empty as long as its participant has not told whose it is."""

    node: str
    namespace: str
    type_name: str  # "sensor_msgs/msg/Imu"
    type_hash: str
    qos: Qos
    gid: bytes
    is_writer: bool
    topic: str  # full ROS name
    kind: str  # "topic", "request", "reply"; "" for a DDS topic that is not ROS's


@dataclass(frozen=True)
class _Endpoint:
    topic: str
    kind: str
    type_name: str
    type_hash: str
    qos: Qos
    participant: bytes
    is_writer: bool


class Graph:
    """The domain as this process sees it. All queries are safe in any thread."""

    def __init__(self, participant: Any, info: MessageSupport, info_reader: Any) -> None:
        self._info = info
        self._info_reader = info_reader
        self._lock = threading.Lock()
        self._endpoints: dict[bytes, _Endpoint] = {}
        self._participants: dict[bytes, list[tuple[str, str, frozenset[bytes]]]] = {}  # nodes with their GIDs
        self._alive: set[bytes] = set()
        self.changes = 0
        self.change = Guard(participant.entity)  # ready after each change; attach it to a waitset
        readers = []
        for topic in (dds.BUILTIN_PARTICIPANT, dds.BUILTIN_PUBLICATION, dds.BUILTIN_SUBSCRIPTION):
            readers.append(dds.checked(dds.create_reader(participant.entity, topic, None, None), "following the graph"))
        self._participant_reader, *self._endpoint_readers = readers
        self._wake = Guard(participant.entity)
        self._waitset = dds.checked(dds.create_waitset(participant.entity), "following the graph")
        conditions = [dds.create_readcondition(reader, dds.ANY_STATE) for reader in readers]
        for condition in (*conditions, info_reader.condition, self._wake.condition):
            dds.checked(dds.waitset_attach(self._waitset, condition, 0), "following the graph")
        self._closing = False
        self._update()
        self._thread = threading.Thread(target=self._follow, name="graph", daemon=True)
        self._thread.start()

    # Queries

    def node_names(self) -> list[tuple[str, str]]:
        """(name, namespace) of all nodes, one entry per node even if names repeat."""
        with self._lock:
            return sorted((name, space) for nodes in self._participants.values() for space, name, _ in nodes)

    def topics(self) -> dict[str, list[str]]:
        """Types of each topic."""
        return self._types("topic")

    def services(self) -> dict[str, list[str]]:
        """Types of each service that has a server or a client."""
        return self._types("service")

    def publishers(self, topic: str) -> list[EndpointInfo]:
        """Endpoints that write a topic."""
        return self._on_topic(topic, is_writer=True)

    def subscribers(self, topic: str) -> list[EndpointInfo]:
        """Endpoints that read a topic."""
        return self._on_topic(topic, is_writer=False)

    def by_node(self, namespace: str, name: str) -> list[EndpointInfo]:
        """All endpoints of a node, also those of its services. Raises LookupError if there is no such node."""
        with self._lock:
            known = [node for nodes in self._participants.values() for node in nodes if node[:2] == (namespace, name)]
            if not known:
                raise LookupError(f"no node {namespace.rstrip('/')}/{name}")
            gids = {gid for node in known for gid in node[2]}
            return [
                self._described(gid, self._endpoints[gid], (name, namespace)) for gid in gids if gid in self._endpoints
            ]

    def names_by_node(self, namespace: str, name: str, kind: str, is_writer: bool) -> dict[str, list[str]]:
        """Topics or services of a node with their types: of its endpoints of one kind that write, or that read."""
        return _typed(e for e in self.by_node(namespace, name) if e.kind == kind and e.is_writer == is_writer)

    def _types(self, kind: str) -> dict[str, list[str]]:
        with self._lock:
            found: dict[str, set[str]] = {}
            for endpoint in self._endpoints.values():
                if kind == "topic" and endpoint.kind == "topic":
                    found.setdefault(endpoint.topic, set()).add(endpoint.type_name)
                elif kind == "service" and endpoint.kind in ("request", "reply"):
                    found.setdefault(endpoint.topic, set()).add(names.service_type(endpoint.type_name))
        return {topic: sorted(types) for topic, types in sorted(found.items())}

    def _on_topic(self, topic: str, is_writer: bool) -> list[EndpointInfo]:
        with self._lock:
            owners = {
                gid: (name, space)
                for nodes in self._participants.values()
                for space, name, gids in nodes
                for gid in gids
            }
            return [
                self._described(gid, endpoint, owners.get(gid, ("", "")))
                for gid, endpoint in self._endpoints.items()
                if endpoint.topic == topic and endpoint.kind == "topic" and endpoint.is_writer == is_writer
            ]

    def _described(self, gid: bytes, endpoint: _Endpoint, owner: tuple[str, str]) -> EndpointInfo:
        return EndpointInfo(
            *owner,
            endpoint.type_name,
            endpoint.type_hash,
            endpoint.qos,
            gid,
            endpoint.is_writer,
            endpoint.topic,
            endpoint.kind,
        )

    # Following

    def _follow(self) -> None:
        while not self._closing:
            dds.waitset_wait(self._waitset, None, 0, dds.INFINITE)
            self._wake.take()
            if not self._closing:
                try:
                    self._update()
                except Exception:
                    _log.exception("the graph is not followed any further")
                    return

    def _update(self) -> None:
        # Infos are taken before participants: the participant of each is known then.
        samples = self._info_reader.take(1000)
        changed = self._take_participants()
        for reader, is_writer in zip(self._endpoint_readers, (True, False), strict=True):
            changed |= self._take_endpoints(reader, is_writer)
        changed |= self._read_infos(samples)
        if changed:
            self.changes += 1
            self.change.set()

    def _take_participants(self) -> bool:
        changed = False
        while found := _take_one(dds.ddspy_take_participant, self._participant_reader, _participant):
            gid, alive = found
            changed = True
            with self._lock:
                if alive:
                    self._alive.add(gid)
                else:
                    self._alive.discard(gid)
                    self._participants.pop(gid, None)
        return changed

    def _take_endpoints(self, reader: int, is_writer: bool) -> bool:
        changed = False
        while found := _take_one(dds.ddspy_take_endpoint, reader, _endpoint):
            changed = True
            gid, announced = found
            with self._lock:
                if announced is None:
                    self._endpoints.pop(gid, None)
                else:
                    participant, topic, type_name, qos, data = announced
                    kind, name = names.from_dds(topic)
                    type_hash = user_data_value(data, "typehash")
                    self._endpoints[gid] = _Endpoint(
                        name, kind, names.type_from_dds(type_name), type_hash, qos, participant, is_writer
                    )
        return changed

    def _read_infos(self, samples: list[Sample]) -> bool:
        changed = False
        for sample in samples:
            try:
                info = self._info.deserialize(sample.payload)
            except ValueError as error:
                _log.debug("ros_discovery_info: %s", error)
                continue
            changed = True
            nodes = [
                (
                    node.node_namespace,
                    node.node_name,
                    frozenset(bytes(gid.data)[:16] for gid in (*node.reader_gid_seq, *node.writer_gid_seq)),
                )
                for node in info.node_entities_info_seq
            ]
            with self._lock:
                participant = bytes(info.gid.data)[:16]
                # A late message of a participant that has gone must not bring its nodes back.
                if participant in self._alive:
                    self._participants[participant] = nodes
        return changed

    def close(self) -> None:
        """Stop following."""
        self._closing = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()


def _typed(endpoints: Any) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for endpoint in endpoints:
        type_name = endpoint.type_name if endpoint.kind == "topic" else names.service_type(endpoint.type_name)
        found.setdefault(endpoint.topic, set()).add(type_name)
    return {topic: sorted(types) for topic, types in sorted(found.items())}


def _take_one(take: Any, reader: int, construct: Any) -> Any:
    """One sample of a built-in topic, or None. One at a time: a fault in one takes no other with it."""
    while True:
        try:
            found = take(reader, 1, construct, _qos)
        except Exception as error:  # names that are not UTF-8 end here
            _log.debug("an announcement that cannot be read: %s", error)
            continue
        return found[0] if isinstance(found, list) and found else None


def _qos(pointer: int) -> tuple[Qos, bytes]:
    return read_qos(pointer)


def _participant(key: bytes, qos: Any, info: Any) -> tuple[bytes, bool]:
    return key, info.instance_state == _ALIVE


def _endpoint(
    key: bytes, participant: bytes, handle: int, topic: str, type_name: str, qos: Any, info: Any, type_id: Any
) -> tuple[bytes, Any]:
    if info.instance_state != _ALIVE or not topic or qos is None:
        return key, None
    return key, (participant, topic, type_name or "", *qos)
