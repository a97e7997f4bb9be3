"""Where log messages go: standard error in rcl's format, and `/rosout`. No log file is written."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from typing import TextIO

from rclpy.impl.logging_severity import LoggingSeverity

_FIELD = re.compile(r"\{(\w+)\}")
_COLORS = {
    LoggingSeverity.DEBUG: "\033[32m",
    LoggingSeverity.INFO: "\033[0m",
    LoggingSeverity.WARN: "\033[33m",
    LoggingSeverity.ERROR: "\033[31m",
    LoggingSeverity.FATAL: "\033[31m",
}
_COLOR_END = "\033[0m"

# Each receives (logger, severity, text, stamp in ns, file, function, line) for `/rosout`; the key is a node's logger.
RosoutSink = Callable[[str, LoggingSeverity, str, int, str, str, int], None]
rosout_sinks: dict[str, list[RosoutSink]] = {}

_levels: dict[str, LoggingSeverity] = {}
_effective: dict[str, LoggingSeverity] = {}
_default_level = LoggingSeverity.INFO
console = True


def set_level(name: str, level: LoggingSeverity) -> None:
    """Level of a logger and of those below it that have none; name "" for all; UNSET takes it back."""
    global _default_level
    if not name:
        _default_level = LoggingSeverity.INFO if level is LoggingSeverity.UNSET else level
    elif level is LoggingSeverity.UNSET:
        _levels.pop(name, None)
    else:
        _levels[name] = level
    _effective.clear()


def effective_level(name: str) -> LoggingSeverity:
    """Level that holds for a logger: its own, that of the nearest one above, or the default."""
    known = _effective.get(name)
    if known is None:
        above = name
        while above and above not in _levels:
            above = above.rpartition(".")[0]
        known = _effective[name] = _levels[above] if above else _default_level
    return known


def write(name: str, severity: LoggingSeverity, message: str, file: str, function: str, line: int) -> None:
    """Send a message everywhere it belongs."""
    stamp_ns = time.time_ns()
    if console:
        stream = sys.stdout if os.environ.get("RCUTILS_LOGGING_USE_STDOUT") == "1" else sys.stderr
        text = _formatted(name, severity, message, stamp_ns, file, function, line)
        if stream is not None and _colorized(stream):
            text = f"{_COLORS[severity]}{text}{_COLOR_END}"
        # A closed terminal or pipe must not end the node.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.write(f"{text}\n")
            stream.flush()
    node = name
    while node:
        sinks = rosout_sinks.get(node)
        if sinks:
            sinks[0](name, severity, message, stamp_ns, file, function, line)
            break
        node = node.rpartition(".")[0]


def _formatted(
    name: str, severity: LoggingSeverity, message: str, stamp_ns: int, file: str, function: str, line: int
) -> str:
    seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
    template = os.environ.get("RCUTILS_CONSOLE_OUTPUT_FORMAT")
    if template is None:
        return f"[{severity.name}] [{seconds}.{nanoseconds:09d}] [{name}]: {message}"
    moment = time.localtime(seconds)
    values = {
        "severity": severity.name,
        "name": name,
        "message": message,
        "function_name": function,
        "file_name": file,
        "line_number": str(line),
        "time": f"{seconds}.{nanoseconds:09d}",
        "time_as_nanoseconds": str(stamp_ns),
        "date_time_with_ms": f"{time.strftime('%Y-%m-%d %H:%M:%S', moment)}.{nanoseconds // 1_000_000:03d}",
    }
    template = template.replace("\\n", "\n").replace("\\t", "\t").replace("\\033", "\033").replace("\\x1b", "\033")
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)


def _colorized(stream: TextIO) -> bool:
    forced = os.environ.get("RCUTILS_COLORIZED_OUTPUT")
    if forced in ("0", "1"):
        return forced == "1"
    try:
        return stream.isatty()
    except ValueError:
        return False
