"""How an executor's search for work can end; public in `rclpy.executors`."""

from __future__ import annotations


class TimeoutException(Exception):
    """Nothing was ready in time."""


class ShutdownException(Exception):
    """The executor was shut down."""


class ExternalShutdownException(Exception):
    """The context was shut down from elsewhere, e.g. by SIGTERM."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(args or ("the context has been shut down",)))


class ConditionReachedException(Exception):
    """The future that was waited for is done."""


for _exception in (TimeoutException, ShutdownException, ExternalShutdownException, ConditionReachedException):
    _exception.__module__ = "rclpy.executors"  # where they are found, and what a traceback says
