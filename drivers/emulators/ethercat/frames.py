"""EtherCAT frames (ETG.1000.4, IEC 61158-4-12): datagrams one behind the other, each with its working counter.

    Ethernet   destination (6 bytes), source (6), EtherType 0x88A4, big-endian
    frame      length of all datagrams (11 bits), reserved (1), type 1 (4 bits); all from here on little-endian
    datagram   command u8, index u8, address u32, length (11 bits), reserved (3), circulating, more to follow,
               interrupt u16, data, working counter u16

The address is logical, or in two halves: position (counted up by each slave) or station, and offset in its memory.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

ETHERTYPE = 0x88A4
ETHERNET_BYTES = 14
LARGEST_FRAME = 1514
"""Bytes of an Ethernet frame without its checksum."""

HEADER = struct.Struct("<H")
DATAGRAM = struct.Struct("<BBIHH")
LENGTH_MASK = 0x07FF
MORE = 0x8000
PDU_TYPE = 1


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
    (header,) = HEADER.unpack_from(frame, ETHERNET_BYTES)
    if header >> 12 != PDU_TYPE:
        raise FrameError(f"frame of type {header >> 12}, not of datagrams ({PDU_TYPE})")
    at = ETHERNET_BYTES + 2
    end = at + (header & LENGTH_MASK)
    if end > size:  # shorter ones are padded to 60 bytes
        raise FrameError(f"{end - at} bytes of datagrams announced, {size - at} there")
    found: list[Place] = []
    while True:
        data = at + DATAGRAM.size
        if data > end:
            raise FrameError(f"datagram {len(found)}: its header ends {data - end} bytes behind the frame's")
        command, _, address, told, _ = DATAGRAM.unpack_from(frame, at)
        counter = data + (told & LENGTH_MASK)
        if counter + 2 > end:
            raise FrameError(f"datagram {len(found)}: its {counter - data} bytes of data do not fit into the frame")
        found.append(Place(at, data, counter, command, address))
        if not told & MORE:
            return found
        at = counter + 2
