"""Ways to a device that may be lost and come back: a serial line, a TCP connection; bytes, or why there are none."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from onboard_estimation.base.installed import optional
from onboard_estimation.base.measurement import NANOSECONDS_PER_SECOND

_FIRST_WAIT_S, _LONGEST_SERIAL_WAIT_S, _LONGEST_WAIT_S = 0.2, 2.0, 5.0
_PROVEN_S = 5.0
"""A connection that has held so long was a good one: the next is tried at once."""
_CONNECT_S = 1.0
_MOST_BYTES = 1 << 16
_HINT = "is the address right, is the DataStream server running, does a firewall keep its port?"
# A cable that was pulled shows within these seconds, though nothing is sent meanwhile.
_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}
ANCILLARY_BYTES = 64
"""To be asked for with `recvmsg`."""
_SO_TIMESTAMPNS = 35
_TIME = struct.Struct("@ll")


class Line:
    """What is told of a line, once for each new trouble and once where it is over, and when it is tried again.

    Parameters
    ----------
    name
        As sentences call it.
    tell
        Takes a sentence where the line is lost, and where it is there again, and whether it is bad.
    longest_wait_s
        Each time it is waited longer, so long at most.

    Attributes
    ----------
    trouble
        Why it is not there; empty where it is.
    losses
        How often it was lost.
    """

    def __init__(self, name: str, tell: Callable[[str, bool], object], longest_wait_s: float) -> None:
        self._name, self._tell, self._longest_wait_s = name, tell, longest_wait_s
        self._poll = select.poll()
        self._next_s, self._wait_s = -1.0, _FIRST_WAIT_S
        self.losses = 0
        self.trouble = "not opened yet"

    def _rests(self, timeout_s: float) -> bool:
        """Whether it is too early to try again; waits meanwhile, no longer than the timeout."""
        wait_s = self._next_s - time.monotonic()
        if wait_s > 0.0:
            time.sleep(min(timeout_s, wait_s))
        return wait_s > 0.0

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether it is there."""

    @abstractmethod
    def close(self) -> None:
        """Give it back."""

    def lose(self, reason: str) -> None:
        """Give it up, and try again later."""
        self.losses += self.is_open
        with suppress(OSError):
            self.close()
        self._try_later(f"{self._name}: {reason}; trying again")

    def _try_later(self, reason: str) -> None:
        self._next_s = time.monotonic() + self._wait_s
        self._wait_s = min(2.0 * self._wait_s, self._longest_wait_s)
        self._say(reason)

    def _say(self, trouble: str, well: str = "") -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(trouble or well, bool(trouble))


class SerialLine(Line):
    """Opens a port, for this program alone, and opens it again whenever it is lost.

    Parameters
    ----------
    port
        Device file.
    baud
        Bits a second; a pseudo-terminal takes any.

    Raises
    ------
    UserError
        pyserial is not there.
    """

    def __init__(self, port: str, baud: int, tell: Callable[[str, bool], object]) -> None:
        super().__init__(port, tell, _LONGEST_SERIAL_WAIT_S)
        self._library, self._baud = optional("serial", "pyserial", "serial"), baud
        self._serial: Any = None

    @property
    def is_open(self) -> bool:
        """Whether the line is there."""
        return self._serial is not None

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, as soon as there is anything; empty after the timeout, and where there is no line."""
        if self._serial is None and (self._rests(timeout_s) or not self._opened()):
            return b""
        try:
            if not self._poll.poll(1e3 * timeout_s):
                return b""
            data = os.read(self._serial.fileno(), _MOST_BYTES)
        except BlockingIOError:
            return b""
        except (OSError, self._library.SerialException, TypeError, ValueError) as error:
            # pyserial has no file any more where another thread closed it: TypeError.
            self.lose(f"reading it failed: {_reason(error)}")
            return b""
        if not data:  # it was readable and gave nothing: unplugged
            self.lose("it was unplugged, or the device behind it has gone")
        return data

    def close(self) -> None:
        """Give the port back."""
        was, self._serial = self._serial, None
        if was is not None:
            self._poll.unregister(was.fileno())
            was.close()

    def _opened(self) -> bool:
        try:
            self._serial = self._library.Serial(self._name, self._baud, timeout=0, exclusive=True)
            self._poll.register(self._serial.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)
            self._serial.reset_input_buffer()  # what stands there is of before, nobody knows when
        except (OSError, self._library.SerialException, ValueError) as error:
            self.close()
            self._try_later(_cannot_be_opened(self._name, error))
            return False
        self._wait_s = _FIRST_WAIT_S
        self._say("", f"{self._name}: open at {self._baud} baud")
        return True


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


class Connection(Line):
    """Connects to a server that may lie, fall silent or go, and connects again, later and later.

    Parameters
    ----------
    host, port
        Of the server; a name is looked up anew each time.
    bind
        Address of this machine to go out from; empty: the system chooses.

    Attributes
    ----------
    connections
        How often it was made.
    arrived_ns
        When the kernel received the last of what was read last, ns since the epoch.
    """

    def __init__(self, host: str, port: int, bind: str, tell: Callable[[str, bool], object]) -> None:
        super().__init__(f"{host}:{port}", tell, _LONGEST_WAIT_S)
        self._address, self._bind = (host, port), bind
        self._socket: socket.socket | None = None
        self._made_s = 0.0
        self.connections = self.arrived_ns = 0
        self.trouble = "not connected yet"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._socket is not None

    @property
    def age_s(self) -> float:
        """Of the connection, s."""
        return time.monotonic() - self._made_s

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, as soon as there is anything; empty after the timeout, and where there is no connection."""
        if self._socket is None and not self._connected(timeout_s):
            return b""
        assert self._socket is not None
        if not self._poll.poll(1e3 * timeout_s):
            return b""
        try:
            data, ancillary, *_ = self._socket.recvmsg(_MOST_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError as error:
            self.lose(f"reading failed: {_reason(error)}")
            return b""
        if not data:
            self.lose("the server has closed the connection")
        self.arrived_ns = arrival_ns(ancillary)
        return data

    def send(self, data: bytes) -> None:
        """Send a few bytes, which a new connection always has room for."""
        if self._socket is not None:
            try:
                self._socket.sendall(data)
            except OSError as error:
                self.lose(f"writing failed: {_reason(error)}")

    def lose(self, reason: str) -> None:
        """Give the connection up, and try again later."""
        self._wait_s = _FIRST_WAIT_S if self.is_open and self.age_s > _PROVEN_S else self._wait_s
        super().lose(reason)

    def close(self) -> None:
        """End it."""
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
        self._socket = None

    def _connected(self, timeout_s: float) -> bool:
        if self._rests(timeout_s):
            return False
        try:
            made = socket.create_connection(self._address, _CONNECT_S, (self._bind, 0) if self._bind else None)
        except TimeoutError:
            self.lose(f"no answer within {_CONNECT_S:g} s: {_HINT}")
            return False
        except (OSError, UnicodeError) as error:
            self.lose(f"cannot be reached: {_reason(error)}: {_HINT}")
            return False
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE.items():
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        keep_arrivals(made)
        self._socket, self._made_s = made, time.monotonic()
        self._poll.register(made, select.POLLIN)
        self.connections += 1
        self._say("", f"{self._name}: connected")
        return True


def keep_arrivals(one: socket.socket) -> None:
    """Have the kernel say with all that arrives from now on when it did: that a busy host wakes late is not in it."""
    one.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def arrival_ns(ancillary: Iterable[tuple[int, int, bytes]]) -> int:
    """Of what `recvmsg` returned, of its last part where there are several, ns since the epoch; else now."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return int(seconds * NANOSECONDS_PER_SECOND + nanoseconds)
    return time.time_ns()
