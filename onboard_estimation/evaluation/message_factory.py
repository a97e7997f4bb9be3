"""Messages of ROS 2 Jazzy without ROS: new ones with ROS's defaults, and the hashes of their types.

    new("sensor_msgs/msg/Imu", header=header(stamp_ns, "imu"), angular_velocity=xyz)

`rosbags` has the types. What ROS does and `rosbags` does not is mended here: fields left out take ROS's default (a
quaternion's w is 1), numbers in a row become arrays of the right type and length, a `byte` may be given as `bytes`, as
rclpy shows it, and `char` enters a type's hash as the `uint8` that ROS 2 makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NoReturn

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.base import normalize_fieldname

from onboard_estimation.evaluation.bag_types import jazzy_types
from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

Make = Callable[[], Any]
Convert = Callable[[Any], Any]

DEFAULTS: Mapping[tuple[str, str], Any] = {
    ("geometry_msgs/msg/Quaternion", "w"): 1.0,
    ("sensor_msgs/msg/NavSatStatus", "status"): -2,
}
"""Defaults other than zero in the standard messages; `rosbags` drops them when it parses the definitions."""


def new(message_type: str, **fields: Any) -> Any:
    """A message of the type; fields that are left out have ROS's defaults.

    Raises
    ------
    ValueError
        No such type or field, an array of the wrong length, or a value of the wrong kind.
    """
    return messages(message_type)(**fields)


def header(stamp_ns: int, frame_id: str = "") -> Any:
    """A `std_msgs/msg/Header`; `stamp_ns` in nanoseconds since the epoch."""
    return messages("std_msgs/msg/Header")(stamp=time_message(stamp_ns), frame_id=frame_id)


def time_message(stamp_ns: int) -> Any:
    """A `builtin_interfaces/msg/Time`; rounds down, so that `nanosec` is never negative."""
    seconds, nanoseconds = divmod(int(stamp_ns), NANOSECONDS_PER_SECOND)
    if not -(2**31) <= seconds < 2**31:
        raise ValueError(f"{stamp_ns} ns is no time that a message can hold (32 bits of seconds)")
    return jazzy_types().types["builtin_interfaces/msg/Time"](seconds, nanoseconds)


@cache
def messages(message_type: str) -> Callable[..., Any]:
    """Makes messages of the type: `new` for one type, faster where many are made."""
    store = jazzy_types()
    if message_type not in store.fielddefs:
        raise ValueError(f"{message_type!r} is no standard type of ROS 2 Jazzy")
    kind: Any = store.types[message_type]
    fields = store.fielddefs[message_type][1]
    names = [normalize_fieldname(name) for name, _ in fields]
    rules = {
        normalize_fieldname(name): (_default(message_type, name, entry), _conversion(f"{message_type}.{name}", entry))
        for name, entry in fields
    }

    def make(**given: Any) -> Any:
        if unknown := given.keys() - rules.keys():
            raise ValueError(f"{message_type} has no field {', '.join(sorted(unknown))}; it has: {', '.join(names)}")
        return kind(
            *[convert(given[name]) if name in given else default() for name, (default, convert) in rules.items()]
        )

    return make


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


def _default(owner: str, name: str, entry: Any) -> Make:
    """Makes the default of a field."""
    kind, content = entry
    if (owner, name) in DEFAULTS:
        value = DEFAULTS[owner, name]
        return lambda: value
    if kind == Nodetype.NAME:
        return lambda: messages(content)()
    if kind == Nodetype.BASE:
        zero: Any = {"string": "", "bool": False, "float32": 0.0, "float64": 0.0}.get(content[0], 0)
        return lambda: zero
    (element, element_type), count = content
    count = count if kind == Nodetype.ARRAY else 0
    if element == Nodetype.NAME:
        return lambda: [messages(element_type)() for _ in range(count)]
    if element_type[0] == "string":
        return lambda: [""] * count
    data_type = _data_type(element_type[0])
    return lambda: np.zeros(count, dtype=data_type)


def _conversion(field: str, entry: Any) -> Convert:
    """Takes a given value as the field's; what is already right passes as it is."""
    kind, content = entry
    if kind == Nodetype.NAME:
        return lambda value: _checked_message(field, value, content)
    if kind == Nodetype.BASE:
        return _scalar_conversion(field, content[0])
    (element, element_type), count = content
    if element == Nodetype.NAME or element_type[0] == "string":
        one: Convert = (
            (lambda value: _checked_message(field, value, element_type))
            if element == Nodetype.NAME
            else _scalar_conversion(field, "string")
        )
        return lambda value: _checked_length(field, [one(part) for part in _row(field, value)], kind, count)
    data_type = _data_type(element_type[0])
    return lambda value: _checked_length(field, _numbers(field, value, data_type), kind, count)


def _scalar_conversion(field: str, base: str) -> Convert:
    if base in {"string", "wstring"}:
        return lambda value: value if isinstance(value, str) else _refuse(field, value, "text")
    if base == "bool":
        return lambda value: bool(value) if isinstance(value, (bool, np.bool_)) else _refuse(field, value, "a bool")
    if base in {"float32", "float64"}:
        return lambda value: _number(field, value, float)
    if base == "byte":
        return lambda value: value[0] if isinstance(value, bytes) and len(value) == 1 else _number(field, value, int)
    limits = np.iinfo({"char": "uint8", "octet": "uint8"}.get(base, base))

    def convert(value: Any) -> int:
        number: int = _number(field, value, int)
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{field} is {number}; a {base} is {limits.min} to {limits.max}")
        return number

    return convert


def _number(field: str, value: Any, kind: type) -> Any:
    if isinstance(value, (str, bytes)):
        _refuse(field, value, "a number")
    try:
        number = kind(value)
    except (TypeError, ValueError, OverflowError):
        _refuse(field, value, "a number")
    if kind is int and number != value:
        _refuse(field, value, "a whole number")
    return number


def _numbers(field: str, value: Any, data_type: str) -> Any:
    try:
        array = np.ascontiguousarray(list(value) if isinstance(value, bytes) else value, dtype=data_type)
    except (TypeError, ValueError, OverflowError):
        _refuse(field, value, "a row of numbers")
    return array if array.ndim == 1 else array.reshape(-1)


def _row(field: str, value: Any) -> list[Any]:
    if not isinstance(value, Iterable) or isinstance(value, str):
        _refuse(field, value, "a list")
    return list(value)


def _checked_message(field: str, value: Any, message_type: str) -> Any:
    if getattr(value, "__msgtype__", None) != message_type:
        _refuse(field, value, f"a {message_type}")
    return value


def _checked_length(field: str, value: Any, kind: int, count: int) -> Any:
    if kind == Nodetype.ARRAY and len(value) != count:
        raise ValueError(f"{field} has {len(value)} elements, it must have {count}")
    if kind == Nodetype.SEQUENCE and count and len(value) > count:
        raise ValueError(f"{field} has {len(value)} elements, it may have {count} at most")
    return value


def _data_type(base: str) -> str:
    return {"bool": "bool", "byte": "uint8", "char": "uint8", "octet": "uint8"}.get(base, base)


def _refuse(field: str, value: Any, wanted: str) -> NoReturn:
    raise ValueError(f"{field} is {str(value)[:50]!r} ({type(value).__name__}), it must be {wanted}")
