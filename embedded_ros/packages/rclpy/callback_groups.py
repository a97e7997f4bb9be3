"""Which callbacks may run at the same time."""

from __future__ import annotations

from threading import Lock
from typing import Any


class CallbackGroup:
    """Base of callback groups; `beginning_execution` and `ending_execution` are for subclasses."""

    def beginning_execution(self, entity: Any) -> bool:
        """Ask to begin; after True `ending_execution` has to follow."""
        raise NotImplementedError

    def ending_execution(self, entity: Any) -> None:
        """A callback has ended."""
        raise NotImplementedError


class ReentrantCallbackGroup(CallbackGroup):
    """Callbacks run in parallel without limits."""

    def beginning_execution(self, entity: Any) -> bool:
        return True

    def ending_execution(self, entity: Any) -> None:
        pass


class MutuallyExclusiveCallbackGroup(CallbackGroup):
    """One callback at a time."""

    def __init__(self) -> None:
        self._active_entity: Any = None
        self._lock = Lock()

    def beginning_execution(self, entity: Any) -> bool:
        with self._lock:
            if self._active_entity is None:
                self._active_entity = entity
                return True
        return False

    def ending_execution(self, entity: Any) -> None:
        with self._lock:
            assert self._active_entity is entity
            self._active_entity = None
