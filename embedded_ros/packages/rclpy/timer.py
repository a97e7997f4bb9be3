"""Timers and rates."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.clock import Clock, ROSClock
from rclpy.exceptions import InvalidHandle, ROSInterruptException


class Timer:
    """Calls back once per period; made by `Node.create_timer`.

    Unless simulated time is active the period is measured on the steady clock, so that setting the machine's clock
    neither stalls a timer nor makes it fire in a burst. Periods that were missed are left out, the phase is kept.
    """

    def __init__(
        self,
        callback: Callable[[], Any] | None,
        callback_group: Any,
        timer_period_ns: int,
        clock: Clock,
        *,
        context: Any = None,
        autostart: bool = True,
    ) -> None:
        if timer_period_ns < 0:
            raise ValueError(f"timer period must not be negative: {timer_period_ns} ns")
        self.callback = callback
        self.callback_group = callback_group
        self._clock = clock
        self._period_ns = int(timer_period_ns)
        self._canceled = not autostart
        self._destroyed = False
        self._wake: Callable[[], None] | None = None
        self._last_ns = self._now_ns()
        self._due_ns = self._last_ns + self._period_ns
        if isinstance(clock, ROSClock):
            clock._listeners.append(self._after_jump)

    def _simulated(self) -> bool:
        return isinstance(self._clock, ROSClock) and self._clock.ros_time_is_active

    def _now_ns(self) -> int:
        return self._clock._now_ns() if self._simulated() else time.monotonic_ns()

    def _after_jump(self, source_changed: bool) -> None:
        now_ns = self._now_ns()
        # Another source of time, or time before the last call: the next call is one period from now.
        if source_changed or now_ns < self._last_ns:
            self._last_ns = now_ns
            self._due_ns = now_ns + self._period_ns
        self._changed()

    def _changed(self) -> None:
        if self._wake is not None:
            self._wake()

    def _due_monotonic_ns(self, monotonic_ns: int) -> int | None:
        """When the executor has to look again, on the steady clock; None: no time tells."""
        if self._canceled or self._destroyed:
            return None
        if self._simulated():
            return monotonic_ns if self._clock._now_ns() >= self._due_ns else None
        return self._due_ns

    def _begin(self) -> bool:
        """Whether the callback is to run now; then the next call is a period, or more if some were missed, later."""
        if self._destroyed or not self.is_ready():
            return False
        now_ns = self._now_ns()
        self._last_ns = now_ns
        self._due_ns += self._period_ns
        if self._due_ns < now_ns:
            if self._period_ns == 0:
                self._due_ns = now_ns
            else:
                missed = 1 + (now_ns - self._due_ns - 1) // self._period_ns
                self._due_ns += missed * self._period_ns
        return True

    def _run(self, _: Any) -> Any:
        return None if self.callback is None else self.callback()

    @property
    def handle(self) -> Timer:
        """The timer itself; InvalidHandle once it is destroyed."""
        if self._destroyed:
            raise InvalidHandle("the timer is destroyed")
        return self

    @property
    def clock(self) -> Clock:
        """Clock that the period is measured on."""
        return self._clock

    @property
    def timer_period_ns(self) -> int:
        """Period, ns; a new one holds from the next call on."""
        return self._period_ns

    @timer_period_ns.setter
    def timer_period_ns(self, value: int) -> None:
        self._period_ns = int(value)

    def is_ready(self) -> bool:
        """Whether the callback is due."""
        return not self._canceled and self._now_ns() >= self._due_ns

    def is_canceled(self) -> bool:
        """Whether it was stopped."""
        return self._canceled

    def cancel(self) -> None:
        """Stop until `reset`."""
        self._canceled = True
        self._changed()

    def reset(self) -> None:
        """Begin a period now."""
        self._canceled = False
        self._due_ns = self._now_ns() + self._period_ns
        self._changed()

    def time_since_last_call(self) -> int:
        """Time since the last call, or since the timer was made, ns."""
        return self._now_ns() - self._last_ns

    def time_until_next_call(self) -> int | None:
        """Time to the next call, negative when it is overdue, ns; None while the timer is stopped."""
        return None if self._canceled else self._due_ns - self._now_ns()

    def destroy(self) -> None:
        """Never call again."""
        self._destroyed = True
        if isinstance(self._clock, ROSClock) and self._after_jump in self._clock._listeners:
            self._clock._listeners.remove(self._after_jump)


class Rate:
    """Sleeps at a fixed rate while another thread spins; made by `Node.create_rate`."""

    def __init__(self, timer: Timer, *, context: Any) -> None:
        self._timer = timer
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._sleepers = 0
        self._is_shutdown = False
        self._is_destroyed = False
        timer.callback = self._event.set
        context.on_shutdown(self._on_shutdown)

    def _on_shutdown(self) -> None:
        self._is_shutdown = True
        self.destroy()

    def destroy(self) -> None:
        """Wake who sleeps."""
        self._is_destroyed = True
        self._event.set()

    def sleep(self) -> None:
        """Sleep until the timer fires.

        Raises
        ------
        ROSInterruptException
            rclpy was shut down.
        RuntimeError
            The rate was destroyed.
        """
        if self._is_shutdown:
            raise ROSInterruptException
        if self._is_destroyed:
            raise RuntimeError("Rate cannot sleep because it has been destroyed")
        with self._lock:
            self._sleepers += 1
        try:
            self._event.wait()
        finally:
            with self._lock:
                self._sleepers -= 1
                if self._sleepers == 0:
                    self._event.clear()
        if self._is_shutdown:
            raise ROSInterruptException
