"""Waiting for any of many: samples, a change of the graph, or a call from another thread."""

from __future__ import annotations

import ctypes as ct
from typing import Any

from embedded_ros.wire import dds

# Ctrl-C is noticed between two waits.
LONGEST_WAIT_S = 0.1
_waitset_wait = dds.waitset_wait


class WaitSet:
    """Entities are what has a `condition`: readers, services, clients, the graph's change."""

    def __init__(self, participant: Any) -> None:
        self._waitset = dds.checked(dds.create_waitset(participant.entity), "creating a waitset")
        self._guard = dds.checked(dds.create_guardcondition(participant.entity), "creating a guard condition")
        dds.checked(dds.waitset_attach(self._waitset, self._guard, 0), "attaching a guard condition")
        self._attached: dict[int, tuple[Any, int]] = {}
        self._next = 1
        self._make_room(16)
        self._taken = ct.c_bool()
        self.closed = False
        participant.add_waitset(self)
        self._participant = participant

    def _make_room(self, size: int) -> None:
        self._ready = (ct.c_ssize_t * size)()
        self._ready_address = ct.addressof(self._ready)

    def attach(self, entity: Any) -> None:
        """Wait for this entity as well."""
        key, self._next = self._next, self._next + 1
        dds.checked(dds.waitset_attach(self._waitset, entity.condition, key), "attaching to a waitset")
        self._attached[key] = (entity, entity.condition)
        if len(self._attached) >= len(self._ready):
            self._make_room(2 * len(self._ready))

    def detach(self, entity: Any) -> None:
        """Wait for it no longer; an entity that is not attached is none of our concern."""
        for key, (attached, condition) in list(self._attached.items()):
            if attached is entity or (condition == entity.condition and type(attached) is type(entity)):
                del self._attached[key]
                if not self.closed:
                    dds.waitset_detach(self._waitset, condition)

    def wait(self, timeout_s: float | None) -> list[Any]:
        """The entities that are ready, at once if there are any; empty after the time, 0.1 s, or `wake`."""
        limited_s = LONGEST_WAIT_S if timeout_s is None else min(max(timeout_s, 0.0), LONGEST_WAIT_S)
        return self.wait_ns(int(1e9 * limited_s))

    def wait_ns(self, timeout_ns: int) -> list[Any]:
        """`wait` without a limit to the time, in ns: Ctrl-C is not noticed meanwhile."""
        ready = self._ready
        count = _waitset_wait(self._waitset, self._ready_address, len(ready), timeout_ns)
        if count <= 0:
            if count < 0 and not self.closed:
                raise dds.DdsError(count, "waiting")
            return []
        attached = self._attached
        found = []
        for key in ready[: min(count, len(ready))]:
            if key == 0:
                dds.take_guardcondition(self._guard, ct.byref(self._taken))
            elif entry := attached.get(key):
                found.append(entry[0])
        return found

    def wake(self) -> None:
        """End the wait of another thread, or the next one."""
        if not self.closed:
            dds.set_guardcondition(self._guard, True)

    def close(self) -> None:
        """Give the waitset back."""
        if not self.closed:
            self.wake()
            self.closed = True
            self._attached.clear()
            self._participant.remove_waitset(self)
            dds.delete(self._waitset)
            dds.delete(self._guard)


class Guard:
    """A condition that a thread sets, for waitsets of others to wait on."""

    def __init__(self, participant_entity: int) -> None:
        self.condition = dds.checked(dds.create_guardcondition(participant_entity), "creating a guard condition")
        self._taken = ct.c_bool()

    def set(self) -> None:
        """Make it ready."""
        dds.set_guardcondition(self.condition, True)

    def take(self) -> bool:
        """Whether it was ready; it is not afterwards."""
        dds.take_guardcondition(self.condition, ct.byref(self._taken))
        return self._taken.value
