"""Parameters: name, type and value."""

from __future__ import annotations

import array
from enum import Enum
from typing import Any

from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue

PARAMETER_SEPARATOR_STRING = "."

_LISTS = (list, tuple, array.array)


class _Type(Enum):
    """Types of parameters, numbered as in `rcl_interfaces/msg/ParameterType`."""

    NOT_SET = 0
    BOOL = 1
    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BYTE_ARRAY = 5
    BOOL_ARRAY = 6
    INTEGER_ARRAY = 7
    DOUBLE_ARRAY = 8
    STRING_ARRAY = 9

    @classmethod
    def from_parameter_value(cls, parameter_value: Any) -> _Type:
        """Type of a Python value; TypeError if no parameter can hold it."""
        if parameter_value is None:
            return cls.NOT_SET
        for kind, element in _SCALARS:  # bool before int, of which it is a subclass
            if isinstance(parameter_value, element):
                return kind
        if isinstance(parameter_value, _LISTS):
            for kind, element in _ARRAYS:
                if all(isinstance(value, element) for value in parameter_value):
                    return kind
            raise TypeError(f"The given value is not a list of one of the allowed types '{parameter_value}'.")
        raise TypeError(f"The given value is not one of the allowed types '{parameter_value}'.")

    def check(self, parameter_value: Any) -> bool:
        """Whether a value is of this type."""
        if self is _Type.NOT_SET:
            return parameter_value is None
        for kind, element in _SCALARS:
            if kind is self:
                return isinstance(parameter_value, element)
        allowed = _LISTS if self in (_Type.INTEGER_ARRAY, _Type.DOUBLE_ARRAY) else (list, tuple)
        element = dict(_ARRAYS)[self]
        return (
            isinstance(parameter_value, allowed)
            and all(isinstance(value, element) for value in parameter_value)
            and (self is not _Type.BYTE_ARRAY or all(len(value) == 1 for value in parameter_value))
        )


_SCALARS: tuple[tuple[_Type, type], ...] = (
    (_Type.BOOL, bool),
    (_Type.INTEGER, int),
    (_Type.DOUBLE, float),
    (_Type.STRING, str),
)
# An empty list is of the first type, bytes, as in rclpy.
_ARRAYS: tuple[tuple[_Type, type], ...] = (
    (_Type.BYTE_ARRAY, bytes),
    (_Type.BOOL_ARRAY, bool),
    (_Type.INTEGER_ARRAY, int),
    (_Type.DOUBLE_ARRAY, float),
    (_Type.STRING_ARRAY, str),
)
_FIELDS = {kind: f"{kind.name.lower()}_value" for kind in _Type if kind is not _Type.NOT_SET}


class Parameter:
    """One parameter.

    Parameters
    ----------
    name
        Dotted name.
    type_
        None: the type of the value.
    value
        A bool, int, float, str, or a list of one of them.

    Raises
    ------
    TypeError
        No parameter can hold the value, or `type_` is no `Parameter.Type`.
    ValueError
        Value and type do not agree.
    """

    Type = _Type
    _Type.__qualname__ = "Parameter.Type"
    _Type.__name__ = "Type"

    def __init__(self, name: str, type_: _Type | None = None, value: Any = None) -> None:
        if type_ is None:
            type_ = _Type.from_parameter_value(value)
        if not isinstance(type_, _Type):
            raise TypeError(f"type must be an instance of '{_Type!r}'")
        if not type_.check(value):
            raise ValueError(f"Type '{type_}' and value '{value}' do not agree")
        self._name = name
        self._type_ = type_
        self._value = value

    @classmethod
    def from_parameter_msg(cls, param_msg: ParameterMessage) -> Parameter:
        """From `rcl_interfaces/msg/Parameter`."""
        return cls(param_msg.name, _Type(param_msg.value.type), _held(param_msg.value))

    @property
    def name(self) -> str:
        """Dotted name."""
        return self._name

    @property
    def type_(self) -> _Type:
        """Type of the value."""
        return self._type_

    @property
    def value(self) -> Any:
        """Value; None where it is not set."""
        return self._value

    def __repr__(self) -> str:
        return f"Parameter(name={self._name!r}, type_={self._type_.name}, value={self._value!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameter):
            return NotImplemented
        return (self._name, self._type_, self._value) == (other._name, other._type_, other._value)

    __hash__ = None  # type: ignore[assignment]

    def get_parameter_value(self) -> ParameterValue:
        """As `rcl_interfaces/msg/ParameterValue`."""
        message = ParameterValue(type=self._type_.value)
        if self._type_ is not _Type.NOT_SET:
            setattr(message, _FIELDS[self._type_], list(self._value) if self._type_.value >= 5 else self._value)
        return message

    def to_parameter_msg(self) -> ParameterMessage:
        """As `rcl_interfaces/msg/Parameter`."""
        return ParameterMessage(name=self._name, value=self.get_parameter_value())


def parameter_value_to_python(parameter_value: ParameterValue) -> Any:
    """Value that a message holds; None where it is not set, RuntimeError for an unknown type."""
    value = _held(parameter_value)
    return list(value) if isinstance(value, _LISTS) else value


def _held(message: ParameterValue) -> Any:
    """Value of a message as it stands there: lists of numbers are `array.array`."""
    try:
        kind = _Type(message.type)
    except ValueError:
        raise RuntimeError(f"unexpected parameter type {message.type}") from None
    return None if kind is _Type.NOT_SET else getattr(message, _FIELDS[kind])


def get_parameter_value(string_value: str) -> ParameterValue:
    """What a text on a command line means as a parameter: YAML where it is some, else the text itself."""
    import yaml

    try:
        value = yaml.safe_load(string_value)
    except yaml.YAMLError:
        value = string_value
    try:
        parameter = Parameter("", value=value)
    except TypeError:
        parameter = Parameter("", value=string_value)
    if parameter.type_ is _Type.NOT_SET or (parameter.type_ is _Type.BYTE_ARRAY and parameter.value):
        parameter = Parameter("", value=string_value)
    elif parameter.type_ is _Type.BYTE_ARRAY:
        parameter = Parameter("", _Type.BOOL_ARRAY, [])
    return parameter.get_parameter_value()
