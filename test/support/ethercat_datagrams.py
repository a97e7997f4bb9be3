"""Datagrams of EtherCAT frames, written and read apart from the emulated slave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drivers.emulators.ethercat_segment import (
    DATAGRAM,
    ETHERNET_BYTES,
    ETHERTYPE,
    HEADER,
    LARGEST_FRAME,
    LENGTH_MASK,
    MORE,
    PDU_TYPE,
    FrameError,
    places,
)

_CIRCULATING = 0x4000
_RETURNED = 0x02


@dataclass(frozen=True)
class Datagram:
    """One datagram.

    Attributes
    ----------
    command
        See `Command`; others are reserved.
    index
        The master's own number for it.
    address
        Logical address; of a command that is not logical, position or station in the lower 16 bits, offset above.
    working_counter
        Counted up by each slave that does what is asked.
    interrupt
        Events of all slaves, or-ed.
    circulating
        It has been around a broken ring.
    """

    command: int
    index: int
    address: int
    data: bytes
    working_counter: int = 0
    interrupt: int = 0
    circulating: bool = False

    @property
    def station(self) -> int:
        """Position or station; of logical commands without meaning."""
        return self.address & 0xFFFF

    @property
    def offset(self) -> int:
        """In a slave's memory; of logical commands without meaning."""
        return self.address >> 16


def parse(frame: bytes) -> tuple[Datagram, ...]:
    """The datagrams of an Ethernet frame.

    Raises
    ------
    FrameError
        See `places`.
    """
    datagrams = []
    for place in places(frame):
        command, index, address, told, interrupt = DATAGRAM.unpack_from(frame, place.start)
        (counter,) = HEADER.unpack_from(frame, place.counter)
        data = bytes(frame[place.data : place.counter])
        datagrams.append(Datagram(command, index, address, data, counter, interrupt, bool(told & _CIRCULATING)))
    return tuple(datagrams)


def encode(datagrams: Sequence[Datagram], source: bytes = b"\x02\x00\x00\x00\x00\x01") -> bytes:
    """An Ethernet frame for all slaves, padded to 60 bytes.

    Raises
    ------
    FrameError
        There is nothing to send, or it does not fit into one frame.
    """
    if not datagrams:
        raise FrameError("a frame without datagrams")
    body = bytearray()
    for place, one in enumerate(datagrams):
        more = MORE if place + 1 < len(datagrams) else 0
        told = len(one.data) & LENGTH_MASK | (_CIRCULATING if one.circulating else 0) | more
        body += DATAGRAM.pack(one.command, one.index, one.address, told, one.interrupt)
        body += one.data + HEADER.pack(one.working_counter)
    size = ETHERNET_BYTES + 2 + len(body)
    if size > LARGEST_FRAME:
        raise FrameError(f"{size} bytes, more than the {LARGEST_FRAME} of an Ethernet frame")
    ethernet = b"\xff" * 6 + source + ETHERTYPE.to_bytes(2, "big")
    return (ethernet + HEADER.pack(len(body) | PDU_TYPE << 12) + body).ljust(60, b"\x00")


def is_returned(frame: bytes) -> bool:
    """Whether the first slave has seen the frame: it marks the source address as given locally."""
    return len(frame) > 6 and bool(frame[6] & _RETURNED)
