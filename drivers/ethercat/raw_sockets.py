"""Whether raw Ethernet frames may be sent on an interface, and what to do where not."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from onboard_estimation.errors import UserError

_EVERY_PROTOCOL = 0x0003


def way_to_the_capability() -> str:
    """How a user gets CAP_NET_RAW for this Python, without being root when it runs."""
    interpreter = Path(sys.executable).resolve()
    return (
        "raw Ethernet needs the capability CAP_NET_RAW. For one run, as yourself:\n"
        "  sudo setpriv --reuid=$(id -u) --regid=$(id -g) --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw "
        f"{sys.executable} -m onboard_estimation run ...\n"
        "or for good, for an environment of its own with a copied interpreter (python3 -m venv --copies ENVIRONMENT):\n"
        "  sudo setcap cap_net_raw+ep ENVIRONMENT/bin/python3\n"
        f"Not on {interpreter} where that is the system's Python: every script could then read and forge frames"
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
        raise UserError(f"interface {interface}: {error.strerror}; {way_to_the_capability()}") from error
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
