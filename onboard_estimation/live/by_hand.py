"""Calling a service and publishing a message by hand: its type found in the graph, its fields written in YAML."""

from __future__ import annotations

import difflib
import re
import sys
import threading
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onboard_estimation.base import parameter_file
from onboard_estimation.base.errors import UserError
from onboard_estimation.live import discovery
from onboard_estimation.live.messages import interface_class
from onboard_estimation.live.session import place

_ELEMENTS = re.compile(r"sequence<([\w/]+)(?:<\d+>)?(?:, \d+)?>|([\w/]+)\[(\d+)\]")
_NAMES_SHOWN = 12
_OF_EVERY_NODE = ("rcl_interfaces/", "type_description_interfaces/")
"""Services that each node has are called all the same, but not listed among those that there are."""


def split_words(kind: str, words: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """Type, where one is given, and fields, of the command's words `[TYPE] [YAML]`; the kind is `srv` or `msg`."""
    rest = list(words)
    wanted = rest.pop(0) if rest and re.fullmatch(rf"\w+/({kind}/)?\w+", rest[0]) else None
    if len(rest) > 1:
        raise UserError(f"write the fields as one word, '{' '.join(rest)[:80]}', in quotation marks")
    try:
        fields = parameter_file.yaml_value(rest[0]) if rest else {}
    except UserError as error:
        raise UserError(f"{rest[0][:80]!r} is no YAML: {error}") from error
    if not isinstance(fields, dict):
        raise UserError(f"{rest[0][:80]!r}: write fields as '{{name: value}}', with a blank after the colon")
    return wanted and (wanted if f"/{kind}/" in wanted else wanted.replace("/", f"/{kind}/")), fields


def call(node: Any, service: str, wanted: str | None, fields: Mapping[str, Any], answer_s: float) -> Any:
    """The response of a service.

    Raises
    ------
    UserError
        No such service, another type, no such fields, or no answer in time.
    """
    name = discovery.absolute(service)
    kind = interface_class(find_type(node, "service", name, wanted, node.get_service_names_and_types))
    request = kind.Request()
    fill(node, request, fields)
    client = node.create_client(kind, name)
    answered = threading.Event()
    if client.wait_for_service(timeout_sec=answer_s):
        future = client.call_async(request)
        future.add_done_callback(lambda done: answered.set())
        if answered.wait(answer_s):
            return future.result()
    raise UserError(f"{name} did not answer within {answer_s:g} s: is its node busy, or stopped?")


def find_type(
    node: Any, what: str, name: str, wanted: str | None, search: Callable[[], Sequence[tuple[str, Sequence[str]]]]
) -> str:
    """Type of what has that name in the graph, as soon as it is there; UserError where none or another one is."""
    if not discovery.wait_until(lambda: name in dict(search()), discovery.NAMED_S):
        discovery.settle(node)
    there = {one: types for one, types in search() if one == name or not discovery.is_hidden(one)}
    if name not in there:
        own = [one for one, types in sorted(there.items()) if not types[0].startswith(_OF_EVERY_NODE)]
        near = difflib.get_close_matches(name, there, 1)
        shown = ", ".join(own[:_NAMES_SHOWN]) + (f" and {len(own) - _NAMES_SHOWN} more" * (len(own) > _NAMES_SHOWN))
        raise UserError(
            f"no {what} {name} in {place()}; "
            + (f"did you mean {near[0]}? " if near else "")
            + (f"{what}s there: {shown}" if own else "is a node running, with the same ROS_DOMAIN_ID?")
        )
    types = there[name]
    if wanted is None and len(types) > 1:
        raise UserError(f"{name} has several types, name one: {', '.join(types)}")
    if wanted is not None and wanted not in types:
        raise UserError(f"{name} is of type {', '.join(types)}, not {wanted}")
    return wanted or types[0]


def fill(node: Any, message: Any, values: Any, path: str = "") -> None:
    """Set fields of a message, and of those in it, from mappings, lists and numbers; `stamp: now` is the node's time.

    Raises
    ------
    UserError
        There is no such field (says which there are), or its type is another.
    """
    kinds = message.get_fields_and_field_types()
    if not isinstance(values, Mapping):
        raise UserError(f"{path or 'the message'}: write its fields ({', '.join(kinds)}), not {str(values)[:80]!r}")
    for field, value in values.items():
        if field not in kinds:
            there = ", ".join(kinds) or "none"
            raise UserError(f"no field {str(field)[:80]!r} in {path or 'the message'}; its fields: {there}")
        setattr(message, field, _value(node, kinds[field], value, f"{path}.{field}".lstrip(".")))


def _value(node: Any, kind: str, value: Any, path: str) -> Any:
    if elements := _ELEMENTS.fullmatch(kind):
        if not isinstance(value, list) or (elements[3] and len(value) != int(elements[3])):
            raise UserError(f"{path}: write a list{f' of {elements[3]}' * bool(elements[3])}, not {str(value)[:80]!r}")
        return [_value(node, elements[1] or elements[2], one, f"{path}[{i}]") for i, one in enumerate(value)]
    if "/" in kind:
        if kind == "builtin_interfaces/Time" and value == "now":
            return node.get_clock().now().to_msg()
        part = interface_class(kind.replace("/", "/msg/"))()
        fill(node, part, value, path)
        return part
    if kind in ("float", "double"):
        if type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max):
            return float(value)
    elif "int" in kind:
        limits = np.iinfo(kind)
        if type(value) is int and limits.min <= value <= limits.max:
            return value
    elif isinstance(value, bool if kind == "boolean" else str) and kind != "octet":
        return value
    raise UserError(f"{path}: {str(value)[:80]!r} is no {kind}")


# Messages as text, shaped as `ros2 topic echo` shapes them: YAML, or one value.

LONGEST = 128
"""Longer arrays, texts and bytes are cut there, as `ros2` does."""


def to_yaml(value: Any, longest: int | None = LONGEST) -> str:
    """A message, or a part of one, as YAML; ends with a line break."""
    plain = to_plain(value, longest)
    if not isinstance(plain, (dict, list)):
        return f"{plain}\n"
    return parameter_file.to_yaml(plain)


def to_plain(value: Any, longest: int | None = None) -> Any:
    """A message as dictionaries, lists, numbers and texts, cut after so many; None: never."""
    if isinstance(value, (bytes, bytearray, str)):
        text = value if isinstance(value, str) else "".join(map(chr, value))
        return text[:longest] + "..." * (len(text[:longest]) < len(text))
    if isinstance(value, (list, tuple, array, np.ndarray)):
        shown = [to_plain(part, longest) for part in value[:longest]]
        return [*shown, "..."] if len(shown) < len(value) else shown
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "get_fields_and_field_types"):
        return {name: to_plain(getattr(value, name), longest) for name in value.get_fields_and_field_types()}
    return value


def pick(message: Any, path: str) -> Any:
    """The part of a message that a path names, e.g. `pose.pose.position.x` or `position[0]`, as `to_plain` has it.

    Raises
    ------
    UserError
        There is no such field (says which there are), or no such element.
    """
    value = to_plain(message)
    for name in re.split(r"\.|(?=\[)", path):
        try:
            value = value[int(name[1:-1]) if name.startswith("[") else name]
        except (LookupError, TypeError, ValueError):
            there = f"its fields: {', '.join(value)}" if isinstance(value, dict) else "it has no fields"
            there = f"it has {len(value)} elements" if isinstance(value, list) else there
            raise UserError(f"--field {path}: no {name[:80]!r} there; {there}") from None
    return value
