"""Conditions that a program triggers itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GuardCondition:
    """Runs its callback in the executor after `trigger`, from whatever thread that was called."""

    def __init__(
        self, callback: Callable[[], Any] | None, callback_group: Any, context: Any = None, *, _wake: Any = None
    ) -> None:
        self.callback = callback
        self.callback_group = callback_group
        self._wake: Callable[[], None] | None = _wake
        self._triggered = False
        self._destroyed = False

    def trigger(self) -> None:
        """Have the callback run once."""
        self._triggered = True
        if self._wake is not None:
            self._wake()

    def destroy(self) -> None:
        """Never run again."""
        self._destroyed = True

    def _run(self, _: Any) -> Any:
        self._triggered = False
        return None if self.callback is None else self.callback()
