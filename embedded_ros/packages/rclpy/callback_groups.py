"""Which callbacks may run at the same time."""

from __future__ import annotations

import weakref
from threading import Lock
from typing import Any


class CallbackGroup:
    """Base of callback groups; `can_execute`, `beginning_execution` and `ending_execution` are for subclasses."""

    def __init__(self) -> None:
        self.entities: set[Any] = set()

    def add_entity(self, entity: Any) -> None:
        """An entity of a node was made in this group."""
        self.entities.add(weakref.ref(entity))

    def has_entity(self, entity: Any) -> bool:
        """Whether the entity was made in this group."""
        return weakref.ref(entity) in self.entities

    def can_execute(self, entity: Any) -> bool:
        """Whether the entity may run now; executors do not wait for one that may not, until `Executor.wake`."""
        raise NotImplementedError

    def beginning_execution(self, entity: Any) -> bool:
        """Ask to begin; after True `ending_execution` has to follow."""
        raise NotImplementedError

    def ending_execution(self, entity: Any) -> None:
        """A callback has ended."""
        raise NotImplementedError


class ReentrantCallbackGroup(CallbackGroup):
    """Callbacks run in parallel without limits."""

    def can_execute(self, entity: Any) -> bool:
        return True

    def beginning_execution(self, entity: Any) -> bool:
        return True

    def ending_execution(self, entity: Any) -> None:
        pass


class MutuallyExclusiveCallbackGroup(CallbackGroup):
    """One callback at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._active_entity: Any = None
        self._lock = Lock()

    def can_execute(self, entity: Any) -> bool:
        with self._lock:
            return self._active_entity is None

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
