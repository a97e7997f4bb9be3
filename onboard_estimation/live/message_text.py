"""Messages as text, shaped as `ros2 topic echo` shapes them: YAML, or one value."""

from __future__ import annotations

import re
import sys
from array import array
from typing import Any

import numpy as np
import yaml

from onboard_estimation.errors import UserError

_INDEXED = re.compile(r"([A-Za-z]\w*)((?:\[\d+\])*)", re.ASCII)


LONGEST = 128
"""Longer arrays, texts and bytes are cut there, as `ros2` does."""


def to_yaml(value: Any, longest: int | None = LONGEST) -> str:
    """A message, or a part of one, as YAML; ends with a line break."""
    plain = to_plain(value, longest)
    if not isinstance(plain, (dict, list)):
        return f"{plain}\n"
    return yaml.dump(
        plain, allow_unicode=True, width=sys.maxsize, default_flow_style=False, sort_keys=False, Dumper=_Dumper
    )


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


def _kind(value: Any) -> str:
    module, _, _ = type(value).__module__.partition(".msg")
    return f"{module}/msg/{type(value).__name__}" if hasattr(value, "get_fields_and_field_types") else "a value"


class _Dumper(yaml.SafeDumper):
    """No anchors: two fields with the same text are still two."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
