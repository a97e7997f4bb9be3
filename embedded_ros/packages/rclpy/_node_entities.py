"""What a node makes: publishers, subscriptions, timers, clients, services, rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from embedded_ros import messages
from embedded_ros.absent import AbsentMethod
from rclpy._wire_qos import wire_qos
from rclpy.client import Client
from rclpy.clock import Clock
from rclpy.constants import S_TO_NS
from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.exceptions import NoTypeSupportImportedException
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, qos_profile_services_default
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Rate, Timer

if TYPE_CHECKING:
    from rclpy._node_core import NodeCore
    from rclpy.callback_groups import CallbackGroup

_GUARD = "use the executor's create_task, from any thread"
_WAITABLE = "use a timer or a subscription"


class NodeEntities:
    """Part of `rclpy.node.Node`."""

    _embedded_core: NodeCore

    # Names

    def resolve_topic_name(self, topic: str, *, only_expand: bool = False) -> str:
        """Full name of a topic, after remapping unless `only_expand`."""
        return self._embedded_core.resolve(topic, only_expand=only_expand, is_service=False)

    def resolve_service_name(self, service: str, *, only_expand: bool = False) -> str:
        """Full name of a service, after remapping unless `only_expand`."""
        return self._embedded_core.resolve(service, only_expand=only_expand, is_service=True)

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
        core = self._embedded_core
        profile = _profile(qos_profile)
        full = self.resolve_topic_name(topic)
        _refuse_overrides(qos_overriding_options)
        support = _message_support(msg_type)
        qos = wire_qos(profile, core.participant, full)
        writer = core.participant.create_writer(full, support, qos, node=core.membership)
        publisher = publisher_class(writer, support.serialize, msg_type, topic, full, profile, core.context)
        core.add(core.publishers, publisher)
        events = event_callbacks or PublisherEventCallbacks()
        publisher.event_handlers = events._create(callback_group or core.default_group, writer, core.logger.name, topic)
        core.event_handlers.extend(publisher.event_handlers)
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
        core = self._embedded_core
        profile = _profile(qos_profile)
        full = self.resolve_topic_name(topic)
        _refuse_overrides(qos_overriding_options)
        support = _message_support(msg_type)
        group = callback_group or core.default_group
        qos = wire_qos(profile, core.participant, full, reading=True)
        reader = core.participant.create_reader(full, support, qos, node=core.membership)
        try:
            left_out = core.left_out(f"a message on {full}")
            subscription = Subscription(
                reader, support.deserialize, msg_type, topic, full, callback, group, profile, raw, left_out
            )
        except Exception:
            reader.close()
            raise
        core.add(core.subscriptions, subscription)
        events = event_callbacks or SubscriptionEventCallbacks()
        subscription.event_handlers = events._create(group, reader, core.logger.name, topic)
        core.event_handlers.extend(subscription.event_handlers)
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
        core = self._embedded_core
        asked = (srv_type, srv_name, qos_profile, callback_group)
        client = Client(core.context, *_service_end(self, core.participant.create_client, "an answer of", *asked))
        core.add(core.clients, client)
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
        core = self._embedded_core
        asked = (srv_type, srv_name, qos_profile, callback_group)
        service = Service(callback, *_service_end(self, core.participant.create_server, "a request to", *asked))
        core.add(core.services, service)
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
        core = self._embedded_core
        group = callback_group or core.default_group
        timer = Timer(
            callback,
            group,
            int(float(timer_period_sec) * S_TO_NS),
            core.clock if clock is None else clock,
            context=core.context,
            autostart=autostart,
        )
        timer._wake = core.wake_executor
        core.add(core.timers, timer)
        return timer

    def create_rate(self, frequency: float, clock: Clock | None = None) -> Rate:
        """Rate of a frequency in Hz, for threads that do not spin."""
        if frequency <= 0:
            raise ValueError("frequency must be > 0")
        core = self._embedded_core
        return Rate(self.create_timer(1.0 / frequency, None, core.rate_group, clock), context=core.context)

    add_waitable = AbsentMethod(_WAITABLE)
    create_guard_condition = AbsentMethod(_GUARD)
    destroy_guard_condition = AbsentMethod(_GUARD)
    guards = AbsentMethod(_GUARD)
    remove_waitable = AbsentMethod(_WAITABLE)
    waitables = AbsentMethod(_WAITABLE)

    # Destroying

    def destroy_publisher(self, publisher: Publisher) -> bool:
        """Whether the publisher was this node's; then it is no more."""
        return self._embedded_core.remove(self._embedded_core.publishers, publisher)

    def destroy_subscription(self, subscription: Subscription) -> bool:
        """Whether the subscription was this node's; then it is no more."""
        return self._embedded_core.remove(self._embedded_core.subscriptions, subscription)

    def destroy_client(self, client: Client) -> bool:
        """Whether the client was this node's; then it is no more."""
        return self._embedded_core.remove(self._embedded_core.clients, client)

    def destroy_service(self, service: Service) -> bool:
        """Whether the service was this node's; then it is no more."""
        return self._embedded_core.remove(self._embedded_core.services, service)

    def destroy_timer(self, timer: Timer) -> bool:
        """Whether the timer was this node's; then it is no more."""
        return self._embedded_core.remove(self._embedded_core.timers, timer)

    def destroy_rate(self, rate: Rate) -> bool:
        """Whether the rate was this node's; then it is no more."""
        destroyed = self.destroy_timer(rate._timer)
        rate.destroy()
        return destroyed

    @property
    def publishers(self) -> Iterator[Publisher]:
        """Publishers of this node."""
        yield from list(self._embedded_core.publishers)

    @property
    def subscriptions(self) -> Iterator[Subscription]:
        """Subscriptions of this node."""
        yield from list(self._embedded_core.subscriptions)

    @property
    def clients(self) -> Iterator[Client]:
        """Clients of this node."""
        yield from list(self._embedded_core.clients)

    @property
    def services(self) -> Iterator[Service]:
        """Services of this node."""
        yield from list(self._embedded_core.services)

    @property
    def timers(self) -> Iterator[Timer]:
        """Timers of this node."""
        yield from list(self._embedded_core.timers)


def _profile(qos_profile: QoSProfile | int) -> QoSProfile:
    if isinstance(qos_profile, QoSProfile):
        return qos_profile
    if isinstance(qos_profile, int):
        if qos_profile < 0:
            raise ValueError("history depth must be greater than or equal to zero")
        return QoSProfile(depth=qos_profile)
    raise TypeError(f"Expected QoSProfile or int, but received {type(qos_profile)!r}")


def _refuse_overrides(options: Any) -> None:
    if options is not None:
        raise NotImplementedError("qos_overriding_options: make the profile from parameters of the node's own")


def _service_end(
    node: NodeEntities,
    create: Callable[..., Any],
    taken: str,
    srv_type: Any,
    srv_name: str,
    qos_profile: QoSProfile,
    callback_group: CallbackGroup | None,
) -> tuple[Any, ...]:
    """What `ServiceEnd` is made of: the wire's end of a service from `create`; `taken` says what comes to it."""
    core = node._embedded_core
    full = node.resolve_service_name(srv_name)
    support = _service_support(srv_type)
    wire = create(full, support, wire_qos(qos_profile, core.participant, full), node=core.membership)
    group = callback_group or core.default_group
    return wire, support, srv_type, (srv_name, full), qos_profile, group, core.left_out(f"{taken} {full}")


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
