"""One child process: its group, its output line by line, its end."""

from __future__ import annotations

import ctypes
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

_READ_BYTES = 65536
_LONGEST_LINE_BYTES = 65536
_MOST_READS = 64
"""At once: more than any pipe holds, and not without end where another process goes on writing."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child:
    """A running program that leads a process group of its own.

    A group of its own, and so no Ctrl-C straight from the terminal: every member gets each signal once, and what the
    program itself left behind can be found at the end. On Linux the program gets SIGTERM when this process dies without
    a chance to end it (kill -9).

    Parameters
    ----------
    command
        The program and its arguments.
    emulate_tty
        Its output goes to a pseudo-terminal instead of a pipe.
    on_line
        Called with `stdout` or `stderr` and each line, without its end.

    Raises
    ------
    OSError
        It cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: str | None,
        environment: Mapping[str, str],
        emulate_tty: bool,
        on_line: Callable[[str, str], None],
    ) -> None:
        self._on_line = on_line
        ours: dict[str, int] = {}
        theirs: dict[str, int] = {}
        try:
            for source in ("stdout", "stderr"):
                ours[source], theirs[source] = pty.openpty() if emulate_tty else os.pipe()
            self._popen = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=dict(environment),
                # Never written to and open to the end: as with ROS 2, no program sees an end of file.
                stdin=subprocess.PIPE,
                stdout=theirs["stdout"],
                stderr=theirs["stderr"],
                start_new_session=True,
                preexec_fn=_before_exec(os.getpid()),
            )
        except BaseException:
            _close(ours.values())
            raise
        finally:
            _close(theirs.values())
        self.pid = self._popen.pid
        self.returncode: int | None = None
        self._sources = {number: source for source, number in ours.items()}
        self._rests = dict.fromkeys(self._sources, b"")
        for number in self._sources:
            os.set_blocking(number, False)

    def outputs(self) -> list[int]:
        """File descriptors that `read` takes, as long as they are open."""
        return list(self._sources)

    def read(self, number: int) -> bool:
        """Hand on the lines that have come; False where there is nothing for now, or where no more will come."""
        try:
            data = os.read(number, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:  # a pseudo-terminal whose other side is closed
            data = b""
        *lines, rest = (self._rests[number] + data).split(b"\n")
        for line in lines:
            self._hand_on(number, line)
        if len(rest) > _LONGEST_LINE_BYTES:
            self._hand_on(number, rest)
            rest = b""
        self._rests[number] = rest
        if not data:
            self._close_output(number)
        return bool(data)

    def has_ended(self) -> bool:
        """Whether the program has ended; the rest of its group is asked to end too, and `returncode` is set.

        Its number stays taken until the group has got its signal, so that no other process can.
        """
        if self.returncode is not None:
            return True
        if hasattr(os, "waitid"):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
        elif self._popen.poll() is None:
            return False
        self.send(signal.SIGTERM)
        self.returncode = self._popen.wait()
        return True

    def drain(self) -> None:
        """Hand on what is in the pipes now."""
        for number in self.outputs():
            for _ in range(_MOST_READS):
                if not self.read(number):
                    break

    def close(self) -> None:
        """Close the pipes; what is left of an unfinished line is handed on."""
        for number in self.outputs():
            self._close_output(number)
        if self._popen.stdin:
            with suppress(OSError):
                self._popen.stdin.close()

    def send(self, number: int) -> bool:
        """Send a signal to the whole group; False where nobody is left."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # PermissionError: macOS's answer for a zombie
            return False
        return True

    def _close_output(self, number: int) -> None:
        rest = self._rests.pop(number)
        if rest:
            self._hand_on(number, rest)
        del self._sources[number]
        os.close(number)

    def _hand_on(self, number: int, line: bytes) -> None:
        self._on_line(self._sources[number], line.removesuffix(b"\r").decode("utf-8", "replace"))


def _close(numbers: Iterable[int]) -> None:
    for number in numbers:
        os.close(number)


def _before_exec(parent: int) -> Callable[[], None]:
    """What the child does between fork and exec: heed SIGINT, and on Linux ask for SIGTERM when its parent dies."""
    libc = _LIBC

    def prepare() -> None:
        # A launch in the background of a script was started with SIGINT ignored; it ends its processes by SIGINT.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if libc is None:
            return
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), signal.SIGTERM)

    return prepare
