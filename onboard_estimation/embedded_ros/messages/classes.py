"""Message classes with rclpy's behaviour: keyword constructor, defaults, constants, field checks, equality, text.

Values live in slots. Only numeric arrays are behind properties, since assigning a list to them converts it; with field
checks (ROS_PYTHON_CHECK_FIELDS=1 or `check_fields=True`) every field is, in a subclass of the same layout, so that
unchecked messages cost nothing.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, cast

import numpy as np

from onboard_estimation.embedded_ros.messages.definitions import checks_fields, definitions
from onboard_estimation.embedded_ros.messages.fields import EMPTY_MEMBER, Field

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
    _CHECKED: ClassVar[type[Message] | None]  # the class that checks assignments; None: this one does

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        if not values:
            for _, set_slot, default in cls._IMMUTABLE_DEFAULTS:
                set_slot(self, default)
            for _, set_slot, make in cls._MADE_DEFAULTS:
                set_slot(self, make())
            return
        check = values.pop("check_fields", False)
        unknown = values.keys() - cls._fields_and_field_types.keys()
        if unknown:
            raise AssertionError(f"Invalid arguments passed to constructor: {', '.join(sorted(unknown))}")
        for name, set_slot, default in cls._IMMUTABLE_DEFAULTS:
            if name not in values:
                set_slot(self, default)
        for name, set_slot, make in cls._MADE_DEFAULTS:
            if name not in values:
                set_slot(self, make())
        if check and cls._CHECKED is not None:
            self.__class__ = cls._CHECKED
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
            found = _made.get(name)
            if found is None:
                plain = _plain_class(name)
                found = plain._CHECKED if plain._CHECKED is not None and checks_fields() else plain
                _made[name] = found
    return found


@cache
def _plain_class(name: str) -> type[Message]:
    known = definitions()
    if name in known.services:
        raise LookupError(f"{name!r} is a service, not a message")
    all_fields = known.fields(name)
    fields = [field for field in all_fields if field.name != EMPTY_MEMBER]
    package, kind, short = name.split("/")
    service, _, part = short.rpartition("_")
    home = service if kind == "srv" and part in ("Request", "Response", "Event") else short
    slots = {field.name: f"_{field.name}" if field.is_ndarray or field.is_array else field.name for field in fields}
    namespace: dict[str, Any] = {
        "__slots__": tuple(slots.values()),
        "__module__": f"{package}.{kind}.{module_name(home)}",
        "__doc__": f"Message class '{short}'.",
        "_TYPE_NAME": name,
        "_ALL_FIELDS": all_fields,
        "_fields_and_field_types": {field.name: field.shown_type for field in fields},
    }
    namespace.update({constant.name: constant.python_value for constant in known.constants(name)})
    namespace.update({f"{f.name.upper()}__DEFAULT": f.default for f in fields if f.default is not None})
    cls: Any = type(short, (Message,), namespace)
    cls._SLOTS = {field.name: cls.__dict__[slots[field.name]] for field in fields}
    immutable, made = [], []
    for field in fields:
        set_slot = cls._SLOTS[field.name].__set__
        default = _default(field)
        if callable(default):
            made.append((field.name, set_slot, default))
        else:
            immutable.append((field.name, set_slot, default))
        if field.is_ndarray or field.is_array:
            setattr(cls, field.name, property(attrgetter(slots[field.name]), _converting(field, set_slot)))
    cls._IMMUTABLE_DEFAULTS, cls._MADE_DEFAULTS = tuple(immutable), tuple(made)
    checked: Any = type(short, (cls,), {"__slots__": (), "__module__": cls.__module__, "__doc__": cls.__doc__})
    for field in fields:
        descriptor = cls._SLOTS[field.name]
        setattr(checked, field.name, property(descriptor.__get__, _checking(field, descriptor.__set__)))
    checked._CHECKED = None
    cls._CHECKED = checked
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


def _convert(field: Field) -> Callable[[Any], Any]:
    """What rclpy does with a value that is assigned: numeric arrays are copied into their type."""
    if field.is_ndarray:
        dtype, shape, name = field.dtype, (field.size,), field.name

        def to_ndarray(value: Any) -> Any:
            converted = np.array(value, dtype)
            assert converted.shape == shape, f"The '{name}' field must have {shape[0]} elements"
            return converted

        return to_ndarray
    primitive = field.primitive
    assert primitive is not None
    typecode, wire = primitive.typecode, field.dtype

    def to_array(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            same = value.ndim == 1 and value.dtype == wire
            return array(typecode, value.tobytes() if same else value.tolist())
        return array(typecode, value)

    return to_array


def _converting(field: Field, set_slot: Any) -> Callable[[Any, Any], None]:
    convert = _convert(field)

    def set_value(self: Any, value: Any) -> None:
        set_slot(self, convert(value))

    return set_value


def _checking(field: Field, set_slot: Any) -> Callable[[Any, Any], None]:
    convert = _convert(field) if field.is_ndarray or field.is_array else None
    kept = np.ndarray if field.is_ndarray else array

    def set_value(self: Any, value: Any) -> None:
        fault = field.fault(value, _plain_class(field.nested) if field.nested else None)
        if fault:
            raise AssertionError(fault)
        set_slot(self, value if convert is None or isinstance(value, kept) else convert(value))

    return set_value


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
