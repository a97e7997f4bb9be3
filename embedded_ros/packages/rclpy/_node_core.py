"""What a node of this runtime keeps and does for itself, out of the way of the names of programs.

Programs derive from `Node` and know the names that rclpy has, not those that this runtime would need beside them: a
subclass with a method `_report` or an attribute `_guards` of its own must not notice. So the embedded `Node` has one
private attribute, `_embedded_core`, and everything else is behind it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from embedded_ros.left_out import LeftOut
from rclpy import _arguments
from rclpy._names import expanded, validate_full_topic_name, validate_namespace, validate_node_name, validate_topic_name
from rclpy._parameter_store import ParameterStore
from rclpy._taken_names import shadowed
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup, ReentrantCallbackGroup
from rclpy.clock import ROSClock
from rclpy.logging import get_logger

if TYPE_CHECKING:
    from rclpy.client import Client
    from rclpy.node import Node
    from rclpy.publisher import Publisher
    from rclpy.service import Service
    from rclpy.subscription import Subscription
    from rclpy.timer import Timer


class NodeCore:
    """Names, entities, parameters and executor of one node.

    Parameters
    ----------
    node
        Whose core it is.
    name, namespace
        As given; `remap_rules` may change both.

    Raises
    ------
    InvalidNodeNameException, InvalidNamespaceException
        Names that break the rules.
    """

    def __init__(self, node: Node, name: str, namespace: str, context: Any, remap_rules: list[Any]) -> None:
        self.node = node
        self.context = context
        self.remap_rules = remap_rules
        self._set_names(name, namespace)
        self.participant = context.participant
        # Of this node alone, even where another of this process has the same name.
        self.membership: Any = None
        self.default_group = MutuallyExclusiveCallbackGroup()
        self.rate_group = ReentrantCallbackGroup()
        self.logger = get_logger(self.full_name.strip("/").replace("/", "."))
        self.clock = ROSClock()
        self.parameters = ParameterStore(self.full_name, self.clock)
        self.executor: weakref.ReferenceType[Any] | None = None
        self.publishers: list[Publisher] = []
        self.subscriptions: list[Subscription] = []
        self.clients: list[Client] = []
        self.services: list[Service] = []
        self.timers: list[Timer] = []
        self.event_handlers: list[Any] = []
        # Tells executors when to look at the lists again.
        self.entities_version = 0
        self.rosout: Any = None
        self.time_source: Any = None
        self.parameter_service: Any = None
        self.destroyed = False
        self.compared_names = False

    def _set_names(self, name: str, namespace: str) -> None:
        validate_node_name(name)
        namespace = namespace if namespace.startswith("/") else f"/{namespace}"
        validate_namespace(namespace)
        self.name = _arguments.remapped_node_name(self.remap_rules, name)
        self.namespace = _arguments.remapped_namespace(self.remap_rules, self.name, namespace)
        if not self.namespace.startswith("/"):
            self.namespace = f"/{self.namespace}"
        validate_node_name(self.name)
        validate_namespace(self.namespace)
        self.full_name = f"{self.namespace.rstrip('/')}/{self.name}"

    def resolve(self, name: str, *, only_expand: bool, is_service: bool) -> str:
        """Full name of a topic or service, after remapping unless `only_expand`."""
        validate_topic_name(name, is_service=is_service)
        full = expanded(name, self.name, self.namespace)
        validate_full_topic_name(full, is_service=is_service)
        if not only_expand:
            full = _arguments.remapped_topic(self.remap_rules, full, self.name, self.namespace, is_service=is_service)
            validate_full_topic_name(full, is_service=is_service)
        return full

    # Executor

    def current_executor(self) -> Any:
        """Executor that runs the node, or None."""
        return None if self.executor is None else self.executor()

    def joined(self, executor: Any) -> None:
        """An executor runs the node from now on."""
        self.executor = weakref.ref(executor)
        if not self.compared_names:
            self.compared_names = True
            from rclpy.node import Node

            if names := shadowed(type(self.node), vars(self.node), Node, self):
                self.logger.warning(
                    f"{type(self.node).__name__} has its own {', '.join(names)}: rclpy's Node of ROS 2 uses that name "
                    "for itself and breaks; choose another"
                )

    def left(self, executor: Any) -> None:
        """The executor runs the node no longer."""
        if self.current_executor() is executor:
            self.executor = None

    def wake_executor(self) -> None:
        """Have the executor look again at what there is to do."""
        executor = self.current_executor()
        if executor is not None:
            executor.wake()

    # Entities

    def wire_entities(self) -> dict[Any, Any]:
        """What an executor waits for: reader, server or client of the wire, and what it belongs to."""
        return {
            **{subscription._reader: subscription for subscription in list(self.subscriptions)},
            **{end._wire: end for end in (*self.clients, *self.services)},
        }

    def changed(self) -> None:
        """An entity came or went."""
        self.entities_version += 1
        self.wake_executor()

    def add(self, entities: list[Any], entity: Any) -> None:
        """An entity came."""
        entity._node = self.node
        group = getattr(entity, "callback_group", None)
        if group is not None:
            group.add_entity(entity)
        entities.append(entity)
        self.changed()

    def remove(self, entities: list[Any], entity: Any) -> bool:
        """Whether the entity was this node's; then it is destroyed."""
        if entity not in entities:
            return False
        entities.remove(entity)
        for handler in getattr(entity, "event_handlers", ()):
            self.event_handlers.remove(handler)
        # An executor of another thread may be waiting on it: it is let go before it is closed.
        entity._destroyed = True
        executor = self.current_executor()
        if executor is not None:
            executor._forget(entity)
        entity.destroy()
        self.changed()
        return True

    def remove_all(self) -> None:
        """Destroy all entities."""
        lists: tuple[list[Any], ...] = (
            self.publishers, self.subscriptions, self.clients, self.services, self.timers,
        )  # fmt: skip
        for entities in lists:
            while entities:
                self.remove(entities, entities[0])

    def left_out(self, what: str) -> LeftOut:
        """What an endpoint tells when it cannot read something; `what` as in "a message on /topic"."""
        return LeftOut(what, self.logger.error)
