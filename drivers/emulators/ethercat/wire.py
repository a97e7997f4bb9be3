"""The end of an Ethernet cable: raw frames from and to one interface (packet(7))."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from drivers.emulators.ethercat.frames import ETHERTYPE, LARGEST_FRAME, FrameError
from drivers.ethercat.raw_sockets import check
from onboard_estimation.errors import UserError

_WAIT_S = 0.1
_ROOM = 4_194_304


class Wire:
    """A raw socket on an interface, for frames of EtherCAT only.

    Parameters
    ----------
    interface
        Its name, `eth0`.

    Attributes
    ----------
    received, returned, refused
        Frames: that came, that went back, that were none of EtherCAT or lied about a length.

    Raises
    ------
    UserError
        There is no such interface, or the process may not use it so.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self.received = self.returned = self.refused = 0
        self.fault = ""
        self._socket = raw_socket(interface)
        self._socket.settimeout(_WAIT_S)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def serve(self, process: Callable[[bytearray], bool], goes_on: Callable[[], bool]) -> None:
        """Answer frames until told otherwise; blocks."""
        room = bytearray(LARGEST_FRAME + 4)
        while goes_on():
            try:
                size, origin = self._socket.recvfrom_into(room)
            except TimeoutError:
                continue
            except OSError as error:  # the interface went down, or is gone
                self.fault = f"{self.interface}: {error.strerror}"
                time.sleep(_WAIT_S)
                continue
            # Ours come by here too on some kernels; told by type, for a master may have any address.
            if origin[2] == socket.PACKET_OUTGOING:
                continue
            self.received += 1
            frame = room[:size]
            try:
                if process(frame):
                    self._socket.send(frame)
                    self.returned += 1
            except FrameError as error:
                self.refused += 1
                self.fault = str(error)
            except OSError as error:
                self.fault = f"{self.interface}: {error.strerror}"


def raw_socket(interface: str) -> socket.socket:
    """A socket for EtherCAT frames on one interface.

    Raises
    ------
    UserError
        See `Wire`.
    """
    check(interface)
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        opened.bind((interface, ETHERTYPE))
    except OSError as error:
        opened.close()
        raise UserError(f"interface {interface}: {error.strerror}") from error
    return opened
