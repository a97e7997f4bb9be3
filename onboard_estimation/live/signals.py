"""Ctrl-C as a request to end in order, where an exception in the middle of writing would leave a half-written file."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAME_WISH_S = 3.0


class StopRequest:
    """Whether the user wants to end. Asked for again and again; an Event would deadlock in a signal handler."""

    def __init__(self) -> None:
        self._made = False

    def __bool__(self) -> bool:
        return self._made

    def make(self) -> None:
        """Ask to end."""
        self._made = True


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """A request that the first SIGINT, SIGTERM or SIGHUP makes; a late or a third one interrupts. Main thread only.

    One Ctrl-C can come twice: from the terminal, and from a launch that hands it on.
    """
    stop = StopRequest()
    arrivals_s: list[float] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrivals_s.append(time.monotonic())
        if len(arrivals_s) > 2 or arrivals_s[-1] - arrivals_s[0] > _SAME_WISH_S:
            raise KeyboardInterrupt
        stop.make()

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
