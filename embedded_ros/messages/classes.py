"""Message classes with rclpy's behaviour: keyword constructor, defaults, constants, field checks, equality, text.

Every assignment is checked, always: what rclpy's messages refuse with field checks on (ROS_PYTHON_CHECK_FIELDS=1, and
up to Iron without), they abort the process for, or send garbage for, when the checks are off. Values live in slots, so
that reading them costs nothing; what comes from the wire is put there past the checks.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, cast

import numpy as np

from embedded_ros.messages.definitions import definitions
from embedded_ros.messages.fields import EMPTY_MEMBER, Field

_made: dict[str, type[Message]] = {}
_making = threading.RLock()


class Message:
    """Base of all message classes; subclasses are made by `message_class`."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    _TYPE_NAME: ClassVar[str]  # "sensor_msgs/msg/Imu"
    _ALL_FIELDS: ClassVar[tuple[Field, ...]]  # with the hidden member of an empty message
    _fields_and_field_types: ClassVar[dict[str, str]]
    _SLOTS: ClassVar[dict[str, Any]]  # slot descriptors by field name
    _IMMUTABLE_DEFAULTS: ClassVar[tuple[tuple[str, Any, Any], ...]]  # (field, set slot, value)
    _MADE_DEFAULTS: ClassVar[tuple[tuple[str, Any, Callable[[], Any]], ...]]  # (field, set slot, make value)

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if not values:
            for _, set_slot, default in cls._IMMUTABLE_DEFAULTS:
                set_slot(self, default)
            for _, set_slot, make in cls._MADE_DEFAULTS:
                set_slot(self, make())
            return
        values.pop("check_fields", None)  # rclpy's own argument
        unknown = values.keys() - cls._fields_and_field_types.keys()
        if unknown:
            raise AssertionError(f"Invalid arguments passed to constructor: {', '.join(sorted(unknown))}")
        for name, set_slot, default in cls._IMMUTABLE_DEFAULTS:
            if name not in values:
                set_slot(self, default)
        for name, set_slot, make in cls._MADE_DEFAULTS:
            if name not in values:
                set_slot(self, make())
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        module = type(self).__module__.rpartition(".")[0]
        texts = []
        for name in self._fields_and_field_types:
            value = getattr(self, name)
            text = repr(value)
            if isinstance(value, array):
                text = text[len("array('d', ") : -1] if value else "[]"
            texts.append(f"{name}={text}")
        return f"{module}.{type(self).__name__}({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message) or self._TYPE_NAME != other._TYPE_NAME:
            return False
        for name in self._fields_and_field_types:
            mine, others = getattr(self, name), getattr(other, name)
            if isinstance(mine, np.ndarray) or isinstance(others, np.ndarray):
                if not np.array_equal(mine, others):
                    return False
            elif mine != others:
                return False
        return True

    @classmethod
    def get_fields_and_field_types(cls) -> dict[str, str]:
        """Names of the fields and their types ("double[9]", "std_msgs/Header"), in the order of the definition."""
        return dict(cls._fields_and_field_types)


# Names in a class could be names of fields: only those of rclpy, and names in capitals after an underscore, are safe.


def type_name(cls: Any) -> str:
    """Full name of a message's or a service's type ("sensor_msgs/msg/Imu")."""
    return cast(str, cls._TYPE_NAME)


def fields_of(cls: Any) -> tuple[Field, ...]:
    """All fields of a message class or message, with the one hidden member of an empty message."""
    return cast("tuple[Field, ...]", cls._ALL_FIELDS)


def slot_of(cls: Any, field: str) -> Any:
    """Descriptor that holds a field's value, past all checks."""
    return cls._SLOTS[field]


def message_class(name: str) -> type[Message]:
    """The class of a message type ("sensor_msgs/msg/Imu"), made at the first call.

    Raises LookupError, naming similar types, if the distribution has no such type.
    """
    found = _made.get(name)
    if found is None:
        with _making:  # two threads must not make two classes of one type
            found = _made.get(name) or _made.setdefault(name, _class_of(name))
    return found


def _class_of(name: str) -> type[Message]:
    known = definitions()
    if name in known.services:
        raise LookupError(f"{name!r} is a service, not a message")
    all_fields = known.fields(name)
    fields = [field for field in all_fields if field.name != EMPTY_MEMBER]
    package, kind, short = name.split("/")
    service, _, part = short.rpartition("_")
    home = service if kind == "srv" and part in ("Request", "Response", "Event") else short
    namespace: dict[str, Any] = {
        "__slots__": tuple(field.name for field in fields),
        "__module__": f"{package}.{kind}.{module_name(home)}",
        "__doc__": f"Message class '{short}'.",
        "_TYPE_NAME": name,
        "_ALL_FIELDS": all_fields,
        "_fields_and_field_types": {field.name: field.shown_type for field in fields},
    }
    namespace.update({constant.name: constant.python_value for constant in known.constants(name)})
    namespace.update({f"{f.name.upper()}__DEFAULT": f.default for f in fields if f.default is not None})
    cls: Any = type(short, (Message,), namespace)
    cls._SLOTS = {field.name: cls.__dict__[field.name] for field in fields}
    immutable, made = [], []
    for field in fields:
        set_slot = cls._SLOTS[field.name].__set__
        default = _default(field)
        if callable(default):
            made.append((field.name, set_slot, default))
        else:
            immutable.append((field.name, set_slot, default))
    cls._IMMUTABLE_DEFAULTS, cls._MADE_DEFAULTS = tuple(immutable), tuple(made)
    cls.__setattr__ = _setter(cls, fields)
    return cls


def module_name(short: str) -> str:
    """Module in which rclpy keeps a class: "PoseStamped" is in "_pose_stamped"."""
    short = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", short)
    return "_" + re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", short).lower()


def _default(field: Field) -> Any:
    """Default value of a field, or what makes one where it can be changed in place."""
    primitive = field.primitive
    if field.is_ndarray:
        size, dtype = field.size or 0, field.dtype
        zeros = np.zeros
        return lambda: zeros(size, dtype)
    if field.is_array:
        assert primitive is not None
        typecode = primitive.typecode
        return lambda: array(typecode)
    if field.capacity is not None:
        return list
    single: Any
    if field.nested:
        single = message_class(field.nested)
    elif primitive is None:
        single = ""
    else:
        single = b"\0" if primitive.python is bytes else primitive.python()
    if field.default is not None:
        single = field.default
    if field.size is None:
        return single
    size = field.size
    return (lambda: [single() for _ in range(size)]) if field.nested else (lambda: [single] * size)


def _setter(cls: Any, fields: list[Field]) -> Callable[[Any, str, Any], None]:
    """The class's `__setattr__`. Most values are of the field's very type, which is seen at a glance."""
    name_of_type = type_name(cls)
    rules: dict[str, tuple[Any, Any, Any, Any, Callable[[Any], Any]]] = {}
    for field in fields:
        low, high = field.limits
        kind = message_class(field.nested) if field.nested and field.is_single else field.python_type
        rules[field.name] = (kind, low, high, cls._SLOTS[field.name].__set__, _taking(name_of_type, field))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        try:
            kind, low, high, set_slot, take = rules[name]
        except KeyError:
            there = ", ".join(rules) or "none"
            raise AttributeError(f"{name_of_type} has no field '{name}'; it has: {there}") from None
        if value.__class__ is kind and (low is None or low <= value <= high):
            set_slot(self, value)
        else:
            set_slot(self, take(value))

    return __setattr__


def _taking(name_of_type: str, field: Field) -> Callable[[Any], Any]:
    """What a field holds after a value was assigned: numeric arrays are copied into their type.

    Raises AssertionError, as rclpy does, where the value does not fit.
    """
    convert = _convert(field) if field.is_ndarray or field.is_array else None

    def take(value: Any) -> Any:
        nested = message_class(field.nested) if field.nested else None
        if fault := field.fault(value, nested):
            raise AssertionError(f"{name_of_type}: {fault}; {_hint(field.culprit(value, nested))}")
        return value if convert is None else convert(value)

    return take


def _hint(value: Any) -> str:
    """What was assigned, and how it becomes what the field takes, where that is plain."""
    text = repr(value)
    text = f"{text[:60]}..." if len(text) > 60 else text
    convert = ""
    if isinstance(value, np.ndarray):
        convert = ": use .tolist(), or array.array"
    elif isinstance(value, np.generic):
        convert = f": use {type(value.item()).__name__}(...)"
    elif type(value) is int:
        convert = f": write {value}.0 for a float"
    return f"this is {type(value).__module__}.{type(value).__name__} {text}{convert}".replace("builtins.", "")


def _convert(field: Field) -> Callable[[Any], Any]:
    """What makes a field's own array of a value that fits."""
    if field.is_ndarray:
        dtype = field.dtype
        return lambda value: np.array(value, dtype)
    assert field.primitive is not None
    typecode = field.primitive.typecode
    return lambda value: array(typecode, value)


class Service:
    """Base of all service classes; `Request` and `Response` are their messages."""

    _TYPE_NAME: ClassVar[str]
    Request: ClassVar[type[Message]]
    Response: ClassVar[type[Message]]

    def __init__(self) -> None:
        raise NotImplementedError("Service classes can not be instantiated")


@cache
def service_class(name: str) -> type[Service]:
    """The class of a service type ("std_srvs/srv/Trigger"). Raises LookupError as `message_class` does."""
    known = definitions()
    if name not in known.services:
        raise known.unknown(name)
    package, kind, short = name.split("/")
    namespace: dict[str, Any] = {
        "__module__": f"{package}.{kind}.{module_name(short)}",
        "__doc__": f"Service class '{short}'.",
        "_TYPE_NAME": name,
    }
    for part in ("Request", "Response", "Event"):
        if f"{name}_{part}" in known:
            namespace[part] = message_class(f"{name}_{part}")
    return cast("type[Service]", type(short, (Service,), namespace))
