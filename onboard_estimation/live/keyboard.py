"""Single keys from the terminal, without Enter; nothing where standard input is none."""

from __future__ import annotations

import os
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

SPACE, RIGHT, UP, DOWN = " ", "\x1b[C", "\x1b[A", "\x1b[B"

_POLL_S = 0.05


@contextmanager
def keys(actions: Mapping[str, Callable[[], None]]) -> Iterator[bool]:
    """Call the action of each key that is pressed until the block is left; whether there is a keyboard."""
    try:
        terminal = sys.stdin.fileno()
        # A background process that changes the terminal would be stopped by it.
        there = os.isatty(terminal) and os.tcgetpgrp(terminal) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        there = False
    if not there:
        yield False
        return
    before = termios.tcgetattr(terminal)
    ended = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            if select.select([terminal], [], [], _POLL_S)[0]:
                pressed = os.read(terminal, 8).decode("ascii", "replace")
                if not pressed:
                    return
                action = actions.get(pressed) or actions.get(pressed[0])
                if action is not None:
                    action()

    thread = threading.Thread(target=listen, name="keyboard", daemon=True)
    try:
        tty.setcbreak(terminal)
        thread.start()
        yield True
    finally:
        ended.set()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
