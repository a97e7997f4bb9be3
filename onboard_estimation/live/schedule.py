"""How a bag is played, and when each message is due: as bag time runs, or when all that listen have taken the last.

Bag time runs at a rate, stands still in a pause, can be moved. Due times are computed from one fixed point, not from
the message before, so that lateness does not add up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onboard_estimation.base.errors import UserError
from onboard_estimation.judging.options import option
from onboard_estimation.live.discovery import absolute, names_of, subscriptions
from onboard_estimation.live.messages import interface_class
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
    start_paused
        Start in a pause.
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
    start_paused: bool = option(False, other_flags=("-p",))
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
        if self.start_paused and self.rate == 0.0:
            raise UserError("rate 0 plays in step with the nodes that listen and cannot start paused")
        for name in ("topics", "exclude_topics", "wait_for_nodes"):
            object.__setattr__(self, name, tuple(absolute(topic) for topic in getattr(self, name)))


class Schedule:
    """Bag time against real time. Methods may be called from any thread.

    Parameters
    ----------
    start_ns
        Bag time to start at, nanoseconds.
    rate
        Seconds of the bag per second; above 0.
    paused
        Whether bag time stands still.
    """

    def __init__(self, start_ns: int, stop: StopRequest, rate: float = 1.0, paused: bool = False) -> None:
        self.rate, self.paused = rate, paused
        self._changed = threading.Condition()
        self._stop = stop
        self._bag_ns = start_ns
        self._real_ns = time.monotonic_ns()
        self._steps = 0

    def now_ns(self) -> int:
        """Bag time, nanoseconds."""
        with self._changed:
            return self._now_ns()

    def pause(self) -> None:
        """Let bag time stand still."""
        with self._moved():
            self.paused = True

    def resume(self) -> None:
        """Let bag time run."""
        with self._moved():
            self.paused, self._steps = False, 0

    def toggle_paused(self) -> None:
        """Pause, or go on."""
        (self.resume if self.paused else self.pause)()

    def step(self) -> bool:
        """In a pause, let one message through; whether it is a pause."""
        with self._changed:
            if self.paused:
                self._steps += 1
                self._changed.notify_all()
            return self.paused

    def jump(self, bag_ns: int) -> None:
        """Set bag time, when a bag starts anew."""
        with self._moved():
            self._fix(bag_ns)

    def wait_until(self, bag_ns: int) -> bool:
        """Return when that bag time has come, or a step is made; False: a stop is requested."""
        while not self._stop:
            with self._changed:
                if self.paused:
                    if self._steps:
                        self._steps -= 1
                        self._fix(bag_ns)
                        return True
                    self._changed.wait(_LONGEST_WAIT_S)
                    continue
                left_s = (bag_ns - self._now_ns()) / (self.rate * 1e9)
                if left_s > _SPIN_S:
                    self._changed.wait(min(left_s - _SPIN_S, _LONGEST_WAIT_S))
                    continue
            deadline = time.perf_counter() + left_s
            while time.perf_counter() < deadline:
                pass
            return True
        return False

    def late_s(self, bag_ns: int) -> float:
        """How long ago, in real time, that bag time was due; seconds."""
        with self._changed:
            return 0.0 if self.paused else (self._now_ns() - bag_ns) / (self.rate * 1e9)

    def _now_ns(self) -> int:
        if self.paused:
            return self._bag_ns
        return self._bag_ns + int((time.monotonic_ns() - self._real_ns) * self.rate)

    def _fix(self, bag_ns: int) -> None:
        self._bag_ns, self._real_ns = bag_ns, time.monotonic_ns()

    @contextmanager
    def _moved(self) -> Iterator[None]:
        """Whatever changes from now on; who waits looks anew."""
        with self._changed:
            self._fix(self._now_ns())
            yield
            self._changed.notify_all()


def offer_services(node: Any, schedule: Schedule) -> None:
    """Create `~/pause`, `~/resume`, `~/toggle_paused` and `~/play_next` on a player's node.

    `std_srvs/Trigger` under the names of rosbag2's: its own types come with a whole ROS 2 only.
    """

    def answering(action: Callable[[], Any]) -> Callable[[Any, Any], Any]:
        def answer(request: Any, response: Any) -> Any:
            response.success = action() is not False
            return response

        return answer

    actions = (schedule.pause, schedule.resume, schedule.toggle_paused)
    for name, action in {**{one.__name__: one for one in actions}, "play_next": schedule.step}.items():
        node.create_service(interface_class("std_srvs/srv/Trigger"), f"~/{name}", answering(action))


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
