"""Subscriptions."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

from rclpy.qos import QoSProfile

if TYPE_CHECKING:
    from embedded_ros.left_out import LeftOut
    from embedded_ros.wire import Reader, Sample


_BATCH = 64


class Subscription:
    """Receives messages of one topic; made by `Node.create_subscription`.

    The callback takes the message, or the message and a dictionary with `source_timestamp` and `received_timestamp`
    (ns since the epoch). A message that does not hold what its type says is reported and left out.
    """

    def __init__(self, reader: Reader, deserialize: Callable[[Any], Any], msg_type: type, topic: str, full_topic: str,
                 callback: Callable[..., Any], callback_group: Any, qos_profile: QoSProfile, raw: bool,
                 left_out: LeftOut) -> None:  # fmt: skip
        self._reader = reader
        self._deserialize = bytes if raw else deserialize
        self.msg_type = msg_type
        self.topic = topic
        self._full_topic = full_topic
        self.callback = callback
        self.callback_group = callback_group
        self.qos_profile = qos_profile
        self.raw = raw
        self._left_out = left_out
        self.event_handlers: list[Any] = []
        # Samples that an executor took and did not come to, for the next one.
        self._left: list[Sample] = []
        self._node: Any = None
        # Samples that stand in an executor's queue.
        self._queued: deque[Sample] = deque()
        self._lock = Lock()
        self._found_all = False
        self._destroyed = False

    @property
    def callback(self) -> Callable[..., Any]:
        """What is called with each message."""
        return self._callback

    @callback.setter
    def callback(self, value: Callable[..., Any]) -> None:
        for count, with_info in ((1, False), (2, True)):
            try:
                inspect.signature(value).bind(*(object(),) * count)
            except TypeError:
                continue
            except ValueError:  # a builtin without a signature
                with_info = False
            self._callback = value
            self._with_info = with_info
            return
        raise RuntimeError("a subscription's callback has to take one argument (message) or two (message and info)")

    def _take(self, limit: int) -> list[Sample]:
        if not self._left:
            return self._reader.take(limit)
        left, self._left = self._left, []
        return left if len(left) >= limit else left + self._reader.take(limit - len(left))

    def _begin(self, sample: Sample) -> bool:
        """Whether this sample of the queue is still to be run: it may have been read out meanwhile."""
        with self._lock:
            if self._queued and self._queued[0] is sample:
                self._queued.popleft()
                return True
        return False

    def _run(self, sample: Sample) -> Any:
        try:
            message = self._deserialize(sample.payload)
        except ValueError as error:
            self._left_out(error)
            return None
        if self._with_info:
            return self._callback(message, message_info(sample))
        return self._callback(message)

    @property
    def handle(self) -> Subscription:
        """The subscription itself, which is entered before `take_message`, as rclpy's handle is."""
        return self

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def take_message(self, msg_type: type, raw: bool) -> tuple[Any, dict[str, Any]] | None:
        """The oldest message that nobody has had yet, with its info; None: there is none.

        ValueError where it does not hold what its type says.
        """
        sample = None
        with self._lock:
            if self._queued:
                sample = self._queued.popleft()
            elif self._left:
                sample = self._left.pop(0)
        if sample is None:
            if self._found_all:  # a moment ago, for the message before
                self._found_all = False
                return None
            samples = self._take(_BATCH)
            if not samples:
                return None
            self._found_all = len(samples) < _BATCH
            sample, *self._left = samples
            executor = self._node._embedded_core.current_executor()
            if self._left and executor is not None:
                executor._look_for_left = True
        return (bytes(sample.payload) if raw else self._deserialize(sample.payload)), message_info(sample)

    @property
    def topic_name(self) -> str:
        """Full name of the topic."""
        return self._full_topic

    def get_publisher_count(self) -> int:
        """How many publishers match."""
        return self._reader.matched()

    def destroy(self) -> None:
        """Leave the topic."""
        for handler in self.event_handlers:
            handler.destroy()
        self._destroyed = True
        self._left = []
        self._reader.close()


def message_info(sample: Sample) -> dict[str, Any]:
    """What callbacks get beside a message; times in ns since the epoch."""
    return {
        "source_timestamp": sample.source_stamp_ns,
        "received_timestamp": sample.received_stamp_ns,
        "publication_sequence_number": None,
        "reception_sequence_number": None,
    }
