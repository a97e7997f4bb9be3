"""Ctrl-C as a request to end in order, where an exception in the middle of writing would leave a half-written file."""

from __future__ import annotations

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


class Interrupts:
    """Handler of signals that asks for an end where it can, interrupts where not, and remembers that it did.

    C code that is interrupted may raise something else. A signal that comes late, and a third one, interrupts all the
    same: one Ctrl-C can come twice, from the terminal, and from a launch that hands it on.

    Attributes
    ----------
    arrivals_s
        When signals came, by the monotonic clock.
    ask
        Called in the place of an interruption, once whoever works can be asked to end: a callback amid which the signal
        comes goes on to its end.
    """

    def __init__(self, ask: Callable[[], object] | None = None) -> None:
        self.arrivals_s: list[float] = []
        self.ask = ask

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.arrivals_s.append(time.monotonic())
        late = self.arrivals_s[-1] - self.arrivals_s[0] > _SAME_WISH_S
        if self.ask is None or late or len(self.arrivals_s) > 2:
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
    _install(Interrupts(lambda: None))


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """A request that SIGINT, SIGTERM or SIGHUP makes, also one that was held before; main thread only."""
    stop = StopRequest()
    interrupts = Interrupts(stop.make)
    before = _install(interrupts)
    held = before[signal.SIGINT]
    if isinstance(held, Interrupts) and held.ask:
        interrupts.arrivals_s = held.arrivals_s
        if held.arrivals_s:
            stop.make()
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _install(interrupts: Interrupts) -> dict[int, Any]:
    """The handlers that were there."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return {number: signal.signal(number, interrupts) for number in _SIGNALS if number not in ignored}
