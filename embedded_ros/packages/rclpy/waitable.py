"""Own kinds of waitables are not supported; the names exist so that imports work."""

from __future__ import annotations

from typing import Any


class NumberOfEntities:
    """Not supported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("rclpy.waitable.NumberOfEntities: own waitables are not supported")


class Waitable:
    """Not supported."""

    def __init__(self, callback_group: Any) -> None:
        raise NotImplementedError("rclpy.waitable.Waitable: own waitables are not supported")
