"""Clocks, and sleeping on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from embedded_ros.absent import AbsentMethod
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.exceptions import NotInitializedException
from rclpy.time import Time

# Longest time for which a sleeper does not look whether it has to wake: a signal is seen within it.
_GLANCE_S = 0.1


class Clock:
    """A clock of one kind; `Clock(clock_type=ClockType.ROS_TIME)` is a `ROSClock`."""

    _clock_type: ClockType

    def __new__(cls, *, clock_type: ClockType = ClockType.SYSTEM_TIME) -> Clock:
        if not isinstance(clock_type, ClockType):
            raise TypeError(f"clock_type has to be a ClockType, not {clock_type!r}")
        clock = super().__new__(ROSClock if clock_type is ClockType.ROS_TIME else cls)
        clock._clock_type = clock_type
        clock._start()
        return clock

    def _start(self) -> None:
        """State of a subclass."""

    @property
    def clock_type(self) -> ClockType:
        """Kind of this clock."""
        return self._clock_type

    def __repr__(self) -> str:
        return f"Clock(clock_type={self._clock_type.name})"

    def _now_ns(self) -> int:
        return time.monotonic_ns() if self._clock_type is ClockType.STEADY_TIME else time.time_ns()

    def now(self) -> Time:
        """Current time of this clock."""
        return Time(nanoseconds=self._now_ns(), clock_type=self._clock_type)

    create_jump_callback = AbsentMethod("compare now() with the time before")

    def sleep_until(self, until: Time, context: Any = None) -> bool:
        """Sleep until this clock shows the time; False if something else ended the sleep.

        Raises
        ------
        ValueError
            `until` belongs to another kind of clock.
        NotInitializedException
            The context is not initialised or already shut down.
        """
        from rclpy.utilities import get_default_context

        context = get_default_context() if context is None else context
        if not context.ok():
            raise NotInitializedException
        if until.clock_type != self._clock_type:
            raise ValueError(f"a {self._clock_type.name} clock cannot sleep until a time of {until.clock_type.name}")
        return self._sleep_until_ns(until.nanoseconds, context)

    def _sleep_until_ns(self, until_ns: int, context: Any) -> bool:
        while context.ok():
            left_s = (until_ns - self._now_ns()) * 1e-9
            if left_s <= 0.0:
                return True
            time.sleep(min(left_s, _GLANCE_S))
        return False

    def sleep_for(self, rel_time: Duration, context: Any = None) -> bool:
        """Sleep for a duration of this clock; see `sleep_until`."""
        return self.sleep_until(self.now() + rel_time, context)


class ROSClock(Clock):
    """Wall time, or simulated time while it is active."""

    _active: bool
    _override_ns: int

    def __new__(cls) -> ROSClock:
        return super().__new__(cls, clock_type=ClockType.ROS_TIME)  # type: ignore[return-value]

    def _start(self) -> None:
        self._active = False
        self._override_ns = 0
        # Called after each jump with whether the source of time is another one now.
        self._listeners: list[Callable[[bool], None]] = []

    @property
    def ros_time_is_active(self) -> bool:
        """Whether the clock shows simulated time."""
        return self._active

    def _now_ns(self) -> int:
        return self._override_ns if self._active else time.time_ns()

    def _set_ros_time_is_active(self, enabled: bool) -> None:
        if enabled == self._active:
            return
        self._active = enabled
        self._tell(source_changed=True)

    def set_ros_time_override(self, time: Time) -> None:
        """Time that the clock shows while simulated time is active."""
        if not isinstance(time, Time):
            raise TypeError(f"a rclpy.time.Time is needed, not a {type(time).__name__}")
        jumped = self._active and time.nanoseconds != self._override_ns
        self._override_ns = time.nanoseconds
        if jumped:
            self._tell(source_changed=False)

    def _tell(self, *, source_changed: bool) -> None:
        for listener in tuple(self._listeners):
            listener(source_changed)

    def _sleep_until_ns(self, until_ns: int, context: Any) -> bool:
        woken = threading.Event()
        lost = False

        def after_jump(source_changed: bool) -> None:
            nonlocal lost
            # Another source of time has another epoch: the time to wait for has lost its meaning.
            lost = lost or source_changed
            woken.set()

        self._listeners.append(after_jump)
        try:
            while context.ok() and not lost:
                left_s = (until_ns - self._now_ns()) * 1e-9
                if left_s <= 0.0:
                    return True
                woken.wait(_GLANCE_S if self._active else min(left_s, _GLANCE_S))
                woken.clear()
        finally:
            self._listeners.remove(after_jump)
        return False
