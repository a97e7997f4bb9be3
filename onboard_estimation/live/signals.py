"""Ctrl-C as a request to end in order, where an exception in the middle of writing would leave a half-written file."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

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


_arrivals_s: list[float] = []
"""Of signals since `hold_signals`, or in the block of `stop_on_signal`."""


class Interrupts:
    """Handler of SIGINT that interrupts, and remembers it: C code that is interrupted may raise something else.

    Attributes
    ----------
    came
        Whether there was one.
    ask
        Called in the place of an interruption, once whoever spins can be asked to end: a callback amid which the signal
        comes goes on to its end. A signal that comes late interrupts all the same.
    """

    def __init__(self) -> None:
        self.came = False
        self.ask: Callable[[], object] | None = None
        self._first_s = math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came, now_s = True, time.monotonic()
        self._first_s = min(self._first_s, now_s)
        if self.ask is None or now_s - self._first_s > _SAME_WISH_S:
            raise KeyboardInterrupt
        self.ask()


def heed_interrupts() -> Interrupts:
    """Let SIGINT interrupt, also where this process was started with SIGINT ignored; main thread only.

    Shells start so what goes on in the background of a script, and so do `nohup make` and cron. A program that runs
    until it is interrupted could not be ended in order then. A SIGHUP that is ignored (`nohup`) stays so.
    """
    interrupts, before = Interrupts(), signal.getsignal(signal.SIGINT)
    if before in (signal.SIG_IGN, signal.default_int_handler) or isinstance(before, Interrupts):
        signal.signal(signal.SIGINT, interrupts)
    return interrupts


def hold_signals() -> None:
    """From now on signals only ask for the end that `stop_on_signal` makes of them; for the start of a program."""
    _arrivals_s.clear()
    _install()


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """A request that the first SIGINT, SIGTERM or SIGHUP makes; a late or a third one interrupts. Main thread only.

    One Ctrl-C can come twice: from the terminal, and from a launch that hands it on. One that was held before counts.
    """
    before = _install()
    if before[signal.SIGINT] is not _note:
        _arrivals_s.clear()
    _requests.append(stop := StopRequest())
    if _arrivals_s:
        stop.make()
    try:
        yield stop
    finally:
        _requests.remove(stop)
        for number, handler in before.items():
            signal.signal(number, handler)


_requests: list[StopRequest] = []


def _install() -> dict[int, Any]:
    """The handlers that were there."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return {number: signal.signal(number, _note) for number in _SIGNALS if number not in ignored}


def _note(number: int, frame: FrameType | None) -> None:
    _arrivals_s.append(time.monotonic())
    if len(_arrivals_s) > 2 or _arrivals_s[-1] - _arrivals_s[0] > _SAME_WISH_S:
        raise KeyboardInterrupt
    for request in _requests:
        request.make()
