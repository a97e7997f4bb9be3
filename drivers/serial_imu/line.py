"""A serial line that may be pulled out, be taken by another program, and come back: bytes, or why there are none."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from onboard_estimation.errors import UserError

try:
    import serial
except ImportError as error:
    raise UserError("the serial line needs the package `pyserial`: pip install 'onboard_estimation[serial]'") from error

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 2.0
_MOST_BYTES = 65536


class SerialLine:
    """Opens a port, for this program alone, and opens it again whenever it is lost.

    Parameters
    ----------
    port
        Device file.
    baud
        Bits a second; a pseudo-terminal takes any.
    tell
        Takes a sentence where the line is lost, and where it is there again.
    clock
        Seconds that pass evenly.

    Attributes
    ----------
    is_open
        Whether the line is there.
    trouble
        Why it is not; empty where it is.
    losses
        How often it was lost.
    """

    def __init__(
        self, port: str, baud: int, tell: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._port, self._baud, self._tell, self._clock = port, baud, tell, clock
        self._serial: serial.Serial | None = None
        self._poll = select.poll()
        self._next_s = -1.0
        self._wait_s = _FIRST_WAIT_S
        self.losses = 0
        self.trouble = "not opened yet"

    @property
    def is_open(self) -> bool:
        return self._serial is not None

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, as soon as there is anything; empty after the timeout, and where there is no line."""
        if self._serial is None and not self._opened():
            time.sleep(timeout_s)
            return b""
        assert self._serial is not None
        try:
            if not self._poll.poll(1e3 * timeout_s):
                return b""
            data = os.read(self._serial.fileno(), _MOST_BYTES)
        except BlockingIOError:
            return b""
        except (OSError, serial.SerialException, TypeError, ValueError) as error:
            # pyserial has no file any more where another thread closed it: TypeError.
            self._lost(f"reading it failed: {_reason(error)}")
            return b""
        if not data:  # it was readable and gave nothing: unplugged
            self._lost("it was unplugged, or the device behind it has gone")
        return data

    def close(self) -> None:
        """Give the port back."""
        if self._serial is not None:
            self._poll.unregister(self._serial.fileno())
            self._serial.close()
            self._serial = None

    def _opened(self) -> bool:
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        try:
            self._serial = serial.Serial(self._port, self._baud, timeout=0, exclusive=True)
            self._serial.reset_input_buffer()  # what stands there is of before, nobody knows when
        except (OSError, serial.SerialException, ValueError) as error:
            self.close()
            self._wait_s = min(2.0 * self._wait_s, _LONGEST_WAIT_S)
            self._next_s = now_s + self._wait_s
            self._say(_cannot_be_opened(self._port, error))
            return False
        self._poll.register(self._serial.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
        self._wait_s = _FIRST_WAIT_S
        self._say("")
        return True

    def _lost(self, reason: str) -> None:
        self.losses += 1
        try:
            self.close()
        except OSError:
            self._serial = None
        self._next_s = self._clock() + self._wait_s
        self._say(f"{self._port}: {reason}; trying again")

    def _say(self, trouble: str) -> None:
        """Once for each new trouble, and once where it is over."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(trouble or f"{self._port}: open at {self._baud} baud")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)


def _cannot_be_opened(port: str, error: BaseException) -> str:
    text = str(error)
    if isinstance(error, FileNotFoundError) or "No such file" in text:
        return f"{port} is not there: plug the device in, or name its port (`ls /dev/ttyUSB* /dev/ttyACM*`)"
    if isinstance(error, PermissionError) or "Permission denied" in text:
        return f"{port} may not be opened by you: `sudo usermod -aG dialout $USER`, then log in again"
    if "exclusively lock" in text or "Resource temporarily unavailable" in text:
        return f"{port} is in use by another program (a serial monitor?): close it (`fuser {port}` names it)"
    return f"{port} cannot be opened: {text}"
