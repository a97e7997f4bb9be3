"""Messages of rclpy by the names of their types: the `new` that `EstimateMessages` and its like take in a live node."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from onboard_estimation.base.errors import UserError

_CODES = {
    "double": "f8",
    "float": "f4",
    "boolean": "?",
    "octet": "S1",
    **{f"{sign}int{8 * size}": f"{sign or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)},
}
"""Of numbers as the fields of messages name them, for NumPy."""
_SEVERAL = re.compile(r"(sequence)<(.+?)(?:, \d+)?>|(.+)\[\d+\]")


def new(message_type: str, **fields: Any) -> Any:
    """A message of the type, e.g. `sensor_msgs/msg/Imu`; NumPy arrays are taken for rows of numbers of any kind.

    Raises
    ------
    UserError
        No such type is installed.
    """
    kind = interface_class(message_type)
    kinds = kind.get_fields_and_field_types()
    for name, value in fields.items():
        if hasattr(value, "dtype") and (several := _SEVERAL.fullmatch(kinds.get(name, ""))):
            fields[name] = value.astype(_CODES[several[2] or several[3]]).tolist()
    return kind(**fields)


# Message and service classes by their names in the graph.

_NAME = re.compile(r"([a-z][a-z0-9_]*)/(msg|srv)/([A-Za-z]\w*)", re.ASCII)


@cache
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


# Messages of rclpy as bytes: plain CDR as every RMW sends it, just as long as the message, its padding zero.

_LITTLE_ENDIAN = b"\0\1\0\0"


def serialized(message: Any) -> bytes:
    """The message in CDR, little-endian. Fields of the type `wstring`, and types without fields, are not known."""
    data = bytearray()
    _write(data, message)
    return _LITTLE_ENDIAN + bytes(data)


def _write(data: bytearray, message: Any) -> None:
    for name, kind in message.get_fields_and_field_types().items():
        _write_field(data, kind, getattr(message, name))


def _write_field(data: bytearray, kind: str, value: Any) -> None:
    if several := _SEVERAL.fullmatch(kind):
        sequence, of_sequence, of_array = several.groups()
        if sequence:
            _write_numbers(data, "uint32", len(value))
        element = of_sequence or of_array
        if element in _CODES:
            _write_numbers(data, element, value)
        else:
            for one in value:
                _write_field(data, element, one)
    elif kind in _CODES:
        _write_numbers(data, kind, value)
    elif isinstance(value, str):
        text = value.encode() + b"\0"
        _write_numbers(data, "uint32", len(text))
        data += text
    else:
        _write(data, value)


def _write_numbers(data: bytearray, kind: str, values: Any) -> None:
    """One number or many; no numbers are not aligned."""
    import numpy as np

    numbers = np.asarray(values, dtype=f"<{_CODES[kind]}")
    if numbers.size:
        data += bytes(-len(data) % numbers.itemsize) + numbers.tobytes()
