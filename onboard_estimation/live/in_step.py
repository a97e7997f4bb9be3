"""Playing in step with the nodes that listen: the next message when every one of them has taken the last.

DDS acknowledges what has arrived at a node, not what the node has taken, and a queue that overflows there is silent. A
node's parameter services go through the same executor as its subscriptions: where a message lies before the request
does, a single-threaded executor takes the message first. So an answer to an empty request tells that all is taken.
(Waiting for DDS's acknowledgement before would take 0.2 s: CycloneDDS's readers acknowledge when a heartbeat asks them.
On one machine the request arrives after the message in any case, as both go from one process to another in one stream.)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from onboard_estimation.live.discovery import full_name, subscriptions

ANSWER_S = 5.0
"""A node that does not answer for so long is left out from then on."""

_SEARCH_PERIOD_S = 0.2


class InStep:
    """Waits for the nodes that subscribe to a player's topics."""

    def __init__(self, node: Any) -> None:
        self.notes: list[str] = []
        self._node = node
        self._clients: dict[str, Any] = {}
        self._listeners: dict[str, list[str]] = {}
        self._searched: dict[str, float] = {}
        self._left_out: set[str] = set()

    def meet(self, topics: Iterable[str]) -> None:
        """Return when all nodes that subscribe to one of the topics have found its publisher here.

        What is published before is lost to them, even where this side of the graph shows them. Announcements come in
        their order, and those of the clients here are the last: a node that answers has found the publishers too.
        """
        for topic in topics:
            self.taken(topic)

    def taken(self, topic: str) -> None:
        """Return when all nodes that subscribe to the topic have taken what was published on it."""
        self._wait_for(self._listeners_of(topic))

    def finish(self) -> None:
        """Return when all nodes have taken what was published, and what the others have made of it.

        A recorder takes the estimates of an estimator after that has taken its last message: a chain of nodes that hear
        each other has no more links than there are nodes.
        """
        for _ in range(len(self._clients)):
            self._wait_for(self._clients)

    def _wait_for(self, names: Iterable[str]) -> None:
        waiting = [(name, self._ask(name)) for name in names if name not in self._left_out]
        deadline = time.monotonic() + ANSWER_S
        for name, answered in waiting:
            if not answered.wait(max(0.0, deadline - time.monotonic())):
                self._left_out.add(name)
                self.notes.append(f"{name} did not answer within {ANSWER_S:g} s; it is not waited for any more")

    def _ask(self, name: str) -> threading.Event:
        from rcl_interfaces.srv import GetParameters

        answered = threading.Event()
        client = self._clients[name]
        if not client.service_is_ready():
            answered.set()  # it has gone; the next search drops it
            return answered
        client.call_async(GetParameters.Request()).add_done_callback(lambda future: answered.set())
        return answered

    def _listeners_of(self, topic: str) -> list[str]:
        """Names of the nodes that subscribe to the topic and can be asked; looked up anew now and then."""
        now = time.monotonic()
        if now - self._searched.get(topic, -_SEARCH_PERIOD_S) >= _SEARCH_PERIOD_S:
            self._searched[topic] = now
            there = {full_name(one.node_name, one.node_namespace) for one in subscriptions(self._node, topic)}
            self._listeners[topic] = [name for name in sorted(there) if self._can_be_asked(name)]
        return self._listeners[topic]

    def _can_be_asked(self, name: str) -> bool:
        from rcl_interfaces.srv import GetParameters

        if name in self._left_out or name.startswith("/_"):
            return False
        if name not in self._clients:
            client = self._node.create_client(GetParameters, f"{name}/get_parameters")
            if not client.wait_for_service(timeout_sec=1.0):
                self._node.destroy_client(client)
                self._left_out.add(name)
                self.notes.append(f"{name} has no parameter services, it is not waited for and may lose messages")
                return False
            self._clients[name] = client
        return True
