"""Loggers, and what keeps a message back: throttling, once, skipping the first."""

from __future__ import annotations

import sys
import time
from types import CodeType, FrameType
from typing import Any

from rclpy import _log_output
from rclpy.clock import Clock
from rclpy.impl.logging_severity import LoggingSeverity

_OPTIONS = ("throttle_duration_sec", "throttle_time_source_type", "skip_first", "once")


class _CallSite:
    """What a call to the logger remembers from one time to the next."""

    def __init__(self, severity: LoggingSeverity, options: dict[str, Any]) -> None:
        self.severity = severity
        self.options = options
        self._last_ns = 0
        self._skipped = False
        self._logged = False

    def passes(self) -> bool:
        """Whether a message may go out now; in rclpy's order, where each option sees only what passes those before."""
        period_s = self.options.get("throttle_duration_sec")
        if period_s:
            clock = self.options.get("throttle_time_source_type")
            now_ns = time.time_ns() if clock is None else clock.now().nanoseconds
            if now_ns < self._last_ns + period_s * 1e9:
                return False
            self._last_ns = now_ns
        if self.options.get("skip_first") and not self._skipped:
            self._skipped = True
            return False
        logged, self._logged = self._logged, True
        return not (self.options.get("once") and logged)


class RcutilsLogger:
    """A named logger.

    `debug`, `info`, `warning` (`warn`), `error`, `fatal` take the text and, by keyword, `throttle_duration_sec` (s,
    with `throttle_time_source_type`, a Clock), `skip_first` and `once`, which are remembered for the place of the call.
    They return whether the text went out. TypeError for an unknown option and for what is no text, which real rclpy
    refuses only where the message goes out; ValueError when a place changes its severity or options.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._sites: dict[tuple[CodeType, int], _CallSite] = {}

    def get_child(self, name: str) -> RcutilsLogger:
        """Logger below this one."""
        if not name:
            raise ValueError("a child logger needs a name")
        return RcutilsLogger(f"{self.name}.{name}" if self.name else name)

    def set_level(self, level: LoggingSeverity | int) -> None:
        """Least severity that goes out."""
        _log_output.set_level(self.name, LoggingSeverity(level))

    def get_effective_level(self) -> LoggingSeverity:
        """Least severity that goes out, set here or above."""
        return _log_output.effective_level(self.name)

    def is_enabled_for(self, severity: LoggingSeverity | int) -> bool:
        """Whether a message of this severity goes out."""
        return severity >= _log_output.effective_level(self.name)

    def log(self, message: str, severity: LoggingSeverity | int, **kwargs: Any) -> bool:
        """Log with a severity."""
        if not isinstance(message, str):
            raise TypeError(f"a log message has to be a str, not {type(message).__name__}: {message!r}; use str(...)")
        severity = LoggingSeverity(severity)
        if not self.is_enabled_for(severity):
            return False
        frame = _caller(sys._getframe(1))
        if not self._passes(frame, severity, kwargs):
            return False
        code = frame.f_code
        _log_output.write(self.name, severity, message, code.co_filename, code.co_name, frame.f_lineno)
        return True

    def _passes(self, frame: FrameType, severity: LoggingSeverity, options: dict[str, Any]) -> bool:
        unknown = sorted(set(options) - set(_OPTIONS))
        if unknown:
            raise TypeError(f'parameter "{unknown[0]}" is not one of the recognized logging options {list(_OPTIONS)}')
        clock = options.get("throttle_time_source_type")
        if clock is not None and not isinstance(clock, Clock):
            raise ValueError(f"throttle_time_source_type has to be a Clock, not {clock!r}")
        if clock is not None and not options.get("throttle_duration_sec"):
            raise TypeError("throttle_time_source_type needs throttle_duration_sec")
        # The instruction, not the line: two calls may stand on one line.
        place = (frame.f_code, frame.f_lasti)
        site = self._sites.get(place)
        if site is None:
            site = self._sites[place] = _CallSite(severity, options)
        elif site.severity != severity:
            raise ValueError("Logger severity cannot be changed between calls.")
        elif site.options != options:
            raise ValueError("Logging filter parameters cannot be changed between calls.")
        return site.passes()

    def debug(self, message: str, **kwargs: Any) -> bool:
        """Log with severity DEBUG."""
        return self.log(message, LoggingSeverity.DEBUG, **kwargs)

    def info(self, message: str, **kwargs: Any) -> bool:
        """Log with severity INFO."""
        return self.log(message, LoggingSeverity.INFO, **kwargs)

    def warning(self, message: str, **kwargs: Any) -> bool:
        """Log with severity WARN."""
        return self.log(message, LoggingSeverity.WARN, **kwargs)

    def warn(self, message: str, **kwargs: Any) -> bool:
        """Log with severity WARN."""
        return self.log(message, LoggingSeverity.WARN, **kwargs)

    def error(self, message: str, **kwargs: Any) -> bool:
        """Log with severity ERROR."""
        return self.log(message, LoggingSeverity.ERROR, **kwargs)

    def fatal(self, message: str, **kwargs: Any) -> bool:
        """Log with severity FATAL."""
        return self.log(message, LoggingSeverity.FATAL, **kwargs)


def _caller(frame: FrameType) -> FrameType:
    """First frame outside of this file."""
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return frame
