"""One device on the bus: what is written and read at every start of it, what its process data mean, how it fares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drivers.ethercat.description import TYPES, UNITS, Entry, Pdo, SdoObject, SensorDescription, UnitCode
from onboard_estimation.base.errors import UserError
from onboard_estimation.base.measurement import Matrix

# Where each field stands in a device's process data, checked against what the device itself maps, and what it means.
#
# Two checks at start: the objects in 0x1C12 and 0x1C13 and in the PDOs they name, against the description; and the
# bytes that the master has mapped. A layout that is off by a byte gives forces that look like forces.

ASSIGNMENTS = {"inputs": 0x1C13, "outputs": 0x1C12}


def dtype_of(entries: Sequence[Entry]) -> np.dtype[Any]:
    """Structured type of process data; fields without a name are left out, but have their place.

    Parameters
    ----------
    entries
        One behind the other, without gaps.
    """
    *places, size = accumulate((entry.size for entry in entries), initial=0)
    named = {entry.field: (TYPES[entry.type], at) for entry, at in zip(entries, places, strict=True) if entry.field}
    formats, offsets = zip(*named.values(), strict=True) if named else ((), ())
    return np.dtype({"names": list(named), "formats": formats, "offsets": offsets, "itemsize": max(size, 1)})


def check_mapping(name: str, part: str, pdos: Sequence[Pdo], assigned: Mapping[int, Sequence[int]]) -> None:
    """Refuse PDOs other than described.

    Parameters
    ----------
    part
        `inputs` or `outputs`.
    pdos
        As described.
    assigned
        Of the device, by index of the PDO and in the order of the assignment: its entries as the dictionary has them,
        index << 16 | subindex << 8 | bits. An index of 0 is a gap.

    Raises
    ------
    UserError
        With all differences and their places.
    """
    wanted = [pdo.pdo for pdo in pdos]
    if list(assigned) != wanted:
        found, described = (", ".join(f"0x{index:04X}" for index in one) or "none" for one in (assigned, wanted))
        raise UserError(
            f"{name}: the device has the {part} {found} assigned (0x{ASSIGNMENTS[part]:04X}), its description has "
            f"{described}; correct one of them, or set assign: true"
        )
    faults = [fault for pdo in pdos for fault in _mapping_faults(pdo, assigned[pdo.pdo])]
    if faults:
        raise UserError(f"{name}: the device maps other {part} than described", faults)


def _mapping_faults(pdo: Pdo, mapped: Sequence[int]) -> list[str]:
    """Differences of one PDO; entries without an index may be anything of their length."""
    there = dict(zip(accumulate((one & 0xFF for one in mapped), initial=0), mapped, strict=False))
    faults, place = [], 0
    for entry in pdo.entries:
        found = there.get(place)
        if entry.index is not None and found != entry.mapping:
            shown = "nothing that begins there" if found is None else _shown(found)
            faults.append(
                f"0x{pdo.pdo:04X}, byte {place // 8}: described is {entry.field or 'an entry'}, "
                f"{_shown(entry.mapping)}; the device has {shown}"
            )
        place += 8 * entry.size
    total = sum(one & 0xFF for one in mapped)
    if total != place:
        faults.append(f"0x{pdo.pdo:04X}: described are {place} bits, the device has {total}")
    return faults


def _shown(mapped: int) -> str:
    name = f"0x{mapped >> 16:04X}:{mapped >> 8 & 0xFF:02X}" if mapped >> 16 else "a gap"
    return f"{name} of {mapped & 0xFF} bits"


@dataclass(frozen=True)
class Conversion:
    """From raw fields to SI: value = raw * gain + offset.

    Attributes
    ----------
    fields
        m names.
    gain, offset
        (m,) float64.
    remarks
        Sentences on what was assumed.
    """

    fields: tuple[str, ...]
    gain: NDArray[np.float64]
    offset: NDArray[np.float64]
    remarks: tuple[str, ...] = ()

    def __call__(self, records: NDArray[Any]) -> Matrix:
        """(K, m) SI values of K records; what is no number stays none."""
        with np.errstate(all="ignore"):
            return np.column_stack([records[field] for field in self.fields]) * self.gain + self.offset


def conversion_of(
    description: SensorDescription, fields: Sequence[str], held: Callable[[SdoObject], float]
) -> Conversion:
    """The conversion of these fields.

    Parameters
    ----------
    held
        What an object of the device holds; asked once for each field that it is needed for.

    Raises
    ------
    UserError
        A factor is zero, it or an offset is not finite, or a unit's code is unknown.
    """
    gains, offsets, remarks = [], [], []
    for field in fields:
        scale = description.scale_of[field]
        factor, offset = (held(one) if isinstance(one, SdoObject) else one for one in (scale.factor, scale.offset))
        unit, remark = scale.unit, ""
        if isinstance(unit, UnitCode):
            unit, remark = _told_unit(description.name, unit, held(unit))
        in_si = UNITS[unit][1]
        gain = (1.0 / factor if scale.divide and factor else factor) * in_si
        if not (math.isfinite(gain) and math.isfinite(offset * in_si) and gain):
            raise UserError(
                f"{description.name}: {field} has the factor {factor:g} and the offset {offset:g} "
                f"(object {scale.factor}): is the device calibrated?"
            )
        gains.append(gain)
        offsets.append(offset * in_si)
        remarks.append(remark)
    return Conversion(tuple(fields), np.array(gains), np.array(offsets), tuple(filter(None, dict.fromkeys(remarks))))


def _told_unit(name: str, unit: UnitCode, told: float) -> tuple[str, str]:
    """Name of the unit, and a remark where it was assumed."""
    code = int(told) if math.isfinite(told) else -1  # of a device that tells it as a floating-point number
    if code in unit.codes:
        return unit.codes[code], ""
    if unit.otherwise:
        return unit.otherwise, f"{name}: unit {code:#x} in {unit} is not known, {unit.otherwise} is assumed"
    listed = ", ".join(f"{each:#x} {word}" for each, word in unit.codes.items())
    raise UserError(f"{name}: the device tells unit {code:#x} in {unit}; known: {listed}")


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
    slave
        Of pysoem.
    conversion
        What is read of it, and to which units; there after the first start.
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
        self.slave, self._library = slave, library
        self.input_type = dtype_of(description.input_entries)
        self.conversion: Conversion | None = None
        self.starts = 0
        self.fault: UserError | None = None
        self.trouble = "not started yet"
        self.state = 0
        record = np.zeros(1, dtype_of(description.output_entries))
        for entry in description.output_entries:
            if entry.field:
                record[entry.field] = entry.initial
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

    def start(self, _: int) -> None:
        """In PREOP: start-up objects, mapping, factors and units. Faults are kept: no exception may leave this."""
        try:
            self._write_startup()
            for part, pdos in self.description.parts.items():
                self._check_mapping(part, pdos)
            self.conversion = conversion_of(self.description, self.description.fields, cache(self.read))
            self.fault = None
            self.starts += 1
        except UserError as error:
            self.fault = error
        except Exception as error:  # the library would print it and go on
            self.fault = UserError(f"{self.name}: {error!r}")

    def check_sizes(self) -> None:
        """Against what the master has mapped; UserError on a difference, with both lengths."""
        mapped = {"inputs": len(self.slave.input), "outputs": len(self.slave.output)}
        for part, pdos in self.description.parts.items():
            described = sum(entry.size for pdo in pdos for entry in pdo.entries)
            if mapped[part] != described:
                raise UserError(
                    f"{self.description.name}: the device maps {mapped[part]} bytes of {part}, its description has "
                    f"{described}: another firmware, or other PDOs chosen; correct `{part}` of the description, "
                    "nothing is read before they agree"
                )

    def read(self, one: SdoObject) -> float:
        """An object's value; UserError where the device refuses, or tells something else."""
        data = bytes(self._ask(self.slave.sdo_read, one.index, one.subindex, "reading it"))
        kind = TYPES[one.type]
        if len(data) != kind.itemsize if kind.kind == "f" else not 1 <= len(data) <= 8:
            raise UserError(f"{self.name}: object {one} has {len(data)} bytes, described is {one.type}")
        if kind.kind == "f":
            return float(np.frombuffer(data, kind)[0])
        return float(int.from_bytes(data, "little", signed=kind.kind == "i"))

    def _write_startup(self) -> None:
        for write in self.description.startup:
            self._download(write.index, write.subindex, np.array(write.value).astype(TYPES[write.type]), write.why)
        if self.description.assign:
            why = "choice of PDOs"
            for part, pdos in self.description.parts.items():
                self._download(ASSIGNMENTS[part], 0, np.uint8(0), why)
                for place, pdo in enumerate(pdos, 1):
                    self._download(ASSIGNMENTS[part], place, np.array(pdo.pdo, dtype="<u2"), why)
                self._download(ASSIGNMENTS[part], 0, np.uint8(len(pdos)), why)

    def _download(self, index: int, subindex: int, value: Any, why: str) -> None:
        """Write a NumPy number."""
        self._ask(self.slave.sdo_write, index, subindex, f"writing it ({why})", value.tobytes())

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
            data = self._ask(self.slave.sdo_read, index, subindex, "reading its mapping")
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
