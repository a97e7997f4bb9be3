"""Network interfaces for EtherCAT: which may be used, which have a network on them, and how they are left."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from onboard_estimation.base.errors import UserError

_GET_FLAGS, _SET_FLAGS, _GET_ADDRESS = 0x8913, 0x8914, 0x8915
_UP, _LOOPBACK, _RUNNING, _PROMISCUOUS = 0x1, 0x8, 0x40, 0x100
_REQUEST = struct.Struct("16sH22x")
"""`struct ifreq`: name, flags; netdevice(7)."""
_ADDRESS = slice(20, 24)
_SOL_PACKET, _ADD_MEMBERSHIP, _EVERY_FRAME = 263, 1, 1
_EVERY_PROTOCOL = 0x0003


def _asked(request: int, interface: str, flags: int = 0) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, _REQUEST.pack(os.fsencode(interface), flags))


def flags_of(interface: str) -> int:
    """As netdevice(7) has them; OSError where it is not there."""
    return int(_REQUEST.unpack(_asked(_GET_FLAGS, interface))[1])


def network_on(interface: str) -> str:
    """What makes it part of a network, in words; empty: nothing. An address that a host gives itself is none."""
    with suppress(OSError):
        address = socket.inet_ntoa(_asked(_GET_ADDRESS, interface)[_ADDRESS])
        if not address.startswith("169.254."):
            return f"address {address}"
    with suppress(OSError):
        for address, _, _, scope, _, name in map(str.split, Path("/proc/net/if_inet6").read_text().splitlines()):
            if name == interface and scope == "00":
                return f"address {socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address))}"
    with suppress(OSError):
        return f"bridge {Path(f'/sys/class/net/{interface}/master').readlink().name}"
    return ""


def there() -> str:
    """All of them with what speaks for or against each; those that may be an EtherCAT bus come first."""
    told = []
    for _, name in socket.if_nameindex():
        with suppress(OSError):  # gone meanwhile
            flags = flags_of(name)
            if flags & _LOOPBACK:
                told.append((3, f"{name} (loopback)"))
            elif network := network_on(name):
                told.append((2, f"{name} ({network})"))
            elif flags & _UP and flags & _RUNNING:
                told.append((0, f"{name} (has a link and no address: may be it)"))
            else:
                told.append((1, f"{name} ({'no link' if flags & _UP else 'down'})"))
    return ", ".join(sentence for _, sentence in sorted(told))


def refuse_unless_own(interface: str) -> None:
    """Refuse to be master of an interface that is not named, or has a network on it.

    Raises
    ------
    UserError
        With all interfaces, and the way to insist.
    """
    if not interface:
        raise UserError(f"bus.interface is not set, and EtherCAT wants one for itself; there are {there()}")
    with suppress(OSError):
        network = "the loopback" if flags_of(interface) & _LOOPBACK else network_on(interface)
        if network:
            raise UserError(
                f"interface {interface} has a network on it ({network}), whose machines would get every frame of the "
                f"bus; there are {there()}: set bus.interface, or bus.beside_network to true where the bus is really "
                "there"
            )


def check_interface(interface: str) -> None:
    """Refuse an interface that is not there, is down, or may not be used.

    Raises
    ------
    UserError
        With the interfaces that are there, or with the capability that is missing and the way to it.
    """
    try:
        flags = flags_of(interface)
    except OSError as error:
        raise UserError(f"interface {interface!r} is not there; there are {there()}: set bus.interface") from error
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) as raw:
            raw.bind((interface, _EVERY_PROTOCOL))
    except PermissionError as error:  # both ways were tried, neither runs anything as root
        raise UserError(
            f"interface {interface}: {error.strerror}; raw Ethernet needs the capability CAP_NET_RAW, which this "
            f"process has not. Without running as root: `sudo setpriv --reuid {os.getuid()} --regid {os.getgid()} "
            f"--init-groups --inh-caps +net_raw --ambient-caps +net_raw -- {sys.argv[0] or sys.executable} ...`; or "
            "for good, in an environment of its own (`python3 -m venv --copies ENVIRONMENT`): "
            "`sudo setcap cap_net_raw+ep ENVIRONMENT/bin/python3`"
        ) from error
    except OSError as error:
        raise UserError(f"interface {interface}: {error.strerror}") from error
    if not flags & _UP:
        raise UserError(f"interface {interface} is down: sudo ip link set {interface} up")


def every_frame(interface: str) -> socket.socket:
    """Makes the interface promiscuous for as long as this socket is open, in which nothing arrives."""
    own = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    own.setsockopt(
        _SOL_PACKET, _ADD_MEMBERSHIP, struct.pack("iHH8x", socket.if_nametoindex(interface), _EVERY_FRAME, 0)
    )
    return own


@contextmanager
def flags_kept(interface: str) -> Iterator[None]:
    """Take the promiscuous flag back, which SOEM sets for good, also for after a kill; no other is touched."""
    before = flags_of(interface)
    try:
        yield
    finally:
        with suppress(OSError):  # it may not be set either, or the interface is gone
            if not before & _PROMISCUOUS and (after := flags_of(interface)) & _PROMISCUOUS:
                _asked(_SET_FLAGS, interface, after & ~_PROMISCUOUS)
