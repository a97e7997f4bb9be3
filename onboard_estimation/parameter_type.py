"""What a parameter may hold: the types of ROS 2 parameters, with limits, checked and said in words."""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

Number: TypeAlias = "int | float"

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**63 - 1
_NAMES = {float: "float", int: "int", bool: "bool", str: "string"}
_NOUNS = {
    float: ("a number", "numbers"),
    int: ("an integer", "integers"),
    bool: ("true or false", "true or false"),
    str: ("a text", "texts"),
}
_LONGEST_SHOWN = 60


class Refused(Exception):
    """A value that is not allowed."""


@dataclass(frozen=True)
class Limits:
    """Bounds and choices; None and () where there are none. They hold for each element of a list."""

    minimum: Number | None = None
    maximum: Number | None = None
    exclusive_minimum: Number | None = None
    exclusive_maximum: Number | None = None
    choices: tuple[Any, ...] = ()

    def permit(self, value: Any) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.exclusive_minimum is None or value > self.exclusive_minimum)
            and (self.exclusive_maximum is None or value < self.exclusive_maximum)
            and (not self.choices or value in self.choices)
        )

    def in_words(self) -> str:
        if self.choices:
            return f"one of {', '.join(map(str, self.choices))}"
        bounds = (
            (">=", self.minimum),
            (">", self.exclusive_minimum),
            ("<=", self.maximum),
            ("<", self.exclusive_maximum),
        )
        return " and ".join(f"{sign} {bound}" for sign, bound in bounds if bound is not None)


@dataclass(frozen=True)
class ParameterType:
    """Type of a parameter: a scalar, or a list of them of fixed or free (`length` None) length."""

    scalar: type
    limits: Limits
    is_list: bool = False
    length: int | None = None

    @classmethod
    def of(cls, hint: Any, limits: Limits, field: str) -> ParameterType:
        """Type that an annotation stands for.

        Raises
        ------
        TypeError
            ROS 2 has no parameter of this type.
        """
        if hint in _NAMES:
            return cls(hint, limits)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is Literal and type(arguments[0]) in _NAMES and len({type(choice) for choice in arguments}) == 1:
            return cls(type(arguments[0]), replace(limits, choices=arguments))
        if origin is tuple and arguments:
            elements, free = arguments[:1], arguments[1:] == (...,)
            if free or len(set(arguments)) == 1:
                element = cls.of(elements[0], limits, field)
                if not element.is_list:
                    return replace(element, is_list=True, length=None if free else len(arguments))
        raise TypeError(f"{field}: {hint} is no type of a parameter: float, int, bool, str, Literal or a tuple of one")

    @property
    def name(self) -> str:
        """`float`, `int`, `bool`, `string`, and for lists `float[3]` or `float[]`."""
        if not self.is_list:
            return _NAMES[self.scalar]
        return f"{_NAMES[self.scalar]}[{'' if self.length is None else self.length}]"

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        one, many = _NOUNS[self.scalar]
        if not self.is_list:
            return self.limits_in_words if self.limits.choices else f"{one} {self.limits_in_words}".rstrip()
        count = "" if self.length is None else f"{self.length} "
        return ", ".join(filter(None, (f"a list of {count}{many}", self.limits_in_words)))

    @property
    def limits_in_words(self) -> str:
        """`> 0`, `each one of x, y`; "" where there are none."""
        limits = self.limits.in_words()
        return f"each {limits}" if limits and self.is_list else limits

    def convert(self, value: Any) -> Any:
        """The value in this type: integers become floats where those are asked for, lists and arrays tuples.

        Raises
        ------
        Refused
            It is not of this type, not finite or outside the limits.
        """
        value = _plain(value)
        if not self.is_list:
            return self._scalar(value)
        if not isinstance(value, (list, tuple)) or self.length not in (None, len(value)):
            raise Refused
        return tuple(self._scalar(_plain(element)) for element in value)

    def _scalar(self, value: Any) -> Any:
        if self.scalar is float and type(value) is int:
            value = _to_float(value)
        if (
            type(value) is not self.scalar  # not isinstance: a bool is no number
            or (isinstance(value, float) and not math.isfinite(value))
            or (isinstance(value, int) and not _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER)
            or not self.limits.permit(value)
        ):
            raise Refused
        return value


def _plain(value: Any) -> Any:
    """NumPy's scalars and arrays, and `array.array` (rclpy's), as Python's own."""
    return value.tolist() if hasattr(value, "tolist") else value


def _to_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise Refused from error


def shown(value: Any) -> str:
    """A value as it may stand in a message: as in YAML, and not too long."""
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
