"""Message and service classes by their names in the graph."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from onboard_estimation.errors import UserError

_NAME = re.compile(r"([a-z][a-z0-9_]*)/(msg|srv)/([A-Za-z]\w*)", re.ASCII)


def interface_class(name: str) -> Any:
    """The class of `sensor_msgs/msg/Imu`.

    Raises
    ------
    UserError
        The name is none, or its package is not installed.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        raise UserError(f"{name[:80]!r} is no type of a message or service such as sensor_msgs/msg/Imu")
    package, kind, interface = parts.groups()
    try:
        return getattr(import_module(f"{package}.{kind}"), interface)
    except (ImportError, AttributeError, LookupError) as error:
        raise UserError(
            f"type {name} is not installed here; source the workspace that has {package} with ROS 2, "
            "or use a standard type without it"
        ) from error
