"""The live graph for Foxglove, without ROS: a WebSocket server of Foxglove's SDK that hands raw messages on.

Only outwards: the server offers its clients no capability, so that nothing they send reaches the graph. Each client has
a queue of its own, whose oldest messages are dropped where it is slow; the graph never waits for one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onboard_estimation.errors import UserError
from onboard_estimation.live.definitions import definition
from onboard_estimation.live.discovery import is_hidden, publishers
from onboard_estimation.live.qos import matching, offer_of
from onboard_estimation.live.signals import StopRequest
from onboard_estimation.live.types import interface_class

DEFAULT_PORT = 8765
"""Where Foxglove looks unless it is told otherwise."""

_DEPTH = 100
_MOST_KEPT = 100
_SEARCH_PERIOD_S = 0.25
_ROUND_S = 0.05


@contextmanager
def open_foxglove(host: str, port: int | None) -> Iterator[FoxgloveServer]:
    """The server, from start to end; on port 8765 where None is given.

    Raises
    ------
    UserError
        foxglove-sdk is not installed, or the place is taken or none of this machine's.
    """
    try:
        import foxglove
    except ImportError as error:
        raise UserError("--foxglove needs foxglove-sdk: pip install 'onboard_estimation[foxglove]'") from error
    logging.getLogger("foxglove").setLevel(logging.ERROR)
    context = foxglove.Context()
    listener: Any = _Listener()  # without capabilities the SDK calls nothing else of its protocol
    place = f"{host}:{port or DEFAULT_PORT}"
    try:
        server = foxglove.start_server(
            name="onboard_estimation",
            host=host,
            port=port or DEFAULT_PORT,
            capabilities=[],
            server_listener=listener,
            context=context,
        )
    except Exception as error:  # the SDK has no error of its own for a port that is taken
        raise UserError(f"cannot listen on {place}: {error}; name another --host or --port") from error
    try:
        yield FoxgloveServer(context, listener, f"ws://{f'[{host}]' if ':' in host else host}:{server.port}")
    finally:
        server.stop()


class FoxgloveServer:
    """Subscribes to every topic that has a publisher, also to those that come later.

    Attributes
    ----------
    address
        For Foxglove's "Open connection".
    """

    def __init__(self, context: Any, listener: _Listener, address: str) -> None:
        self.address = address
        self._context, self._listener = context, listener
        self._topics: dict[str, _Topic | None] = {}

    def run(self, node: Any, stop: StopRequest, say: Callable[[str], None]) -> None:
        """Hand on until asked to stop, and say which topics are left out; another thread spins the node."""
        searched = -_SEARCH_PERIOD_S
        while not stop:
            if time.monotonic() - searched >= _SEARCH_PERIOD_S:
                searched = time.monotonic()
                self._search(node, say)
            for name in self._listener.newly_subscribed():
                topic = self._topics.get(name)
                if topic is not None:
                    topic.repeat()
            time.sleep(_ROUND_S)

    def _search(self, node: Any, say: Callable[[str], None]) -> None:
        for name, types in node.get_topic_names_and_types():
            if name in self._topics or is_hidden(name):
                continue
            endpoints = publishers(node, name)
            if not endpoints:
                continue
            self._topics[name] = None
            try:
                self._topics[name] = self._subscribed(node, name, types, endpoints)
            except UserError as error:
                say(f"{name} is not shown: {error}")

    def _subscribed(self, node: Any, name: str, types: list[str], endpoints: list[Any]) -> _Topic:
        from foxglove import Channel, Schema

        if len(types) != 1:
            raise UserError(f"it has {len(types)} types ({', '.join(sorted(types))})")
        kind, text = interface_class(types[0]), definition(types[0])
        if not text:
            raise UserError(f"the definition of {types[0]} is not installed here")
        schema = Schema(name=types[0], encoding="ros2msg", data=text.encode())
        channel = Channel(name, message_encoding="cdr", schema=schema, context=self._context)
        offers = [offer_of(endpoint) for endpoint in endpoints]
        latched = all(offer.transient_local for offer in offers)
        topic = _Topic(channel, min(sum(offer.depth for offer in offers), _MOST_KEPT) if latched else 0)
        node.create_subscription(kind, name, topic.take, matching(endpoints, _DEPTH), raw=True)
        return topic


class _Topic:
    """A channel; of a latched topic also the last messages, for clients that come later."""

    def __init__(self, channel: Any, kept: int) -> None:
        self._channel = channel
        self._kept: deque[tuple[bytes, int]] = deque(maxlen=kept)
        self._lock = threading.Lock()

    def take(self, data: bytes, information: Any) -> None:
        """Hand a serialised message on."""
        log_time_ns = max(information.get("received_timestamp") or time.time_ns(), 0)
        message = bytes(data)
        with self._lock:
            self._kept.append((message, log_time_ns))
            self._channel.log(message, log_time=log_time_ns)

    def repeat(self) -> None:
        """Hand on again what a new client has not seen."""
        with self._lock:
            for message, log_time_ns in self._kept:
                self._channel.log(message, log_time=log_time_ns)


class _Listener:
    """Notes which topics were subscribed to; called by the SDK's threads. All else that clients send is left alone."""

    def __init__(self) -> None:
        self._subscribed: deque[str] = deque()

    def on_subscribe(self, client: Any, channel: Any) -> None:
        self._subscribed.append(channel.topic)

    def newly_subscribed(self) -> set[str]:
        """Topics since the last call."""
        found = set()
        while self._subscribed:
            found.add(self._subscribed.popleft())
        return found
