"""One process in a domain: its nodes, endpoints and what it tells others about them (`ros_discovery_info`)."""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from embedded_ros.errors import UserError
from embedded_ros.messages import MessageSupport, ServiceSupport, message_class, support
from embedded_ros.messages.definitions import has_type_hashes
from embedded_ros.wire import dds, names
from embedded_ros.wire.configuration import (
    DOMAINS,
    MAX_PARTICIPANTS,
    Discovery,
    domain_of_environment,
)
from embedded_ros.wire.endpoints import Reader, Writer
from embedded_ros.wire.graph import Graph
from embedded_ros.wire.qos import SERVICES, Qos, dds_qos, participant_qos
from embedded_ros.wire.services import ServiceClient, ServiceServer
from embedded_ros.wire.type_objects import topic_type

DISCOVERY_INFO = "ros_discovery_info"
REQUEST_HEADER = (("ros_request_guid", "uint64"), ("ros_request_sequence", "int64"))
_open: weakref.WeakSet[Participant] = weakref.WeakSet()


class Membership:
    """One node of a participant, with the GIDs of its endpoints; others may have the same name."""

    def __init__(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self.readers: list[bytes] = []
        self.writers: list[bytes] = []


class Participant:
    """Everything of one process in one domain.

    `domain_id` None: ROS_DOMAIN_ID. `discovery` None: ROS_AUTOMATIC_DISCOVERY_RANGE and ROS_STATIC_PEERS, by default
    this machine only; else a name of a range. Raises UserError where the domain or the range does not exist, or where
    there is no room for another participant on this machine.
    """

    def __init__(self, domain_id: int | None = None, discovery: str | None = None) -> None:
        self.domain_id = domain_of_environment() if domain_id is None else domain_id
        self.discovery = Discovery.from_environment(discovery)
        self.closed = False
        self._lock = threading.RLock()
        self._holding = 0  # how many `announcing_once` are open
        self._nodes: list[Membership] = []
        self._topics: dict[tuple[str, str], int] = {}
        self._endpoints: set[Any] = set()
        self._waitsets: set[Any] = set()
        DOMAINS.acquire(self.domain_id, self.discovery)
        try:
            self._open()
        except BaseException:
            DOMAINS.release(self.domain_id)
            raise
        _open.add(self)

    def _open(self) -> None:
        with participant_qos("enclave=/;") as qos:
            entity = dds.create_participant(self.domain_id, qos, None)
        if entity < 0:
            raise UserError(
                f"no room in domain {self.domain_id} for another participant ({dds.DdsError(entity, 'refused')}); "
                f"at most {MAX_PARTICIPANTS} processes fit in one domain of a machine: end some, or set ROS_DOMAIN_ID"
            )
        self.entity = entity
        self.gid = dds.guid(entity)
        self._publisher = dds.checked(dds.create_publisher(entity, None, None), "creating a publisher")
        self._subscriber = dds.checked(dds.create_subscriber(entity, None, None), "creating a subscriber")
        info = support(message_class("rmw_dds_common/msg/ParticipantEntitiesInfo"))
        self._info = info
        self._info_writer = self._writer(DISCOVERY_INFO, info, Qos(True, True, 1), _type_hash(info.type_hash))
        info_reader = self._reader(DISCOVERY_INFO, info, Qos(True, True, 0), _type_hash(info.type_hash))
        self.graph = Graph(self, info, info_reader)
        self._announce()

    # Nodes

    def add_node(self, namespace: str, name: str) -> Membership:
        """Tell others of a node; endpoints that are made for what this returns are counted as its own."""
        node = Membership(namespace, name)
        with self._lock:
            self._nodes.append(node)
            self._announce()
        return node

    def remove_node(self, node: Membership) -> None:
        """Take a node off the graph; its endpoints are closed by whoever made them."""
        with self._lock:
            if node in self._nodes:
                self._nodes.remove(node)
                self._announce()

    @contextmanager
    def announcing_once(self) -> Iterator[None]:
        """Tell others of all that is made in this block at its end, instead of each by itself."""
        with self._lock:
            self._holding += 1
        try:
            yield
        finally:
            with self._lock:
                self._holding -= 1
                self._announce()

    def _announce(self) -> None:
        """Publish all nodes of this process with their endpoints."""
        if self._holding:
            return
        gid_size = 16 if has_type_hashes() else 24
        make_gid = message_class("rmw_dds_common/msg/Gid")
        make_node = message_class("rmw_dds_common/msg/NodeEntitiesInfo")

        def gid(data: bytes) -> Any:
            return make_gid(data=list(data.ljust(gid_size, b"\0")))

        with self._lock:
            if self.closed:
                return
            nodes = [
                make_node(
                    node_namespace=node.namespace,
                    node_name=node.name,
                    reader_gid_seq=[gid(data) for data in node.readers],
                    writer_gid_seq=[gid(data) for data in node.writers],
                )
                for node in self._nodes
            ]
            message = self._info.cls(gid=gid(self.gid), node_entities_info_seq=nodes)
            self._info_writer.write(self._info.serialize(message))

    # Endpoints

    def create_writer(self, topic: str, support: MessageSupport, qos: Qos, node: Membership | None = None) -> Writer:
        """A publisher's side of a topic, by its full ROS name. Raises ValueError for a name that is not valid."""
        writer = self._writer(names.topic_in_dds(topic), support, qos, _type_hash(support.type_hash))
        self._own(writer, node, readers=(), writers=(writer.gid,))
        return writer

    def create_reader(self, topic: str, support: MessageSupport, qos: Qos, node: Membership | None = None) -> Reader:
        """A subscription's side of a topic, by its full ROS name. Raises ValueError for a name that is not valid."""
        reader = self._reader(names.topic_in_dds(topic), support, qos, _type_hash(support.type_hash))
        self._own(reader, node, readers=(reader.gid,), writers=())
        return reader

    def create_client(
        self, service: str, support: ServiceSupport, qos: Qos = SERVICES, node: Membership | None = None
    ) -> ServiceClient:
        """The side of a service that asks."""
        identity = self._service_identity("clientid")
        user_data = identity + _type_hash(support.request.type_hash)
        writer = self._writer(names.request_in_dds(service), support.request, qos, user_data, REQUEST_HEADER)
        user_data = identity + _type_hash(support.response.type_hash)
        reader = self._reader(names.reply_in_dds(service), support.response, qos, user_data, REQUEST_HEADER)
        client = ServiceClient(service, reader, writer, self._disown)
        self._own(client, node, readers=(reader.gid,), writers=(writer.gid,))
        return client

    def create_server(
        self, service: str, support: ServiceSupport, qos: Qos = SERVICES, node: Membership | None = None
    ) -> ServiceServer:
        """The side of a service that answers."""
        identity = self._service_identity("serviceid")
        user_data = identity + _type_hash(support.response.type_hash)
        writer = self._writer(names.reply_in_dds(service), support.response, qos, user_data, REQUEST_HEADER)
        user_data = identity + _type_hash(support.request.type_hash)
        reader = self._reader(names.request_in_dds(service), support.request, qos, user_data, REQUEST_HEADER)
        server = ServiceServer(service, reader, writer, self._disown)
        self._own(server, node, readers=(reader.gid,), writers=(writer.gid,))
        return server

    def _service_identity(self, key: str) -> str:
        """Tells which reader and writer belong to one client or server: bytes of the participant, and a count."""
        with self._lock:
            self._service_count = getattr(self, "_service_count", 0) + 1
            identity = self.gid[:12] + self._service_count.to_bytes(4, "big")
        return f"{key}={'.'.join(f'{byte:x}' for byte in identity)};"

    def _writer(self, topic: str, support: MessageSupport, qos: Qos, user_data: str, prefix: Any = ()) -> Writer:
        with dds_qos(qos, user_data) as made:
            entity = dds.create_writer(self._publisher, self._topic(topic, support, prefix), made, None)
        return Writer(dds.checked(entity, f"publishing {topic}"), topic, qos, self._disown)

    def _reader(self, topic: str, support: MessageSupport, qos: Qos, user_data: str, prefix: Any = ()) -> Reader:
        with dds_qos(qos, user_data) as made:
            entity = dds.create_reader(self._subscriber, self._topic(topic, support, prefix), made, None)
        return Reader(dds.checked(entity, f"subscribing to {topic}"), topic, qos, self._disown)

    def _topic(self, topic: str, support: MessageSupport, prefix: Any) -> int:
        with self._lock:
            if self.closed:
                raise RuntimeError("the participant is closed")
            key = (topic, support.name)
            if key not in self._topics:
                code = dds.ddspy_topic_create(self.entity, topic, topic_type(support.name, prefix), None, None)
                self._topics[key] = dds.checked(code, f"creating topic {topic} of type {support.name}")
            return self._topics[key]

    def _own(
        self, endpoint: Any, node: Membership | None, readers: tuple[bytes, ...], writers: tuple[bytes, ...]
    ) -> None:
        endpoint.node = node
        with self._lock:
            self._endpoints.add(endpoint)
            if node is not None:
                node.readers.extend(readers)
                node.writers.extend(writers)
                self._announce()

    def _disown(self, endpoint: Any) -> None:
        """Called by an endpoint that closes."""
        with self._lock:
            self._endpoints.discard(endpoint)
            node = getattr(endpoint, "node", None)
            if node not in self._nodes or self.closed:
                return
            gids = endpoint.gids if hasattr(endpoint, "gids") else (endpoint.gid,)
            for kind in (node.readers, node.writers):
                kind[:] = [gid for gid in kind if gid not in gids]
            self._announce()

    # Waiting and closing

    def add_waitset(self, waitset: Any) -> None:
        """A waitset closes with its participant."""
        self._waitsets.add(waitset)

    def remove_waitset(self, waitset: Any) -> None:
        """The waitset is closed."""
        self._waitsets.discard(waitset)

    def close(self) -> None:
        """Leave the graph: nodes, endpoints, waitsets and all. Once is enough, twice is allowed."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            waitsets, endpoints = list(self._waitsets), list(self._endpoints)
        self.graph.close()
        for waitset in waitsets:
            waitset.close()
        for endpoint in endpoints:
            endpoint.close()
        dds.delete(self.entity)
        DOMAINS.release(self.domain_id)
        _open.discard(self)


def _type_hash(type_hash: str) -> str:
    return f"typehash={type_hash};" if type_hash else ""


@atexit.register
def _close_all() -> None:
    """Leave before the interpreter goes: CycloneDDS's threads must not outlive it."""
    for participant in list(_open):
        participant.close()
