"""One device on the bus: what is written and read at every start of it, what its process data mean, how it fares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drivers.ethercat.description import CODES, WRENCH, Pdo, SdoObject, SensorDescription
from drivers.ethercat.layout import (
    ASSIGNMENTS,
    Conversion,
    check_mapping,
    check_size,
    conversion_of,
    dtype_of,
    objects_of,
)
from onboard_estimation.errors import UserError

_NOT_THERE = (0x06020000, 0x06090011)
_MOST_MAPPED = 64


class Device:
    """A device that a description fits, behind one slave of pysoem.

    Attributes
    ----------
    place, position
        Among the descriptions, and on the bus, from 0.
    input_type
        NumPy's type of its inputs.
    fields, conversion
        What is read of it, and to which units; the conversion is there after the first start.
    starts
        How often it was started: more than once, and it has been without power, or was reset.
    outputs
        What is sent to it.
    state
        As it told last, pysoem's numbers.
    trouble
        Why it is not running; empty: it is.
    fault
        What it was refused for at its last start.
    """

    def __init__(self, description: SensorDescription, place: int, slave: Any, position: int, library: Any) -> None:
        self.description, self.place, self.position = description, place, position
        self._slave, self._library = slave, library
        self.input_type = dtype_of(description.input_entries)
        self._output_type = dtype_of(description.output_entries)
        self.fields = WRENCH if description.has_wrench else description.voltages
        self.conversion: Conversion | None = None
        self.starts = 0
        self.fault: UserError | None = None
        self.trouble = "not started yet"
        self.state = 0
        record = np.zeros(1, self._output_type)
        for entry in description.output_entries:
            if entry.field:
                record[entry.field] = entry.initial
        self._record = record
        self.outputs = record.tobytes() if description.output_entries else b""

    @property
    def name(self) -> str:
        """As sentences call it."""
        return f"{self.description.name} at position {self.position}"

    @property
    def is_operational(self) -> bool:
        """Whether it runs, as far as it told."""
        return bool(self.state == self._library.OP_STATE)

    @property
    def counted(self) -> int:
        """By how much it raises the working counter: 1 by its inputs, 2 by its outputs, from SAFEOP on."""
        takes_part = self.state & 15 in (self._library.SAFEOP_STATE, self._library.OP_STATE)
        return (bool(self.description.inputs) + 2 * bool(self.outputs)) if takes_part else 0

    def set_output(self, field: str, value: int) -> None:
        """Send another value from the next cycle on."""
        record = self._record.copy()
        record[field] = value
        self._record, self.outputs = record, record.tobytes()

    def output(self, field: str) -> int:
        """What is sent."""
        return int(self._record[field][0])

    def start(self, _: int) -> None:
        """In PREOP: start-up objects, mapping, factors and units. Faults are kept: no exception may leave this."""
        try:
            self._write_startup()
            for part, pdos in (("inputs", self.description.inputs), ("outputs", self.description.outputs)):
                self._check_mapping(part, pdos)
            values = {one: self.read(one) for one in objects_of(self.description, self.fields)}
            self.conversion = conversion_of(self.description, self.fields, values)
            self.fault = None
            self.starts += 1
        except UserError as error:
            self.fault = error
        except Exception as error:  # the library would print it and go on
            self.fault = UserError(f"{self.name}: {error!r}")

    def check_sizes(self) -> None:
        """Against what the master has mapped; UserError on a difference."""
        description, slave = self.description, self._slave
        check_size(description.name, "inputs", description.input_entries, len(slave.input))
        check_size(description.name, "outputs", description.output_entries, len(slave.output))

    def read(self, one: SdoObject) -> float:
        """An object's value; UserError where the device refuses, or tells something else."""
        data = bytes(self._ask(self._slave.sdo_read, one.index, one.subindex, "reading it"))
        is_float = one.type.startswith("float")
        if len(data) != int(CODES[one.type][2:]) if is_float else not 1 <= len(data) <= 8:
            raise UserError(f"{self.name}: object {one} has {len(data)} bytes, described is {one.type}")
        if is_float:
            return float(np.frombuffer(data, CODES[one.type])[0])
        return float(int.from_bytes(data, "little", signed=one.type.startswith("int")))

    def _write_startup(self) -> None:
        for write in self.description.startup:
            self._download(write.index, write.subindex, np.array(write.value).astype(CODES[write.type]), write.why)
        if self.description.assign:
            why = "choice of PDOs"
            for part, pdos in (("inputs", self.description.inputs), ("outputs", self.description.outputs)):
                self._download(ASSIGNMENTS[part], 0, np.uint8(0), why)
                for place, pdo in enumerate(pdos, 1):
                    self._download(ASSIGNMENTS[part], place, np.array(pdo.index, dtype="<u2"), why)
                self._download(ASSIGNMENTS[part], 0, np.uint8(len(pdos)), why)

    def _download(self, index: int, subindex: int, value: Any, why: str) -> None:
        """Write a NumPy number."""
        self._ask(self._slave.sdo_write, index, subindex, f"writing it ({why})", value.tobytes())

    def _check_mapping(self, part: str, pdos: Sequence[Pdo]) -> None:
        assignment = ASSIGNMENTS[part]
        count = self._number(assignment, 0, most=_MOST_MAPPED)
        if count is None:  # it keeps no such list: the sizes are left to be compared
            return
        assigned: dict[int, list[int]] = {}
        for place in range(1, count + 1):
            pdo = self._number(assignment, place) or 0
            if pdo:
                entries = self._number(pdo, 0, most=_MOST_MAPPED) or 0
                assigned[pdo] = [self._number(pdo, each) or 0 for each in range(1, entries + 1)]
        check_mapping(self.description.name, part, pdos, assigned)

    def _number(self, index: int, subindex: int, most: int | None = None) -> int | None:
        """A number of the mapping; None: there is no such object."""
        try:
            data = self._ask(self._slave.sdo_read, index, subindex, "reading its mapping")
        except UserError as error:
            if getattr(error.__cause__, "abort_code", None) in _NOT_THERE:
                return None
            raise
        number = int.from_bytes(data[:8], "little")
        if most is not None and number > most:
            raise UserError(f"{self.name}: object 0x{index:04X}:00 tells {number} entries, at most {most} are believed")
        return number

    def _ask(self, ask: Callable[..., Any], index: int, subindex: int, doing: str, *data: bytes) -> Any:
        """Read or write an object; UserError where the device refuses."""
        library = self._library
        try:
            return ask(index, subindex, *data)
        except (library.SdoError, library.MailboxError, library.PacketError, library.WkcError) as error:
            if isinstance(error, library.SdoError):
                told = f"aborted with 0x{error.abort_code:08X} ({error.desc})"
            else:
                told = f"{type(error).__name__} {getattr(error, 'desc', '') or str(error) or 'no answer'}"
            raise UserError(f"{self.name}: object 0x{index:04X}:{subindex:02X}, {doing}: {told}") from error
