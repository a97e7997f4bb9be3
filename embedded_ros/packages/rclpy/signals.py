"""Ctrl-C and SIGTERM end the contexts.

SIGINT shuts the contexts down and then does what it did before, as a rule raise KeyboardInterrupt. SIGTERM shuts them
down only: who spins gets an ExternalShutdownException, and the program ends in its own way.
"""

from __future__ import annotations

import signal
import threading
from enum import IntEnum
from types import FrameType
from typing import Any

from embedded_ros.wire.interruption import uninterrupted
from rclpy.context import contexts


class SignalHandlerOptions(IntEnum):
    """Which signals rclpy takes care of."""

    NO = 0
    SIGINT = 1
    SIGTERM = 2
    ALL = 3


_options = SignalHandlerOptions.NO
_earlier: dict[int, Any] = {}


def install_signal_handlers(options: SignalHandlerOptions = SignalHandlerOptions.ALL) -> None:
    """Take care of signals; outside of the main thread, where Python cannot, nothing happens."""
    global _options
    if threading.current_thread() is not threading.main_thread():
        return
    for number, option in (
        (signal.SIGINT, SignalHandlerOptions.SIGINT),
        (signal.SIGTERM, SignalHandlerOptions.SIGTERM),
    ):
        if options & option and number not in _earlier:
            _earlier[number] = signal.signal(number, _handle)
    _options = SignalHandlerOptions(_options | options)


def uninstall_signal_handlers() -> None:
    """Leave signals to who had them before."""
    global _options
    if threading.current_thread() is threading.main_thread():
        for number, earlier in _earlier.items():
            if signal.getsignal(number) is _handle:
                signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
        _earlier.clear()
        _options = SignalHandlerOptions.NO


def _handle(number: int, frame: FrameType | None) -> None:
    for context in list(contexts):
        context._interrupt()
    earlier = _earlier.get(number)
    if callable(earlier):
        uninterrupted.after(earlier, number, frame)
