"""Instants of a clock in whole nanoseconds."""

from __future__ import annotations

from typing import Any

from rclpy.clock_type import ClockType
from rclpy.constants import S_TO_NS
from rclpy.duration import Duration

_LIMIT_NS = 2**63


class Time:
    """An instant; comparable with instants of the same kind of clock only.

    Parameters
    ----------
    seconds, nanoseconds
        s and ns since the clock's epoch, added; not negative.
    clock_type
        Kind of the clock.

    Raises
    ------
    TypeError
        `clock_type` is no ClockType.
    ValueError
        A negative part.
    OverflowError
        More than 63 bits of nanoseconds.
    """

    __slots__ = ("_clock_type", "_nanoseconds")

    def __init__(
        self, *, seconds: float = 0, nanoseconds: int = 0, clock_type: ClockType = ClockType.SYSTEM_TIME
    ) -> None:
        if not isinstance(clock_type, ClockType):
            raise TypeError(f"clock_type has to be a ClockType, not {clock_type!r}")
        if seconds < 0:
            raise ValueError(f"seconds must not be negative: {seconds}")
        if nanoseconds < 0:
            raise ValueError(f"nanoseconds must not be negative: {nanoseconds}")
        total_ns = int(seconds * S_TO_NS) + int(nanoseconds)
        if total_ns >= _LIMIT_NS:
            raise OverflowError(f"a time of {total_ns} ns does not fit into 63 bits")
        self._nanoseconds = total_ns
        self._clock_type = clock_type

    @property
    def nanoseconds(self) -> int:
        """Since the clock's epoch, ns."""
        return self._nanoseconds

    @property
    def clock_type(self) -> ClockType:
        """Kind of the clock."""
        return self._clock_type

    def seconds_nanoseconds(self) -> tuple[int, int]:
        """Whole seconds and the nanoseconds beyond them."""
        return divmod(self._nanoseconds, S_TO_NS)

    def __repr__(self) -> str:
        return f"Time(nanoseconds={self._nanoseconds}, clock_type={self._clock_type.name})"

    def _same_clock(self, other: Time, done: str) -> None:
        if self._clock_type != other._clock_type:
            raise TypeError(
                f"times with different clock types cannot be {done}: {self._clock_type.name}, {other._clock_type.name}"
            )

    def __add__(self, other: Any) -> Time:
        if isinstance(other, Duration):
            return Time(nanoseconds=self._nanoseconds + other.nanoseconds, clock_type=self._clock_type)
        return NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Time):
            self._same_clock(other, "subtracted")
            return Duration(nanoseconds=self._nanoseconds - other._nanoseconds)
        if isinstance(other, Duration):
            return Time(nanoseconds=self._nanoseconds - other.nanoseconds, clock_type=self._clock_type)
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Time):
            self._same_clock(other, "compared")
            return self._nanoseconds == other._nanoseconds
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as in rclpy

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, Time):
            self._same_clock(other, "compared")
            return self._nanoseconds < other._nanoseconds
        return NotImplemented

    def __le__(self, other: Any) -> bool:
        if isinstance(other, Time):
            self._same_clock(other, "compared")
            return self._nanoseconds <= other._nanoseconds
        return NotImplemented

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, Time):
            self._same_clock(other, "compared")
            return self._nanoseconds > other._nanoseconds
        return NotImplemented

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, Time):
            self._same_clock(other, "compared")
            return self._nanoseconds >= other._nanoseconds
        return NotImplemented

    def to_msg(self) -> Any:
        """As `builtin_interfaces/msg/Time`."""
        from builtin_interfaces.msg import Time as TimeMessage

        seconds, nanoseconds = divmod(self._nanoseconds, S_TO_NS)
        return TimeMessage(sec=seconds, nanosec=nanoseconds)

    @classmethod
    def from_msg(cls, msg: Any, clock_type: ClockType = ClockType.ROS_TIME) -> Time:
        """From `builtin_interfaces/msg/Time`; TypeError for anything else."""
        from builtin_interfaces.msg import Time as TimeMessage

        if not isinstance(msg, TimeMessage):
            raise TypeError(f"a builtin_interfaces.msg.Time is needed, not a {type(msg).__name__}")
        return cls(seconds=msg.sec, nanoseconds=msg.nanosec, clock_type=clock_type)
