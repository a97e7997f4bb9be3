"""Signals wait until C code that calls Python has come to its end.

The CycloneDDS package makes Python objects of what it takes, and does not look whether that went well: where a signal's
handler raises meanwhile, as that of Ctrl-C does, it goes on with what is no object, and the process crashes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Uninterrupted:
    """A block that handlers called by `after` do not run in; only the main thread runs any."""

    def __init__(self) -> None:
        self._depth = 0
        self._held: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        while self._held and not self._depth:
            handler, arguments = self._held.pop(0)
            handler(*arguments)

    def after(self, handler: Callable[..., Any], *arguments: Any) -> None:
        """Call a handler of a signal, from that signal: now, or at the end of the block."""
        if self._depth:
            self._held.append((handler, arguments))
        else:
            handler(*arguments)


uninterrupted = _Uninterrupted()
