"""When the kernel received what a socket has: that a busy host wakes the program late is not in it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable

from onboard_estimation.measurement import NANOSECONDS_PER_SECOND

ANCILLARY_BYTES = 64
"""To be asked for with `recvmsg`."""
_SO_TIMESTAMPNS = 35
_TIME = struct.Struct("@ll")


def keep_arrivals(one: socket.socket) -> None:
    """Have the kernel say it with all that arrives from now on."""
    one.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def arrival_ns(ancillary: Iterable[tuple[int, int, bytes]]) -> int:
    """Of what `recvmsg` returned, of its last part where there are several, ns since the epoch; else now."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIME.size:
            seconds, nanoseconds = _TIME.unpack_from(data)
            return int(seconds * NANOSECONDS_PER_SECOND + nanoseconds)
    return time.time_ns()
