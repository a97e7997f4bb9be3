"""An EtherCAT device in software: memory and commands of its controller, states, mailbox, objects, EEPROM.

Registers as in ETG.1000.4 and in Beckhoff's ET1100 data sheet, section II; mailbox and objects as in ETG.1000.6. Not
there: distributed clocks (the features say so), bit-wise FMMUs, interrupts, segmented SDOs. Sync managers are where the
EEPROM says, wherever the master would have them.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from drivers.ethercat.description import COUNTER, TYPES, SdoObject, SensorDescription, UnitCode
from drivers.ethercat.device import ASSIGNMENTS, conversion_of, dtype_of

Signal = Callable[[int], Sequence[float]]
"""Values of `SensorDescription.fields` at a time, ns since the epoch: N, N m, V."""

Command = IntEnum("Command", "NOP APRD APWR APRW FPRD FPWR FPRW BRD BWR BRW LRD LWR LRW ARMW FRMW", start=0)
"""What a datagram asks of the slaves: by position, station, broadcast, logical address; to read, to write, both."""
_POSITION, _STATION, _BROADCAST, _LOGICAL = range(4)

# Objects, and what is asked of them by mailbox: SDOs in one message, expedited or not, and aborts.

_MESSAGE = struct.Struct("<HHBBHBHB")
"""Length from the fifth on, station, priority, type and counter; service; command of the SDO, index, subindex."""
_LENGTH_BYTES, _SDO_BYTES = 6, 4
_COE, _REQUEST, _RESPONSE = 3, 2, 3
_DOWNLOAD, _UPLOAD, _ABORTED = 1, 2, 4

TOGGLE_OR_COMMAND, NO_COMPLETE_ACCESS, READ_ONLY = 0x0504_0001, 0x0601_0000, 0x0601_0002
NO_OBJECT, WRONG_LENGTH, NO_SUBINDEX = 0x0602_0000, 0x0607_0010, 0x0609_0011
GENERAL_ERROR = 0x0800_0000


class Abort(Exception):
    """An SDO is refused, with a code of ETG.1000.6, table 41."""


class Dictionary:
    """Objects of a device as after power-up.

    Attributes
    ----------
    objects
        Values by index and subindex.
    unanswered
        Those that it does not answer for: faults on request.
    """

    def __init__(self, one: SensorDescription, identity: tuple[int, int, int, int]) -> None:
        self.unanswered: set[tuple[int, int]] = set()
        self.objects = {(0x1000, 0): struct.pack("<I", 0x1389), (0x1008, 0): _name(one)}
        lists: dict[int, tuple[str, list[int]]] = {0x1018: ("<I", list(identity)), 0x1C00: ("<B", [1, 2, 3, 4])}
        for part, pdos in one.parts.items():
            lists[ASSIGNMENTS[part]] = "<H", [pdo.pdo for pdo in pdos]
            lists |= {pdo.pdo: ("<I", [entry.mapping for entry in pdo.entries]) for pdo in pdos}
        for index, (code, values) in lists.items():
            self.objects[index, 0] = bytes((len(values),))
            self.objects |= {(index, place): struct.pack(code, value) for place, value in enumerate(values, 1)}
        asked = {
            (each.index, each.subindex): _packed(each.type, expected(each))
            for scale in one.scales.values()
            for each in (scale.factor, scale.offset, scale.unit)
            if isinstance(each, SdoObject)
        }
        started = {(each.index, each.subindex): _packed(each.type, 0.0) for each in one.startup}
        self.objects = {**started, **asked, **self.objects}
        for index in {one for one, _ in self.objects}:
            largest = max(subindex for one, subindex in self.objects if one == index)
            self.objects.setdefault((index, 0), bytes((largest,)))
        self._writable = {*started, *(key for key in self.objects if key[0] in ASSIGNMENTS.values())}

    def read(self, index: int, subindex: int) -> bytes:
        """A value, or `Abort`."""
        if (index, subindex) in self.unanswered:
            raise Abort(GENERAL_ERROR)
        if (index, subindex) not in self.objects:
            raise Abort(NO_SUBINDEX if any(one == index for one, _ in self.objects) else NO_OBJECT)
        return self.objects[index, subindex]

    def write(self, index: int, subindex: int, value: bytes) -> None:
        """Set a value, or `Abort`."""
        before = self.read(index, subindex)
        if (index, subindex) not in self._writable:
            raise Abort(READ_ONLY)
        if len(value) != len(before):
            raise Abort(WRONG_LENGTH)
        self.objects[index, subindex] = value


def answer(message: bytes, dictionary: Dictionary, counter: int) -> bytes | None:
    """The reply to a mailbox message, with that counter (1 to 7); None: it asks nothing of an object."""
    if len(message) < _MESSAGE.size + 4:
        return None
    length, station, _, kind, service, command, index, subindex = _MESSAGE.unpack_from(message)
    content = message[_MESSAGE.size : _LENGTH_BYTES + length]
    if kind & 0x0F != _COE or service >> 12 != _REQUEST or command >> 5 == _ABORTED or len(content) < 4:
        return None
    try:
        service, (command, content) = _RESPONSE, _sdo(command, index, subindex, content, dictionary)
    except Abort as abort:
        service, command, content = _REQUEST, _ABORTED << 5, struct.pack("<I", *abort.args)
    length = _MESSAGE.size - _LENGTH_BYTES + len(content)
    return _MESSAGE.pack(length, station, 0, _COE | counter << 4, service << 12, command, index, subindex) + content


def _sdo(command: int, index: int, subindex: int, content: bytes, dictionary: Dictionary) -> tuple[int, bytes]:
    """Command and content of the reply."""
    if command >> 5 not in (_DOWNLOAD, _UPLOAD):
        raise Abort(TOGGLE_OR_COMMAND)
    if command & 0x10:
        raise Abort(NO_COMPLETE_ACCESS)
    if command >> 5 == _UPLOAD:
        value = dictionary.read(index, subindex)
        if len(value) > 4:
            return 0x41, struct.pack("<I", len(value)) + value
        return 0x43 | 4 - len(value) << 2, value.ljust(4, b"\x00")
    if command & 0x02:
        value = content[: 4 - (command >> 2 & 0x03) if command & 0x01 else 4]
    else:
        length = int.from_bytes(content[:4], "little")
        value = content[4 : 4 + length]
        if length != len(value):  # in segments, which nothing here is long enough for
            raise Abort(WRONG_LENGTH)
    dictionary.write(index, subindex, value)
    return 0x60, bytes(4)


def _name(one: SensorDescription) -> bytes:
    return one.name.encode("ascii", "replace")[:63]


def _packed(kind: str, value: float) -> bytes:
    """A number as a device holds it."""
    return np.array(value).astype(TYPES[kind]).tobytes()


# The EEPROM (slave information interface, ETG.1000.6 and ETG.2010): identity, mailboxes, sync managers.

_STRINGS, _GENERAL, _FMMU_USE, _SYNC_MANAGER, _END = 10, 30, 40, 41, 0xFFFF
_HEAD = struct.Struct("<7HH4I16x4HH66x2H")
"""Configuration and its checksum, identity, mailboxes for bootstrap (none) and after it, protocols, size, version."""
_CONFIGURATION, _CHECKSUM = (0x0005, 0, 0, 0, 0, 0, 0), 0x48
_HAS_COE = 0x04
_TELLS_SDO, _ASSIGN = 0x01, 0x04
_EEPROM_BYTES = 2048


class SyncManager(NamedTuple):
    """One window into a slave's memory: start address, length in bytes, control byte, type as in 0x1C00."""

    start: int
    length: int
    control: int
    type: int


MAILBOX_BYTES = 256
OUT_MAILBOX, IN_MAILBOX = SyncManager(0x1000, MAILBOX_BYTES, 0x26, 1), SyncManager(0x1200, MAILBOX_BYTES, 0x22, 2)
"""That the master writes to, and that it reads."""


def sync_managers(description: SensorDescription) -> tuple[SyncManager, SyncManager, SyncManager, SyncManager]:
    """Mailboxes out and in, process data out and in."""
    out, into = (
        sum(one.size for one in entries) for entries in (description.output_entries, description.input_entries)
    )
    return OUT_MAILBOX, IN_MAILBOX, SyncManager(0x1400, out, 0x64, 3), SyncManager(0x2400, into, 0x20, 4)


def eeprom_image(description: SensorDescription, identity: tuple[int, int, int, int]) -> bytes:
    """An EEPROM for such a device."""
    mailboxes = (*OUT_MAILBOX[:2], *IN_MAILBOX[:2])
    size = _EEPROM_BYTES // 128 - 1
    image = _HEAD.pack(*_CONFIGURATION, _CHECKSUM, *identity, *mailboxes, _HAS_COE, size, 1)
    windows = [
        struct.pack("<HHBBBB", one.start, one.length, one.control, 0, one.length > 0, one.type)
        for one in sync_managers(description)
    ]
    name = _name(description)
    for kind, content in (
        (_STRINGS, bytes((1, len(name))) + name),
        (_GENERAL, bytes((0, 0, 1, 1, 0, _TELLS_SDO | _ASSIGN)) + bytes(26)),
        (_FMMU_USE, b"\x01\x02"),
        (_SYNC_MANAGER, b"".join(windows)),
    ):
        content += bytes(len(content) % 2)
        image += struct.pack("<2H", kind, len(content) // 2) + content
    return (image + struct.pack("<H", _END)).ljust(_EEPROM_BYTES, b"\xff")


# What it measures, as process data: SI values through the factors of its file into counts, and status.


class Sensor:
    """A sensor as its file describes it.

    Parameters
    ----------
    signal
        What there is to be measured.

    Attributes
    ----------
    status
        Levels (`warning`, `overload`, `error`) that the device tells, each by the first of its bits.
    is_frozen
        Whether it gives its last reading again and again.
    """

    def __init__(self, description: SensorDescription, signal: Signal) -> None:
        self.status: frozenset[str] = frozenset()
        self.is_frozen = False
        self._count, self._last = 0, b""
        self._description, self._signal = description, signal
        self._record = np.zeros(1, dtype_of(description.input_entries))
        self._scale = scale = conversion_of(description, description.fields, expected)
        self._digit = 1e-6 if self._record.dtype[scale.fields[0]].kind == "f" else 1.0

    def inputs(self, now_ns: int) -> bytes:
        """Process data for the master, sampled now, with noise of one digit in the first value where nothing counts.

        What is neither measured nor status nor counter is zero.
        """
        if self.is_frozen and self._last:
            return self._last
        record, scale = self._record, self._scale
        self._count = (self._count + 1) % 256
        raw = (np.array(self._signal(now_ns)) - scale.offset) / scale.gain
        if self._description.has_counter:
            record[COUNTER] = self._count
        else:
            raw[0] += self._count % 2 * self._digit
        for field, value in zip(scale.fields, np.nan_to_num(raw).tolist(), strict=True):
            record[field] = _held(value, record.dtype[field])
        for bits in self._description.status:
            record[bits.field] = 0
        firsts = {bits.level: bits for bits in reversed(self._description.status) if bits.level in self.status}
        for bits in firsts.values():
            record[bits.field] |= bits.mask & -bits.mask
        self._last = record.tobytes()
        return self._last


def _held(value: float, kind: np.dtype[Any]) -> float:
    """As the device holds it: a float, or a whole number, within its limits."""
    limits: Any = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
    within = min(max(value, limits.min), limits.max)
    return float(within) if kind.kind == "f" else round(within)


def expected(one: SdoObject) -> float:
    """What such an object of the emulated device holds."""
    return one.expected if one.expected is not None else 0.0 if isinstance(one, UnitCode) else 1.0


# The controller, and the states of its application.


class State(IntEnum):
    """Of the application layer, as in AL status."""

    INIT = 1
    PREOP = 2
    SAFEOP = 4
    OP = 8


_ERROR = 0x10
"""In AL status: the state is not the one asked for; in AL control: acknowledged."""
NO_REASON, INVALID_CHANGE, UNKNOWN_STATE, WATCHDOG = 0x0001, 0x0011, 0x0012, 0x001B

_STATION_ADDRESS, _LINKS = 0x0010, 0x0110
_AL_CONTROL, _AL_STATUS, _AL_CODE = 0x0120, 0x0130, 0x0134
_WATCHDOG_DIVIDER, _WATCHDOG_TICKS = 0x0400, 0x0420
_EEPROM_CONTROL, _EEPROM_ADDRESS, _EEPROM_DATA = 0x0502, 0x0504, 0x0508
_FMMUS, _SYNC_MANAGERS = 0x0600, 0x0800
_MEMORY = 0x1000
"""Where registers end and process memory begins."""
_UNITS = 8
"""FMMUs and sync managers."""
_TYPE = struct.pack("<BBHBBBBH", 0x11, 0, 2, _UNITS, _UNITS, 60, 0x0F, 0x0001)
_READS_8_BYTES, _NOT_WRITABLE = 0x0040, 0x4000
_FMMU = struct.Struct("<IHBBHBBB3x")
_READ, _WRITE = 1, 2
_FULL, _REPEAT = 0x08, 0x02
_ACTIVATE, _STATUS, _CONTROL = 6, 5, 7
"""Registers of a sync manager: of the master, and of the slave."""


class Slave:
    """One device on the wire.

    Parameters
    ----------
    description
        Its file.
    signal
        What it measures, see `Sensor`.
    serial
        Its serial number.

    Attributes
    ----------
    sensor, dictionary
        What is behind its process data; its objects.
    memory
        All 64 KiB.
    state, error
        Of the application layer; error: its code, 0: none.
    refused
        A state that it does not enter, a fault on request; None: none.
    """

    def __init__(self, description: SensorDescription, signal: Signal, serial: int = 1) -> None:
        self.description, self._signal = description, signal
        vendor_id = 1 if description.vendor_id is None else description.vendor_id
        self._identity = vendor_id, next(iter(description.product_ids), 1), 1, serial
        self._eeprom = eeprom_image(description, self._identity)
        _, _, self._out, self._in = sync_managers(description)
        self.refused: State | None = None
        self._links = 0x5611
        self.power_up()

    def power_up(self) -> None:
        """As after a loss of power: everything is as it was at first."""
        self.memory = bytearray(0x10000)
        self.state, self.error = State.INIT, 0
        self._outputs_ns = self._counter = 0
        self._has_reply = False
        self._eeprom_status = _READS_8_BYTES
        self._fmmus: list[tuple[int, int, int, int]] = []  # first and last logical address, physical one, direction
        self.dictionary = Dictionary(self.description, self._identity)
        self.sensor = Sensor(self.description, self._signal)
        self._put(_WATCHDOG_DIVIDER, 2498)
        self._put(_WATCHDOG_TICKS, 1000)
        self._settle()

    def connect(self, links: int) -> None:
        """Its ports have these links, as in DL status."""
        self._links = links
        self._settle()

    def watch(self, now_ns: int) -> None:
        """The watchdog of the outputs: without any for as long as the master has set, 100 ms, OP is left."""
        if self.state is State.OP and self._outputs_ns:
            ticks = self._word(_WATCHDOG_TICKS)
            if ticks and now_ns - self._outputs_ns > 40 * (self._word(_WATCHDOG_DIVIDER) + 2) * ticks:
                self.enter(State.SAFEOP, WATCHDOG)

    def enter(self, state: State, code: int = 0) -> None:
        """Enter a state, or stay in it, with an error; 0: none."""
        if state is State.INIT:
            self._has_reply = False
        if state is State.OP and self.state is State.SAFEOP:
            self._outputs_ns = time.time_ns() if self._out.length else 0
        self.state, self.error = state, code
        self._settle()

    def execute(self, command: int, address: int, data: bytearray) -> int:
        """One datagram: changes `data` where it reads; by how much the working counter grows."""
        low, high = address & 0xFFFF, address >> 16
        way, what = divmod(command - 1, 3)
        if way == _LOGICAL:
            return self._logical(command, address, data)
        if (way == _POSITION and low) or (way == _STATION and low != self._word(_STATION_ADDRESS)):
            return 0
        if not _POSITION <= way <= _BROADCAST:
            return 0
        done, written = 0, bytes(data)
        if what != 1:
            found = self._read(high, len(data))
            if found is not None:
                given = zip(data, found, strict=True)
                data[:] = bytes(one | other for one, other in given) if way == _BROADCAST else found
                done = 1
        if what != 0 and self._write(high, written):
            done += what
        return done

    def _logical(self, command: int, address: int, data: bytearray) -> int:
        """Each FMMU that meets the datagram's addresses, at most once for reading and once for writing."""
        written, done = bytes(data), 0
        for first, last, physical, direction in self._fmmus:
            start, end = max(address, first), min(address + len(data), last)
            if start >= end:
                continue
            part = slice(start - address, end - address)
            place = physical + start - first
            if direction & _READ and command != Command.LWR and not done & _READ:
                found = self._read(place, end - start)
                if found is not None:
                    data[part] = found
                    done |= _READ
            if direction & _WRITE and command != Command.LRD and not done & _WRITE:
                done |= _WRITE * self._write(place, written[part])
        return done if command == Command.LRW else int(done > 0)

    def _read(self, address: int, length: int) -> bytes | None:
        """None: there is nothing to be read."""
        end = address + length
        if end > len(self.memory):
            return None
        window = self._window(address, end)
        if window is OUT_MAILBOX or (window is IN_MAILBOX and not self._has_reply):
            return None
        if window in (self._in, self._out) and self.state < State.SAFEOP:
            return None
        if window is self._in:
            data = self.sensor.inputs(time.time_ns())
            self.memory[self._in.start : self._in.start + len(data)] = data
        found = bytes(self.memory[address:end])
        if window is IN_MAILBOX and end >= IN_MAILBOX.start + IN_MAILBOX.length:
            self._has_reply = False
            self._settle()
        return found

    def _write(self, address: int, data: bytes) -> bool:
        end = address + len(data)
        window = self._window(address, end)
        if end > len(self.memory) or window in (IN_MAILBOX, self._in):
            return False
        if window is self._out and self.state < State.SAFEOP:
            return False
        self.memory[address:end] = data
        if address < _MEMORY:
            self._registers_written(address, end)
        elif window is not None and end >= window.start + window.length:
            whole = bytes(self.memory[window.start : window.start + window.length])
            if window is OUT_MAILBOX:
                self._take_message(whole)
            else:  # process data, which the watchdog waits for
                self._outputs_ns = time.time_ns()
        return True

    def _window(self, address: int, end: int) -> SyncManager | None:
        for one in (OUT_MAILBOX, IN_MAILBOX, self._out, self._in):
            if address < one.start + one.length and end > one.start and address >= _MEMORY:
                return one
        return None

    def _take_message(self, message: bytes) -> None:
        """The master has filled its mailbox."""
        if self.state is State.INIT:
            return
        self._counter = self._counter % 7 + 1
        reply = answer(message, self.dictionary, self._counter)
        if reply is not None:
            self.memory[IN_MAILBOX.start : IN_MAILBOX.start + IN_MAILBOX.length] = reply.ljust(MAILBOX_BYTES, b"\x00")
            self._has_reply = True
            self._settle()

    def _registers_written(self, address: int, end: int) -> None:
        """What a register does when it is written."""
        if address < _AL_CONTROL + 2 and end > _AL_CONTROL:
            self._change_state(self._word(_AL_CONTROL))
        if address < _EEPROM_CONTROL + 2 and end > _EEPROM_CONTROL:
            self._read_eeprom(self._word(_EEPROM_CONTROL) >> 8 & 0x07)
        if address < _FMMUS + 16 * _UNITS and end > _FMMUS:
            self._fmmus = []
            for row in _FMMU.iter_unpack(self.memory[_FMMUS : _FMMUS + 16 * _UNITS]):
                first, length, first_bit, last_bit, physical, physical_bit, direction, active = row
                if active & 1 and length and (first_bit, last_bit, physical_bit) == (0, 7, 0):
                    self._fmmus.append((first, first + length, physical, direction))
        mailbox = _SYNC_MANAGERS + 8
        if (self.memory[mailbox + _ACTIVATE] ^ self.memory[mailbox + _CONTROL]) & _REPEAT:
            self._has_reply = self._counter > 0  # the reply got lost on its way, and is asked for once more
        self._settle()

    def _change_state(self, requested: int) -> None:
        wanted, code = requested & 0x0F, 0
        if requested & _ERROR:
            self.error = 0
        elif self.error and wanted > self.state:
            return
        if wanted not in list(State):
            code = UNKNOWN_STATE
        elif wanted == self.refused:
            code = NO_REASON
        elif wanted > 2 * self.state:  # their numbers double
            code = INVALID_CHANGE
        self.enter(self.state if code else State(wanted), code)

    def _read_eeprom(self, command: int) -> None:
        self._eeprom_status = _READS_8_BYTES | (_NOT_WRITABLE if command > 1 else 0)
        if command == 1:
            at = 2 * int.from_bytes(self.memory[_EEPROM_ADDRESS : _EEPROM_ADDRESS + 4], "little")
            self.memory[_EEPROM_DATA : _EEPROM_DATA + 8] = self._eeprom[at : at + 8].ljust(8, b"\xff")

    def _settle(self) -> None:
        """Registers that the master cannot write hold what they have to."""
        self.memory[0 : len(_TYPE)] = _TYPE
        self._put(_LINKS, self._links)
        self._put(_AL_STATUS, self.state | (_ERROR if self.error else 0))
        self._put(_AL_CODE, self.error)
        self._put(_EEPROM_CONTROL, self._eeprom_status)
        for number in range(_UNITS):
            at = _SYNC_MANAGERS + 8 * number
            self.memory[at + _STATUS] = _FULL if number == 1 and self._has_reply else 0
            self.memory[at + _CONTROL] = int(number >= 2 and self.state < State.SAFEOP)
        self.memory[_SYNC_MANAGERS + 8 + _CONTROL] = self.memory[_SYNC_MANAGERS + 8 + _ACTIVATE] & _REPEAT

    def _put(self, address: int, value: int) -> None:
        self.memory[address : address + 2] = value.to_bytes(2, "little")

    def _word(self, address: int) -> int:
        return int.from_bytes(self.memory[address : address + 2], "little")
