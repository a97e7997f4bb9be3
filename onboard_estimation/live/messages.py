"""Messages of rclpy by the names of their types: the `new` that `EstimateMessages` and its like take in a live node."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from onboard_estimation.live.types import interface_class

_SEQUENCE = re.compile(r"sequence<(\w+)(?:, \d+)?>")
TYPE_CODES = {
    "double": "d",
    "float": "f",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
}
"""Of numbers as the fields of messages name them, for `array`."""


def new(message_type: str, **fields: Any) -> Any:
    """A message of the type, e.g. `sensor_msgs/msg/Imu`; NumPy arrays are taken for rows of numbers of any kind.

    Raises
    ------
    UserError
        No such type is installed.
    """
    kind, rows = _maker(message_type)
    for name in rows:
        value = fields.get(name)
        if isinstance(value, np.ndarray):
            fields[name] = rows[name](value)
    return kind(**fields)


@cache
def _maker(message_type: str) -> tuple[Any, dict[str, Callable[[Any], Any]]]:
    """The class, and how its sequences of numbers are made of arrays: rclpy holds them as `array.array`."""
    kind = interface_class(message_type)
    rows = {}
    for name, field_type in kind.get_fields_and_field_types().items():
        sequence = _SEQUENCE.fullmatch(field_type)
        if sequence is not None and sequence[1] in TYPE_CODES:
            rows[name] = _to_array(TYPE_CODES[sequence[1]])
    return kind, rows


def _to_array(code: str) -> Callable[[Any], Any]:
    data_type = np.dtype(code)
    return lambda values: array(code, np.ascontiguousarray(values, dtype=data_type).tobytes())
