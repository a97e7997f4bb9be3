"""Messages of ROS 2 Jazzy without ROS: new ones with ROS's defaults, and the hashes of their types.

    new("sensor_msgs/msg/Imu", angular_velocity=new("geometry_msgs/msg/Vector3", z=0.1))

`rosbags` has the types. What ROS does and `rosbags` does not is mended here: fields left out take ROS's default (a
quaternion's w is 1), numbers in a row become arrays of the right type and length, a `byte` may be given as `bytes`, as
rclpy shows it, and `char` enters a type's hash as the `uint8` that ROS 2 makes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NoReturn

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.base import normalize_fieldname

from onboard_estimation.evaluation.bag_types import jazzy_types

DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("geometry_msgs/msg/Quaternion", "w"): 1.0,
    ("sensor_msgs/msg/NavSatStatus", "status"): -2,
}
"""Defaults other than zero in the standard messages; `rosbags` drops them when it parses the definitions."""


def new(message_type: str, **given: Any) -> Any:
    """A message of the type; fields that are left out have ROS's defaults.

    Raises
    ------
    ValueError
        No such type or field, an array of the wrong length, or a value of the wrong kind.
    """
    kind, fields = _fields(message_type)
    if unknown := given.keys() - fields.keys():
        raise ValueError(f"{message_type} has no field {', '.join(sorted(unknown))}; it has: {', '.join(fields)}")
    return kind(
        *[
            _converted(f"{message_type}.{name}", entry, given[name])
            if name in given
            else DEFAULTS.get((message_type, name)) or _default(entry)
            for name, entry in fields.items()
        ]
    )


@cache
def _fields(message_type: str) -> tuple[Any, dict[str, Any]]:
    """The class of the type, and what `rosbags` says of each field, by the name that it has in Python."""
    store = jazzy_types()
    if message_type not in store.fielddefs:
        raise ValueError(f"{message_type!r} is no standard type of ROS 2 Jazzy")
    fields = store.fielddefs[message_type][1]
    return store.types[message_type], {normalize_fieldname(name): entry for name, entry in fields}


@cache
def type_hash(message_type: str) -> str:
    """REP-2016's hash of the type, `RIHS01_...`, as ROS 2 computes it."""
    return str(_hashed_types().hash_rihs01(message_type))


@cache
def _hashed_types() -> Any:
    store = get_typestore(Stores.ROS2_JAZZY)
    for name, (constants, fields) in store.fielddefs.items():
        store.fielddefs[name] = (constants, [(field, _char_as_uint8(entry)) for field, entry in fields])
    return store


def _char_as_uint8(entry: Any) -> Any:
    kind, content = entry
    if kind == Nodetype.BASE and content[0] == "char":
        return kind, ("uint8", content[1])
    if kind in {Nodetype.ARRAY, Nodetype.SEQUENCE}:
        return kind, (_char_as_uint8(content[0]), content[1])
    return entry


def _default(entry: Any) -> Any:
    kind, content = entry
    if kind == Nodetype.NAME:
        return new(content)
    if kind == Nodetype.BASE:
        return {"string": "", "bool": False, "float32": 0.0, "float64": 0.0}.get(content[0], 0)
    (element, element_type), count = content
    count = count if kind == Nodetype.ARRAY else 0
    if element == Nodetype.NAME or element_type[0] == "string":
        return [_default((element, element_type)) for _ in range(count)]
    return np.zeros(count, dtype=_data_type(element_type[0]))


def _converted(field: str, entry: Any, value: Any) -> Any:
    """A given value as the field's; what is already right passes as it is."""
    kind, content = entry
    if kind == Nodetype.NAME:
        if getattr(value, "__msgtype__", None) != content:
            _refuse(field, value, f"a {content}")
        return value
    if kind == Nodetype.BASE:
        return _scalar(field, content[0], value)
    (element, element_type), count = content
    if element == Nodetype.NAME or element_type[0] == "string":
        if not isinstance(value, Iterable) or isinstance(value, str):
            _refuse(field, value, "a list")
        value = [_converted(field, (element, element_type), part) for part in value]
    else:
        value = _numbers(field, value, _data_type(element_type[0]))
    if len(value) > count > 0 or (kind == Nodetype.ARRAY and len(value) != count):
        must = "must have" if kind == Nodetype.ARRAY else "may have"
        raise ValueError(f"{field} has {len(value)} elements, it {must} {count}{' at most' * (must == 'may have')}")
    return value


def _scalar(field: str, base: str, value: Any) -> Any:
    if base in {"string", "wstring"}:
        return value if isinstance(value, str) else _refuse(field, value, "text")
    if base == "bool":
        return bool(value) if isinstance(value, (bool, np.bool_)) else _refuse(field, value, "a bool")
    if base == "byte" and isinstance(value, bytes) and len(value) == 1:
        return value[0]
    kind = float if base in {"float32", "float64"} else int
    try:
        number = kind(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        _refuse(field, value, "a number")
    if kind is int and number != value:
        _refuse(field, value, "a whole number")
    if kind is int and base != "byte":
        limits = np.iinfo(_data_type(base))
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{field} is {number}; a {base} is {limits.min} to {limits.max}")
    return number


def _numbers(field: str, value: Any, data_type: str) -> Any:
    try:
        array = np.ascontiguousarray(list(value) if isinstance(value, bytes) else value, dtype=data_type)
    except (TypeError, ValueError, OverflowError):
        _refuse(field, value, "a row of numbers")
    return array if array.ndim == 1 else array.reshape(-1)


def _data_type(base: str) -> str:
    return {"byte": "uint8", "char": "uint8", "octet": "uint8"}.get(base, base)


def _refuse(field: str, value: Any, wanted: str) -> NoReturn:
    raise ValueError(f"{field} is {str(value)[:50]!r} ({type(value).__name__}), it must be {wanted}")
