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


def _asked(request: int, interface: str, flags: int = 0) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, request, _REQUEST.pack(os.fsencode(interface), flags))


def _flags_of(interface: str) -> int:
    """OSError where it is not there."""
    return int(_REQUEST.unpack(_asked(_GET_FLAGS, interface))[1])


def _network_on(interface: str) -> str:
    """What makes it part of a network, in words; empty: nothing. An address that a host gives itself is none."""
    if _flags_of(interface) & _LOOPBACK:
        return "loopback"
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


def _there() -> str:
    """All of them with what speaks for or against each; those that may be an EtherCAT bus come first."""
    told = []
    for _, name in socket.if_nameindex():
        with suppress(OSError):  # gone meanwhile
            flags, network = _flags_of(name), _network_on(name)
            has_link = bool(flags & _UP and flags & _RUNNING)
            good = "has a link and no address: may be it" if has_link else "no link" if flags & _UP else "down"
            told.append((bool(network), not has_link, f"{name} ({network or good})"))
    return ", ".join(sentence for *_, sentence in sorted(told))


def refuse_unless_own(interface: str) -> None:
    """Refuse to be master of an interface that is not named, or has a network on it; one that is not there passes.

    Raises
    ------
    UserError
        With all interfaces, and the way to insist.
    """
    if not interface:
        raise UserError(f"bus.interface is not set, and EtherCAT wants one for itself; there are {_there()}")
    with suppress(OSError):
        if network := _network_on(interface):
            raise UserError(
                f"interface {interface} has a network on it ({network}), whose machines would get every frame of the "
                f"bus; there are {_there()}: set bus.interface, or bus.beside_network to true where the bus is really "
                "there"
            )


def raw_socket(interface: str, ether_type: int = 0) -> socket.socket:
    """A raw socket on an interface (packet(7)), in which frames of that type arrive; 0: none.

    Raises
    ------
    UserError
        It is not there, with those that are; it is down, or may not be used, with the way to it.
    """
    try:
        is_up = _flags_of(interface) & _UP
    except OSError as error:
        raise UserError(f"interface {interface!r} is not there; there are {_there()}: set bus.interface") from error
    try:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ether_type))
        raw.bind((interface, ether_type))
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
    if not is_up:
        raw.close()
        raise UserError(f"interface {interface} is down: sudo ip link set {interface} up")
    return raw


def hear_all(raw: socket.socket, interface: str) -> None:
    """Make the interface promiscuous for as long as this socket is open."""
    number = socket.if_nametoindex(interface)
    raw.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, struct.pack("iHH8x", number, _EVERY_FRAME, 0))


@contextmanager
def flags_kept(interface: str) -> Iterator[None]:
    """Take the promiscuous flag back, which SOEM sets for good, also for after a kill; no other is touched."""
    before = _flags_of(interface)
    try:
        yield
    finally:
        with suppress(OSError):  # it may not be set either, or the interface is gone
            if not before & _PROMISCUOUS and (after := _flags_of(interface)) & _PROMISCUOUS:
                _asked(_SET_FLAGS, interface, after & ~_PROMISCUOUS)
