"""Substitutions that compare and decide; their text is `true` or `false`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_TRUE, _FALSE = ("true", "1"), ("false", "0")


class _Pair(Substitution):
    def __init__(self, left: SomeSubstitutionsType, right: SomeSubstitutionsType) -> None:
        self.left = normalize_to_list_of_substitutions(left)
        self.right = normalize_to_list_of_substitutions(right)

    def describe(self) -> str:
        return f"{type(self).__name__}({describe(self.left)}, {describe(self.right)})"


class EqualsSubstitution(_Pair):
    """Whether two are equal: as truth values or as numbers (to 1e-9) where both are such, else as text."""

    def __init__(self, left: Any, right: Any) -> None:
        super().__init__(_as_substitution(left), _as_substitution(right))

    def perform(self, context: LaunchContext) -> str:
        left, right = perform_substitutions(context, self.left), perform_substitutions(context, self.right)
        return _text(_equal(left, right))


class NotEqualsSubstitution(EqualsSubstitution):
    """Whether two are not equal, in the sense of EqualsSubstitution."""

    def perform(self, context: LaunchContext) -> str:
        return _text(super().perform(context) == "false")


def _text(value: bool) -> str:
    return "true" if value else "false"


def _as_substitution(value: Any) -> Any:
    if isinstance(value, bool):
        return _text(value)
    if value is None:
        return ""
    if isinstance(value, (list, tuple)) and any(isinstance(one, Substitution) for one in value):
        return value
    return value if isinstance(value, Substitution) else str(value)


def _equal(left: str, right: str) -> bool:
    words = _TRUE + _FALSE
    if left.lower() in words and right.lower() in words:
        return (left.lower() in _TRUE) == (right.lower() in _TRUE)
    try:
        return math.isclose(float(left), float(right))
    except ValueError:
        return left == right
