"""One field of a message: its type on the wire, its default, how rclpy names it and what it accepts."""

from __future__ import annotations

import array
import math
import re
from collections import UserList, UserString
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

# An empty structure has this one byte on the wire, and no field in Python.
EMPTY_MEMBER = "structure_needs_at_least_one_member"


class Primitive(NamedTuple):
    """A primitive type: letter of `struct`, size in bytes, rclpy's name, type code of `array`, Python type."""

    letter: str
    size: int
    shown: str
    typecode: str  # empty: lists, not arrays
    python: Any  # type in Python


PRIMITIVES = {
    "bool": Primitive("?", 1, "boolean", "", bool),
    "byte": Primitive("c", 1, "octet", "", bytes),
    "int8": Primitive("b", 1, "int8", "b", int),
    "uint8": Primitive("B", 1, "uint8", "B", int),
    "int16": Primitive("h", 2, "int16", "h", int),
    "uint16": Primitive("H", 2, "uint16", "H", int),
    "int32": Primitive("i", 4, "int32", "i", int),
    "uint32": Primitive("I", 4, "uint32", "I", int),
    "int64": Primitive("q", 8, "int64", "q", int),
    "uint64": Primitive("Q", 8, "uint64", "Q", int),
    "float32": Primitive("f", 4, "float", "f", float),
    "float64": Primitive("d", 8, "double", "d", float),
}
_LARGEST = 3.402823466e38  # of float32, as rclpy writes it
_DESCRIPTION = re.compile(r"(?P<kind>[\w/]+)(<=(?P<bound>\d+))?(?P<brackets>\[((?P<most><=)?(?P<size>\d+))?\])?")


class Constant(NamedTuple):
    """Constant of a message."""

    name: str
    kind: str
    value: Any

    @property
    def python_value(self) -> Any:
        """Value as rclpy shows it: bytes for `byte`."""
        return bytes([self.value]) if self.kind == "byte" else self.value


@dataclass(frozen=True)
class Field:
    """One field. `kind` is a primitive's name, "string", or "" with the nested type's full name in `nested`.

    `size` is the length of a fixed array; `capacity` the largest length of a sequence, 0 for none; both are None for a
    single value. `bound` is the greatest length of a string, 0 for none.
    """

    name: str
    kind: str
    nested: str = ""
    size: int | None = None
    capacity: int | None = None
    bound: int = 0
    default: Any = None

    @property
    def primitive(self) -> Primitive | None:
        """Of a value or an element; None for strings and messages."""
        return PRIMITIVES.get(self.kind)

    @property
    def is_single(self) -> bool:
        """Neither array nor sequence."""
        return self.size is None and self.capacity is None

    @property
    def is_ndarray(self) -> bool:
        """A fixed array of numbers: a NumPy array in Python."""
        return self.size is not None and self.primitive is not None and bool(self.primitive.typecode)

    @property
    def is_array(self) -> bool:
        """A sequence of numbers: an array.array in Python."""
        return self.capacity is not None and self.primitive is not None and bool(self.primitive.typecode)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a NumPy array's elements, in native byte order."""
        return np.dtype(self.kind)

    @property
    def python_type(self) -> Any:
        """Type of a single value that needs no closer look, within `limits`; None: all values do."""
        if not self.is_single or self.nested or self.bound:
            return None
        primitive = self.primitive
        if primitive is None:
            return str
        return None if primitive.python is bytes else primitive.python

    @property
    def limits(self) -> tuple[Any, Any]:
        """Least and greatest number that the type holds, infinities apart; (None, None) where any will do."""
        primitive = self.primitive
        if primitive is None or not primitive.typecode or self.kind == "float64":
            return None, None
        if primitive.python is float:
            return -_LARGEST, _LARGEST
        signed = primitive.letter.islower()
        bits = 8 * primitive.size - signed
        return (-(2**bits) if signed else 0), 2**bits - 1

    @property
    def shown_type(self) -> str:
        """Type as `get_fields_and_field_types` gives it: "sequence<double, 3>", "std_msgs/Header", "double[9]"."""
        if self.nested:
            package, _, name = self.nested.split("/")
            inner = f"{package}/{name}"
        elif self.kind == "string":
            inner = f"string<{self.bound}>" if self.bound else "string"
        else:
            inner = PRIMITIVES[self.kind].shown
        if self.size is not None:
            return f"{inner}[{self.size}]"
        if self.capacity is not None:
            return f"sequence<{inner}, {self.capacity}>" if self.capacity else f"sequence<{inner}>"
        return inner

    @classmethod
    def parse(cls, name: str, text: str, package: str) -> Field:
        """Field of a line in an interface file; `package` is where types without a package are looked for."""
        match = _DESCRIPTION.fullmatch(text)
        if match is None:
            raise ValueError(f"not the type of a field: {text!r}")
        kind, nested = match["kind"], ""
        if kind not in PRIMITIVES and kind != "string":
            owner, _, short = kind.rpartition("/")
            kind, nested = "", f"{owner or package}/msg/{short}" if "/" not in owner else kind
        size = capacity = None
        if match["brackets"]:
            count = int(match["size"] or 0)
            if match["most"] or not count:
                capacity = count
            else:
                size = count
        return cls(name, kind, nested, size, capacity, int(match["bound"] or 0))

    def fault(self, value: Any, nested_class: type | None) -> str:
        """Why rclpy would not take the value for this field; empty if it would."""
        name = self.name
        if self.is_single:
            return self._fault_of_single(value, nested_class)
        if self.is_ndarray and isinstance(value, np.ndarray):
            if value.dtype != self.dtype:
                return f"The '{name}' numpy.ndarray() must have the dtype of 'numpy.{self.kind}'"
            return "" if value.size == self.size else f"The '{name}' numpy.ndarray() must have a size of {self.size}"
        primitive = self.primitive
        if self.is_array and isinstance(value, array.array):
            assert primitive is not None
            if value.typecode != primitive.typecode:
                return f"The '{name}' array.array() must have the type code of '{primitive.typecode}'"
            if self.capacity and len(value) > self.capacity:
                return f"The '{name}' array.array() must have a size <= {self.capacity}"
            return ""
        wanted = "a set or sequence"
        if not isinstance(value, Sequence | Set | UserList) or isinstance(value, str | UserString):
            return f"The '{name}' field must be {wanted}"
        if self.size is not None and len(value) != self.size:
            return f"The '{name}' field must be {wanted} with length {self.size}"
        if self.capacity and len(value) > self.capacity:
            return f"The '{name}' field must be {wanted} with length <= {self.capacity}"
        if primitive is not None and self._all_fit(value, primitive):
            return ""
        for element in value:
            if why := self._fault_of_single(element, nested_class):
                return f"The '{name}' field must be {wanted}, and for each value: {why}"
        return ""

    def culprit(self, value: Any, nested_class: type | None) -> Any:
        """The element at fault of a value at fault; the value itself where it is not one element's fault."""
        if self.is_single or not isinstance(value, Sequence | Set) or isinstance(value, str):
            return value
        return next((element for element in value if self._fault_of_single(element, nested_class)), value)

    def _fault_of_single(self, value: Any, nested_class: type | None) -> str:
        start = f"The '{self.name}' field must be"
        if nested_class is not None:
            short = self.nested.rpartition("/")[2]
            return "" if isinstance(value, nested_class) else f"{start} a sub message of type '{short}'"
        if self.kind == "string":
            if self.bound:
                fits = isinstance(value, str | UserString) and len(value) <= self.bound
                return "" if fits else f"{start} string value not longer than {self.bound}"
            return "" if isinstance(value, str) else f"{start} of type 'str'"
        if self.kind == "byte":
            fits = isinstance(value, bytes | bytearray) and len(value) == 1
            return "" if fits else f"{start} of type 'bytes' or 'ByteString' with length 1"
        primitive = PRIMITIVES[self.kind]
        if not isinstance(value, primitive.python):
            return f"{start} of type '{primitive.python.__name__}'"
        low, high = self.limits
        if low is None or low <= value <= high or (primitive.python is float and not math.isfinite(value)):
            return ""
        word = primitive.shown if primitive.python is float else "integer" if low else "unsigned integer"
        article = "an" if word[0] in "iu" else "a"
        return f"{start} {article} {word} in [{low}, {high}]"

    def _all_fit(self, values: Any, primitive: Primitive) -> bool:
        """Whether all elements are seen to fit at a glance; a closer look finds the one that does not, if any."""
        if primitive.python is bytes or not set(map(type, values)) <= {primitive.python}:
            return False
        low, high = self.limits
        return low is None or not values or (low <= min(values) and max(values) <= high)
