"""Waiting for output, for time and for signals at once, without a race between them."""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)


class Wakeup:
    """While it is entered, signals are told by `wait`, in the order in which they came.

    Parameters
    ----------
    on_interrupt
        Called at once at SIGINT, wherever the program is; it may raise KeyboardInterrupt.
    """

    def __init__(self, on_interrupt: Callable[[], None]) -> None:
        self._on_interrupt = on_interrupt
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Wakeup:
        self._receiver, self._sender = socket.socketpair()
        self._receiver.setblocking(False)
        self._sender.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._sender.fileno(), warn_on_full_buffer=False)
        # A launch that was started to outlive its terminal (nohup) does.
        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS if number not in ignored}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._receiver.close()
        self._sender.close()

    def wait(self, readers: Mapping[int, Callable[[int], object]], timeout_s: float | None) -> list[int]:
        """Call the readers whose descriptors have something, and give the signals that came meanwhile."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._receiver, selectors.EVENT_READ)
            for number, reader in readers.items():
                selector.register(number, selectors.EVENT_READ, reader)
            ready = selector.select(timeout_s)
            for key, _ in ready:
                if key.data is not None:
                    key.data(key.fd)
        try:
            return list(self._receiver.recv(4096))
        except BlockingIOError:
            return []

    def _note(self, number: int, frame: FrameType | None) -> None:
        # The number itself comes through the wakeup descriptor.
        if number == signal.SIGINT:
            self._on_interrupt()
