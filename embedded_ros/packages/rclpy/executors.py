"""Executors: they run the callbacks of what is ready (`rclpy._ready_work`), in one thread or in several."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from rclpy._executor_exceptions import (
    ConditionReachedException,
    ExternalShutdownException,
    ShutdownException,
    TimeoutException,
)
from rclpy._ready_work import ReadyWork
from rclpy.subscription import Subscription
from rclpy.task import Future, Task
from rclpy.utilities import get_default_context

if TYPE_CHECKING:
    from rclpy.node import Node

__all__ = [
    "ConditionReachedException",
    "Executor",
    "ExternalShutdownException",
    "MultiThreadedExecutor",
    "ShutdownException",
    "SingleThreadedExecutor",
    "TimeoutException",
]

# Longest wait for a thread of the pool, since Ctrl-C is not seen meanwhile.
_GLANCE_S = 0.1


class Executor(ReadyWork):
    """Base of the executors: nodes, the queue of ready work, waiting."""

    def __init__(self, *, context: Any = None) -> None:
        self._context = get_default_context() if context is None else context
        self._is_shutdown = False
        self._start_ready_work()
        self._running = 0
        self._idle = threading.Condition()
        self._context._executors.add(self)

    @property
    def context(self) -> Any:
        """Context whose shutdown ends spinning."""
        return self._context

    def add_node(self, node: Node) -> bool:
        """Run the node's callbacks; False if it was added before."""
        with self._nodes_lock:
            if node in self._nodes:
                return False
            self._nodes.append(node)
            node.executor = self
            self._look_for_left = True
        self.wake()
        return True

    def remove_node(self, node: Node) -> None:
        """No longer run the node's callbacks; what it has not got yet waits for its next executor."""
        with self._nodes_lock:
            if node not in self._nodes:
                return
            self._nodes.remove(node)
            node._embedded_core.left(self)
            self._return_work(node)
        self._next_due_ns = 0

    def create_task(self, callback: Any, *args: Any, **kwargs: Any) -> Task:
        """Run a function or coroutine while spinning; the task is its future."""
        task = Task(callback, args, kwargs, executor=self)
        self._tasks.append(task)
        self.wake()
        return task

    def wake(self) -> None:
        """Look again at what there is to do; from any thread."""
        self._next_due_ns = 0
        self._wake_pending = True
        waitset = self._waitset
        # In a callback of its own thread the executor does not wait.
        if waitset is not None and getattr(_current, "waiter", None) is not self:
            # The wait set may be closed by a shutdown in another thread.
            with contextlib.suppress(Exception):
                waitset.wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Run nothing more and wait for callbacks that run; False if some still do after the timeout."""
        self._is_shutdown = True
        self.wake()
        limit_s = None if timeout_sec is None or timeout_sec < 0 else timeout_sec
        with self._idle:
            mine = 1 if getattr(_current, "executor", None) is self else 0
            if not self._idle.wait_for(lambda: self._running <= mine, limit_s):
                return False
        for node in self.get_nodes():
            self.remove_node(node)
        if not mine:
            self._release_waitset()
        return True

    def spin(self) -> None:
        """Run callbacks until the context or the executor is shut down."""
        while self._context.ok() and not self._is_shutdown:
            self.spin_once()

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Run one callback, or wait for one until the timeout; None or negative: for ever."""
        raise NotImplementedError

    def spin_until_future_complete(self, future: Future, timeout_sec: float | None = None) -> None:
        """Run callbacks until the future is done."""
        future.add_done_callback(lambda _: self.wake())
        limited = timeout_sec is not None and timeout_sec >= 0
        end_s = time.monotonic() + (timeout_sec or 0.0)
        while self._context.ok() and not self._is_shutdown and not future.done():
            left_s = max(end_s - time.monotonic(), 0.0) if limited else None
            self._spin_once(left_s, future.done)
            if limited and time.monotonic() >= end_s:
                return

    def _spin_once(self, timeout_s: float | None, condition: Callable[[], bool] | None = None) -> None:
        raise NotImplementedError

    # Running

    def _wake_shutdown(self) -> None:
        """Another thread may wait in `shutdown` for the callback that has ended."""
        if self._is_shutdown:
            with self._idle:
                self._idle.notify_all()

    def _leave(self, entity: Any, sample: Any) -> None:
        """Work that was to begin is for the node's next executor."""
        if isinstance(entity, Task):
            return
        entity.callback_group.ending_execution(entity)
        self._queue.appendleft((entity, sample))
        if isinstance(entity, Subscription):
            entity._queued.appendleft(sample)
        if node := getattr(entity, "_node", None):
            self._return_work(node)

    def _run(self, entity: Any, sample: Any) -> None:
        """Run a task, or the callback of an entity whose group has let it begin."""
        if isinstance(entity, Task):
            entity()
            self._after_task(entity)
            return
        later = False
        try:
            result = entity._run(sample)
            if result is not None and inspect.iscoroutine(result):
                later = True
                self._run_coroutine(entity, result)
        finally:
            if not later:
                entity.callback_group.ending_execution(entity)

    def _run_coroutine(self, entity: Any, coroutine: Any) -> None:
        async def whole() -> None:
            try:
                await coroutine
            finally:
                entity.callback_group.ending_execution(entity)
                self.wake()

        task = Task(whole, executor=self)
        task._from_callback = True
        task()
        self._after_task(task)

    def _after_task(self, task: Task) -> None:
        if task.done():
            # Nobody holds the task of a callback: its exception ends spinning, as that of a plain callback does.
            if task._from_callback or task.exception() is not None:
                task.result()
            return
        awaited = task._awaited
        if isinstance(awaited, Future):
            awaited.add_done_callback(lambda _: self._resume(task))
        else:
            self._yielded.append(task)

    def _resume(self, task: Task) -> None:
        self._tasks.append(task)
        self.wake()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


_current = threading.local()


class SingleThreadedExecutor(Executor):
    """Runs callbacks in the thread that spins."""

    def spin_once(self, timeout_sec: float | None = None) -> None:
        self._spin_once(timeout_sec)

    def _spin_once(self, timeout_s: float | None, condition: Callable[[], bool] | None = None) -> None:
        try:
            entity, sample = self._next_work(timeout_s, condition)
        except (ShutdownException, TimeoutException, ConditionReachedException):
            return
        self._running += 1
        if self._is_shutdown:  # meanwhile: whoever shuts it down saw nothing run and went on
            self._running -= 1
            self._leave(entity, sample)
            return
        before = getattr(_current, "executor", None)
        _current.executor = _current.waiter = self
        try:
            self._run(entity, sample)
        finally:
            _current.executor = _current.waiter = before
            self._running -= 1
            self._wake_shutdown()


class MultiThreadedExecutor(Executor):
    """Runs callbacks in a pool of threads; None: as many as there are processors for this process."""

    def __init__(self, num_threads: int | None = None, *, context: Any = None) -> None:
        super().__init__(context=context)
        if num_threads is None:
            num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
        if num_threads == 1:
            warnings.warn("a MultiThreadedExecutor with one thread: use the SingleThreadedExecutor", stacklevel=2)
        self._num_threads = num_threads
        self._pool = ThreadPoolExecutor(num_threads)
        self._failures: deque[BaseException] = deque()

    def spin_once(self, timeout_sec: float | None = None) -> None:
        self._spin_once(timeout_sec)

    def _spin_once(self, timeout_s: float | None, condition: Callable[[], bool] | None = None) -> None:
        # With every thread at work more would only pile up before the pool, out of reach of the history's depth.
        with self._idle:
            if not self._idle.wait_for(lambda: self._running < self._num_threads, _GLANCE_S):
                return

        def interrupted() -> bool:
            return bool(self._failures) or (condition is not None and condition())

        try:
            entity, sample = self._next_work(timeout_s, interrupted)
        except (ShutdownException, ExternalShutdownException, TimeoutException, ConditionReachedException):
            if self._failures:
                raise self._failures.popleft() from None
            return
        with self._idle:
            if self._is_shutdown:
                self._leave(entity, sample)
                return
            self._running += 1
        self._pool.submit(self._run_in_thread, entity, sample)

    def _run_in_thread(self, entity: Any, sample: Any) -> None:
        _current.executor = self
        try:
            self._run(entity, sample)
        except BaseException as error:
            self._failures.append(error)
        finally:
            _current.executor = None
            with self._idle:
                self._running -= 1
                self._idle.notify_all()
            self.wake()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Run nothing more; see `Executor.shutdown`."""
        done = super().shutdown(timeout_sec)
        self._pool.shutdown(wait=done and getattr(_current, "executor", None) is not self)
        return done
