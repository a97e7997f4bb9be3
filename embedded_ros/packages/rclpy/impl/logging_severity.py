"""Severities of log messages."""

from __future__ import annotations

from enum import IntEnum


class LoggingSeverity(IntEnum):
    """Severity, numbered as in rcutils."""

    UNSET = 0
    DEBUG = 10
    INFO = 20
    WARN = 30
    ERROR = 40
    FATAL = 50
