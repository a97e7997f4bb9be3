"""What a node makes: publishers, subscriptions, timers, clients, services, guard conditions, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from onboard_estimation.embedded_ros import messages
from rclpy import _arguments
from rclpy._names import expanded, validate_full_topic_name, validate_topic_name
from rclpy._wire_qos import wire_qos
from rclpy.client import Client
from rclpy.clock import Clock
from rclpy.constants import S_TO_NS
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.exceptions import NoTypeSupportImportedException
from rclpy.guard_condition import GuardCondition
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, qos_profile_services_default
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Rate, Timer

if TYPE_CHECKING:
    from rclpy.callback_groups import CallbackGroup


class NodeEntities:
    """Part of `rclpy.node.Node`."""

    _name: str
    _namespace: str
    _context: Any
    _participant: Any
    _remap_rules: list[Any]
    _clock: Any
    _rate_group: CallbackGroup
    _default_callback_group: CallbackGroup
    _wake_executor: Callable[[], None]

    def _start_entities(self) -> None:
        self._publishers: list[Publisher] = []
        self._subscriptions: list[Subscription] = []
        self._clients: list[Client] = []
        self._services: list[Service] = []
        self._timers: list[Timer] = []
        self._guards: list[GuardCondition] = []
        self._event_handlers: list[Any] = []
        # Tells executors when to look at the lists again.
        self._entities_version = 0

    def _wire_entities(self) -> dict[Any, Any]:
        """What an executor waits for: reader, server or client of the wire, and what it belongs to."""
        return {
            **{subscription._reader: subscription for subscription in list(self._subscriptions)},
            **{client._client: client for client in list(self._clients)},
            **{service._server: service for service in list(self._services)},
        }

    def _changed(self) -> None:
        self._entities_version += 1
        self._wake_executor()

    def _added(self, entities: list[Any], entity: Any, group: CallbackGroup | None = None) -> None:
        entity._node = self
        if group is not None:
            group.add_entity(entity)
        entities.append(entity)
        self._changed()

    def _removed(self, entities: list[Any], entity: Any) -> bool:
        if entity not in entities:
            return False
        entities.remove(entity)
        for handler in getattr(entity, "event_handlers", ()):
            self._event_handlers.remove(handler)
        # An executor of another thread may be waiting on it: it is let go before it is closed.
        entity._destroyed = True
        executor = getattr(self, "executor", None)
        if executor is not None:
            executor._forget(entity)
        entity.destroy()
        self._changed()
        return True

    def _report(self, text: str) -> None:
        self.get_logger().error(text, throttle_duration_sec=1.0)  # type: ignore[attr-defined]

    # Names

    def resolve_topic_name(self, topic: str, *, only_expand: bool = False) -> str:
        """Full name of a topic, after remapping unless `only_expand`."""
        return self._resolve(topic, only_expand=only_expand, is_service=False)

    def resolve_service_name(self, service: str, *, only_expand: bool = False) -> str:
        """Full name of a service, after remapping unless `only_expand`."""
        return self._resolve(service, only_expand=only_expand, is_service=True)

    def _resolve(self, name: str, *, only_expand: bool, is_service: bool) -> str:
        validate_topic_name(name, is_service=is_service)
        full = expanded(name, self._name, self._namespace)
        validate_full_topic_name(full, is_service=is_service)
        if not only_expand:
            full = _arguments.remapped_topic(
                self._remap_rules, full, self._name, self._namespace, is_service=is_service
            )
            validate_full_topic_name(full, is_service=is_service)
        return full

    # Making

    def create_publisher(
        self,
        msg_type: Any,
        topic: str,
        qos_profile: QoSProfile | int,
        *,
        callback_group: CallbackGroup | None = None,
        event_callbacks: PublisherEventCallbacks | None = None,
        qos_overriding_options: Any = None,
        publisher_class: type[Publisher] = Publisher,
    ) -> Publisher:
        """Publisher of a topic; an int is the depth of a KEEP_LAST history."""
        profile = _profile(qos_profile)
        full = self.resolve_topic_name(topic)
        self._declare_qos("publisher", full, profile, qos_overriding_options)
        support = _message_support(msg_type)
        qos = wire_qos(profile, self._participant, full)
        writer = self._participant.create_writer(full, support, qos, node=(self._namespace, self._name))
        publisher = publisher_class(writer, support.serialize, msg_type, topic, full, profile, self._context)
        self._added(self._publishers, publisher)
        events = event_callbacks or PublisherEventCallbacks()
        publisher.event_handlers = events._create(
            callback_group or self._default_callback_group, writer, self._logger_name(), topic
        )
        self._event_handlers.extend(publisher.event_handlers)
        return publisher

    def create_subscription(
        self,
        msg_type: Any,
        topic: str,
        callback: Callable[..., Any],
        qos_profile: QoSProfile | int,
        *,
        callback_group: CallbackGroup | None = None,
        event_callbacks: SubscriptionEventCallbacks | None = None,
        qos_overriding_options: Any = None,
        raw: bool = False,
    ) -> Subscription:
        """Subscription of a topic; `raw`: the callback gets serialised messages as bytes."""
        profile = _profile(qos_profile)
        full = self.resolve_topic_name(topic)
        self._declare_qos("subscription", full, profile, qos_overriding_options)
        support = _message_support(msg_type)
        group = callback_group or self._default_callback_group
        qos = wire_qos(profile, self._participant, full, reading=True)
        reader = self._participant.create_reader(full, support, qos, node=(self._namespace, self._name))
        try:
            subscription = Subscription(
                reader, support.deserialize, msg_type, topic, full, callback, group, profile, raw, self._report
            )
        except Exception:
            reader.close()
            raise
        self._added(self._subscriptions, subscription, group)
        events = event_callbacks or SubscriptionEventCallbacks()
        subscription.event_handlers = events._create(group, reader, self._logger_name(), topic)
        self._event_handlers.extend(subscription.event_handlers)
        return subscription

    def create_client(
        self,
        srv_type: Any,
        srv_name: str,
        *,
        qos_profile: QoSProfile = qos_profile_services_default,
        callback_group: CallbackGroup | None = None,
    ) -> Client:
        """Client of a service."""
        full = self.resolve_service_name(srv_name)
        support = _service_support(srv_type)
        group = callback_group or self._default_callback_group
        wire = self._participant.create_client(
            full, support, wire_qos(profile := qos_profile, self._participant, full), node=(self._namespace, self._name)
        )
        client = Client(
            self._context,
            wire,
            support.request,
            support.response,
            srv_type,
            srv_name,
            full,
            profile,
            group,
            self._report,
        )
        self._added(self._clients, client, group)
        return client

    def create_service(
        self,
        srv_type: Any,
        srv_name: str,
        callback: Callable[..., Any],
        *,
        qos_profile: QoSProfile = qos_profile_services_default,
        callback_group: CallbackGroup | None = None,
    ) -> Service:
        """Server of a service; the callback takes request and response and returns the response."""
        full = self.resolve_service_name(srv_name)
        support = _service_support(srv_type)
        group = callback_group or self._default_callback_group
        wire = self._participant.create_server(
            full, support, wire_qos(qos_profile, self._participant, full), node=(self._namespace, self._name)
        )
        service = Service(
            wire,
            support.request,
            support.response,
            srv_type,
            srv_name,
            full,
            callback,
            group,
            qos_profile,
            self._report,
        )
        self._added(self._services, service, group)
        return service

    def create_timer(
        self,
        timer_period_sec: float,
        callback: Callable[[], Any] | None,
        callback_group: CallbackGroup | None = None,
        clock: Clock | None = None,
        autostart: bool = True,
    ) -> Timer:
        """Timer with a period in s, on the node's clock unless another is given."""
        group = callback_group or self._default_callback_group
        timer = Timer(
            callback,
            group,
            int(float(timer_period_sec) * S_TO_NS),
            self._clock if clock is None else clock,
            context=self._context,
            autostart=autostart,
        )
        timer._wake = self._wake_executor
        self._added(self._timers, timer, group)
        return timer

    def create_guard_condition(
        self, callback: Callable[[], Any], callback_group: CallbackGroup | None = None
    ) -> GuardCondition:
        """Guard condition: its callback runs after `trigger()`."""
        group = callback_group or self._default_callback_group
        guard = GuardCondition(callback, group, context=self._context, _wake=self._wake_executor)
        self._added(self._guards, guard, group)
        return guard

    def create_rate(self, frequency: float, clock: Clock | None = None) -> Rate:
        """Rate of a frequency in Hz, for threads that do not spin."""
        if frequency <= 0:
            raise ValueError("frequency must be > 0")
        return Rate(self.create_timer(1.0 / frequency, None, self._rate_group, clock), context=self._context)

    def _declare_qos(self, kind: str, topic: str, profile: QoSProfile, options: Any) -> None:
        if options is not None:
            from rclpy.qos_overriding_options import declare_qos_parameters

            declare_qos_parameters(self, kind, topic, profile, options)

    def _logger_name(self) -> str:
        return self.get_logger().name  # type: ignore[attr-defined]

    def add_waitable(self, waitable: Any) -> None:
        """Not supported."""
        raise NotImplementedError("rclpy.node.Node.add_waitable()")

    def remove_waitable(self, waitable: Any) -> None:
        """Not supported."""
        raise NotImplementedError("rclpy.node.Node.remove_waitable()")

    # Destroying

    def destroy_publisher(self, publisher: Publisher) -> bool:
        """Whether the publisher was this node's; then it is no more."""
        return self._removed(self._publishers, publisher)

    def destroy_subscription(self, subscription: Subscription) -> bool:
        """Whether the subscription was this node's; then it is no more."""
        return self._removed(self._subscriptions, subscription)

    def destroy_client(self, client: Client) -> bool:
        """Whether the client was this node's; then it is no more."""
        return self._removed(self._clients, client)

    def destroy_service(self, service: Service) -> bool:
        """Whether the service was this node's; then it is no more."""
        return self._removed(self._services, service)

    def destroy_timer(self, timer: Timer) -> bool:
        """Whether the timer was this node's; then it is no more."""
        return self._removed(self._timers, timer)

    def destroy_guard_condition(self, guard: GuardCondition) -> bool:
        """Whether the guard condition was this node's; then it is no more."""
        return self._removed(self._guards, guard)

    def destroy_rate(self, rate: Rate) -> bool:
        """Whether the rate was this node's; then it is no more."""
        destroyed = self.destroy_timer(rate._timer)
        rate.destroy()
        return destroyed

    def _destroy_entities(self) -> None:
        lists: tuple[list[Any], ...] = (
            self._publishers, self._subscriptions, self._clients, self._services, self._timers, self._guards,
        )  # fmt: skip
        for entities in lists:
            while entities:
                self._removed(entities, entities[0])

    @property
    def publishers(self) -> Iterator[Publisher]:
        """Publishers of this node."""
        yield from list(self._publishers)

    @property
    def subscriptions(self) -> Iterator[Subscription]:
        """Subscriptions of this node."""
        yield from list(self._subscriptions)

    @property
    def clients(self) -> Iterator[Client]:
        """Clients of this node."""
        yield from list(self._clients)

    @property
    def services(self) -> Iterator[Service]:
        """Services of this node."""
        yield from list(self._services)

    @property
    def timers(self) -> Iterator[Timer]:
        """Timers of this node."""
        yield from list(self._timers)

    @property
    def guards(self) -> Iterator[GuardCondition]:
        """Guard conditions of this node."""
        yield from list(self._guards)

    @property
    def waitables(self) -> Iterator[Any]:
        """None: own waitables are not supported."""
        yield from ()


def _profile(qos_profile: QoSProfile | int) -> QoSProfile:
    if isinstance(qos_profile, QoSProfile):
        return qos_profile
    if isinstance(qos_profile, int):
        if qos_profile < 0:
            raise ValueError("history depth must be greater than or equal to zero")
        return QoSProfile(depth=qos_profile)
    raise TypeError(f"Expected QoSProfile or int, but received {type(qos_profile)!r}")


def _message_support(msg_type: Any) -> Any:
    if not (isinstance(msg_type, type) and issubclass(msg_type, messages.Message)):
        if hasattr(msg_type, "Request"):
            raise RuntimeError(f"{msg_type} is a service, not a message")
        raise NoTypeSupportImportedException
    return messages.support(msg_type)


def _service_support(srv_type: Any) -> Any:
    if not (isinstance(srv_type, type) and issubclass(srv_type, messages.Service)):
        raise RuntimeError(f"The service type provided is not valid ({srv_type}), this might be a message or action")
    return messages.support(srv_type)
