"""Messages of rclpy as bytes: plain CDR as every RMW sends it, just as long as the message, its padding zero.

rclpy's `serialize_message` gives what the RMW estimates: under Fast DDS a message has some four bytes more behind its
end for each empty array of float64, and whatever lay in memory there and in its padding.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from onboard_estimation.live.messages import TYPE_CODES

_LITTLE_ENDIAN = b"\0\1\0\0"
_DATA_TYPES = {name: np.dtype(f"<{code}") for name, code in {**TYPE_CODES, "boolean": "?", "octet": "S1"}.items()}
_SEVERAL = re.compile(r"(sequence)<(.+?)(?:, \d+)?>|(.+)\[\d+\]")


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
        if element in _DATA_TYPES:
            _write_numbers(data, element, value)
        else:
            for one in value:
                _write_field(data, element, one)
    elif kind in _DATA_TYPES:
        _write_numbers(data, kind, value)
    elif isinstance(value, str):
        text = value.encode() + b"\0"
        _write_numbers(data, "uint32", len(text))
        data += text
    else:
        _write(data, value)


def _write_numbers(data: bytearray, kind: str, values: Any) -> None:
    """One number or many; no numbers are not aligned."""
    numbers = np.asarray(values, dtype=_DATA_TYPES[kind])
    if numbers.size:
        data += bytes(-len(data) % numbers.itemsize) + numbers.tobytes()
