"""Not supported: every name raises NotImplementedError."""

from __future__ import annotations

from typing import NoReturn

_INSTEAD = "no parameter event handlers, subscribe to /parameter_events"


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"rclpy.parameter_event_handler.{name}: the embedded runtime has {_INSTEAD}")
