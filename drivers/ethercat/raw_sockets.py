"""Whether raw Ethernet frames may be sent on an interface, and what to do where not."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from onboard_estimation.errors import UserError

_EVERY_PROTOCOL = 0x0003


def missing_capability() -> str:
    """The sentence for a process that may not open raw sockets; both ways were tried, neither runs anything as root."""
    return (
        "raw Ethernet needs the capability CAP_NET_RAW, which this process has not. Without running as root: "
        f"`sudo setpriv --reuid {os.getuid()} --regid {os.getgid()} --init-groups --inh-caps +net_raw "
        f"--ambient-caps +net_raw -- {sys.argv[0] or sys.executable} ...`; or for good, in an environment of its own "
        "(`python3 -m venv --copies ENVIRONMENT`): `sudo setcap cap_net_raw+ep ENVIRONMENT/bin/python3`"
    )


def check(interface: str) -> None:
    """Refuse an interface that is not there, is down, or may not be used.

    Raises
    ------
    UserError
        With the interfaces that are there, or with the capability that is missing and the way to it.
    """
    known = sorted(name for _, name in socket.if_nameindex())
    if interface not in known:
        raise UserError(f"interface {interface!r} is not there; there are {', '.join(known)}: set bus.interface")
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL)) as raw:
            raw.bind((interface, _EVERY_PROTOCOL))
    except PermissionError as error:
        raise UserError(f"interface {interface}: {error.strerror}; {missing_capability()}") from error
    except OSError as error:
        raise UserError(f"interface {interface}: {error.strerror}") from error
    if not _is_up(interface):
        raise UserError(f"interface {interface} is down: sudo ip link set {interface} up")


def _is_up(interface: str) -> bool:
    try:
        flags = int(Path(f"/sys/class/net/{interface}/flags").read_text(), 16)
    except (OSError, ValueError):  # no sysfs here, or that of another namespace: the library will tell
        return True
    return bool(flags & 1)
