"""UDP sockets of a NatNet client, on the configured interface alone, with the kernel's times of arrival."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

from drivers.motion_capture.arrivals import ANCILLARY_BYTES, arrival_ns, keep_arrivals
from drivers.optitrack.configuration import OptitrackConfiguration
from drivers.optitrack.protocol import LONGEST_MESSAGE
from onboard_estimation.errors import UserError

_IP_MULTICAST_ALL = 49
_BUFFER_BYTES = 4 << 20
_MOST_AT_ONCE = 64
"""Of a flood, before whoever asked has its turn again."""


class NatNetSockets:
    """One socket to ask by, and one for the frames of a group.

    Attributes
    ----------
    foreign
        Datagrams of other senders than the server, which are left out.

    Raises
    ------
    UserError
        The interface is none of this host, the port is taken.
    """

    def __init__(self, chosen: OptitrackConfiguration) -> None:
        self._server = chosen.server, chosen.command_port
        self._sockets: list[socket.socket] = []
        self._poll = select.poll()
        self.foreign = 0
        try:
            self._commands = self._add(chosen.interface, 0)
            if chosen.group is not None:
                data = self._add(chosen.group, chosen.data_port)
                membership = socket.inet_aton(chosen.group) + socket.inet_aton(chosen.interface)
                data.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        except OSError as error:
            self.close()
            raise UserError(
                f"interface {chosen.interface}, group {chosen.group}, port {chosen.data_port}: "
                f"{error.strerror or error}; interface has to be an address of this host (`ip address` lists them)"
            ) from error
        self._by_number = {one.fileno(): one for one in self._sockets}

    def _add(self, address: str, port: int) -> socket.socket:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sockets.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # other clients on this host
        one.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)  # not what others have joined, elsewhere
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        keep_arrivals(one)
        one.bind((address, port))
        one.setblocking(False)
        self._poll.register(one, select.POLLIN)
        return one

    def send(self, data: bytes) -> bool:
        """Send a command; false where there is no way to the server."""
        try:
            self._commands.sendto(data, self._server)
        except OSError:
            return False
        return True

    def receive(self, timeout_s: float) -> Iterator[tuple[bytes, int]]:
        """Datagrams of the server and when each arrived, ns since the epoch; none after the timeout."""
        for number, _ in self._poll.poll(1e3 * timeout_s):
            for _ in range(_MOST_AT_ONCE):
                try:
                    data, ancillary, _, sender = self._by_number[number].recvmsg(LONGEST_MESSAGE, ANCILLARY_BYTES)
                except BlockingIOError:
                    break
                except OSError:  # a port that is closed at the other end: the server is not there
                    continue
                if sender[0] != self._server[0]:
                    self.foreign += 1
                    continue
                yield data, arrival_ns(ancillary)

    def close(self) -> None:
        """Give the ports back."""
        for one in self._sockets:
            one.close()
        self._sockets.clear()
