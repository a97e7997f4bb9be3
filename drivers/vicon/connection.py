"""A TCP connection to a server that may not be there, lie, fall silent or go, and come back: bytes, or why none."""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable

from drivers.motion_capture.arrivals import ANCILLARY_BYTES, arrival_ns, keep_arrivals

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_PROVEN_S = 5.0
"""A connection that has held so long was a good one: the next is tried at once."""
_CONNECT_S = 2.0
_MOST_BYTES = 1 << 16
_HINT = "is the address right, is the DataStream server running, does a firewall keep its port?"
# A cable that was pulled shows within these seconds, though nothing is sent meanwhile.
_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3}


class Connection:
    """Connects, and connects again, later and later, whenever that is lost.

    Parameters
    ----------
    host, port
        Of the server; a name is looked up anew each time.
    bind
        Address of this machine to go out from; empty: the system chooses.
    tell
        Takes a sentence where the connection is lost, and where it is there again.
    clock
        Seconds that pass evenly.

    Attributes
    ----------
    trouble
        Why there is no connection; empty where there is one.
    losses
        How often it was lost.
    connections
        How often it was made.
    arrived_ns
        When the kernel received the last of what was read last, ns since the epoch.
    """

    def __init__(
        self,
        host: str,
        port: int,
        bind: str,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._port, self._bind, self._tell, self._clock = host, port, bind, tell, clock
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._pending_since_s: float | None = None
        self._next_s = -1.0
        self._wait_s = _FIRST_WAIT_S
        self._made_s = 0.0
        self.losses = self.connections = self.arrived_ns = 0
        self.trouble = "not connected yet"

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._socket is not None and self._pending_since_s is None

    @property
    def age_s(self) -> float:
        """Of the connection, s."""
        return self._clock() - self._made_s

    def read(self, timeout_s: float) -> bytes:
        """What has arrived, as soon as there is anything; empty after the timeout, and where there is no connection."""
        if not self.is_open and not self._connected(timeout_s):
            return b""
        assert self._socket is not None
        if not self._poll.poll(1e3 * timeout_s):
            return b""
        try:
            data, ancillary, *_ = self._socket.recvmsg(_MOST_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError as error:
            self.lose(f"reading failed: {error.strerror or error}")
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
                self.lose(f"writing failed: {error.strerror or error}")

    def lose(self, reason: str) -> None:
        """Give the connection up, and try again later."""
        self.losses += self.is_open
        self._wait_s = _FIRST_WAIT_S if self.is_open and self.age_s > _PROVEN_S else self._wait_s
        self.close()
        self._next_s = self._clock() + self._wait_s
        self._wait_s = min(2.0 * self._wait_s, _LONGEST_WAIT_S)
        self._say(f"{self._name}: {reason}; trying again")

    def close(self) -> None:
        """End it."""
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
        self._socket = self._pending_since_s = None

    @property
    def _name(self) -> str:
        return f"{self._host}:{self._port}"

    def _connected(self, timeout_s: float) -> bool:
        if self._socket is None:
            wait_s = self._next_s - self._clock()
            if wait_s > 0.0:
                time.sleep(min(timeout_s, wait_s))
                return False
            if not self._begin():
                return False
        assert self._socket is not None
        assert self._pending_since_s is not None
        if self._poll.poll(1e3 * timeout_s):
            number = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self.lose(f"cannot be reached: {os.strerror(number)}: {_HINT}")
                return False
            self._poll.modify(self._socket, select.POLLIN)
            self._pending_since_s, self._made_s = None, self._clock()
            self.connections += 1
            self._say("")
            return True
        if self._clock() - self._pending_since_s > _CONNECT_S:
            self.lose(f"no answer within {_CONNECT_S:g} s: {_HINT}")
        return False

    def _begin(self) -> bool:
        """Whether a connection is on its way."""
        made = None
        try:
            made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _ALIVE.items():
                if hasattr(socket, name):
                    made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            keep_arrivals(made)
            if self._bind:
                made.bind((self._bind, 0))
            number = made.connect_ex((self._host, self._port))
            if number not in (0, errno.EINPROGRESS):
                raise OSError(number, os.strerror(number))
        except (OSError, UnicodeError) as error:
            if made is not None:
                made.close()
            self.lose(f"{getattr(error, 'strerror', None) or error}: {_HINT}")
            return False
        self._socket, self._pending_since_s = made, self._clock()
        self._poll.register(made, select.POLLOUT)
        return True

    def _say(self, trouble: str) -> None:
        """Once for each new trouble, and once where it is over."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._tell(trouble or f"{self._name}: connected")
