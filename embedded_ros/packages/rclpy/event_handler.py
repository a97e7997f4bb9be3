"""The event that endpoints tell: publisher and subscription whose QoS does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rclpy.logging import get_logger
from rclpy.qos import QoSPolicyKind, qos_policy_name_from_kind

_OTHERS = frozenset({"deadline", "incompatible_type", "liveliness", "matched", "message_lost"})


@dataclass(frozen=True)
class QoSRequestedIncompatibleQoSInfo:
    """How many endpoints did not fit, how many of them since the last event, and which policy was to blame last."""

    total_count: int
    total_count_change: int
    last_policy_kind: QoSPolicyKind


QoSOfferedIncompatibleQoSInfo = QoSRequestedIncompatibleQoSInfo


class EventHandler:
    """Looks at one endpoint now and then and calls back when another does not fit."""

    def __init__(self, callback_group: Any, callback: Callable[[Any], Any], endpoint: Any) -> None:
        self.callback_group = callback_group
        self.callback = callback
        self._endpoint = endpoint
        self._total = 0
        self._destroyed = False

    def _poll(self) -> Any:
        """Payload for the callback, or None."""
        if self._destroyed:
            return None
        total, policy = self._endpoint.incompatible_qos()
        change, self._total = total - self._total, total
        kind = QoSPolicyKind.__members__.get(policy.upper(), QoSPolicyKind.INVALID)
        return QoSRequestedIncompatibleQoSInfo(total, change, kind) if change > 0 else None

    def _run(self, payload: Any) -> Any:
        return self.callback(payload)

    def destroy(self) -> None:
        """Never call again."""
        self._destroyed = True


class _EventCallbacks:
    _warning: str

    def __init__(
        self,
        *,
        incompatible_qos: Callable[[Any], Any] | None = None,
        use_default_callbacks: bool = True,
        **others: Callable[[Any], Any] | None,
    ) -> None:
        for name, callback in others.items():
            if name not in _OTHERS:
                raise TypeError(f"{type(self).__name__} got an unexpected keyword argument '{name}'")
            if callback is not None:
                raise NotImplementedError(f"rclpy.event_handler.{type(self).__name__}({name}=...)")
        self.incompatible_qos = incompatible_qos
        self.use_default_callbacks = use_default_callbacks

    def _create(self, callback_group: Any, endpoint: Any, logger_name: str, topic: str) -> list[EventHandler]:
        def warn(event: Any) -> None:
            policy = qos_policy_name_from_kind(event.last_policy_kind)
            get_logger(logger_name).warning(self._warning.format(topic=topic, policy=policy))

        callback = self.incompatible_qos or (warn if self.use_default_callbacks else None)
        return [] if callback is None else [EventHandler(callback_group, callback, endpoint)]


class SubscriptionEventCallbacks(_EventCallbacks):
    """Callback of a subscription: `incompatible_qos` (a warning by default); others raise NotImplementedError."""

    _warning = (
        "New publisher discovered on topic '{topic}', offering incompatible QoS. "
        "No messages will be received from it. Last incompatible policy: {policy}"
    )


class PublisherEventCallbacks(_EventCallbacks):
    """Callback of a publisher: `incompatible_qos` (a warning by default); others raise NotImplementedError."""

    _warning = (
        "New subscription discovered on topic '{topic}', requesting incompatible QoS. "
        "No messages will be sent to it. Last incompatible policy: {policy}"
    )
