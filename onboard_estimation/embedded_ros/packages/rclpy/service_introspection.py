"""Not supported: every name raises NotImplementedError."""

from __future__ import annotations

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(f"rclpy.service_introspection.{name}: the embedded runtime has no service introspection")
