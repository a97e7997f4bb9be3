"""Clocks, their jumps, and sleeping on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.exceptions import NotInitializedException
from rclpy.time import Time

# Longest time for which a sleeper does not look whether it has to wake: a signal is seen within it.
_GLANCE_S = 0.1


class ClockChange(IntEnum):
    """What a jump did to the clock's source of time."""

    ROS_TIME_NO_CHANGE = 1
    ROS_TIME_ACTIVATED = 2
    ROS_TIME_DEACTIVATED = 3
    SYSTEM_TIME_NO_CHANGE = 4


class JumpThreshold:
    """From which jump on a callback is wanted.

    Parameters
    ----------
    min_forward, min_backward
        Least jump; the backward one negative. None: jumps in that direction do not matter.
    on_clock_change
        Whether switching between wall time and simulated time counts.

    Raises
    ------
    ValueError
        A bound of the wrong sign, or nothing that would ever call.
    """

    def __init__(
        self, *, min_forward: Duration | None, min_backward: Duration | None, on_clock_change: bool = True
    ) -> None:
        if min_forward is not None and min_forward.nanoseconds <= 0:
            raise ValueError(f"min_forward has to be positive or None, not {min_forward}")
        if min_backward is not None and min_backward.nanoseconds >= 0:
            raise ValueError(f"min_backward has to be negative or None, not {min_backward}")
        if min_forward is None and min_backward is None and not on_clock_change:
            raise ValueError("a threshold needs min_forward, min_backward or on_clock_change")
        self.min_forward = min_forward
        self.min_backward = min_backward
        self.on_clock_change = on_clock_change

    def _exceeded(self, jump: TimeJump) -> bool:
        if jump.clock_change in (ClockChange.ROS_TIME_ACTIVATED, ClockChange.ROS_TIME_DEACTIVATED):
            return self.on_clock_change
        return (self.min_forward is not None and jump.delta >= self.min_forward) or (
            self.min_backward is not None and jump.delta <= self.min_backward
        )


class TimeJump:
    """A jump that happened: change of the source of time, and how far."""

    def __init__(self, clock_change: ClockChange, delta: Duration) -> None:
        if not isinstance(clock_change, ClockChange):
            raise TypeError(f"clock_change has to be a ClockChange, not {clock_change!r}")
        self._clock_change = clock_change
        self._delta = delta

    @property
    def clock_change(self) -> ClockChange:
        """What happened to the source of time."""
        return self._clock_change

    @property
    def delta(self) -> Duration:
        """New time less the time before."""
        return self._delta


class JumpHandle:
    """A registered callback; `unregister` or the end of a `with` block removes it."""

    def __init__(
        self,
        *,
        clock: Clock,
        threshold: JumpThreshold,
        pre_callback: Callable[[], Any] | None,
        post_callback: Callable[[TimeJump], Any] | None,
    ) -> None:
        if pre_callback is None and post_callback is None:
            raise ValueError("a jump callback needs pre_callback or post_callback")
        for callback in (pre_callback, post_callback):
            if callback is not None and not callable(callback):
                raise ValueError(f"a callback has to be callable, not a {type(callback).__name__}")
        self._clock: Clock | None = clock
        self._threshold = threshold
        self._pre_callback = pre_callback
        self._post_callback = post_callback
        clock._jump_handles.append(self)

    def unregister(self) -> None:
        """Remove the callback from its clock."""
        if self._clock is not None:
            self._clock._jump_handles.remove(self)
            self._clock = None

    def __enter__(self) -> JumpHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()


class Clock:
    """A clock of one kind; `Clock(clock_type=ClockType.ROS_TIME)` is a `ROSClock`."""

    _clock_type: ClockType
    _jump_handles: list[JumpHandle]

    def __new__(cls, *, clock_type: ClockType = ClockType.SYSTEM_TIME) -> Clock:
        if not isinstance(clock_type, ClockType):
            raise TypeError(f"clock_type has to be a ClockType, not {clock_type!r}")
        clock = super().__new__(ROSClock if clock_type is ClockType.ROS_TIME else cls)
        clock._clock_type = clock_type
        clock._jump_handles = []
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

    def create_jump_callback(
        self,
        threshold: JumpThreshold,
        *,
        pre_callback: Callable[[], Any] | None = None,
        post_callback: Callable[[TimeJump], Any] | None = None,
    ) -> JumpHandle:
        """Call back before and after a jump that exceeds the threshold."""
        return JumpHandle(clock=self, threshold=threshold, pre_callback=pre_callback, post_callback=post_callback)

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

    @property
    def ros_time_is_active(self) -> bool:
        """Whether the clock shows simulated time."""
        return self._active

    def _now_ns(self) -> int:
        return self._override_ns if self._active else time.time_ns()

    def _set_ros_time_is_active(self, enabled: bool) -> None:
        if enabled == self._active:
            return
        change = ClockChange.ROS_TIME_ACTIVATED if enabled else ClockChange.ROS_TIME_DEACTIVATED
        with _Jump(self, TimeJump(change, Duration())):
            self._active = enabled

    def set_ros_time_override(self, time: Time) -> None:
        """Time that the clock shows while simulated time is active."""
        if not isinstance(time, Time):
            raise TypeError(f"a rclpy.time.Time is needed, not a {type(time).__name__}")
        if not self._active:
            self._override_ns = time.nanoseconds
            return
        delta = Duration(nanoseconds=time.nanoseconds - self._override_ns)
        with _Jump(self, TimeJump(ClockChange.ROS_TIME_NO_CHANGE, delta)):
            self._override_ns = time.nanoseconds

    def _sleep_until_ns(self, until_ns: int, context: Any) -> bool:
        woken = threading.Event()
        source_changed = False

        def after_jump(jump: TimeJump) -> None:
            nonlocal source_changed
            # Another source of time has another epoch: the time to wait for has lost its meaning.
            source_changed = source_changed or jump.clock_change is not ClockChange.ROS_TIME_NO_CHANGE
            woken.set()

        any_jump = JumpThreshold(min_forward=Duration(nanoseconds=1), min_backward=Duration(nanoseconds=-1))
        with self.create_jump_callback(any_jump, post_callback=after_jump):
            while context.ok() and not source_changed:
                left_s = (until_ns - self._now_ns()) * 1e-9
                if left_s <= 0.0:
                    return True
                woken.wait(_GLANCE_S if self._active else min(left_s, _GLANCE_S))
                woken.clear()
        return False


class _Jump:
    """Calls the callbacks of a jump before and after the body that makes it."""

    def __init__(self, clock: Clock, jump: TimeJump) -> None:
        self._jump = jump
        self._handles = [handle for handle in clock._jump_handles if handle._threshold._exceeded(jump)]

    def __enter__(self) -> None:
        for handle in self._handles:
            if handle._pre_callback is not None:
                handle._pre_callback()

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            if handle._post_callback is not None:
                handle._post_callback(self._jump)
