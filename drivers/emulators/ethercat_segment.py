"""The slaves on one wire, a frame goes through them in order, and back; what goes wrong there, on request; the wire."""

from __future__ import annotations

import random
import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from drivers.emulators.ethercat_slave import NO_REASON, Command, Slave, State
from drivers.ethercat.interface import raw_socket
from onboard_estimation.base.configuration import bounded, non_negative, parameter

# EtherCAT frames (ETG.1000.4, IEC 61158-4-12): datagrams one behind the other, each with its working counter.
#
#     Ethernet   destination (6 bytes), source (6), EtherType 0x88A4, big-endian
#     frame      length of all datagrams (11 bits), reserved (1), type 1 (4 bits); all from here on little-endian
#     datagram   command u8, index u8, address u32, length (11 bits), reserved (3), circulating, more to follow,
#                interrupt u16, data, working counter u16
#
# The address is logical, or in two halves: position (counted up by each slave) or station, and offset in its memory.

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
    at, size = ETHERNET_BYTES + HEADER.size, len(frame)
    if size < at:
        raise FrameError(f"{size} bytes, less than the {at} of the headers")
    (header,) = HEADER.unpack_from(frame, ETHERNET_BYTES)
    end = at + (header & LENGTH_MASK)
    if header >> 12 != PDU_TYPE:
        raise FrameError(f"frame of type {header >> 12}, not of datagrams ({PDU_TYPE})")
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


# What goes wrong on the way through the slaves, and the way itself.

_LAST, _BETWEEN = 0x5611, 0x5A31
"""DL status: port 0 has a link, or ports 0 and 1; the others are closed."""
_RETURNED = 0x02
_STATES = {"pre_op": State.PREOP, "safe_op": State.SAFEOP, "op": State.OP}
_COUNTED_UP = frozenset({*range(Command.APRD, Command.FPRD), *range(Command.BRD, Command.LRD)})
"""Commands whose position each slave counts up."""
_WAIT_S = 0.1
_ROOM = 4_194_304


SDO_OBJECT = re.compile(r"0x([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{1,2})", re.ASCII)
"""Index and subindex."""


@dataclass(frozen=True)
class EthercatFaults:
    """Nothing by default. They begin `after_s` after the first frame; set while the node runs, at once."""

    after_s: float = non_negative(5.0, "after the first frame, faults begin", "s")
    slave: int = parameter(0, "place on the bus of the device that has them", minimum=0)
    frame_loss_rate: float = bounded(0.0, 0.0, 1.0, "share of the frames that do not come back")
    unplugged_s: float = non_negative(0.0, "the cable is out for so long; the devices have power", "s")
    power_off_s: float = non_negative(0.0, "the device has no power for so long, and none behind it is reached", "s")
    leaves_op: bool = parameter(False, "the device falls into SAFEOP with an error, once")
    refused_state: Literal["none", "pre_op", "safe_op", "op"] = parameter(
        "none", "a state of the application layer that the device does not enter"
    )
    sdo_aborts: tuple[str, ...] = parameter((), "objects that the device does not answer for: 0x2021:37")
    frozen: bool = parameter(False, "the device gives its last reading again and again")
    overload: bool = parameter(False, "the device says that a reading is out of range")
    error: bool = parameter(False, "the device says that it is out of order")
    warning: bool = parameter(False, "the device says that something is not as it should be")

    def faults(self) -> Iterable[str]:
        """Objects that are none."""
        for one in self.sdo_aborts:
            if not SDO_OBJECT.fullmatch(one):
                yield f"sdo_aborts: {one!r}, allowed: index and subindex in hexadecimal digits, 0x2021:37"


class Segment:
    """Slaves in the order in which a frame meets them.

    Attributes
    ----------
    slaves
        As given.
    reach
        So many of them are reached: behind one that is off there is none.
    """

    def __init__(self, slaves: Sequence[Slave], faults: EthercatFaults | None = None, seed: int = 0) -> None:
        self.slaves = tuple(slaves)
        self._faults = faults
        self._asked: EthercatFaults | None = None
        self._random = random.Random(seed)
        self._begin_s: float | None = None
        self._are_set = False
        self._off: Slave | None = None
        self.connect(len(self.slaves))

    def connect(self, reach: int) -> None:
        """Only the first so many are there; their ports know."""
        self.reach = reach
        for place, slave in enumerate(self.slaves[:reach]):
            slave.connect(_BETWEEN if place + 1 < reach else _LAST)

    def change(self, faults: EthercatFaults) -> None:
        """Other faults, from the next frame on; from any thread."""
        self._asked = faults

    def process(self, frame: bytearray) -> bool:
        """What the slaves make of a frame; whether it comes back.

        Raises
        ------
        FrameError
            It is no EtherCAT frame.
        """
        goes_on, found = self._lets_through(time.monotonic()), places(frame)
        reached = self.slaves[: self.reach]
        if not goes_on or not reached:
            return False
        now_ns = time.time_ns()
        for slave in reached:
            slave.watch(now_ns)
        frame[6] |= _RETURNED  # the first slave marks the source address as given locally
        for place in found:
            data = frame[place.data : place.counter]
            address, step = place.address, int(place.command in _COUNTED_UP)
            (counter,) = HEADER.unpack_from(frame, place.counter)
            for slave in reached:
                counter += slave.execute(place.command, address, data)
                address = address & 0xFFFF_0000 | (address + step) & 0xFFFF
            frame[place.data : place.counter] = data
            HEADER.pack_into(frame, place.counter, counter & 0xFFFF)
            frame[place.start + 2 : place.start + 6] = address.to_bytes(4, "little")
        return True

    def _lets_through(self, now_s: float) -> bool:
        """Do what is due of the faults; whether the frame gets through."""
        if self._asked is not None:
            self._faults, self._asked, self._begin_s, self._are_set = self._asked, None, now_s, False
            for slave in self.slaves:
                _impose(slave, EthercatFaults())
        if (faults := self._faults) is None:
            return True
        if self._begin_s is None:
            self._begin_s = now_s + faults.after_s
        passed_s = now_s - self._begin_s
        if passed_s < 0.0:
            return True
        slave = self.slaves[faults.slave]
        off = slave if passed_s < faults.power_off_s else None
        if self._off is not off:
            if self._off is not None:
                self._off.power_up()
                self._are_set = False
            self._off = off
            self.connect(len(self.slaves) if off is None else faults.slave)
        if not self._are_set:
            self._are_set = True
            _impose(slave, faults)
        return passed_s >= faults.unplugged_s and self._random.random() >= faults.frame_loss_rate


def _impose(slave: Slave, faults: EthercatFaults) -> None:
    """Have a device go wrong by itself, as asked, until told otherwise; of the defaults, in nothing."""
    slave.sensor.status = frozenset(one for one in ("overload", "error", "warning") if getattr(faults, one))
    slave.sensor.is_frozen = faults.frozen
    slave.refused = _STATES.get(faults.refused_state)
    found = [SDO_OBJECT.fullmatch(one) for one in faults.sdo_aborts]
    slave.dictionary.unanswered = {(int(one[1], 16), int(one[2], 16)) for one in found if one}
    if faults.leaves_op and slave.state is State.OP:
        slave.enter(State.SAFEOP, NO_REASON)


class Wire:
    """The end of an Ethernet cable: a raw socket on an interface (packet(7)), for frames of EtherCAT only.

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
        self._socket = raw_socket(interface, ETHERTYPE)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
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
