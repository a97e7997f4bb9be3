"""Log messages of a node on `/rosout`."""

from __future__ import annotations

import contextlib
from typing import Any

from rclpy import _log_output
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.qos import qos_profile_rosout_default


class Rosout:
    """Publishes what a node's logger, and those below it, let out."""

    def __init__(self, node: Any, logger_name: str) -> None:
        from builtin_interfaces.msg import Time
        from rcl_interfaces.msg import Log

        self._time = Time
        self._log = Log
        self._logger_name = logger_name
        self._publisher = node.create_publisher(Log, "/rosout", qos_profile_rosout_default)
        # Nodes of one name share a logger; the first that is there publishes for all.
        _log_output.rosout_sinks.setdefault(logger_name, []).append(self._publish)

    def _publish(
        self, name: str, severity: LoggingSeverity, message: str, stamp_ns: int, file: str, function: str, line: int
    ) -> None:
        seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
        log = self._log(
            stamp=self._time(sec=seconds, nanosec=nanoseconds),
            level=int(severity),
            name=name,
            msg=message,
            file=file,
            function=function,
            line=line,
        )
        # Who logs must not fail because nobody can hear it, nor log about it.
        with contextlib.suppress(Exception):
            self._publisher.publish(log)

    def stop(self) -> None:
        """Publish no more."""
        sinks = _log_output.rosout_sinks.get(self._logger_name, [])
        if self._publish in sinks:
            sinks.remove(self._publish)
        if not sinks:
            _log_output.rosout_sinks.pop(self._logger_name, None)
