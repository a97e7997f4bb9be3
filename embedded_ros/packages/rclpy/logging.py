"""Loggers by name and their levels."""

from __future__ import annotations

from pathlib import Path

from rclpy import _log_output
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.impl.rcutils_logger import RcutilsLogger

__all__ = [
    "LoggingSeverity",
    "clear_config",
    "get_logger",
    "get_logger_effective_level",
    "get_logger_level",
    "get_logging_directory",
    "get_logging_severity_from_string",
    "initialize",
    "set_logger_level",
    "shutdown",
]


def get_logger(name: str) -> RcutilsLogger:
    """Logger of a name; ValueError for an empty one."""
    if not name:
        raise ValueError("Logger name must not be empty.")
    return RcutilsLogger(name)


def initialize() -> None:
    """There is nothing to prepare."""


def shutdown() -> None:
    """Forget all levels."""
    _log_output.reset()


def clear_config() -> None:
    """Forget all levels."""
    _log_output.reset()


def set_logger_level(name: str, level: LoggingSeverity | int, detailed_error: bool = False) -> None:
    """Least severity that goes out of a logger."""
    _log_output.set_level(name, LoggingSeverity(level))


def get_logger_effective_level(name: str) -> LoggingSeverity:
    """Least severity that goes out of a logger, set for it or above."""
    return _log_output.effective_level(name)


def get_logger_level(name: str) -> LoggingSeverity:
    """Severity set for just this logger, or UNSET."""
    return _log_output.level(name)


def get_logging_severity_from_string(log_severity: str) -> LoggingSeverity:
    """Severity of a name in any case; RuntimeError for an unknown one."""
    try:
        return LoggingSeverity[log_severity.upper()]
    except KeyError:
        raise RuntimeError(f"no severity is called '{log_severity}'") from None


def get_logging_directory() -> Path:
    """Not supported: this runtime writes no log files."""
    raise NotImplementedError("rclpy.logging.get_logging_directory(): the embedded runtime writes no log files")
