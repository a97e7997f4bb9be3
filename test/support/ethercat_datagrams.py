"""Datagrams of EtherCAT frames, written and read apart from the emulated slave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from drivers.emulators.ethercat_segment import DATAGRAM, ETHERTYPE, HEADER, LENGTH_MASK, MORE, PDU_TYPE, places

_RETURNED = 0x02


class Datagram(NamedTuple):
    """One datagram; `address` is position or station in the lower 16 bits, offset above, where it is not logical."""

    command: int
    index: int
    address: int
    data: bytes
    working_counter: int = 0

    @property
    def station(self) -> int:
        """Position or station."""
        return self.address & 0xFFFF

    @property
    def offset(self) -> int:
        """In a slave's memory."""
        return self.address >> 16


def parse(frame: bytes) -> tuple[Datagram, ...]:
    """The datagrams of an Ethernet frame; raises what `places` raises."""
    datagrams = []
    for place in places(frame):
        command, index, address, _, _ = DATAGRAM.unpack_from(frame, place.start)
        (counter,) = HEADER.unpack_from(frame, place.counter)
        datagrams.append(Datagram(command, index, address, bytes(frame[place.data : place.counter]), counter))
    return tuple(datagrams)


def encode(datagrams: Sequence[Datagram], source: bytes = b"\x02\x00\x00\x00\x00\x01") -> bytes:
    """An Ethernet frame for all slaves, padded to 60 bytes."""
    body = bytearray()
    for place, one in enumerate(datagrams):
        more = MORE if place + 1 < len(datagrams) else 0
        body += DATAGRAM.pack(one.command, one.index, one.address, len(one.data) & LENGTH_MASK | more, 0)
        body += one.data + HEADER.pack(one.working_counter)
    ethernet = b"\xff" * 6 + source + ETHERTYPE.to_bytes(2, "big")
    return (ethernet + HEADER.pack(len(body) | PDU_TYPE << 12) + body).ljust(60, b"\x00")


def is_returned(frame: bytes) -> bool:
    """Whether the first slave has seen the frame: it marks the source address as given locally."""
    return len(frame) > 6 and bool(frame[6] & _RETURNED)
