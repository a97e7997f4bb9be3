"""Measurements on their way into an estimator: in the order of their stamps, and in one process without messages.

An executor takes messages topic by topic. After the node was held up, a slow topic is soon read to its end while a fast
one still has a queue: what comes from that then counts as late, to be filtered once more with all that follows it, or
as too late and is lost. Where estimates come with the measurements of some sensors only, the others may wait for them:
no estimate comes later for it, and all are filtered in order.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, runtime_checkable

from onboard_estimation.base.measurement import Measurement

PATIENCE_S = 0.25
_STAY_S, _STAY_ALONE_S = 0.01, 0.05
"""So long a node goes on by itself before the executor, and with it timers and services, has its turn; with others in
its process, which wait for it, and without."""
_SHORTEST_REST_S = 0.001


def longest_stay_s(node: Any, together: int = 1) -> float:
    """How long a node may go on by itself; `together`: nodes that do so as one."""
    executor = node.executor
    return _STAY_ALONE_S if executor is not None and len(executor.get_nodes()) <= together else _STAY_S


def stay(advance: Callable[[], float], may_go_on: Callable[[], bool], longest_s: float = _STAY_S) -> None:
    """Call `advance` again and again for a while: where the next may wait, to wait here costs less than an executor.

    Parameters
    ----------
    advance
        Does what is due; for how long the next may wait, s. Once that is nothing, the executor has its turn.
    may_go_on
        Whether the node is still to run.
    """
    began_s = time.monotonic()
    while True:
        woken_s = time.monotonic()
        rest_s = advance()
        left_s = woken_s + rest_s - time.monotonic()
        if left_s <= _SHORTEST_REST_S or woken_s + rest_s - began_s > longest_s or not may_go_on():
            return
        time.sleep(left_s)


class PacedIntake:
    """Hands measurements on; those that are ahead of the pacing sensors wait for one of them.

    Where the pacing sensors let them wait longer than the patience, they count as silent, and nothing waits until one
    is heard again.

    Parameters
    ----------
    process
        Takes the measurements.
    pace
        Names of the sensors that the others wait for, any of them: they keep step. Empty: nothing waits.
    clock
        Seconds that pass evenly.
    """

    def __init__(
        self,
        process: Callable[[Measurement], None],
        pace: Collection[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process, self._pace, self._clock = process, pace, clock
        self._numbers = count()
        self.clear()

    def clear(self) -> None:
        """Forget what waits, and begin anew."""
        self._waiting: list[tuple[int, int, Measurement]] = []
        self._newest_ns: int | None = None  # that a pacing sensor was last heard with; None while they are silent
        self._waiting_since_s = 0.0

    def add(self, measurement: Measurement) -> None:
        """Take a measurement as it arrives."""
        if measurement.sensor in self._pace:
            self._newest_ns = measurement.stamp_ns
            while self._waiting and self._waiting[0][0] <= measurement.stamp_ns:
                self._process(heapq.heappop(self._waiting)[2])
            self._waiting_since_s = self._clock() if self._waiting else 0.0
            self._process(measurement)
        elif self._newest_ns is None or measurement.stamp_ns <= self._newest_ns:
            self._process(measurement)
        else:
            self._wait(measurement)

    def _wait(self, measurement: Measurement) -> None:
        now_s = self._clock()
        if not self._waiting:
            self._waiting_since_s = now_s
        heapq.heappush(self._waiting, (measurement.stamp_ns, next(self._numbers), measurement))
        if now_s - self._waiting_since_s > PATIENCE_S:
            self._newest_ns = None
            while self._waiting:
                self._process(heapq.heappop(self._waiting)[2])


class Instant:
    """Whether all that is measured at one instant has come, of sensors that measure together, and when the next is due.

    How many of them do, and how often, shows in what came before.

    Parameters
    ----------
    pace
        Names of the sensors that count.

    Attributes
    ----------
    period_ns
        Between the last two instants; 0: there were none yet.
    """

    def __init__(self, pace: Collection[str]) -> None:
        self._pace = frozenset(pace)
        self._stamp_ns: int | None = None
        self._count = 0
        self.period_ns = 0
        self.forget()

    def forget(self) -> None:
        """Find out anew: a sensor may have fallen silent."""
        self._most = 1

    def see(self, measurement: Measurement) -> None:
        """One came."""
        if measurement.sensor in self._pace:
            if measurement.stamp_ns != self._stamp_ns:
                self.period_ns = abs(measurement.stamp_ns - self._stamp_ns) if self._stamp_ns is not None else 0
                self._stamp_ns, self._count = measurement.stamp_ns, 0
            self._count += 1
            self._most = max(self._most, self._count)

    @property
    def is_complete(self) -> bool:
        """Whether as many came of this instant as of any."""
        return self._count >= self._most


Take = Callable[[Sequence[Measurement]], float]
"""Takes readings in the order in which they came; how long the next may wait, s, so that several come together."""


@runtime_checkable
class Source(Protocol):
    """A node that measures: a driver, a simulated robot. What it measures it publishes too, where somebody listens."""

    @property
    def measured_topics(self) -> frozenset[str]:
        """Topics of its readings, relative to its namespace."""

    def hand_to(self, take: Take, topics: Collection[str]) -> None:
        """Hand the readings of these topics to `take`, in a callback of the node."""


def connect(nodes: Iterable[Any]) -> None:
    """Let each estimator take from the sources of its namespace what they measure; all else comes as messages.

    An estimator has `take`, see `Take`, and `leave_to_source`, which listens to topics no longer and gives those it
    listened to. Two estimators in one namespace are one too many: the first is served, the other goes on by messages.
    """
    nodes = list(nodes)
    takers = {one.get_namespace(): one for one in reversed(nodes) if hasattr(one, "leave_to_source")}
    for source in nodes:
        namespace, name, is_source = source.get_namespace(), source.get_name(), isinstance(source, Source)
        if is_source and namespace in takers:
            taker = takers[namespace]
            topics = taker.leave_to_source(source.measured_topics)
            source.hand_to(taker.take, topics)
            taker.get_logger().info(f"without messages between, from {name}: {', '.join(sorted(topics))}")
