"""Loggers by name and their levels."""

from __future__ import annotations

from rclpy import _log_output
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.impl.rcutils_logger import RcutilsLogger

__all__ = [
    "LoggingSeverity",
    "get_logger",
    "get_logger_effective_level",
    "set_logger_level",
]


def get_logger(name: str) -> RcutilsLogger:
    """Logger of a name; ValueError for an empty one."""
    if not name:
        raise ValueError("Logger name must not be empty.")
    return RcutilsLogger(name)


def set_logger_level(name: str, level: LoggingSeverity | int, detailed_error: bool = False) -> None:
    """Least severity that goes out of a logger."""
    _log_output.set_level(name, LoggingSeverity(level))


def get_logger_effective_level(name: str) -> LoggingSeverity:
    """Least severity that goes out of a logger, set for it or above."""
    return _log_output.effective_level(name)
