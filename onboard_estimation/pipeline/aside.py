"""What is done beside the main task, and may not end it: logs, reports, recordings, observers that others wrote."""

from __future__ import annotations

from collections.abc import Callable

from onboard_estimation.base.errors import UserError


class Aside:
    """A task beside the main one: once it fails it says so, once, and is not done again; the main one goes on.

    Parameters
    ----------
    name
        As the sentence calls it.
    tell
        Takes that sentence.

    Attributes
    ----------
    trouble
        That sentence; empty as long as the task is done.
    """

    def __init__(self, name: str, tell: Callable[[str], object]) -> None:
        self._name, self._tell = name, tell
        self.trouble = ""

    def __call__(self, action: Callable[..., object], *arguments: object) -> bool:
        """Do it, unless it has failed before; whether it was done."""
        if self.trouble:
            return False
        try:
            action(*arguments)
        except Exception as error:  # whatever it is, the main task is not to end by it
            self.trouble = f"{self._name} has ended: {_reason(error)}; all else goes on"
            self._tell(self.trouble)
            return False
        return True


def _reason(error: Exception) -> str:
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"
