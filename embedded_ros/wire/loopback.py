"""Keeps other machines out: CycloneDDS binds its receiving sockets to all addresses, whatever interface it is given."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_SO_BINDTODEVICE = 25
_SO_ATTACH_FILTER = 26
_IP_BOUND_IF = 25  # macOS
_LOOPBACK = "lo" if sys.platform == "linux" else "lo0"
_DESCRIPTORS = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")


def sockets_open() -> set[tuple[int, str]]:
    """(file descriptor, what it is) of this process's sockets; empty where the system does not tell."""
    found = set()
    with contextlib.suppress(OSError):
        for path in _DESCRIPTORS.iterdir():
            with contextlib.suppress(OSError, ValueError):
                kind = str(path.readlink()) if sys.platform == "linux" else ""
                if kind.startswith("socket:") or sys.platform != "linux":
                    found.add((int(path.name), kind))
    return found


def confine(sockets: set[tuple[int, str]]) -> int:
    """Let these sockets receive from the loopback interface only; returns how many could not be confined.

    What is not UDP, or bound to one address, is left alone.
    """
    failed = 0
    for descriptor, _ in sockets:
        with _open_to_all(descriptor) as found:
            if found is not None and not _confine(found):
                failed += 1
    return failed


@contextlib.contextmanager
def _open_to_all(descriptor: int) -> Iterator[socket.socket | None]:
    """The socket of a descriptor (a duplicate) if it is UDP and bound to all addresses, else None."""
    try:
        found = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        yield None
        return
    with found:
        is_udp = found.type == socket.SOCK_DGRAM and found.family in (socket.AF_INET, socket.AF_INET6)
        yield found if is_udp and found.getsockname()[0] in ("0.0.0.0", "::") else None


def _confine(found: socket.socket) -> bool:
    try:
        index = socket.if_nametoindex(_LOOPBACK)
        if sys.platform != "linux":
            found.setsockopt(socket.IPPROTO_IP, _IP_BOUND_IF, struct.pack("@I", index))
            return True
        try:
            found.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, _LOOPBACK.encode())
        except PermissionError:  # Linux before 5.7 allows it to root only
            _attach_filter(found, index)
    except OSError:
        return False
    return True


def _attach_filter(found: socket.socket, index: int) -> None:
    """A packet filter that keeps what came in through the loopback interface and drops all else."""
    import ctypes

    load_interface = struct.pack("=HBBI", 0x20, 0, 0, 0xFFFFF000 + 8)  # SKF_AD_OFF + SKF_AD_IFINDEX
    if_loopback = struct.pack("=HBBI", 0x15, 0, 1, index)
    keep, drop = struct.pack("=HBBI", 0x06, 0, 0, 0xFFFFFFFF), struct.pack("=HBBI", 0x06, 0, 0, 0)
    code = load_interface + if_loopback + keep + drop
    buffer = ctypes.create_string_buffer(code, len(code))
    found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", 4, ctypes.addressof(buffer)))
