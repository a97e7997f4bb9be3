"""How a bag is played, and when each message is due: as bag time runs, or when all that listen have taken the last.

Bag time runs at a rate. Due times are computed from one fixed point, not from the message before, so that lateness does
not add up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.options import option
from onboard_estimation.live.discovery import absolute, names_of, subscriptions
from onboard_estimation.live.signals import StopRequest

_SPIN_S = 60e-6
"""The end of a wait is spent in a loop: a sleeping thread wakes up to this much late."""

_LONGEST_WAIT_S = 0.05
"""A stop is noticed within this time."""
ANSWER_S = 5.0
"""A node that does not answer for so long is not waited for from then on."""
_SEARCH_PERIOD_S = 0.2


@dataclass(frozen=True)
class PlayOptions:
    """How a bag is played.

    Attributes
    ----------
    rate
        Seconds of the bag per second; 0: in step, see above.

        That is with the nodes that listen.
    loop
        Start anew at the end; stamps jump back then.
    start_offset_s
        Leave out the first S seconds of the bag.
    topics
        Play only this topic; may be repeated.

        Full names; none: all that can be played.
    wait_for_subscribers_s
        Wait up to S seconds for a first subscriber.
    clock_hz
        How often /clock is published, 0: not at all. Where it is, the bag's own /clock is left out.
    exclude_topics
        Full names that are left out, whether the bag has them or not.
    wait_for_nodes
        Full names of nodes that have to subscribe to something before anything is played, however long they take: a
        recorder that is there already is no reason to begin.
    """

    rate: float = option(1.0, other_flags=("-r",), metavar="R")
    loop: bool = option(False, other_flags=("-l",))
    start_offset_s: float = option(0.0, metavar="S")
    topics: tuple[str, ...] = option((), metavar="TOPIC")
    wait_for_subscribers_s: float = option(0.0, metavar="S")
    clock_hz: float = 0.0
    exclude_topics: tuple[str, ...] = ()
    wait_for_nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        limits = {
            "rate": (self.rate, 0.0, 1000.0),
            "start-offset": (self.start_offset_s, 0.0, 1e9),
            "clock": (self.clock_hz, 0.0, 10_000.0),
            "wait-for-subscribers": (self.wait_for_subscribers_s, 0.0, 86_400.0),
        }
        for name, (value, least, most) in limits.items():
            if not least <= value <= most:
                raise UserError(f"{name} {value:g}: must be from {least:g} to {most:g}")
        for name in ("topics", "exclude_topics", "wait_for_nodes"):
            object.__setattr__(self, name, tuple(absolute(topic) for topic in getattr(self, name)))


class Schedule:
    """Bag time against real time; any thread may ask for it.

    Parameters
    ----------
    start_ns
        Bag time of now, nanoseconds.
    rate
        Seconds of the bag per second; above 0.
    """

    def __init__(self, start_ns: int, stop: StopRequest, rate: float = 1.0) -> None:
        self._stop, self._rate = stop, rate
        self.start(start_ns)

    def start(self, bag_ns: int) -> None:
        """Let that bag time be now, when a bag starts, maybe anew."""
        self._began_ns = bag_ns, time.monotonic_ns()

    def now_ns(self) -> int:
        """Bag time, nanoseconds."""
        bag_ns, real_ns = self._began_ns
        return bag_ns + int((time.monotonic_ns() - real_ns) * self._rate)

    def late_s(self, bag_ns: int) -> float:
        """How long ago, in real time, that bag time was due; seconds."""
        return (self.now_ns() - bag_ns) / (self._rate * 1e9)

    def wait_until(self, bag_ns: int) -> bool:
        """Return when that bag time has come; False: a stop is requested."""
        while not self._stop:
            left_s = -self.late_s(bag_ns)
            if left_s > _SPIN_S:
                time.sleep(min(left_s - _SPIN_S, _LONGEST_WAIT_S))
                continue
            deadline = time.perf_counter() + left_s
            while time.perf_counter() < deadline:
                pass
            return True
        return False


class InStep:
    """Waits for the nodes that subscribe to a player's topics.

    DDS acknowledges what has arrived at a node, not what the node has taken, and a queue that overflows there is
    silent. A node's parameter services go through the same executor as its subscriptions: where a message lies before
    the request does, a single-threaded executor takes the message first. So an answer to an empty request tells that
    all is taken. (Waiting for DDS's acknowledgement before would take 0.2 s: CycloneDDS's readers acknowledge when a
    heartbeat asks them. On one machine the request arrives after the message in any case, as both go from one process
    to another in one stream.)
    """

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
            there = sorted(names_of(subscriptions(self._node, topic)))
            self._listeners[topic] = [name for name in there if self._can_be_asked(name)]
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
