"""Parameters of other nodes, through their parameter services."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import yaml

from onboard_estimation.errors import UserError
from onboard_estimation.live.types import interface_class

ANSWER_S = 3.0

NOT_SET, BOOL, INTEGER, DOUBLE, STRING, BYTES, BOOLS, INTEGERS, DOUBLES, STRINGS = range(10)
"""Of `rcl_interfaces/msg/ParameterType`."""

TYPE_NAMES = (
    "not set",
    "boolean",
    "integer",
    "double",
    "string",
    "byte array",
    "boolean array",
    "integer array",
    "double array",
    "string array",
)
_FIELDS = (
    "",
    "bool_value",
    "integer_value",
    "double_value",
    "string_value",
    "byte_array_value",
    "bool_array_value",
    "integer_array_value",
    "double_array_value",
    "string_array_value",
)
_LABELS = (
    "Parameter not set.",
    "Boolean value is:",
    "Integer value is:",
    "Double value is:",
    "String value is:",
    "Byte values are:",
    "Boolean values are:",
    "Integer values are:",
    "Double values are:",
    "String values are:",
)
_INT64 = np.iinfo(np.int64)


class RemoteParameters:
    """The parameters of one node; every method raises UserError where it does not answer."""

    def __init__(self, node: Any, remote: str) -> None:
        self.remote = remote
        self._node = node

    def names(self) -> list[str]:
        """All names, sorted."""
        answer = self._call("ListParameters", "list_parameters", prefixes=[], depth=0)
        return sorted(answer.result.names)

    def get(self, names: Sequence[str]) -> list[Any]:
        """Values (`ParameterValue`) of parameters, in their order; UserError where one is not declared."""
        if not names:
            return []
        values = list(self._call("GetParameters", "get_parameters", names=list(names)).values)
        if len(values) != len(names):
            raise self._unknown(names)
        return values

    def describe(self, names: Sequence[str]) -> list[Any]:
        """Descriptors (`ParameterDescriptor`); UserError where one is not declared."""
        found = list(self._call("DescribeParameters", "describe_parameters", names=list(names)).descriptors)
        if len(found) != len(names) or any(one.type == NOT_SET and not one.dynamic_typing for one in found):
            self._refuse_undeclared(names)
        if len(found) != len(names):
            raise self._unknown(names)
        return found

    def set(self, name: str, text: str) -> tuple[bool, str]:
        """Set a parameter to a value written in YAML; whether the node took it, and why not.

        A whole number becomes a double where the parameter is one; other types are kept as they are written.
        """
        value = self._suiting(name, parse(text))
        parameter = interface_class("rcl_interfaces/msg/Parameter")(name=name, value=value)
        results = self._call("SetParameters", "set_parameters", parameters=[parameter]).results
        if not results:
            raise UserError(f"{self.remote} gave no answer to setting {name}")
        return bool(results[0].successful), str(results[0].reason)

    def _suiting(self, name: str, value: Any) -> Any:
        """The value as the type that the parameter has, where nothing is lost by it: 1 as 1.0, [1, 2] as [1.0, 2.0]."""
        if value.type not in (INTEGER, INTEGERS):
            return value
        there = list(self._call("GetParameters", "get_parameters", names=[name]).values)
        wanted = there[0].type if there else NOT_SET
        if value.type == INTEGER and wanted == DOUBLE:
            return _value(DOUBLE, float(value.integer_value))
        if value.type == INTEGERS and wanted == DOUBLES:
            return _value(DOUBLES, [float(one) for one in value.integer_array_value])
        return value

    def _refuse_undeclared(self, names: Sequence[str]) -> None:
        there = set(self.names())
        if any(name not in there for name in names):
            raise self._unknown(names)

    def _unknown(self, names: Sequence[str]) -> UserError:
        there = self.names()
        missing = [name for name in names if name not in there] or list(names)
        return UserError(f"{self.remote} has no parameter {', '.join(missing)}; it has: {', '.join(there) or 'none'}")

    def _call(self, kind: str, service: str, **fields: Any) -> Any:
        interface = interface_class(f"rcl_interfaces/srv/{kind}")
        client = self._node.create_client(interface, f"{self.remote}/{service}")
        try:
            if not client.wait_for_service(timeout_sec=ANSWER_S):
                raise UserError(f"{self.remote} has no parameter services (waited {ANSWER_S:g} s)")
            answered = threading.Event()
            future = client.call_async(interface.Request(**fields))
            future.add_done_callback(lambda done: answered.set())
            if not answered.wait(ANSWER_S):
                raise UserError(f"{self.remote} did not answer within {ANSWER_S:g} s: is it busy, or stopped?")
            return future.result()
        finally:
            self._node.destroy_client(client)


def parse(text: str) -> Any:
    """A `ParameterValue` of a text in YAML, as ROS 2 reads parameters.

    Raises
    ------
    UserError
        A mapping, a list of mixed types, or a number that a parameter cannot hold.
    """
    try:
        plain = yaml.safe_load(text)
    except yaml.YAMLError:
        plain = text
    if isinstance(plain, list):
        return _value(*_list_type(plain, text))
    for number, kind in ((BOOL, bool), (INTEGER, int), (DOUBLE, float), (STRING, str)):
        if isinstance(plain, kind):
            return _value(number, _checked(plain, text))
    if plain is None or hasattr(plain, "isoformat"):  # YAML's null and dates are texts to ROS
        return _value(STRING, text)
    raise UserError(f"{text[:80]}: a parameter holds a boolean, number or text, or a list of one of these")


def to_python(value: Any) -> Any:
    """The plain value of a `ParameterValue`; None: not set."""
    if not 0 < value.type < len(_FIELDS):
        return None
    plain = getattr(value, _FIELDS[value.type])
    if isinstance(plain, (array, np.ndarray)):
        return plain.tolist()
    if value.type == BYTES:
        return [byte[0] if isinstance(byte, bytes) else byte for byte in plain]
    return list(plain) if isinstance(plain, (list, tuple)) else plain


def describe_value(value: Any) -> str:
    """`Double value is: 0.5`, as `ros2 param get` prints it."""
    number = value.type if value.type < len(_LABELS) else NOT_SET
    return _LABELS[number] if number == NOT_SET else f"{_LABELS[number]} {to_python(value)}"


def describe_parameter(name: str, descriptor: Any) -> list[str]:
    """Lines of `param describe`, as `ros2` prints them."""
    lines = [f"Parameter name: {name}", f"  Type: {TYPE_NAMES[descriptor.type]}"]
    if descriptor.description:
        lines.append(f"  Description: {descriptor.description}")
    lines.append("  Constraints:")
    if descriptor.read_only:
        lines.append("    Read only: true")
    for limits in (*descriptor.floating_point_range, *descriptor.integer_range):
        lines += [f"    Min value: {limits.from_value}", f"    Max value: {limits.to_value}"]
        if limits.step:
            lines.append(f"    Step: {limits.step}")
    if descriptor.additional_constraints:
        lines.append(f"    Additional constraints: {descriptor.additional_constraints}")
    return lines


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """`{"chain.link_count": 3}` as `{"chain": {"link_count": 3}}`, the form of parameter files."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        *groups, last = name.split(".")
        level: Any = out
        for group in groups:
            level = level.setdefault(group, {})
            if not isinstance(level, dict):
                return values
        if last in level:
            return values
        level[last] = value
    return out


def _list_type(values: list[Any], text: str) -> tuple[int, list[Any]]:
    for number, kind in ((BOOLS, bool), (INTEGERS, int), (DOUBLES, float), (STRINGS, str)):
        if all(type(value) is kind for value in values):
            return number, [_checked(value, text) for value in values]
    if all(type(value) in (int, float) for value in values):
        return DOUBLES, [float(value) for value in values]
    raise UserError(f"{text[:80]}: all elements of a list must be of one type")


def _checked(value: Any, text: str) -> Any:
    if type(value) is int and not _INT64.min <= value <= _INT64.max:
        raise UserError(f"{text[:80]}: a whole number must fit into 64 bits")
    return value


def _value(number: int, plain: Any) -> Any:
    return interface_class("rcl_interfaces/msg/ParameterValue")(type=number, **{_FIELDS[number]: plain})
