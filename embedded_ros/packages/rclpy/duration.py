"""Durations in whole nanoseconds."""

from __future__ import annotations

from typing import Any

from rclpy.constants import S_TO_NS

_LIMIT_NS = 2**63


class Duration:
    """Time between two instants; may be negative.

    Parameters
    ----------
    seconds
        s; its fraction counts.
    nanoseconds
        ns, added to the seconds.

    Raises
    ------
    OverflowError
        More than 64 bits of nanoseconds (292 years).
    """

    __slots__ = ("_nanoseconds",)

    def __init__(self, *, seconds: float = 0, nanoseconds: int = 0) -> None:
        total_ns = int(seconds * S_TO_NS) + int(nanoseconds)
        if not -_LIMIT_NS <= total_ns < _LIMIT_NS:
            raise OverflowError(f"a duration of {total_ns} ns does not fit into 64 bits")
        self._nanoseconds = total_ns

    @property
    def nanoseconds(self) -> int:
        """Length, ns."""
        return self._nanoseconds

    def __repr__(self) -> str:
        return f"Duration(nanoseconds={self._nanoseconds})"

    def __str__(self) -> str:
        return "Infinite" if self == Infinite else f"{self._nanoseconds} nanoseconds"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Duration):
            return self._nanoseconds == other._nanoseconds
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as in rclpy

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, Duration):
            return self._nanoseconds < other._nanoseconds
        return NotImplemented

    def __le__(self, other: Any) -> bool:
        if isinstance(other, Duration):
            return self._nanoseconds <= other._nanoseconds
        return NotImplemented

    def __gt__(self, other: Any) -> bool:
        if isinstance(other, Duration):
            return self._nanoseconds > other._nanoseconds
        return NotImplemented

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, Duration):
            return self._nanoseconds >= other._nanoseconds
        return NotImplemented

    def to_msg(self) -> Any:
        """As `builtin_interfaces/msg/Duration`."""
        from builtin_interfaces.msg import Duration as DurationMessage

        seconds, nanoseconds = divmod(self._nanoseconds, S_TO_NS)
        return DurationMessage(sec=seconds, nanosec=nanoseconds)

    @classmethod
    def from_msg(cls, msg: Any) -> Duration:
        """From `builtin_interfaces/msg/Duration`; TypeError for anything else."""
        from builtin_interfaces.msg import Duration as DurationMessage

        if not isinstance(msg, DurationMessage):
            raise TypeError(f"a builtin_interfaces.msg.Duration is needed, not a {type(msg).__name__}")
        return cls(seconds=msg.sec, nanoseconds=msg.nanosec)


Infinite = Duration(nanoseconds=_LIMIT_NS - 1)
