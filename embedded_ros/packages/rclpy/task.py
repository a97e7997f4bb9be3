"""Futures, and tasks that an executor runs."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any


class Future:
    """Outcome of something that ends later; `await` it in a coroutine callback."""

    def __init__(self, *, executor: Any = None) -> None:
        self._done = False
        self._cancelled = False
        self._result: Any = None
        self._exception: BaseException | None = None
        self._exception_fetched = False
        self._callbacks: list[Callable[[Future], Any]] = []
        self._lock = threading.Lock()
        self._executor: weakref.ReferenceType[Any] | None = None
        self._set_executor(executor)

    def __del__(self) -> None:
        if self._exception is not None and not self._exception_fetched:
            print(f"The following exception was never retrieved: {self._exception}", file=sys.stderr)

    def __await__(self) -> Generator[Future, None, Any]:
        while not self._done:
            # The executor resumes the coroutine when this future is done.
            yield self
        return self.result()

    def cancel(self) -> None:
        """Cancel it unless it is done."""
        with self._lock:
            if not self._done:
                self._cancelled = True
        self._call_back()

    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._cancelled

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._done

    def result(self) -> Any:
        """The result, None while there is none; raises the exception if there is one."""
        exception = self.exception()
        if exception is not None:
            raise exception
        return self._result

    def exception(self) -> BaseException | None:
        """The exception, or None."""
        self._exception_fetched = True
        return self._exception

    def set_result(self, result: Any) -> None:
        """End it with a result."""
        with self._lock:
            self._result = result
            self._done = True
            self._cancelled = False
        self._call_back()

    def set_exception(self, exception: BaseException) -> None:
        """End it with an exception."""
        with self._lock:
            self._exception = exception
            self._exception_fetched = False
            self._done = True
            self._cancelled = False
        self._call_back()

    def _set_executor(self, executor: Any) -> None:
        self._executor = None if executor is None else weakref.ref(executor)

    def _call_back(self) -> None:
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        executor = None if self._executor is None else self._executor()
        for callback in callbacks:
            if executor is not None:
                executor.create_task(callback, self)
                continue
            try:
                callback(self)
            except Exception as error:  # the other callbacks are called all the same
                warnings.warn(f"Unhandled exception in done callback: {error}", stacklevel=3)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call with the future once it is done, in its executor if it has one; at once if it is done already."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        executor = None if self._executor is None else self._executor()
        if executor is not None:
            executor.create_task(callback, self)
        else:
            callback(self)


class Task(Future):
    """A function or coroutine that an executor runs; calling it runs it, or resumes it."""

    def __init__(self, handler: Any, args: Any = None, kwargs: Any = None, executor: Any = None) -> None:
        super().__init__(executor=executor)
        self._args = args or ()
        self._kwargs = kwargs or {}
        if inspect.iscoroutinefunction(handler):
            handler = handler(*self._args, **self._kwargs)
        self._handler = handler
        self._executing = False
        self._task_lock = threading.Lock()
        # What the coroutine waits for; None: it only gave way to others.
        self._awaited: Any = None
        self._from_callback = False

    def __call__(self) -> None:
        if self._done or not self._task_lock.acquire(blocking=False):
            return
        try:
            if self._done or self._cancelled:
                return
            self._executing = True
            try:
                if inspect.iscoroutine(self._handler):
                    try:
                        self._awaited = self._handler.send(None)
                        return
                    except StopIteration as end:
                        result = end.value
                else:
                    result = self._handler(*self._args, **self._kwargs)
            except Exception as error:
                self._forget()
                self.set_exception(error)
            else:
                self._forget()
                self.set_result(result)
        finally:
            self._executing = False
            self._task_lock.release()

    def _forget(self) -> None:
        self._handler = None
        self._args = ()
        self._kwargs = {}
