"""The EtherCAT slave controller (ESC): memory, station address, FMMUs, sync managers, EEPROM interface.

Registers as in ETG.1000.4 and in Beckhoff's ET1100 data sheet, section II. Not there: distributed clocks (the features
say so), bit-wise FMMUs, interrupts.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

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


STATION, ALIAS, LINK_STATUS = 0x0010, 0x0012, 0x0110
AL_CONTROL, AL_STATUS, AL_CODE = 0x0120, 0x0130, 0x0134
FMMUS, SYNC_MANAGERS = 0x0600, 0x0800
MEMORY = 0x1000
"""Where registers end and process memory begins."""

_UNITS = 8
"""FMMUs and sync managers."""
_TYPE = struct.pack("<BBHBBBBH", 0x11, 0, 2, _UNITS, _UNITS, 60, 0x0F, 0x0001)
_EEPROM_CONTROL, _EEPROM_ADDRESS, _EEPROM_DATA = 0x0502, 0x0504, 0x0508
_READS_8_BYTES = 0x0040
_EEPROM_NO_ACKNOWLEDGE, _EEPROM_NOT_WRITABLE = 0x2000, 0x4000
_FMMU = struct.Struct("<IHBBHBBB3x")
_SYNC_MANAGER = struct.Struct("<HHBBBB")
_READ, _WRITE = 1, 2
_MAILBOX, _FULL = 2, 0x08

_POSITION, _STATION, _BROADCAST, _LOGICAL = range(4)
"""Ways of addressing, in the order of their commands: three each, to read, to write, to do both."""
COUNTED_UP = frozenset({*range(Command.APRD, Command.FPRD), *range(Command.BRD, Command.LRD), Command.ARMW})
"""Commands whose position each slave counts up."""


class _Fmmu(NamedTuple):
    """Logical addresses `first` to `end` are those from `physical` on in memory."""

    first: int
    end: int
    physical: int
    direction: int


class _Buffer(NamedTuple):
    """A sync manager as the master has set it up."""

    number: int
    start: int
    end: int
    is_mailbox: bool
    master_writes: bool


class Controller:
    """Memory of one slave, and what happens when a datagram reads or writes there.

    The microcontroller beside it, which a slave is too, derives from it.

    Attributes
    ----------
    memory
        All 64 KiB.
    process_data
        Whether inputs are open, and outputs; the application decides by its state.
    links, al_status, al_code
        Registers that are set from within; `settle` shows them to the master.
    """

    def __init__(self, eeprom: bytes) -> None:
        self._eeprom = eeprom
        self.power_up()

    def al_control(self, requested: int) -> None:
        """The master has written to AL control; what that does, and so for those below, the slave says."""

    def mailbox(self, message: bytes) -> None:
        """The master has filled the mailbox."""

    def mailbox_read(self) -> None:
        """The master has emptied the other mailbox."""

    def outputs(self, data: bytes) -> None:
        """The master has written process data."""

    def refresh_inputs(self) -> None:
        """The master is about to read process data."""

    def power_up(self) -> None:
        """As after a loss of power: everything is as it was at first."""
        self.memory = bytearray(0x10000)
        self.process_data = False
        self._eeprom_status = _READS_8_BYTES
        self._fmmus: list[_Fmmu] = []
        self._buffers: list[_Buffer] = []
        self._full: set[int] = set()
        self._repeat = False
        self._last = b""
        self.links, self.al_status, self.al_code = 0x5611, 1, 0
        self.put(ALIAS, int.from_bytes(self._eeprom[8:10], "little"), 2)
        self.put(0x0140, int.from_bytes(self._eeprom[0:2], "little"), 2)
        self.put(0x0400, 2498, 2)
        self.put(0x0420, 1000, 2)
        self.settle()

    def put(self, address: int, value: int, size: int) -> None:
        """Write a register from within."""
        self.memory[address : address + size] = value.to_bytes(size, "little")

    def settle(self) -> None:
        """Registers that the master cannot write hold what they have to."""
        self.memory[0 : len(_TYPE)] = _TYPE
        self.put(LINK_STATUS, self.links, 2)
        self.put(AL_STATUS, self.al_status, 2)
        self.put(AL_CODE, self.al_code, 2)
        self.put(_EEPROM_CONTROL, self._eeprom_status, 2)
        for number in range(_UNITS):
            at = SYNC_MANAGERS + 8 * number
            self.memory[at + 5] = _FULL if number in self._full else 0
            disabled = number >= 2 and not self.process_data
            self.memory[at + 7] = (1 if disabled else 0) | (2 if number == 1 and self._repeat else 0)

    def sync_manager(self, number: int) -> tuple[int, int, bool]:
        """Start and length in bytes of one as the master has set it up, and whether it is on."""
        start, length, _, _, activate, _ = _SYNC_MANAGER.unpack_from(self.memory, SYNC_MANAGERS + 8 * number)
        return start, length, bool(activate & 1)

    def reply(self, message: bytes) -> None:
        """Fill the mailbox that the master reads."""
        start, length, is_on = self.sync_manager(1)
        if not is_on or start + length > len(self.memory):
            return  # the master has set it up otherwise, meanwhile
        self._last = message[:length]
        self.memory[start : start + length] = self._last.ljust(length, b"\x00")
        self._full.add(1)
        self.settle()

    @property
    def reply_waits(self) -> bool:
        """Whether the master has not read the last reply yet."""
        return 1 in self._full

    def execute(self, command: int, address: int, data: bytearray) -> int:
        """One datagram: changes `data` where it reads; by how much the working counter grows."""
        low, high = address & 0xFFFF, address >> 16
        way, what = divmod(command - 1, 3)
        if not Command.NOP < command <= Command.FRMW:
            return 0
        if way == _LOGICAL:
            return self._logical(command, address, data)
        by_one = command in (Command.ARMW, Command.FRMW)
        if by_one:
            way = _POSITION if command == Command.ARMW else _STATION
        mine = way == _BROADCAST or (low == 0 if way == _POSITION else self._has_station(low))
        if by_one:  # read by one, written by all others
            reads, writes = mine, not mine
        elif mine:
            reads, writes = what != 1, what != 0
        else:
            return 0
        done = 0
        written = bytes(data) if writes else b""
        if reads:
            found = self._read(high, len(data))
            if found is not None:
                if way == _BROADCAST:
                    found = bytes(one | other for one, other in zip(data, found, strict=True))
                data[:] = found
                done += 1
        if writes and self._write(high, written):
            done += 2 if reads else 1
        return done

    def _has_station(self, station: int) -> bool:
        """Whether that is its address or, where it has one, its alias."""
        own, alias = (int.from_bytes(self.memory[at : at + 2], "little") for at in (STATION, ALIAS))
        return station == own or (station != 0 and station == alias)

    def _logical(self, command: int, address: int, data: bytearray) -> int:
        """Each FMMU that meets the datagram's addresses, at most once for reading and once for writing."""
        end, done = address + len(data), 0
        written = bytes(data)
        for fmmu in self._fmmus:
            first, last = max(address, fmmu.first), min(end, fmmu.end)
            if first >= last:
                continue
            physical = fmmu.physical + first - fmmu.first
            part = slice(first - address, last - address)
            if fmmu.direction & _READ and command != Command.LWR and not done & 1:
                found = self._read(physical, last - first)
                if found is not None:
                    data[part] = found
                    done |= 1
            if (
                fmmu.direction & _WRITE
                and command != Command.LRD
                and not done & 2
                and self._write(physical, written[part])
            ):
                done |= 2
        if command == Command.LRW:
            return done
        return 1 if done else 0

    def _read(self, address: int, length: int) -> bytes | None:
        """None: there is nothing to be read."""
        end = address + length
        if end > len(self.memory):
            return None
        buffer = self._buffer(address, end)
        if buffer is None:
            return bytes(self.memory[address:end])
        if buffer.is_mailbox:
            if buffer.master_writes or buffer.number not in self._full:
                return None
        elif not self.process_data:
            return None
        elif not buffer.master_writes:
            self.refresh_inputs()
        found = bytes(self.memory[address:end])
        if buffer.is_mailbox and end >= buffer.end:
            self._full.discard(buffer.number)
            self.mailbox_read()
            self.settle()
        return found

    def _write(self, address: int, data: bytes) -> bool:
        end = address + len(data)
        if end > len(self.memory):
            return False
        if address < MEMORY:
            self.memory[address:end] = data
            self._registers_written(address, end)
            return True
        buffer = self._buffer(address, end)
        if buffer is not None:
            if not buffer.master_writes:
                return False
            if buffer.is_mailbox and buffer.number in self._full:
                return False
            if not buffer.is_mailbox and not self.process_data:
                return False
        self.memory[address:end] = data
        if buffer is not None and end >= buffer.end:
            whole = bytes(self.memory[buffer.start : buffer.end])
            (self.mailbox if buffer.is_mailbox else self.outputs)(whole)
        return True

    def _buffer(self, address: int, end: int) -> _Buffer | None:
        if address < MEMORY:
            return None
        for buffer in self._buffers:
            if address < buffer.end and end > buffer.start:
                return buffer
        return None

    def _registers_written(self, address: int, end: int) -> None:
        """What a register does when it is written."""
        if address < AL_CONTROL + 2 and end > AL_CONTROL:
            self.al_control(int.from_bytes(self.memory[AL_CONTROL : AL_CONTROL + 2], "little"))
        if address < _EEPROM_CONTROL + 2 and end > _EEPROM_CONTROL:
            self._eeprom_command(int.from_bytes(self.memory[_EEPROM_CONTROL : _EEPROM_CONTROL + 2], "little"))
        if address < FMMUS + 16 * _UNITS and end > FMMUS:
            self._set_fmmus()
        if address < SYNC_MANAGERS + 8 * _UNITS and end > SYNC_MANAGERS:
            self._set_buffers()
        self.settle()

    def _eeprom_command(self, control: int) -> None:
        self._eeprom_status = _READS_8_BYTES
        command = control >> 8 & 0x07
        if command == 1:
            at = 2 * int.from_bytes(self.memory[_EEPROM_ADDRESS : _EEPROM_ADDRESS + 4], "little")
            if at >= len(self._eeprom):
                self._eeprom_status |= _EEPROM_NO_ACKNOWLEDGE
            self.memory[_EEPROM_DATA : _EEPROM_DATA + 8] = self._eeprom[at : at + 8].ljust(8, b"\xff")
        elif command:
            self._eeprom_status |= _EEPROM_NOT_WRITABLE

    def _set_fmmus(self) -> None:
        self._fmmus = []
        for number in range(_UNITS):
            first, length, first_bit, last_bit, physical, physical_bit, direction, active = _FMMU.unpack_from(
                self.memory, FMMUS + 16 * number
            )
            if active & 1 and length and (first_bit, last_bit, physical_bit) == (0, 7, 0):
                self._fmmus.append(_Fmmu(first, first + length, physical, direction))

    def _set_buffers(self) -> None:
        self._buffers, repeat = [], False
        for number in range(_UNITS):
            start, length, control, _, activate, _ = _SYNC_MANAGER.unpack_from(self.memory, SYNC_MANAGERS + 8 * number)
            if number == 1:
                repeat = bool(activate & 2)
            if activate & 1 and length:
                is_mailbox, master_writes = control & 0x03 == _MAILBOX, control >> 2 & 0x03 == 1
                self._buffers.append(_Buffer(number, start, start + length, is_mailbox, master_writes))
        self._full = {one.number for one in self._buffers if one.number in self._full}
        if repeat != self._repeat:
            self._repeat = repeat
            if self._last:  # the reply got lost on its way, and is asked for once more
                self.reply(self._last)
