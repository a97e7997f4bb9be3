"""What an executor runs next: one queue of ready work, and waiting for more.

Samples are taken in small batches, which saves most of the cost of waiting, and are dispatched in the order of their
DDS source timestamps across all subscriptions, then in the order in which the subscriptions were made. rclpy has the
latter only; with the former a node that was held up for a moment, or that is fed by a bag, gets the messages of several
sensors in the order in which they were sent, and a replay is repeatable. Timers go before messages, but one round of
them only, so that neither starves the other.

A node with an inertial sensor comes through here a thousand times a second: the way of a single sample is kept short.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rclpy._executor_exceptions import (
    ConditionReachedException,
    ExternalShutdownException,
    ShutdownException,
    TimeoutException,
)
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.client import Client
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.task import Task
from rclpy.timer import Timer

if TYPE_CHECKING:
    from embedded_ros.wire import WaitSet
    from rclpy.node import Node

# Samples per subscription and wake-up: enough for throughput, few enough that timers and new work are not kept waiting.
_BATCH = 64
# Longest wait in C, where Python sees no signal.
_GLANCE_NS = 100_000_000
# Events (incompatible QoS, matches) are looked at this often.
_EVENT_PERIOD_NS = 250_000_000
# A coroutine that gives way without naming what it waits for is resumed after this time.
_YIELD_NS = 1_000_000
_NEVER = 2**63
_NOBODY: frozenset[Any] = frozenset()

_Work = tuple[Any, Any]  # entity, what its callback gets
_ORDER = itemgetter(0, 1)
_monotonic_ns = time.monotonic_ns


class ReadyWork:
    """Part of `rclpy.executors.Executor`."""

    _context: Any
    _is_shutdown: bool
    wake: Callable[[], None]

    def _start_ready_work(self) -> None:
        self._nodes: list[Node] = []
        self._nodes_lock = threading.RLock()
        self._queue: deque[_Work] = deque()
        self._tasks: deque[Task] = deque()
        self._yielded: list[Task] = []
        self._waitset: WaitSet | None = None
        self._wake_pending = True
        self._next_due_ns = 0
        self._next_events_ns = 0
        self._attached: dict[Any, Any] = {}  # entity of the wire, and what it belongs to
        self._places: dict[Any, int] = {}
        self._entities_version: Any = None
        self._waiting: Any = None  # entities that are not waited for, since their work stands in the queue
        self._timers: list[Timer] = []
        self._ran_timer = False
        # Whether some subscription, client or service may have something left from before.
        self._look_for_left = False

    def get_nodes(self) -> list[Node]:
        """Nodes whose callbacks run here."""
        with self._nodes_lock:
            return list(self._nodes)

    def _next_work(self, timeout_s: float | None, condition: Callable[[], bool] | None) -> _Work:
        """A task, or an entity whose callback group has let it begin, with what its callback gets.

        Raises
        ------
        TimeoutException, ShutdownException, ExternalShutdownException, ConditionReachedException
        """
        end_ns = None
        if timeout_s is not None and timeout_s >= 0:
            end_ns = _monotonic_ns() + int(timeout_s * 1e9)
        waited = False
        while True:
            if condition is not None and condition():
                raise ConditionReachedException
            if self._is_shutdown:
                raise ShutdownException
            if not self._context._valid:
                raise ExternalShutdownException
            now_ns = _monotonic_ns()
            if now_ns >= self._next_due_ns and not self._ran_timer:
                self._queue_timers(now_ns)
            if self._queue or self._tasks:
                work = self._startable()
                if work is not None:
                    return work
            if waited and end_ns is not None and now_ns >= end_ns:
                raise TimeoutException
            self._wait(end_ns, now_ns)
            # After a timer the others have a turn, if anything of theirs is ready.
            self._ran_timer = self._ran_timer and bool(self._queue)
            waited = True

    def _startable(self) -> _Work | None:
        while self._tasks:
            task = self._tasks.popleft()
            if not task.done() and not task.cancelled():
                return task, None
        queue = self._queue
        blocked: list[_Work] = []
        found = None
        while queue:
            work = queue.popleft()
            entity = work[0]
            if entity._destroyed:
                continue
            if not entity.callback_group.beginning_execution(entity):
                blocked.append(work)
                continue
            if isinstance(entity, Subscription):
                self._ran_timer = False
                if not entity._begin(work[1]):  # read out meanwhile by `take_message`
                    entity.callback_group.ending_execution(entity)
                    continue
            elif isinstance(entity, Timer):
                self._next_due_ns = 0
                if not entity._begin():  # stopped, or set back, since it was queued
                    entity.callback_group.ending_execution(entity)
                    continue
                self._ran_timer = True
            else:
                self._ran_timer = False
            found = work
            break
        if blocked:
            queue.extendleft(reversed(blocked))
        return found

    def _queue_timers(self, now_ns: int) -> None:
        """Put timers that are due before everything else, and find out when the next one is."""
        queued = {work[0] for work in self._queue} if self._queue else ()
        due: list[tuple[int, Timer]] = []
        self._next_due_ns = _NEVER
        next_ns = _NEVER
        for timer in self._timers:
            due_ns = timer._due_monotonic_ns(now_ns)
            if due_ns is None or timer in queued:
                continue
            if due_ns <= now_ns:
                due.append((due_ns, timer))
            else:
                next_ns = min(next_ns, due_ns)
        for _, timer in sorted(due, key=itemgetter(0), reverse=True):
            self._queue.appendleft((timer, None))
        # With timers in the queue the next look is due as soon as they have run.
        self._next_due_ns = 0 if due else min(next_ns, self._next_due_ns)

    def _wait(self, end_ns: int | None, now_ns: int) -> None:
        """Wait until something is ready, at most until `end_ns` or for a moment, and queue it."""
        queue = self._queue
        before = len(queue)
        waiting = frozenset([work[0] for work in queue]) if before else _NOBODY
        if self._wake_pending or waiting != self._waiting:
            self._synchronize(waiting)
        longest_ns = _GLANCE_NS
        if self._yielded:
            longest_ns = _YIELD_NS
            self._tasks.extend(self._yielded)
            self._yielded.clear()
        if now_ns >= self._next_events_ns:
            self._next_events_ns = now_ns + _EVENT_PERIOD_NS
            self._queue_events()
        if now_ns >= self._next_due_ns and not self._ran_timer:
            self._queue_timers(now_ns)
        left: list[Any] = []
        if self._look_for_left:
            left = [entity for entity in self._attached.values() if entity._left and entity not in waiting]
            self._look_for_left = bool(left) or bool(waiting)
        wait_ns = 0
        if not (left or self._ran_timer or len(queue) > before):
            next_ns = self._next_due_ns if end_ns is None else min(self._next_due_ns, end_ns)
            wait_ns = min(max(next_ns - now_ns, 0), longest_ns)
        waitset = self._waitset
        if waitset is None:
            time.sleep(1e-9 * min(wait_ns, _YIELD_NS))
            return
        ready = waitset.wait_ns(wait_ns)
        if ready or left:
            self._queue_ready(ready, left)

    def _queue_ready(self, ready: list[Any], left: list[Any]) -> None:
        entities = [entity for entity in map(self._attached.get, ready) if entity is not None]
        if left:
            entities = list(dict.fromkeys(left + entities))
        queue = self._queue
        if len(entities) == 1:
            entity = entities[0]
            if not entity._destroyed:
                taken = entity._take(_BATCH)
                if isinstance(entity, Subscription):
                    entity._queued.extend(taken)
                for one in taken:
                    queue.append((entity, one))
            return
        subscriptions = []
        others: list[_Work] = []
        for entity in entities:
            if entity._destroyed:
                continue
            if isinstance(entity, Subscription):
                subscriptions.append(entity)
            else:
                others.extend((entity, taken) for taken in entity._take(_BATCH))
        queue.extend(self._in_order(subscriptions))
        queue.extend(others)

    def _in_order(self, subscriptions: list[Subscription]) -> list[_Work]:
        """Samples of several subscriptions as they were sent."""
        batch: list[tuple[int, int, Subscription, Any]] = []
        horizon_ns = _NEVER
        for subscription in subscriptions:
            place = self._places.get(subscription, 0)
            stamp_ns = 0
            samples = subscription._take(_BATCH)
            for sample in samples:
                # Never before its predecessor, even if the sender's clock was set back in between.
                stamp_ns = max(stamp_ns, sample.source_stamp_ns)
                batch.append((stamp_ns, place, subscription, sample))
            if len(samples) >= _BATCH:
                horizon_ns = min(horizon_ns, stamp_ns)
        batch.sort(key=_ORDER)
        work: list[_Work] = []
        for stamp_ns, _, subscription, sample in batch:
            if stamp_ns <= horizon_ns:
                subscription._queued.append(sample)
                work.append((subscription, sample))
            else:
                # A subscription with more than a batch may have samples yet that come before this one.
                self._look_for_left = True
                subscription._left.append(sample)
        return work

    def _queue_events(self) -> None:
        for node in self.get_nodes():
            for handler in list(node._embedded_core.event_handlers):
                payload = handler._poll()
                if payload is not None:
                    self._queue.append((handler, payload))

    def _synchronize(self, waiting: Any) -> None:
        """Make the wait set hold what the nodes have, without those whose work already stands in the queue."""
        if self._wake_pending:
            self._wake_pending = False
            self._next_due_ns = 0
        nodes = self.get_nodes()
        wanted: dict[Any, Any] = {}
        for node in nodes:
            wanted.update(node._embedded_core.wire_entities())
        kept_back = frozenset(entity for entity in wanted.values() if _is_kept_back(entity))
        version = (tuple((node, node._embedded_core.entities_version) for node in nodes), waiting, kept_back)
        if version == self._entities_version:
            return
        self._entities_version = version
        self._waiting = waiting
        self._timers = [timer for node in nodes for timer in list(node._embedded_core.timers)]
        self._places = {entity: place for place, entity in enumerate(wanted.values())}
        if not self._context._valid:
            return
        if self._waitset is None and wanted:
            from embedded_ros.wire import WaitSet

            self._waitset = WaitSet(self._context.participant)
        if self._waitset is None:
            return
        active = {wire: one for wire, one in wanted.items() if one not in waiting and one not in kept_back}
        for wire in [wire for wire in self._attached if wire not in active]:
            self._waitset.detach(wire)
        for wire in [wire for wire in active if wire not in self._attached]:
            self._waitset.attach(wire)
        self._attached = active

    def _return_work(self, node: Node) -> None:
        kept: deque[_Work] = deque()
        for work in reversed(self._queue):  # before what is left already, which is younger
            entity = work[0]
            if getattr(entity, "_node", None) is not node:
                kept.appendleft(work)
            elif isinstance(entity, Subscription):
                if entity._queued and entity._queued[-1] is work[1]:
                    entity._left.insert(0, entity._queued.pop())
            elif isinstance(entity, (Service, Client)):
                entity._left.insert(0, work[1])
        self._queue = kept

    def _forget(self, entity: Any) -> None:
        """The entity is about to be destroyed."""
        waitset = self._waitset
        for wire in [wire for wire, owner in self._attached.items() if owner is entity]:
            # A new dictionary: the thread that spins may be walking through the old one.
            self._attached = {kept: owner for kept, owner in self._attached.items() if kept is not wire}
            if waitset is not None:
                waitset.detach(wire)

    def _release_waitset(self) -> None:
        waitset, self._waitset = self._waitset, None
        self._attached = {}
        self._entities_version = self._waiting = None
        if waitset is not None:
            waitset.close()


def _is_kept_back(entity: Any) -> bool:
    """Whether its group does not let it run; the work of one that is only busy waits in the queue."""
    group = entity.callback_group
    return not (type(group) is MutuallyExclusiveCallbackGroup or group.can_execute(entity))
