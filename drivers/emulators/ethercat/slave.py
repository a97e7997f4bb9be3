"""A slave: states of the application layer with their error codes, mailbox, and process data of a sensor."""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from functools import partial

from drivers.emulators.ethercat import coe, sii
from drivers.emulators.ethercat.controller import Controller
from drivers.emulators.ethercat.sensor import Sensor, Signal, objects, packed
from drivers.ethercat.description import Pdo, SensorDescription


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
        self.dictionary = coe.Dictionary()
        self._replies: deque[bytes] = deque(maxlen=_MOST_REPLIES)
        super().__init__(sii.image(description, self.vendor_id, self.product_id, serial))

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
        reply = coe.answer(message, self.dictionary, self._counter, sii.IN_MAILBOX.length)
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
        self.memory[sii.INPUT_START : sii.INPUT_START + len(data)] = data

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
            wrong = [self._differs(number, one) for number, one in enumerate((sii.OUT_MAILBOX, sii.IN_MAILBOX))]
            return INVALID_MAILBOX if any(wrong) else 0
        if wanted == State.SAFEOP:
            sizes = [_size(self._assigned(index)) for index in _ASSIGNED]
            if self._differs(2, sii.SyncManager(sii.OUTPUT_START, sizes[0], 0, 3)):
                return INVALID_OUTPUTS
            if self._differs(3, sii.SyncManager(sii.INPUT_START, sizes[1], 0, 4)):
                return INVALID_INPUTS
        return 0

    def _differs(self, number: int, one: sii.SyncManager) -> bool:
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
        held[0x1000, 0] = coe.Object(struct.pack("<I", 0x1389))
        held[0x1008, 0] = coe.Object(one.name.encode("ascii", "replace")[:63])
        self._array(0x1018, "<I", (self.vendor_id, self.product_id, 1, self._serial))
        self._array(0x1C00, "<B", (1, 2, 3, 4))
        for index, pdos in ((0x1C12, one.outputs), (0x1C13, one.inputs)):
            indices = [pdo.index for pdo in pdos]
            self._array(index, "<H", indices + [0] * (_MOST_ASSIGNED - len(indices)))
            held[index, 0].value = bytes((len(indices),))
            allowed = {bytes((number,)) for number in range(_MOST_ASSIGNED + 1)}
            held[index, 0].written = partial(self._assignment, allowed)
            known = {struct.pack("<H", number) for number in (0, *indices)}
            for subindex in range(1, _MOST_ASSIGNED + 1):
                held[index, subindex].written = partial(self._assignment, known)
            for pdo in pdos:
                rows = [(entry.index or 0) << 16 | entry.subindex << 8 | 8 * entry.size for entry in pdo.entries]
                self._array(pdo.index, "<I", rows)
        for there, value, is_writable in objects(one):
            known_object = held.setdefault((there.index, there.subindex), coe.Object(packed(there.type, value)))
            if is_writable:
                known_object.written = _accept
        for index, _ in list(held):
            largest = max(other for same, other in held if same == index)
            held.setdefault((index, 0), coe.Object(bytes((largest,))))

    def _array(self, index: int, code: str, values: Sequence[int]) -> None:
        self.dictionary.objects[index, 0] = coe.Object(bytes((len(values),)))
        for place, value in enumerate(values):
            self.dictionary.objects[index, place + 1] = coe.Object(struct.pack(code, value))

    def _assignment(self, allowed: set[bytes], value: bytes) -> None:
        if self.state is not State.PREOP:
            raise coe.Abort(coe.NOT_IN_THIS_STATE)
        if value not in allowed:
            raise coe.Abort(coe.WRONG_VALUE)

    def _assigned(self, index: int) -> list[Pdo]:
        """The PDOs that 0x1C12 or 0x1C13 lists."""
        held = self.dictionary.objects
        pdos = {pdo.index: pdo for pdo in (*self.description.outputs, *self.description.inputs)}
        count = held[index, 0].value[0]
        listed = [int.from_bytes(held[index, place + 1].value, "little") for place in range(count)]
        return [pdos[one] for one in listed if one in pdos]


def _accept(value: bytes) -> None:
    """Any value will do."""


def _size(pdos: Sequence[Pdo]) -> int:
    return sum(entry.size for pdo in pdos for entry in pdo.entries)
