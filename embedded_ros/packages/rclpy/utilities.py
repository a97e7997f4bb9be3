"""The default context, and arguments without those of ROS."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from rclpy import _arguments
from rclpy.context import Context

_default_context: Context | None = None
_lock = threading.RLock()


def get_default_context(*, shutting_down: bool = False) -> Context:
    """The context that is meant where none is named; `shutting_down` makes room for a new one."""
    global _default_context
    with _lock:
        context = _default_context
        if context is None:
            context = _default_context = Context()
        if shutting_down:
            _default_context = None
        return context


def remove_ros_args(args: Sequence[str] | None = None) -> list[str]:
    """The command line (None: that of the process) without what belongs to ROS."""
    return _arguments.other_arguments(sys.argv if args is None else args)


def ok(*, context: Context | None = None) -> bool:
    """Whether the context is initialised and not shut down."""
    return (get_default_context() if context is None else context).ok()


def shutdown(*, context: Context | None = None) -> None:
    """End the context; RuntimeError if it is not running."""
    (get_default_context(shutting_down=True) if context is None else context).shutdown()


def try_shutdown(*, context: Context | None = None) -> None:
    """End the context if it runs."""
    global _default_context
    if context is not None:
        context.try_shutdown()
        return
    with _lock:
        default, _default_context = _default_context, None
    if default is not None:
        default.try_shutdown()


def get_rmw_implementation_identifier() -> str:
    """Name of the middleware."""
    return "rmw_cyclonedds_cpp"
