"""Messages as text, shaped as `ros2 topic echo` shapes them: YAML, one value, or CSV."""

from __future__ import annotations

import csv
import io
import re
import sys
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from onboard_estimation.errors import UserError

_INDEXED = re.compile(r"([A-Za-z]\w*)((?:\[\d+\])*)", re.ASCII)


@dataclass(frozen=True)
class Style:
    """How messages are shown.

    Attributes
    ----------
    truncate
        Longer arrays, texts and bytes are cut there; None: never.
    no_arr, no_str
        Show only type and length of arrays, of texts.
    flow
        Messages in one line.
    """

    truncate: int | None = 128
    no_arr: bool = False
    no_str: bool = False
    flow: bool = False


def to_yaml(value: Any, style: Style = Style()) -> str:
    """A message, or a part of one, as YAML; ends with a line break."""
    plain = to_plain(value, style)
    if not isinstance(plain, (dict, list)):
        return f"{plain}\n"
    return yaml.dump(
        plain,
        allow_unicode=True,
        width=sys.maxsize,
        default_flow_style=style.flow,
        sort_keys=False,
        Dumper=_Dumper,
    )


def to_csv(value: Any, style: Style = Style()) -> str:
    """All values of a message in one line, separated by commas; ends with a line break."""
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(list(_leaves(to_plain(value, style))))
    return line.getvalue()


def to_plain(value: Any, style: Style, field_type: str = "") -> Any:
    """A message as dictionaries, lists, numbers and texts."""
    limit = style.truncate
    if isinstance(value, (bytes, bytearray)):
        text = "".join(map(chr, value[:limit]))
        return text + "..." if limit is not None and len(value) > limit else text
    if isinstance(value, str):
        if style.no_str:
            return f"<string length: <{len(value)}>>"
        return value[:limit] + "..." if limit is not None and len(value) > limit else value
    if isinstance(value, (list, tuple, array, np.ndarray)):
        if style.no_arr and field_type:
            return _summary(value, field_type)
        shown = [to_plain(part, style) for part in value[:limit]]
        return [*shown, "..."] if limit is not None and len(value) > limit else shown
    if isinstance(value, np.generic):
        return value.item()
    if hasattr(value, "get_fields_and_field_types"):
        kinds = value.get_fields_and_field_types()
        return {name: to_plain(getattr(value, name), style, kind) for name, kind in kinds.items()}
    return value


def pick(message: Any, path: str) -> Any:
    """The part of a message that a path names, e.g. `pose.pose.position.x` or `position[0]`.

    Raises
    ------
    UserError
        There is no such field (says which there are), or no such element.
    """
    value = message
    for part in path.split("."):
        match = _INDEXED.fullmatch(part)
        fields = value.get_fields_and_field_types() if hasattr(value, "get_fields_and_field_types") else {}
        if match is None or match[1] not in fields:
            there = ", ".join(fields) or "no fields"
            raise UserError(f"--field {path}: no field {part[:80]!r} in {_kind(value)}; it has {there}")
        value = getattr(value, match[1])
        for index in re.findall(r"\d+", match[2]):
            try:
                value = value[int(index)]
            except (IndexError, TypeError):
                raise UserError(f"--field {path}: no element {index} in {match[1]}") from None
    return value


def to_json_value(value: Any) -> Any:
    """A message, or a part of it, for JSON: nothing cut."""
    return to_plain(value, Style(truncate=None))


def _summary(value: Any, field_type: str) -> str:
    """`<sequence type: double, length: 3>` or `<array type: double[9]>`."""
    element = re.fullmatch(r"sequence<(.+?)(?:, \d+)?>", field_type)
    return f"<sequence type: {element[1]}, length: {len(value)}>" if element else f"<array type: {field_type}>"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _kind(value: Any) -> str:
    module, _, _ = type(value).__module__.partition(".msg")
    return f"{module}/msg/{type(value).__name__}" if hasattr(value, "get_fields_and_field_types") else "a value"


class _Dumper(yaml.SafeDumper):
    """No anchors: two fields with the same text are still two."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
