"""Events of publishers and subscriptions: incompatible QoS, matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from rclpy._rclpy_pybind11 import UnsupportedEventTypeError
from rclpy.logging import get_logger
from rclpy.qos import QoSPolicyKind, qos_policy_name_from_kind

__all__ = [
    "EventHandler",
    "PublisherEventCallbacks",
    "QoSOfferedIncompatibleQoSInfo",
    "QoSPublisherEventType",
    "QoSPublisherMatchedInfo",
    "QoSRequestedIncompatibleQoSInfo",
    "QoSSubscriptionEventType",
    "QoSSubscriptionMatchedInfo",
    "SubscriptionEventCallbacks",
    "UnsupportedEventTypeError",
]


class QoSPublisherEventType(IntEnum):
    """Events of a publisher."""

    RCL_PUBLISHER_OFFERED_DEADLINE_MISSED = 0
    RCL_PUBLISHER_LIVELINESS_LOST = 1
    RCL_PUBLISHER_OFFERED_INCOMPATIBLE_QOS = 2
    RCL_PUBLISHER_INCOMPATIBLE_TYPE = 3
    RCL_PUBLISHER_MATCHED = 4


class QoSSubscriptionEventType(IntEnum):
    """Events of a subscription."""

    RCL_SUBSCRIPTION_REQUESTED_DEADLINE_MISSED = 0
    RCL_SUBSCRIPTION_LIVELINESS_CHANGED = 1
    RCL_SUBSCRIPTION_REQUESTED_INCOMPATIBLE_QOS = 2
    RCL_SUBSCRIPTION_MESSAGE_LOST = 3
    RCL_SUBSCRIPTION_INCOMPATIBLE_TYPE = 4
    RCL_SUBSCRIPTION_MATCHED = 5


@dataclass(frozen=True)
class QoSRequestedIncompatibleQoSInfo:
    """How many endpoints did not fit, how many of them since the last event, and which policy was to blame last."""

    total_count: int
    total_count_change: int
    last_policy_kind: QoSPolicyKind


@dataclass(frozen=True)
class QoSSubscriptionMatchedInfo:
    """How many endpoints match, and changes since the last event."""

    total_count: int
    total_count_change: int
    current_count: int
    current_count_change: int


QoSOfferedIncompatibleQoSInfo = QoSRequestedIncompatibleQoSInfo
QoSPublisherMatchedInfo = QoSSubscriptionMatchedInfo


class EventHandler:
    """Looks at one endpoint now and then and calls back when something has changed."""

    def __init__(
        self, *, callback_group: Any, callback: Callable[[Any], Any], event_type: IntEnum, endpoint: Any
    ) -> None:
        self.callback_group = callback_group
        self.callback = callback
        self.event_type = event_type
        self._endpoint = endpoint
        self._total = 0
        self._current = 0
        self._destroyed = False

    def _poll(self) -> Any:
        """Payload for the callback, or None."""
        if self._destroyed:
            return None
        if self.event_type.name.endswith("_MATCHED"):
            return self._poll_matched()
        total, policy = self._endpoint.incompatible_qos()
        change, self._total = total - self._total, total
        if change <= 0:
            return None
        return QoSRequestedIncompatibleQoSInfo(total, change, _policy_kind(policy))

    def _poll_matched(self) -> Any:
        current = self._endpoint.matched()
        change, self._current = current - self._current, current
        if change == 0:
            return None
        # Endpoints that came and went between two looks are not counted.
        appeared = max(change, 0)
        self._total += appeared
        return QoSSubscriptionMatchedInfo(self._total, appeared, current, change)

    def _run(self, payload: Any) -> Any:
        return self.callback(payload)

    def destroy(self) -> None:
        """Never call again."""
        self._destroyed = True


def _policy_kind(name: str) -> QoSPolicyKind:
    try:
        return QoSPolicyKind[name.upper()]
    except KeyError:
        return QoSPolicyKind.INVALID


class _EventCallbacks:
    _unsupported: tuple[str, ...] = ()

    def __init__(
        self,
        *,
        incompatible_qos: Callable[[Any], Any] | None = None,
        matched: Callable[[Any], Any] | None = None,
        incompatible_type: Callable[[Any], Any] | None = None,
        use_default_callbacks: bool = True,
        **others: Callable[[Any], Any] | None,
    ) -> None:
        unknown = sorted(set(others) - set(self._unsupported))
        if unknown:
            raise TypeError(f"{type(self).__name__} got an unexpected keyword argument '{unknown[0]}'")
        for name, callback in {**others, "incompatible_type": incompatible_type}.items():
            if callback is not None:
                raise NotImplementedError(f"rclpy.event_handler.{type(self).__name__}({name}=...)")
        self.incompatible_qos = incompatible_qos
        self.matched = matched
        self.use_default_callbacks = use_default_callbacks

    def _handlers(
        self,
        callback_group: Any,
        endpoint: Any,
        logger_name: str,
        topic: str,
        types: tuple[IntEnum, IntEnum],
        text: str,
    ) -> list[EventHandler]:
        def warn(event: Any) -> None:
            policy = qos_policy_name_from_kind(event.last_policy_kind)
            get_logger(logger_name).warning(text.format(topic=topic, policy=policy))

        callbacks = (self.incompatible_qos or (warn if self.use_default_callbacks else None), self.matched)
        return [
            EventHandler(callback_group=callback_group, callback=callback, event_type=event_type, endpoint=endpoint)
            for callback, event_type in zip(callbacks, types, strict=True)
            if callback is not None
        ]


class SubscriptionEventCallbacks(_EventCallbacks):
    """Callbacks of a subscription: `incompatible_qos` (a warning by default) and `matched`; others raise."""

    _unsupported = ("deadline", "liveliness", "message_lost")

    def _create(self, callback_group: Any, endpoint: Any, logger_name: str, topic: str) -> list[EventHandler]:
        kinds = QoSSubscriptionEventType
        return self._handlers(
            callback_group,
            endpoint,
            logger_name,
            topic,
            (kinds.RCL_SUBSCRIPTION_REQUESTED_INCOMPATIBLE_QOS, kinds.RCL_SUBSCRIPTION_MATCHED),
            "New publisher discovered on topic '{topic}', offering incompatible QoS. "
            "No messages will be received from it. Last incompatible policy: {policy}",
        )


class PublisherEventCallbacks(_EventCallbacks):
    """Callbacks of a publisher: `incompatible_qos` (a warning by default) and `matched`; others raise."""

    _unsupported = ("deadline", "liveliness")

    def _create(self, callback_group: Any, endpoint: Any, logger_name: str, topic: str) -> list[EventHandler]:
        kinds = QoSPublisherEventType
        return self._handlers(
            callback_group,
            endpoint,
            logger_name,
            topic,
            (kinds.RCL_PUBLISHER_OFFERED_INCOMPATIBLE_QOS, kinds.RCL_PUBLISHER_MATCHED),
            "New subscription discovered on topic '{topic}', requesting incompatible QoS. "
            "No messages will be sent to it. Last incompatible policy: {policy}",
        )
