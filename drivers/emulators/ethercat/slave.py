"""A slave: states of the application layer with their error codes, mailbox, and process data of a sensor."""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import NamedTuple

from drivers.emulators.ethercat.controller import Controller
from drivers.emulators.ethercat.sensor import Sensor, Signal, objects, packed
from drivers.ethercat.description import Pdo, SensorDescription

# CANopen over EtherCAT (ETG.1000.6, 5.6): SDOs in one mailbox message, expedited or not, and aborts.
#
# A mailbox message: length u16, station u16, channel and priority u8, type (4 bits) and counter (3 bits); with CoE
# (type 3) follow a u16, its upper four bits the service, and the SDO: command u8, index u16, subindex u8, four bytes or
# a length.

_HEADER = struct.Struct("<HHBB")
_COE = struct.Struct("<H")
_SDO = struct.Struct("<BHB")
_TYPE_ERROR, _TYPE_COE = 0, 3
_REQUEST, _RESPONSE = 2, 3
_DOWNLOAD, _UPLOAD, _ABORTED = 1, 2, 4
_NO_PROTOCOL, _NO_SERVICE, _TOO_SHORT = 2, 4, 6

TOGGLE_OR_COMMAND = 0x0504_0001
NO_COMPLETE_ACCESS = 0x0601_0000
READ_ONLY = 0x0601_0002
NO_OBJECT = 0x0602_0000
WRONG_LENGTH = 0x0607_0010
NO_SUBINDEX, WRONG_VALUE = 0x0609_0011, 0x0609_0030
GENERAL = 0x0800_0000
NOT_IN_THIS_STATE = 0x0800_0022


class Abort(Exception):
    """An SDO is refused, with a code of ETG.1000.6, table 41."""

    def __init__(self, code: int) -> None:
        super().__init__(f"0x{code:08X}")
        self.code = code


@dataclass
class Object:
    """One entry of the dictionary; `written` takes a new value, and may raise `Abort`. None: it is read only."""

    value: bytes
    written: Callable[[bytes], None] | None = None


class Dictionary:
    """Objects by index and subindex.

    Attributes
    ----------
    aborts
        Instead of an answer, for these: faults on request.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[int, int], Object] = {}
        self.aborts: dict[tuple[int, int], int] = {}

    def read(self, index: int, subindex: int) -> bytes:
        """Its value.

        Raises
        ------
        Abort
            There is none.
        """
        return self._object(index, subindex).value

    def write(self, index: int, subindex: int, value: bytes) -> None:
        """Set it.

        Raises
        ------
        Abort
            There is none, it cannot be written, or not with so many bytes.
        """
        found = self._object(index, subindex)
        if found.written is None:
            raise Abort(READ_ONLY)
        if len(value) != len(found.value):
            raise Abort(WRONG_LENGTH)
        found.written(value)
        found.value = value

    def _object(self, index: int, subindex: int) -> Object:
        if (index, subindex) in self.aborts:
            raise Abort(self.aborts[index, subindex])
        found = self.objects.get((index, subindex))
        if found is None:
            known = any(one == index for one, _ in self.objects)
            raise Abort(NO_SUBINDEX if known else NO_OBJECT)
        return found


def answer(message: bytes, dictionary: Dictionary, counter: int, room: int) -> bytes | None:
    """The reply to a mailbox message, with that counter (1 to 7); None: nothing is to be said.

    Parameters
    ----------
    room
        Bytes of the mailbox for the reply.
    """
    if len(message) < _HEADER.size:
        return None
    length, station, _, kind = _HEADER.unpack_from(message)

    def wrap(type_: int, content: bytes) -> bytes:
        return _HEADER.pack(len(content), station, 0, type_ | counter << 4) + content

    content = message[_HEADER.size : _HEADER.size + length]
    is_whole = len(content) == length
    if is_whole and kind & 0x0F != _TYPE_COE:
        fault = _NO_PROTOCOL
    elif not is_whole or len(content) < _COE.size + _SDO.size + 4:
        fault = _TOO_SHORT
    else:
        fault = 0 if _COE.unpack_from(content)[0] >> 12 == _REQUEST else _NO_SERVICE
    if fault:
        return wrap(_TYPE_ERROR, struct.pack("<HH", 1, fault))
    command, index, subindex = _SDO.unpack_from(content, _COE.size)
    rest = content[_COE.size + _SDO.size :]
    if command >> 5 == _ABORTED:
        return None
    try:
        reply = _sdo(command, index, subindex, rest, dictionary, room - _HEADER.size - _COE.size)
        return wrap(_TYPE_COE, _COE.pack(_RESPONSE << 12) + reply)
    except Abort as abort:
        told = _SDO.pack(_ABORTED << 5, index, subindex) + struct.pack("<I", abort.code)
        return wrap(_TYPE_COE, _COE.pack(_REQUEST << 12) + told)


def _sdo(command: int, index: int, subindex: int, rest: bytes, dictionary: Dictionary, room: int) -> bytes:
    if command >> 5 not in (_DOWNLOAD, _UPLOAD):
        raise Abort(TOGGLE_OR_COMMAND)
    if command & 0x10:
        raise Abort(NO_COMPLETE_ACCESS)
    if command >> 5 == _UPLOAD:
        value = dictionary.read(index, subindex)
        if len(value) <= 4:
            unused = 4 - len(value)
            return _SDO.pack(0x43 | unused << 2, index, subindex) + value.ljust(4, b"\x00")
        reply = _SDO.pack(0x41, index, subindex) + struct.pack("<I", len(value)) + value
        if len(reply) > room:
            raise Abort(GENERAL)
        return reply
    if command & 0x02:
        value = rest[: 4 - (command >> 2 & 0x03) if command & 0x01 else 4]
    else:
        (length,) = struct.unpack_from("<I", rest)
        value = rest[4 : 4 + length]
        if length != len(value):  # in segments, which nothing here is long enough for
            raise Abort(WRONG_LENGTH)
    dictionary.write(index, subindex, value)
    return _SDO.pack(0x60, index, subindex) + bytes(4)


# The EEPROM of a slave (slave information interface, ETG.1000.6 and ETG.2010): identity, mailboxes, PDOs.

STRINGS, GENERAL_INFO, FMMU, SYNC_MANAGERS, TX_PDO, RX_PDO, END = 10, 30, 40, 41, 50, 51, 0xFFFF
_FIRST_CATEGORY = 0x40
_HAS_COE = 0x04
_TELLS_SDO, _ASSIGN = 0x01, 0x04
_DATA_TYPES = {
    "int8": 0x02, "int16": 0x03, "int32": 0x04, "uint8": 0x05, "uint16": 0x06, "uint32": 0x07, "float32": 0x08,
    "float64": 0x11, "int64": 0x15, "uint64": 0x1B,
}  # fmt: skip
"""CoE's numbers of data types."""


class SyncManager(NamedTuple):
    """One window into a slave's memory: start address, length in bytes, control byte, type as in 0x1C00."""

    start: int
    length: int
    control: int
    type: int


MAILBOX_BYTES = 256
OUT_MAILBOX = SyncManager(0x1000, MAILBOX_BYTES, 0x26, 1)
"""The master writes here."""
IN_MAILBOX = SyncManager(0x1200, MAILBOX_BYTES, 0x22, 2)
OUTPUT_START, OUTPUT_CONTROL = 0x1400, 0x64
INPUT_START, INPUT_CONTROL = 0x2400, 0x20


def eeprom_image(description: SensorDescription, vendor_id: int, product_id: int, serial: int) -> bytes:
    """An EEPROM for such a device, 2 KiB or as many as it takes."""
    configuration = struct.pack("<7H", 0x0005, 0, 0, 0, 0, 0, 0)
    head = configuration + struct.pack("<H", _crc8(configuration))
    head += struct.pack("<4I", vendor_id, product_id, 1, serial) + bytes(8)
    mailboxes = (OUT_MAILBOX.start, OUT_MAILBOX.length, IN_MAILBOX.start, IN_MAILBOX.length)
    head += struct.pack("<4H", 0, 0, 0, 0) + struct.pack("<4H", *mailboxes) + struct.pack("<H", _HAS_COE)
    text = description.name.encode("ascii", "replace")[:63]
    general = bytes((0, 0, 1, 1, 0, _TELLS_SDO | _ASSIGN)) + bytes(26)
    categories = _category(STRINGS, bytes((1, len(text))) + text) + _category(GENERAL_INFO, general)
    categories += _category(FMMU, b"\x01\x02")
    categories += _category(SYNC_MANAGERS, b"".join(_sync_manager(one) for one in sync_managers(description)))
    categories += b"".join(_category(TX_PDO, _pdo(one, 3)) for one in description.inputs)
    categories += b"".join(_category(RX_PDO, _pdo(one, 2)) for one in description.outputs)
    size = 2048
    while size < 2 * _FIRST_CATEGORY + len(categories) + 2:
        size *= 2
    head = head.ljust(2 * _FIRST_CATEGORY - 4, b"\x00") + struct.pack("<2H", size // 128 - 1, 1)
    return (head + categories + struct.pack("<H", END)).ljust(size, b"\xff")


def sync_managers(description: SensorDescription) -> tuple[SyncManager, SyncManager, SyncManager, SyncManager]:
    """Mailboxes out and in, process data out and in."""
    sizes = [
        sum(entry.size for entry in entries) for entries in (description.output_entries, description.input_entries)
    ]
    return (
        OUT_MAILBOX,
        IN_MAILBOX,
        SyncManager(OUTPUT_START, sizes[0], OUTPUT_CONTROL, 3),
        SyncManager(INPUT_START, sizes[1], INPUT_CONTROL, 4),
    )


def _category(kind: int, content: bytes) -> bytes:
    content += bytes(len(content) % 2)
    return struct.pack("<2H", kind, len(content) // 2) + content


def _sync_manager(one: SyncManager) -> bytes:
    enabled = 1 if one.length else 0
    return struct.pack("<HHBBBB", one.start, one.length, one.control, 0, enabled, one.type)


def _pdo(pdo: Pdo, sync_manager: int) -> bytes:
    rows = [
        struct.pack("<HBBBBH", one.index or 0, one.subindex, 0, _DATA_TYPES[one.type], 8 * one.size, 0)
        for one in pdo.entries
    ]
    return struct.pack("<HBBBBH", pdo.pdo, len(rows), sync_manager, 0, 0, 0) + b"".join(rows)


def _crc8(data: bytes) -> int:
    """x^8 + x^2 + x + 1, first 0xFF (ETG.1000.6, 5.4)."""
    remainder = 0xFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = (remainder << 1 ^ (0x07 if remainder & 0x80 else 0)) & 0xFF
    return remainder


class State(IntEnum):
    """Of the application layer, as in AL status."""

    INIT = 1
    PREOP = 2
    SAFEOP = 4
    OP = 8


_BOOT = 3
_ERROR = 0x10
"""In AL status: the state is not the one asked for; in AL control: acknowledged."""

INVALID_CHANGE, UNKNOWN_STATE, NO_BOOTSTRAP = 0x0011, 0x0012, 0x0013
INVALID_MAILBOX = 0x0016
WATCHDOG = 0x001B
INVALID_OUTPUTS, INVALID_INPUTS = 0x001D, 0x001E

_ASSIGNED = {0x1C12: 3, 0x1C13: 4}
_MOST_ASSIGNED = 32
_MOST_REPLIES = 4


class Slave(Controller):
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
    sensor
        What is behind its process data.
    dictionary
        Its objects.
    state, error
        Of the application layer; error: its code, 0: none.
    refused
        A state that it does not enter, for what code: a fault on request; None: none.
    """

    def __init__(self, description: SensorDescription, signal: Signal, serial: int = 1) -> None:
        self.description = description
        self.vendor_id = 1 if description.vendor_id is None else description.vendor_id
        self.product_id = description.product_ids[0] if description.product_ids else 1
        self.sensor = Sensor(description, signal)
        self.refused: tuple[State, int] | None = None
        self._serial = serial
        self.dictionary = Dictionary()
        self._replies: deque[bytes] = deque(maxlen=_MOST_REPLIES)
        super().__init__(eeprom_image(description, self.vendor_id, self.product_id, serial))

    def power_up(self) -> None:
        """See `Controller`."""
        self._replies.clear()
        self.state, self.error, self._counter = State.INIT, 0, 0
        self._outputs_ns = 0
        self.dictionary.objects.clear()
        self._fill()
        self.sensor = Sensor(self.description, self.sensor.signal)
        super().power_up()

    def watch(self, now_ns: int) -> None:
        """The watchdog of the outputs: without any for as long as the master has set, 100 ms, OP is left."""
        if self.state is not State.OP or self._outputs_ns == 0:
            return
        (divider,), (ticks,) = (struct.unpack_from("<H", self.memory, at) for at in (0x0400, 0x0420))
        if ticks and now_ns - self._outputs_ns > 40 * (divider + 2) * ticks:
            self.fail(State.SAFEOP, WATCHDOG)

    def fail(self, state: State, code: int) -> None:
        """Fall into a state, or stay in it, with an error."""
        self._enter(state)
        self.error = code
        self._tell()

    # What the ESC asks for

    def al_control(self, requested: int) -> None:
        """See `Controller`."""
        wanted = requested & 0x0F
        if requested & _ERROR:
            self.error = 0
        elif self.error and wanted > self.state:
            return
        code = self._refusal(wanted)
        if code:
            self.fail(self.state, code)
            return
        self._enter(State(wanted))
        self._tell()

    def mailbox(self, message: bytes) -> None:
        """See `Controller`."""
        if self.state is State.INIT:
            return
        self._counter = self._counter % 7 + 1
        reply = answer(message, self.dictionary, self._counter, IN_MAILBOX.length)
        if reply is None:
            return
        if self.reply_waits:
            self._replies.append(reply)
        else:
            self.reply(reply)

    def mailbox_read(self) -> None:
        """See `Controller`."""
        if self._replies:
            self.reply(self._replies.popleft())

    def outputs(self, data: bytes) -> None:
        """See `Controller`."""
        now_ns = time.time_ns()
        self._outputs_ns = now_ns
        if self.state is State.OP:
            self.sensor.outputs(data, now_ns)

    def refresh_inputs(self) -> None:
        """See `Controller`."""
        data = self.sensor.inputs(time.time_ns())
        self.memory[INPUT_START : INPUT_START + len(data)] = data

    # States

    def _refusal(self, wanted: int) -> int:
        """The error code of what cannot be entered from here; 0: it can."""
        if wanted == _BOOT:
            return NO_BOOTSTRAP
        if wanted not in list(State):
            return UNKNOWN_STATE
        if self.refused is not None and self.refused[0] == wanted:
            return self.refused[1]
        if wanted <= self.state:
            return 0
        if wanted > 2 * self.state:  # their numbers double
            return INVALID_CHANGE
        if wanted == State.PREOP:
            wrong = [self._differs(number, one) for number, one in enumerate((OUT_MAILBOX, IN_MAILBOX))]
            return INVALID_MAILBOX if any(wrong) else 0
        if wanted == State.SAFEOP:
            sizes = [_size(self._assigned(index)) for index in _ASSIGNED]
            if self._differs(2, SyncManager(OUTPUT_START, sizes[0], 0, 3)):
                return INVALID_OUTPUTS
            if self._differs(3, SyncManager(INPUT_START, sizes[1], 0, 4)):
                return INVALID_INPUTS
        return 0

    def _differs(self, number: int, one: SyncManager) -> bool:
        """Whether the master has set a sync manager up otherwise."""
        start, length, is_on = self.sync_manager(number)
        if one.length == 0:
            return is_on and length != 0
        return (start, length, is_on) != (one.start, one.length, True)

    def _enter(self, state: State) -> None:
        if state is State.SAFEOP and self.state is State.PREOP:
            self.sensor.lay_out(self._assigned(0x1C13), self._assigned(0x1C12))
        if state is State.INIT:
            self._replies.clear()
        if state is State.OP and self.state is State.SAFEOP:
            self._outputs_ns = time.time_ns() if _size(self._assigned(0x1C12)) else 0
        self.state = state

    def _tell(self) -> None:
        self.al_status, self.al_code = self.state | (_ERROR if self.error else 0), self.error
        self.process_data = self.state in (State.SAFEOP, State.OP)
        self.settle()

    # Objects

    def _fill(self) -> None:
        """The dictionary as it is after power-up."""
        held = self.dictionary.objects
        one = self.description
        held[0x1000, 0] = Object(struct.pack("<I", 0x1389))
        held[0x1008, 0] = Object(one.name.encode("ascii", "replace")[:63])
        self._array(0x1018, "<I", (self.vendor_id, self.product_id, 1, self._serial))
        self._array(0x1C00, "<B", (1, 2, 3, 4))
        for index, pdos in ((0x1C12, one.outputs), (0x1C13, one.inputs)):
            indices = [pdo.pdo for pdo in pdos]
            self._array(index, "<H", indices + [0] * (_MOST_ASSIGNED - len(indices)))
            held[index, 0].value = bytes((len(indices),))
            allowed = {bytes((number,)) for number in range(_MOST_ASSIGNED + 1)}
            held[index, 0].written = partial(self._assignment, allowed)
            known = {struct.pack("<H", number) for number in (0, *indices)}
            for subindex in range(1, _MOST_ASSIGNED + 1):
                held[index, subindex].written = partial(self._assignment, known)
            for pdo in pdos:
                rows = [(entry.index or 0) << 16 | entry.subindex << 8 | 8 * entry.size for entry in pdo.entries]
                self._array(pdo.pdo, "<I", rows)
        for there, value, is_writable in objects(one):
            known_object = held.setdefault((there.index, there.subindex), Object(packed(there.type, value)))
            if is_writable:
                known_object.written = _accept
        for index, _ in list(held):
            largest = max(other for same, other in held if same == index)
            held.setdefault((index, 0), Object(bytes((largest,))))

    def _array(self, index: int, code: str, values: Sequence[int]) -> None:
        self.dictionary.objects[index, 0] = Object(bytes((len(values),)))
        for place, value in enumerate(values):
            self.dictionary.objects[index, place + 1] = Object(struct.pack(code, value))

    def _assignment(self, allowed: set[bytes], value: bytes) -> None:
        if self.state is not State.PREOP:
            raise Abort(NOT_IN_THIS_STATE)
        if value not in allowed:
            raise Abort(WRONG_VALUE)

    def _assigned(self, index: int) -> list[Pdo]:
        """The PDOs that 0x1C12 or 0x1C13 lists."""
        held = self.dictionary.objects
        pdos = {pdo.pdo: pdo for pdo in (*self.description.outputs, *self.description.inputs)}
        count = held[index, 0].value[0]
        listed = [int.from_bytes(held[index, place + 1].value, "little") for place in range(count)]
        return [pdos[one] for one in listed if one in pdos]


def _accept(value: bytes) -> None:
    """Any value will do."""


def _size(pdos: Sequence[Pdo]) -> int:
    return sum(entry.size for pdo in pdos for entry in pdo.entries)
