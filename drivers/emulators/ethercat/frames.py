"""EtherCAT frames (ETG.1000.4, IEC 61158-4-12): datagrams one behind the other, each with its working counter.

    Ethernet   destination (6 bytes), source (6), EtherType 0x88A4, big-endian
    frame      length of all datagrams (11 bits), reserved (1), type 1 (4 bits); all from here on little-endian
    datagram   command u8, index u8, address u32, length (11 bits), reserved (3), circulating, more to follow,
               interrupt u16, data, working counter u16

The address is logical, or in two halves: position (counted up by each slave) or station, and offset in its memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

ETHERTYPE = 0x88A4
ETHERNET_BYTES = 14
LARGEST_FRAME = 1514
"""Bytes of an Ethernet frame without its checksum."""

_HEADER = struct.Struct("<H")
_DATAGRAM = struct.Struct("<BBIHH")
_COUNTER = struct.Struct("<H")
_LENGTH_MASK = 0x07FF
_CIRCULATING = 0x4000
_MORE = 0x8000
_PDU_TYPE = 1
_RETURNED = 0x02


class FrameError(ValueError):
    """Bytes that are no EtherCAT frame; says where and why."""


class Command(IntEnum):
    """What a datagram asks of the slaves."""

    NOP = 0
    APRD = 1
    APWR = 2
    APRW = 3
    FPRD = 4
    FPWR = 5
    FPRW = 6
    BRD = 7
    BWR = 8
    BRW = 9
    LRD = 10
    LWR = 11
    LRW = 12
    ARMW = 13
    FRMW = 14


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


class Place(NamedTuple):
    """Where a datagram is in a frame: its header starts at `start`, its data at `data`, its counter at `counter`."""

    start: int
    data: int
    counter: int
    command: int
    address: int


def places(frame: bytes | bytearray) -> list[Place]:
    """The datagrams of an Ethernet frame, each with its place in it.

    Raises
    ------
    FrameError
        It is none of EtherCAT, or one of its lengths lies.
    """
    size = len(frame)
    if size > LARGEST_FRAME:
        raise FrameError(f"{size} bytes, more than the {LARGEST_FRAME} of an Ethernet frame")
    if size < ETHERNET_BYTES + 2:
        raise FrameError(f"{size} bytes, less than the {ETHERNET_BYTES + 2} of the headers")
    if frame[12] != ETHERTYPE >> 8 or frame[13] != ETHERTYPE & 0xFF:
        raise FrameError(f"EtherType 0x{frame[12]:02X}{frame[13]:02X}, not 0x{ETHERTYPE:04X}")
    (header,) = _HEADER.unpack_from(frame, ETHERNET_BYTES)
    if header >> 12 != _PDU_TYPE:
        raise FrameError(f"frame of type {header >> 12}, not of datagrams ({_PDU_TYPE})")
    at = ETHERNET_BYTES + 2
    end = at + (header & _LENGTH_MASK)
    if end > size:  # shorter ones are padded to 60 bytes
        raise FrameError(f"{end - at} bytes of datagrams announced, {size - at} there")
    found: list[Place] = []
    while True:
        data = at + _DATAGRAM.size
        if data > end:
            raise FrameError(f"datagram {len(found)}: its header ends {data - end} bytes behind the frame's")
        command, _, address, told, _ = _DATAGRAM.unpack_from(frame, at)
        counter = data + (told & _LENGTH_MASK)
        if counter + 2 > end:
            raise FrameError(f"datagram {len(found)}: its {counter - data} bytes of data do not fit into the frame")
        found.append(Place(at, data, counter, command, address))
        if not told & _MORE:
            return found
        at = counter + 2


def parse(frame: bytes) -> tuple[Datagram, ...]:
    """The datagrams of an Ethernet frame.

    Raises
    ------
    FrameError
        See `places`.
    """
    datagrams = []
    for place in places(frame):
        command, index, address, told, interrupt = _DATAGRAM.unpack_from(frame, place.start)
        (counter,) = _COUNTER.unpack_from(frame, place.counter)
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
        more = _MORE if place + 1 < len(datagrams) else 0
        told = len(one.data) & _LENGTH_MASK | (_CIRCULATING if one.circulating else 0) | more
        body += _DATAGRAM.pack(one.command, one.index, one.address, told, one.interrupt)
        body += one.data + _COUNTER.pack(one.working_counter)
    size = ETHERNET_BYTES + 2 + len(body)
    if size > LARGEST_FRAME:
        raise FrameError(f"{size} bytes, more than the {LARGEST_FRAME} of an Ethernet frame")
    ethernet = b"\xff" * 6 + source + ETHERTYPE.to_bytes(2, "big")
    return (ethernet + _HEADER.pack(len(body) | _PDU_TYPE << 12) + body).ljust(60, b"\x00")


def is_returned(frame: bytes) -> bool:
    """Whether the first slave has seen the frame: it marks the source address as given locally."""
    return len(frame) > 6 and bool(frame[6] & _RETURNED)


def mark_returned(frame: bytearray) -> None:
    """What the first slave does to the source address of every frame."""
    frame[6] |= _RETURNED
