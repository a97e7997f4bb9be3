"""Substitutions that compare and decide; their text is `true` or `false`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    SubstitutionFailure,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)
from launch.utilities.typed_values import coerce

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

_TRUE, _FALSE = ("true", "1"), ("false", "0")


class _Pair(Substitution):
    def __init__(self, left: SomeSubstitutionsType, right: SomeSubstitutionsType) -> None:
        self.left = normalize_to_list_of_substitutions(left)
        self.right = normalize_to_list_of_substitutions(right)

    def describe(self) -> str:
        return f"{type(self).__name__}({describe(self.left)}, {describe(self.right)})"


class AndSubstitution(_Pair):
    """Whether both are true."""

    def perform(self, context: LaunchContext) -> str:
        left, right = _truth(context, self.left), _truth(context, self.right)
        return _text(left and right)


class OrSubstitution(_Pair):
    """Whether one is true or both are."""

    def perform(self, context: LaunchContext) -> str:
        left, right = _truth(context, self.left), _truth(context, self.right)
        return _text(left or right)


class NotSubstitution(Substitution):
    """Whether it is false."""

    def __init__(self, value: SomeSubstitutionsType) -> None:
        self.value = normalize_to_list_of_substitutions(value)

    def describe(self) -> str:
        return f"NotSubstitution({describe(self.value)})"

    def perform(self, context: LaunchContext) -> str:
        return _text(not _truth(context, self.value))


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


class IfElseSubstitution(Substitution):
    """One text or another."""

    def __init__(
        self,
        condition: SomeSubstitutionsType,
        if_value: SomeSubstitutionsType = "",
        else_value: SomeSubstitutionsType = "",
    ) -> None:
        if if_value == "" and else_value == "":
            raise RuntimeError("IfElseSubstitution needs if_value, else_value or both")
        self.condition = normalize_to_list_of_substitutions(condition)
        self.if_value = normalize_to_list_of_substitutions(if_value)
        self.else_value = normalize_to_list_of_substitutions(else_value)

    def describe(self) -> str:
        parts = ", ".join(describe(part) for part in (self.condition, self.if_value, self.else_value))
        return f"IfElseSubstitution({parts})"

    def perform(self, context: LaunchContext) -> str:
        return perform_substitutions(context, self.if_value if _truth(context, self.condition) else self.else_value)


def _truth(context: LaunchContext, value: list[Substitution]) -> bool:
    try:
        return bool(coerce(perform_substitutions(context, value), bool))
    except ValueError as error:
        raise SubstitutionFailure(str(error)) from error


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
