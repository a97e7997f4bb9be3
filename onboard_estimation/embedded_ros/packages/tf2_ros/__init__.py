"""tf2_ros as of ROS 2 Jazzy for machines without ROS 2: broadcasters, listener, buffer.

Other names (`BufferClient`, `transform` of messages, ...) raise NotImplementedError.
"""

from __future__ import annotations

from typing import NoReturn

from tf2_ros.buffer import Buffer
from tf2_ros.exceptions import (
    ConnectivityException,
    ExtrapolationException,
    InvalidArgumentException,
    LookupException,
    TimeoutException,
    TransformException,
)
from tf2_ros.static_transform_broadcaster import StaticTransformBroadcaster
from tf2_ros.transform_broadcaster import TransformBroadcaster
from tf2_ros.transform_listener import TransformListener

__all__ = [
    "Buffer",
    "ConnectivityException",
    "ExtrapolationException",
    "InvalidArgumentException",
    "LookupException",
    "StaticTransformBroadcaster",
    "TimeoutException",
    "TransformBroadcaster",
    "TransformException",
    "TransformListener",
]
_ELSEWHERE = ("BufferClient", "BufferInterface", "BufferServer", "TransformRegistration", "TypeException")


def __getattr__(name: str) -> NoReturn:
    if name in _ELSEWHERE:
        raise NotImplementedError(f"tf2_ros.{name}")
    raise AttributeError(f"module 'tf2_ros' has no attribute '{name}'")
