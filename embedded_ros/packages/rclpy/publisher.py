"""Publishers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from embedded_ros.absent import AbsentMethod
from rclpy.duration import Duration
from rclpy.exceptions import InvalidHandle
from rclpy.qos import QoSProfile

if TYPE_CHECKING:
    from embedded_ros.wire import Writer


class Publisher:
    """Sends messages on one topic; made by `Node.create_publisher`."""

    def __init__(self, writer: Writer, serialize: Callable[[Any], bytes], msg_type: type, topic: str, full_topic: str,
                 qos_profile: QoSProfile, context: Any) -> None:  # fmt: skip
        self._writer = writer
        # Bound once: `publish` is called a thousand times a second.
        self._write: Callable[[bytes], Any] = writer.write
        self._serialize = serialize
        self.msg_type = msg_type
        self.topic = topic
        self._full_topic = full_topic
        self.qos_profile = qos_profile
        self._context = context
        self.event_handlers: list[Any] = []

    def publish(self, msg: Any) -> None:
        """Send a message, or bytes that hold one already serialised.

        Raises
        ------
        TypeError
            Another type of message.
        InvalidHandle
            The publisher is destroyed.
        """
        if isinstance(msg, self.msg_type):
            payload = self._serialize(msg)
        elif isinstance(msg, bytes):
            payload = msg
        else:
            raise TypeError(f"Expected {self.msg_type}, got {type(msg)}")
        # Reliable subscriptions that are behind hold the publisher up, as in rclpy; the wire gives up after 0.1 s so
        # that other threads run and a shutdown is seen.
        while not self._write(payload) and self._context.ok():
            pass

    @property
    def handle(self) -> Publisher:
        """The publisher itself; InvalidHandle once it is destroyed."""
        if self._write == self._refuse:
            self._refuse(b"")
        return self

    @property
    def topic_name(self) -> str:
        """Full name of the topic."""
        return self._full_topic

    def get_subscription_count(self) -> int:
        """How many subscriptions match."""
        return self._writer.matched()

    assert_liveliness = AbsentMethod()

    def wait_for_all_acked(self, timeout: Duration | None = None) -> bool:
        """Wait until reliable subscriptions have everything; False after the timeout. None or negative: for ever."""
        timeout_s = -1.0 if timeout is None else timeout.nanoseconds * 1e-9
        return self._writer.wait_for_acknowledgements(timeout_s)

    def destroy(self) -> None:
        """Leave the topic."""
        for handler in self.event_handlers:
            handler.destroy()
        self._write = self._refuse
        self._writer.close()

    def _refuse(self, _: bytes) -> NoReturn:
        raise InvalidHandle(f"the publisher on {self._full_topic} is destroyed")
