"""Conditions of actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launch.condition import Condition
from launch.substitution import (
    SomeSubstitutionsType,
    Substitution,
    describe,
    normalize_to_list_of_substitutions,
    perform_substitutions,
)

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext

__all__ = [
    "IfCondition",
    "InvalidConditionExpressionError",
    "UnlessCondition",
    "evaluate_condition_expression",
]

_WORDS = {"true": True, "1": True, "false": False, "0": False}


class InvalidConditionExpressionError(Exception):
    """The text of a condition is neither true nor false."""


def evaluate_condition_expression(context: LaunchContext, expression: list[Substitution]) -> bool:
    """`true`, `false`, `1` or `0`, in any case. InvalidConditionExpressionError for other texts."""
    text = perform_substitutions(context, expression)
    word = text.strip().lower()
    if word not in _WORDS:
        raise InvalidConditionExpressionError(
            f"invalid condition expression: {describe(expression)} is '{text}'; allowed are {', '.join(_WORDS)}"
        )
    return _WORDS[word]


class IfCondition(Condition):
    """Holds where a text says `true`."""

    def __init__(self, predicate_expression: SomeSubstitutionsType) -> None:
        expression = normalize_to_list_of_substitutions(predicate_expression)
        super().__init__(predicate=lambda context: evaluate_condition_expression(context, expression))


class UnlessCondition(Condition):
    """Holds where a text says `false`."""

    def __init__(self, predicate_expression: SomeSubstitutionsType) -> None:
        expression = normalize_to_list_of_substitutions(predicate_expression)
        super().__init__(predicate=lambda context: not evaluate_condition_expression(context, expression))
