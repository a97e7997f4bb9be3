"""Base of conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launch.launch_context import LaunchContext


class Condition:
    """Whether an action is done, as a function of the context."""

    def __init__(self, *, predicate: Callable[[LaunchContext], bool]) -> None:
        self._predicate = predicate

    def evaluate(self, context: LaunchContext) -> bool:
        """Whether it holds now."""
        return self._predicate(context)
