"""Values of a type that may be given as text: what a YAML reader makes of the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import yaml
from launch.substitution import Substitution, normalize_to_list_of_substitutions, perform_substitutions

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_TRUTH = {"1": True, "0": False}


def normalize_typed(value: Any, kind: type) -> Any:
    """A value of that type as it is, else a list of substitutions whose text becomes one. TypeError for others."""
    if isinstance(value, bool) and kind is not bool:
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    if isinstance(value, kind) and not isinstance(value, str):
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    if isinstance(value, (str, Substitution, Iterable)):
        return normalize_to_list_of_substitutions(value)
    raise TypeError(f"expected {kind.__name__} or substitutions, got {value!r}")


def perform_typed(context: LaunchContext, value: Any, kind: type) -> Any:
    """What `normalize_typed` gave, as a value of that type. ValueError where the text is none."""
    return coerce(perform_substitutions(context, value), kind) if isinstance(value, list) else value


def coerce(text: str, kind: type) -> Any:
    """Text as bool (also 1 and 0), int, float or str. ValueError where it is none."""
    if kind is str:
        return text
    if kind is bool and text in _TRUTH:
        return _TRUTH[text]
    try:
        value = yaml.safe_load(text)
        if kind is float and not isinstance(value, bool):
            return float(value)  # YAML takes 1e3 for a text
    except (yaml.YAMLError, TypeError, ValueError):
        value = None
    if type(value) is not kind:
        raise ValueError(f"Failed to convert '{text}' to '{kind.__name__}'")
    return value
