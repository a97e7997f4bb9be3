"""What a node sees of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from embedded_ros.absent import AbsentMethod
from rclpy._names import expand_topic_name, validate_full_topic_name
from rclpy._rclpy_pybind11 import NodeNameNonExistentError
from rclpy._wire_qos import profile_of
from rclpy.topic_endpoint_info import TopicEndpointInfo, TopicEndpointTypeEnum

if TYPE_CHECKING:
    from rclpy._node_core import NodeCore

NamesAndTypes = list[tuple[str, list[str]]]

# Kinds of endpoints, and whether they write: a client writes requests, which a server reads.
_PUBLISHERS, _SUBSCRIBERS = ("topic", True), ("topic", False)
_CLIENTS, _SERVERS = ("request", True), ("request", False)


class NodeGraph:
    """Part of `rclpy.node.Node`: nodes, topics, services and their endpoints, as discovered so far."""

    _embedded_core: NodeCore
    resolve_topic_name: Callable[..., str]

    def get_node_names(self) -> list[str]:
        """Names of all nodes."""
        return [name for name, _ in self.get_node_names_and_namespaces()]

    def get_node_names_and_namespaces(self) -> list[tuple[str, str]]:
        """(name, namespace) of all nodes."""
        return list(self._embedded_core.participant.graph.node_names())

    def get_fully_qualified_node_names(self) -> list[str]:
        """Namespace and name of all nodes."""
        return [f"{namespace.rstrip('/')}/{name}" for name, namespace in self.get_node_names_and_namespaces()]

    def get_topic_names_and_types(self, no_demangle: bool = False) -> NamesAndTypes:
        """Topics and their types, e.g. `sensor_msgs/msg/Imu`."""
        _only_ros(no_demangle, "get_topic_names_and_types")
        return _sorted(self._embedded_core.participant.graph.topics())

    def get_service_names_and_types(self) -> NamesAndTypes:
        """Services and their types."""
        return _sorted(self._embedded_core.participant.graph.services())

    def get_publisher_names_and_types_by_node(
        self, node_name: str, node_namespace: str, no_demangle: bool = False
    ) -> NamesAndTypes:
        """Topics that a node publishes; NodeNameNonExistentError if there is no such node."""
        _only_ros(no_demangle, "get_publisher_names_and_types_by_node")
        return _by_node(self, _PUBLISHERS, node_name, node_namespace)

    def get_subscriber_names_and_types_by_node(
        self, node_name: str, node_namespace: str, no_demangle: bool = False
    ) -> NamesAndTypes:
        """Topics that a node subscribes to; NodeNameNonExistentError if there is no such node."""
        _only_ros(no_demangle, "get_subscriber_names_and_types_by_node")
        return _by_node(self, _SUBSCRIBERS, node_name, node_namespace)

    def get_service_names_and_types_by_node(self, node_name: str, node_namespace: str) -> NamesAndTypes:
        """Services of a node; NodeNameNonExistentError if there is no such node."""
        return _by_node(self, _SERVERS, node_name, node_namespace)

    def get_client_names_and_types_by_node(self, node_name: str, node_namespace: str) -> NamesAndTypes:
        """Services that a node is a client of; NodeNameNonExistentError if there is no such node."""
        return _by_node(self, _CLIENTS, node_name, node_namespace)

    def count_publishers(self, topic_name: str) -> int:
        """How many publishers a topic has."""
        return len(self._embedded_core.participant.graph.publishers(_full(self, topic_name)))

    def count_subscribers(self, topic_name: str) -> int:
        """How many subscriptions a topic has."""
        return len(self._embedded_core.participant.graph.subscribers(_full(self, topic_name)))

    count_clients = AbsentMethod("look into get_client_names_and_types_by_node")
    count_services = AbsentMethod("look into get_service_names_and_types")
    get_node_names_and_namespaces_with_enclaves = AbsentMethod("without security the enclave is /")
    wait_for_node = AbsentMethod("look into get_fully_qualified_node_names in a timer")

    def get_publishers_info_by_topic(self, topic_name: str, no_mangle: bool = False) -> list[TopicEndpointInfo]:
        """Publishers of a topic, with node, type and QoS."""
        _only_ros(no_mangle, "get_publishers_info_by_topic")
        full = self.resolve_topic_name(topic_name)
        return [
            _info(endpoint, TopicEndpointTypeEnum.PUBLISHER)
            for endpoint in self._embedded_core.participant.graph.publishers(full)
        ]

    def get_subscriptions_info_by_topic(self, topic_name: str, no_mangle: bool = False) -> list[TopicEndpointInfo]:
        """Subscriptions of a topic, with node, type and QoS."""
        _only_ros(no_mangle, "get_subscriptions_info_by_topic")
        full = self.resolve_topic_name(topic_name)
        kind = TopicEndpointTypeEnum.SUBSCRIPTION
        return [_info(endpoint, kind) for endpoint in self._embedded_core.participant.graph.subscribers(full)]


def _by_node(node: NodeGraph, what: tuple[str, bool], name: str, namespace: str) -> NamesAndTypes:
    namespace = namespace if namespace.startswith("/") else f"/{namespace}"
    if (name, namespace) not in node.get_node_names_and_namespaces():
        raise NodeNameNonExistentError(f"cannot get names and types: no node {namespace.rstrip('/')}/{name}")
    return _sorted(node._embedded_core.participant.graph.names_by_node(namespace, name, *what))


def _full(node: NodeGraph, name: str, *, is_service: bool = False) -> str:
    core = node._embedded_core
    full = expand_topic_name(name, core.name, core.namespace)
    validate_full_topic_name(full, is_service=is_service)
    return full


def _only_ros(raw: bool, call: str) -> None:
    if raw:
        raise NotImplementedError(f"rclpy.node.Node.{call}() with names that are not ROS's")


def _sorted(types_by_name: Any) -> NamesAndTypes:
    return sorted((name, list(types)) for name, types in dict(types_by_name).items())


def _info(endpoint: Any, kind: TopicEndpointTypeEnum) -> TopicEndpointInfo:
    return TopicEndpointInfo(
        node_name=endpoint.node,
        node_namespace=endpoint.namespace,
        topic_type=endpoint.type_name,
        topic_type_hash=endpoint.type_hash or "",
        endpoint_type=kind,
        endpoint_gid=list(endpoint.gid),
        qos_profile=profile_of(endpoint.qos),
    )
