"""Messages that were published and never taken, counted by the numbers that their publishers give them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

KEPT = 5000
"""Readings that a publisher keeps for a reliable listener that stands still, and that may wait in a listener's queue:
six seconds at 840 Hz. What nobody waits for is not kept."""
_SHORTEST_NS = 10_000
"""Between two messages of one publisher, in the mean."""
_RECENT_NS = 2_000_000_000


_NO_NUMBERS = (None, 0, 2**64 - 1)
"""What comes in the place of one where rclpy (that of ROS 2 Humble) or the middleware has none."""
_NOT_COUNTED = (
    "what is lost on the way is not counted: the middleware numbers no messages and tells of no losses; another one "
    "(RMW_IMPLEMENTATION) may"
)


class Losses:
    """Listens to a topic, and counts what of it was lost on the way, or pushed out of the full queue of this process.

    By the numbers that publishers give their messages. Those of several publishers go on each by itself, which tells
    them apart. Where there are none, the middleware is asked to tell of losses; that tells of none in a queue.

    Attributes
    ----------
    count
        Messages lost; None before the first message, and where nothing counts them.
    mixed
        How often a publisher was heard again after another one: more than none, and there are two at a time.
    are_counted
        False once it is known that nothing counts them, which is said once a node.
    """

    def __init__(self) -> None:
        self.count: int | None = None
        self.mixed = 0
        self.are_counted = True
        self._newest: list[tuple[int, int]] = []  # number and time, ns, of each publisher; the one heard last is last
        self._listening: tuple[Any, Any] | None = None  # node and subscription, until it is asked for events

    def listen(self, node: Any, kind: Any, topic: str, qos: Any, take: Callable[[Any, Mapping[str, Any]], None]) -> Any:
        """Subscribe; `take` gets messages, serialised, with what rclpy knows of each, which it has to let `see`."""
        # An executor that waits for a subscription's events is woken by its messages as well.
        callbacks = event_callbacks() if node.silent else None
        subscription = node.create_subscription(
            kind, topic, WithInformation(take), qos, raw=True, event_callbacks=callbacks
        )
        self._listening = node, subscription
        return subscription

    def see(self, information: Mapping[str, Any]) -> None:
        """A message was taken; `information` is what rclpy gives with it."""
        number, sent_ns = information.get("publication_sequence_number"), information.get("source_timestamp") or 0
        if number in _NO_NUMBERS:
            self._go_by_events()
            return
        self.count = self.count or 0
        if len(self._newest) == 1 and number == self._newest[0][0] + 1 and sent_ns >= self._newest[0][1]:
            self._newest[0] = number, sent_ns  # as nearly all are
            return
        # Most of what is newer by far is of another publisher: nobody sends so many in so short a time.
        places = [
            place
            for place, (before, then_ns) in enumerate(self._newest)
            if 0 < number - before <= 1 + (sent_ns - then_ns) // _SHORTEST_NS
        ]
        if places:
            place = max(places, key=lambda place: (self._newest[place][0], place))
            self.mixed += place != len(self._newest) - 1
            self.count += number - self._newest.pop(place)[0] - 1
        self._newest = [one for one in self._newest if one[1] > self._newest[-1][1] - _RECENT_NS]
        self._newest.append((number, sent_ns))

    def _go_by_events(self) -> None:
        """Have losses told by the middleware from the first message without a number on."""
        if self._listening is None or self._newest:
            return
        (node, subscription), self._listening = self._listening, None
        callbacks = event_callbacks(message_lost=self._take_event)
        try:
            handlers = callbacks.create_event_handlers(
                node.default_callback_group, subscription.handle, subscription.topic_name
            )
        except Exception:  # each RMW refuses in a way of its own what it has not
            self.are_counted = False
            node.get_logger().warning(_NOT_COUNTED, once=True)
            return
        self.count = 0
        for handler in handlers:
            subscription.event_handlers.append(handler)  # to be destroyed with it
            node.add_waitable(handler)

    def _take_event(self, status: Any) -> None:
        self.count = int(status.total_count)


def event_callbacks(**callbacks: Callable[[Any], None]) -> Any:
    """Of a subscription, and no others."""
    try:
        from rclpy import event_handler as events
    except ImportError:  # ROS 2 Humble
        from rclpy import qos_event as events
    return events.SubscriptionEventCallbacks(**callbacks, use_default_callbacks=False)


class WithInformation:
    """A callback that gets messages with what rclpy knows of each, on any executor: the events executor gives a pair.

    Parameters
    ----------
    take
        Gets message and information, which is empty where rclpy gives none (ROS 2 Humble).
    """

    __signature__ = inspect.signature(lambda message, information: None)

    def __init__(self, take: Callable[[Any, Mapping[str, Any]], object]) -> None:
        self._take = take

    def __call__(self, *received: Any) -> None:
        """Hand on a message."""
        first = received[0]
        message, information = received if len(received) == 2 else first if isinstance(first, tuple) else (first, {})
        self._take(message, information)
